"""The workbench's pages, drawn by Streamlit's own test runner, before the real service."""

import json
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing import spawn
from pathlib import Path
from typing import cast

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block, UnknownElement

from app.auth import container
from app.auth.sessions import Person, digest_of
from app.settings import settings
from carrel import Carrel
from carrel.oauth.tokens import TokenResponse
from tests.harness.services import RunningService, ServiceHarness
from tests.oauth.flow import EVERY_SCOPE, App, Pkce, an_app, sent_back
from tests.oauth.flow import Person as WithBrowser
from tests.service.directory import done

VIEWS = Path(__file__).parents[2] / "app" / "views"
NOBODY_LISTENS = "http://127.0.0.1:1"

APP_URL = "http://127.0.0.1:8501"

Open = Callable[..., AppTest]
SetUp = Callable[..., None]


@pytest.fixture(scope="session", autouse=True)
def _no_search_for_components() -> Iterator[None]:
    """A new AppTest looks for Streamlit components in every installed package, which takes most of its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamlit.components.v2.manifest_scanner.scan_component_manifests", list)
        yield


class ShownRows:
    """The rows of one of a page's lists; choosing is putting a selection into the session under its `key`."""

    def __init__(self, element: UnknownElement) -> None:
        proto = element.proto
        # Streamlit's id of a component ends in the key that the page gave.
        self.key = str(proto.id).split("-", 2)[-1]
        data = json.loads(proto.json)
        names = [column["name"] for column in data["columns"]]
        self.value = pd.DataFrame([[_text(cell) for cell in row] for row in data["rows"]], columns=names)


def _text(cell: object) -> object:
    return cast("dict[str, str]", cell)["text"] if isinstance(cell, dict) else cell


def _tables_of(block: Block) -> list[object]:
    components = cast("list[UnknownElement]", block.get("bidi_component"))
    lists = [ShownRows(one) for one in components if one.proto.component_name == "carrel.rows"]
    return [*lists, *block.get("dataframe")]


@pytest.fixture(scope="session", autouse=True)
def _lists_are_read_as_dataframes() -> Iterator[None]:
    """AppTest knows no components but Streamlit's own: `page.dataframe` has the pages' lists, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Block, "dataframe", property(_tables_of))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_page_runs_in_workers() -> Iterator[None]:
    """AppTest puts a page in the place of `__main__`, which the service's workers that start then would run."""
    prepare = spawn.get_preparation_data

    def leave_main_out(name: str) -> dict[str, object]:
        return {key: value for key, value in prepare(name).items() if not key.startswith("init_main_")}

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "__main__", sys.modules["__main__"])
        patch.setattr(spawn, "get_preparation_data", leave_main_out)
        yield


@contextmanager
def set_up_in(folder: Path) -> Generator[SetUp]:
    """Set the workbench up anew: `set_up(service, prefect=…)`, nothing kept of other tests."""

    def set_up(service: RunningService | None, *, prefect: str = NOBODY_LISTENS, **settings: str) -> None:
        variables = {"CARREL_BASE_URL": service.base_url if service else NOBODY_LISTENS, "PREFECT_API_URL": prefect}
        if service is not None:
            registered = an_app(service, f"{APP_URL}/oauth/callback", scopes=EVERY_SCOPE)
            variables |= {"CARREL_CLIENT_ID": registered.client_id, "CARREL_CLIENT_SECRET": registered.client_secret}
        for name, value in (variables | {"CARREL_APP_DIR": str(folder / "workbench")} | settings).items():
            environment.setenv(name, value)
        forget()

    def forget() -> None:
        settings.cache_clear()
        container.forget()
        st.cache_data.clear()
        st.cache_resource.clear()

    with pytest.MonkeyPatch.context() as environment:
        forget()
        yield set_up
        forget()


@pytest.fixture
def workbench(tmp_path: Path) -> Iterator[SetUp]:
    """Set the workbench up anew: `workbench(service, prefect=…)`."""
    with set_up_in(tmp_path) as set_up:
        yield set_up


class House:
    """A workbench on a running service; who looks at a page is signed in once, with every scope they can consent to.

    `open("search", q="refund")` draws a page as the admin; `signed_in_as` is another's address, whose password must be
    tests.oauth.flow's.
    """

    def __init__(self, service: RunningService, client: Carrel) -> None:
        self.service = service
        self.client = client
        self._cookies: dict[str, str] = {}

    def open(self, view: str, *, signed_in_as: str = "", **address: str | list[str]) -> AppTest:
        """Draw a page at an address."""
        if signed_in_as not in self._cookies:
            self._cookies[signed_in_as] = sign_in(self.service, signed_in_as)
        return draw(view, session=self._cookies[signed_in_as], **address)


@pytest.fixture
def open_page(workbench: SetUp, service: RunningService) -> Iterator[Open]:
    """`House.open` of a service that is this test's alone."""
    workbench(service)
    with Carrel(service.api_key, service.base_url) as client:
        yield House(service, client).open


@pytest.fixture(scope="module")
def house(service_harness: ServiceHarness, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A service and its workbench for a whole module, whose tests leave each other's things alone."""
    service, stack = service_harness.start()
    try:
        with set_up_in(tmp_path_factory.mktemp("house")) as set_up, Carrel(service.api_key, service.base_url) as client:
            set_up(service)
            yield House(service, client)
    finally:
        service_harness.stop(service, stack)


def sign_in(service: RunningService, email: str = "") -> str:
    """Sign a person in with every scope they can consent to; return the cookie of their session, which is real."""
    chosen = settings()
    app = App(service, chosen.client_id, chosen.client_secret.get_secret_value(), f"{APP_URL}/oauth/callback")
    pkce = Pkce()
    allowed = WithBrowser(service, email).allow(app, pkce, scope=None)
    given = done(app.exchange(sent_back(allowed, APP_URL)["code"], pkce))
    tokens = TokenResponse.model_validate(given).tokens(asked_at=datetime.now(UTC))
    with Carrel(access_token=tokens.access_token, v1_base_url=service.base_url) as client:
        return container.sessions().create(tokens, Person.of(client.me()))


def draw(view: str, *, session: str, **address: str | list[str]) -> AppTest:
    """Draw a page at an address, as the person whose session has this cookie, in a window of its own.

    What pages keep for a session is empty there; Streamlit's test runner has one session for all.
    """
    st.cache_data.clear()
    page = AppTest.from_file(str(VIEWS / f"{view}.py"), default_timeout=60)
    page.session_state["signed_in.owner"] = digest_of(session)
    page.query_params.update(address)
    return page.run()


def html_of(page: AppTest) -> str:
    """Everything the page gives as HTML."""
    return "\n".join(element.proto.body for element in page.get("html"))


def markdown_of(page: AppTest) -> str:
    """Everything the page gives as Markdown, in which nothing of others may stand."""
    kinds = ("markdown", "caption", "title", "header", "subheader", "error", "warning", "info", "success", "toast")
    texts = [str(element.value) for kind in kinds for element in page.get(kind)]
    labels = [str(element.label) for kind in ("expander", "button", "metric", "radio") for element in page.get(kind)]
    return "\n".join(texts + labels + [str(element.proto.text) for element in page.get("progress")])
