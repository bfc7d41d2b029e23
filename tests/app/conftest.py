"""The workbench's pages, drawn by Streamlit's own test runner, before the real service."""

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.auth import parts
from app.auth.sessions import Person, digest_of
from app.settings import settings
from carrel import Carrel
from carrel.oauth.tokens import TokenResponse
from tests.harness.services import RunningService
from tests.oauth.flow import EVERY_SCOPE, App, Pkce, an_app, sent_back
from tests.oauth.flow import Person as WithBrowser
from tests.service.directory import done

VIEWS = Path(__file__).parents[2] / "app" / "views"
NOBODY_LISTENS = "http://127.0.0.1:1"

APP_URL = "http://127.0.0.1:8501"

Open = Callable[..., AppTest]
SetUp = Callable[..., None]


@pytest.fixture(autouse=True)
def _main_module_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """AppTest puts a page in the place of `__main__`, which every process started later would run as its own."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


@pytest.fixture
def workbench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SetUp]:
    """Set the workbench up anew: `workbench(service, prefect=…)`, nothing kept of other tests."""

    def set_up(service: RunningService | None, *, prefect: str = NOBODY_LISTENS, **settings: str) -> None:
        variables = {"CARREL_BASE_URL": service.base_url if service else NOBODY_LISTENS, "PREFECT_API_URL": prefect}
        if service is not None:
            registered = an_app(service, f"{APP_URL}/oauth/callback", scopes=EVERY_SCOPE)
            variables |= {
                "CARREL_CLIENT_ID": registered.client_id,
                "CARREL_CLIENT_SECRET": registered.client_secret,
            }
        for name, value in (variables | {"CARREL_APP_DIR": str(tmp_path / "workbench")} | settings).items():
            monkeypatch.setenv(name, value)
        forget()

    def forget() -> None:
        settings.cache_clear()
        parts.forget()
        st.cache_data.clear()
        st.cache_resource.clear()

    forget()
    yield set_up
    forget()


@pytest.fixture
def open_page(workbench: SetUp, service: RunningService) -> Open:
    """Open a page of a workbench on the running service: `open_page("search", q="refund")`.

    `signed_in_as` is the address of who looks, the admin without it; the person must have tests.oauth.flow's password.
    """
    workbench(service)
    signed_in: dict[str, str] = {}

    def open_it(view: str, *, signed_in_as: str = "", **address: str) -> AppTest:
        if signed_in_as not in signed_in:
            signed_in[signed_in_as] = sign_in(service, signed_in_as)
        return draw(view, session=signed_in[signed_in_as], **address)

    return open_it


def sign_in(service: RunningService, email: str = "") -> str:
    """Sign a person in with every scope they can consent to; return the cookie of their session, which is real."""
    chosen = settings()
    app = App(service, chosen.client_id, chosen.client_secret.get_secret_value(), f"{APP_URL}/oauth/callback")
    pkce = Pkce()
    allowed = WithBrowser(service, email).allow(app, pkce, scope=None)
    given = done(app.exchange(sent_back(allowed, APP_URL)["code"], pkce))
    tokens = TokenResponse.model_validate(given).tokens(asked_at=datetime.now(UTC))
    with Carrel(access_token=tokens.access_token, v1_base_url=service.base_url) as client:
        return parts.sessions().create(tokens, Person.of(client.me()))


def draw(view: str, *, session: str, **address: str) -> AppTest:
    """Draw a page at an address, as the person whose session has this cookie."""
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
