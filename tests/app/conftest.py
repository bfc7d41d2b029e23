"""The workbench's pages, run by Streamlit's test runner against the real service."""

import json
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from multiprocessing import spawn
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
import streamlit as st
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.testing.v1 import local_script_runner
from streamlit.testing.v1.element_tree import Block, UnknownElement
from streamlit.testing.v1.local_script_runner import LocalScriptRunner

from app.auth import current
from app.auth.sessions import Person, digest_of
from app.settings import settings
from carrel import Carrel
from carrel._drivers import SyncDriver
from carrel.oauth.tokens import TokenResponse
from service.domains.agents.answering.models import ModelFailure
from tests.app.pages import SECONDS, Page
from tests.harness.jobs import until
from tests.harness.lazy import lazily
from tests.harness.services import RunningService
from tests.oauth.flow import EVERY_SCOPE, PASSWORD, App, Pkce, an_app, sent_back
from tests.oauth.flow import Person as WithBrowser
from tests.service.conversations import Script, take_answers
from tests.service.directory import a_group, a_user, done, user

pd = lazily("pandas")
VIEWS = Path(__file__).parents[2] / "app" / "views"
NOBODY_LISTENS = "http://127.0.0.1:1"

APP_URL = "http://127.0.0.1:8501"

MakeHouse = Callable[..., "House"]


class ShownRows:
    """The rows of a list on a page; choosing rows sets the session's value for `key`."""

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


def _join(runner: LocalScriptRunner, timeout: float) -> None:
    thread = runner._script_thread
    assert thread is not None
    thread.join(timeout)
    assert not thread.is_alive(), f"The page was not drawn within {timeout} seconds."


def _leave_main_out(name: str, prepare: Callable[[str], dict[str, object]] = spawn.get_preparation_data) -> object:
    return {key: value for key, value in prepare(name).items() if not key.startswith("init_main_")}


@pytest.fixture(scope="session", autouse=True)
def _runner_of_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        # A new AppTest looks for Streamlit components in every installed package, which takes most of its time.
        patch.setattr("streamlit.components.v2.manifest_scanner.scan_component_manifests", list)
        # It compiles a page whenever it is drawn.
        patch.setattr(local_script_runner, "ScriptCache", cache(ScriptCache))
        # It looks a thousand times a second whether a page has been drawn, which slows the drawing down.
        patch.setattr(local_script_runner, "require_widgets_deltas", _join)
        # AppTest knows no components but Streamlit's own: `page.dataframe` has the pages' lists, too.
        patch.setattr(Block, "dataframe", property(_tables_of))
        # It puts a page in the place of `__main__`, which the service's workers that start then would run.
        patch.setitem(sys.modules, "__main__", sys.modules["__main__"])
        patch.setattr(spawn, "get_preparation_data", _leave_main_out)
        yield


@dataclass
class House:
    """An organization's workbench; each visitor signs in once, with every available scope. `open("search", q="refund")`
    draws a page as the admin, or as the address `signed_in_as`, with tests.oauth.flow's password."""

    service: RunningService
    client: Carrel
    _cookies: dict[str, str] = field(default_factory=dict, init=False)

    def open(self, view: str, *, signed_in_as: str = "", **address: str | list[str]) -> Page:
        return draw(view, session=self.sign_in(signed_in_as), **address)

    def sign_in(self, email: str = "") -> str:
        """Sign a person in (without an address, the admin) unless signed in; return the session cookie."""
        if email not in self._cookies:
            self._cookies[email] = sign_in(self.service, email)
        return self._cookies[email]

    def add_people(self, *emails: str, **members: object) -> None:
        people = [{"email": one, "name": one.partition("@")[0].capitalize(), "password": PASSWORD} for one in emails]
        self.client.admin.users.upsert([person | members for person in people])

    def add_group(self, name: str, *emails: str, **members: object) -> str:
        if emails:
            self.add_people(*emails)
        return str(a_group(self.service, name, *map(user, emails), **members)["id"])

    def load(self, name: str, text: str | bytes = "The ferry leaves at nine.", **options: Any) -> str:
        content = text.encode() if isinstance(text, str) else text
        usual = {"file_name": "note.txt", "document_external_id": str(uuid4())}
        waiting = {"await_vector_store_sync": True}
        done = self.client.catalog.upload_file(content, document_name=name, **(usual | waiting | options))
        return str(done.document_id)

    def load_resource(self, name: str, **access: Any) -> str:
        return f"UPLOADED_DOCUMENT:{self.load(name, 'Calm at sea.', await_vector_store_sync=False, **access)}"

    def load_many(self, names: Iterable[str], **options: Any) -> None:
        for name in names:
            self.load(name, name, await_vector_store_sync=False, **options)
        until(lambda: self.client.admin.status.get().indexing.running == 0)

    def break_index(self, document: str, error: str | None = None) -> None:
        """Mark the index of a document as failed, and claim the job to prevent an earlier repair by the service."""
        self.service.execute(
            "UPDATE space_documents SET indexed_version = NULL, words_version = NULL, attempts = 9, error = %s, "
            "claimed_until = now() + '1 hour' WHERE document_id = %s",
            [error, document],
        )

    def add_collection(self, name: str = "", **options: Any) -> str:
        made = self.client.document_collections.create_document_collection(name or f"Shelf {uuid4()}", **options)
        return str(made.document_collection_id)

    def add_to(self, collection: str, document: str, **metadata: str) -> None:
        self.client.document_collections.add_document_to_collection(
            document_id=document, document_collection_id=collection, custom_metadata=metadata
        )

    def grant(self, resource_type: str, resource_id: str, *principals: dict[str, str], role: str = "VIEWER") -> None:
        grants = [{"principal": one, "role": role} for one in principals]
        self.client.admin.grants.set({"resourceId": resource_id, "resourceType": resource_type}, grants)

    def cases_of(self, set_id: object) -> dict[str, dict[str, int]]:
        listed = self.client.admin.evaluation_sets.list_cases(UUID(str(set_id)))
        return {case.question: case.grades for case in listed}

    def try_token(self, value: str) -> int:
        return self.service.call("search/searchDocumentCatalog", {"searchQuery": "hello"}, api_key=value).status_code


@contextmanager
def house_of(
    service: RunningService, folder: Path, *, prefect: str = NOBODY_LISTENS, **settings: str
) -> Generator[House]:
    registered = an_app(service, f"{APP_URL}/oauth/callback", scopes=EVERY_SCOPE)
    a_user(service, service.admin_email, password=service.admin_password)
    variables = {
        "CARREL_BASE_URL": service.base_url,
        "CARREL_CLIENT_ID": registered.client_id,
        "CARREL_CLIENT_SECRET": str(registered.client_secret),
        "CARREL_APP_DIR": str(folder / "workbench"),
        "PREFECT_API_URL": prefect,
    }
    with pytest.MonkeyPatch.context() as environment, Carrel(service.api_key, service.base_url) as client:
        for name, value in (variables | settings).items():
            environment.setenv(name, value)
        forget()
        try:
            yield House(service, client)
        finally:
            forget()


def forget() -> None:
    settings.cache_clear()
    current.connections().close()
    parts = (current.sealer, current.sessions, current.registration, current.connections, current.application)
    for part in (*parts, current.sign_in):
        part.cache_clear()
    st.cache_data.clear()
    st.cache_resource.clear()


@pytest.fixture(scope="module")
def house(module_service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A workbench for a module; tests don't change foreign objects."""
    with house_of(module_service, tmp_path_factory.mktemp("house")) as house:
        yield house


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SyncDriver.__init__, "__defaults__", (lambda _seconds: None,))


@pytest.fixture
def make_house(tmp_path: Path) -> Iterator[MakeHouse]:
    """Set up a workbench for a single test: `make_house(service, prefect=…, CARREL_APP_API_KEY=…)`."""
    with ExitStack() as stack:
        yield lambda service, **settings: stack.enter_context(house_of(service, tmp_path, **settings))


@pytest.fixture
def new_house(make_house: MakeHouse, service: RunningService) -> House:
    return make_house(service)


@pytest.fixture
def own_house(make_house: MakeHouse, own_service: RunningService) -> House:
    return make_house(own_service)


def sign_in(service: RunningService, email: str = "") -> str:
    chosen = settings()
    app = App(service, chosen.client_id, chosen.client_secret.get_secret_value(), f"{APP_URL}/oauth/callback")
    pkce, person = Pkce(), WithBrowser(service, email)
    with person.http:
        allowed = person.allow(app, pkce, scope=None)
    given = done(app.exchange(sent_back(allowed, APP_URL)["code"], pkce))
    tokens = TokenResponse.model_validate(given).tokens(asked_at=datetime.now(UTC))
    with Carrel(access_token=tokens.access_token, v1_base_url=service.base_url) as client:
        return current.sessions().create(tokens, Person(**dict(client.me())))


def draw(view: str, *, session: str, **address: str | list[str]) -> Page:
    """Draw a page in a new window with an empty session, as the owner of the session cookie."""
    st.cache_data.clear()
    page = Page(VIEWS / f"{view}.py", default_timeout=SECONDS)
    page.session_state["signed_in.owner"] = digest_of(session)
    page.query_params.update(address)
    return page.run()


@pytest.fixture
def script(house: House, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    script = take_answers(house.service, monkeypatch)
    yield script
    for number, scene in enumerate(script.scenes):
        if not scene.ended.done():
            script.end(ModelFailure("The test is over."), number=number)
