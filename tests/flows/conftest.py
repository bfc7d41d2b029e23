"""The settings for connecting flows with the test's service."""

import atexit
import gc
import os
import shutil
import tempfile
import warnings
from collections.abc import AsyncIterator, Collection, Iterator
from pathlib import Path

import pytest

from tests.harness.databases import TestDatabases
from tests.harness.services import RunningService

# Prefect reads its environment when it is first imported: before that, its state goes where the tests' state goes.
if "PREFECT_HOME" not in os.environ:
    os.environ["PREFECT_HOME"] = tempfile.mkdtemp(prefix="carrel-test-prefect-")
    atexit.register(shutil.rmtree, os.environ["PREFECT_HOME"], ignore_errors=True)
os.environ.setdefault("PREFECT_LOGGING_LEVEL", "ERROR")

from prefect.client.orchestration import PrefectClient, get_client
from prefect.settings import PREFECT_API_URL, temporary_settings
from pydantic import SecretStr

from flows.operations.sources import contents
from flows.runs import Runs
from flows.schedules import delete_schedule, list_schedules
from flows.settings import FlowSettings
from tests.flows.sources import Source, note

FOLDER = Path(__file__).parent
contents.QUIET_SECONDS = 0.0
# Prefect leaves connections of its own clients to the garbage collector, which comes upon them when it likes.
_LEFT_OPEN = (
    "ignore:unclosed:ResourceWarning",
    "ignore:.*unclosed <socket:pytest.PytestUnraisableExceptionWarning",
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and item.path.parent == FOLDER and _uses_prefect(item.fixturenames):
            for warning in _LEFT_OPEN:
                item.add_marker(pytest.mark.filterwarnings(warning))


def _uses_prefect(names: Collection[str]) -> bool:
    return not {"prefect_api", "collected"}.isdisjoint(names)


@pytest.fixture(scope="session")
def prefect_api(prefect_api: str) -> Iterator[str]:
    with temporary_settings({PREFECT_API_URL: prefect_api}):
        yield prefect_api


@pytest.fixture(scope="module")
def withdrawn(prefect_api: str) -> Iterator[None]:
    yield
    with Runs(prefect_api) as runs:
        for one in runs.rows("/deployments/filter", {}):
            runs.call("DELETE", f"/deployments/{one['id']}")


@pytest.fixture
def schedules(prefect_api: str) -> Iterator[Runs]:
    with Runs(prefect_api) as runs:
        yield runs
        for one in list_schedules(runs):
            if one.schedule_id:
                delete_schedule(runs, one)


@pytest.fixture
async def client(prefect_api: str) -> AsyncIterator[PrefectClient]:
    del prefect_api
    async with get_client() as client:
        yield client


@pytest.fixture
def collected() -> Iterator[None]:
    """Collect Prefect's open connections within the opening test, not later."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(autouse=True)
def _collected(request: pytest.FixtureRequest) -> None:
    if _uses_prefect(request.fixturenames):
        request.getfixturevalue("collected")


@pytest.fixture
def flow_settings(service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FlowSettings:
    monkeypatch.setenv("CARREL_BASE_URL", service.base_url)
    monkeypatch.setenv("CARREL_API_KEY", service.api_key)
    monkeypatch.setenv("CARREL_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("CARREL_FLOWS_OUTAGE_SECONDS", "20")
    return FlowSettings()


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    for number in range(12):
        path = folder / note(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Note {number}\n\nThe ferry number {number} leaves from pier {number * 7}.\n")
    return folder


@pytest.fixture
def ledgers() -> str:
    """The place of ledgers; "database" if a test says so (tests.flows.sources)."""
    return "file"


@pytest.fixture
def source(request, ledgers, library, flow_settings, service) -> Source:
    url = request.getfixturevalue("database_url") if ledgers == "database" else None
    return Source(library, flow_settings.model_copy(update={"flows_database_url": url}), service)


@pytest.fixture
def poisoned(source: Source) -> Source:
    source.write("empty.md", b"")
    source.write("broken.pdf", b"%PDF-1.7 this is no PDF")
    return source


@pytest.fixture
def database(databases: TestDatabases) -> Iterator[str]:
    name = databases.empty()
    yield name
    databases.drop(name)


@pytest.fixture
def database_url(databases: TestDatabases, database: str) -> SecretStr:
    return SecretStr(databases.owner_url(database).set(drivername="postgresql").render_as_string(hide_password=False))
