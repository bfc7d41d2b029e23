"""The harness of every test directory: the real service on a real PostgreSQL, quick to start. Slow parts are made once;
a test gets an organization in a lasting service, or a service with a clone of the bootstrapped database."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.flows.processes import prefect_server
from tests.harness import services
from tests.harness.cluster import VARIABLE as CLUSTER
from tests.harness.cluster import ClusterDatabases
from tests.harness.databases import TestDatabases
from tests.harness.embeddings import EmbeddingsEndpoint
from tests.harness.first_start import folder_of_run
from tests.harness.garbage import pytest_collection  # noqa: F401 - a hook, by its name
from tests.harness.lanes import mark_lanes, pytest_runtest_setup  # noqa: F401 - a hook, by its name
from tests.harness.logs import configure_logs, pytest_runtest_logstart, pytest_runtest_makereport  # noqa: F401 - hooks, by their names
from tests.harness.loops import LoopThread
from tests.harness.memory import use_memory
from tests.harness.mongo.processes import MongoServer, server_over_mongomock
from tests.harness.processes import ServiceProcess

pytest_plugins = ["tests.harness.summary"]

configure_logs()
use_memory()
folder_of_run()  # before other processes of this run begin
LONGEST_BYTES_IN_A_NAME = 40


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the lanes of the tests; the longest begin first."""
    mark_lanes(items)
    longest = {item.path for item in items if item.get_closest_marker("timeout")}
    items.sort(key=lambda item: item.path not in longest)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a case with a whole file by its parameter: archives contain the time, and processes must agree on names."""
    return argname if isinstance(val, bytes) and len(val) > LONGEST_BYTES_IN_A_NAME else None


@pytest.fixture(scope="session", autouse=True)
def _authorities() -> Iterator[None]:
    with services.reading_authorities_once():
        yield


@pytest.fixture(scope="session")
def harness_loop() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.close()


@pytest.fixture(scope="session")
def databases() -> Iterator[TestDatabases]:
    cluster = os.environ.get(CLUSTER)
    databases = ClusterDatabases(cluster) if cluster else TestDatabases()
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def service_harness(databases: TestDatabases, harness_loop: LoopThread) -> Iterator[services.ServiceHarness]:
    parts = services.SharedParts(databases.folder, harness_loop)
    harness = services.ServiceHarness(databases, parts=parts, loop=harness_loop)
    with services.hashing_passwords_at_once(), services.starting_tasks_later():
        services.bootstrap_template(databases, harness_loop)
        yield harness
    harness.close()
    parts.close()


@pytest.fixture
def embeddings(service_harness: services.ServiceHarness) -> Iterator[EmbeddingsEndpoint]:
    """The endpoint of the services' second embedding model; behaviour is reset afterwards."""
    service_harness.embeddings.behave()
    yield service_harness.embeddings
    service_harness.embeddings.behave()


@pytest.fixture
def make_service(service_harness: services.ServiceHarness) -> Iterator[Callable[..., services.RunningService]]:
    with ExitStack() as started:
        yield lambda **overrides: started.enter_context(service_harness.running(**overrides))


@pytest.fixture(scope="session")
def shared_service(service_harness: services.ServiceHarness) -> Iterator[services.RunningService]:
    """A service with the default settings for the whole session; each test makes a new organization."""
    with service_harness.running(sweep_seconds=services.SWEEP_SECONDS) as service:
        yield service


@pytest.fixture
def service(request: pytest.FixtureRequest) -> Iterator[services.RunningService]:
    """A new organization in the shared service, or a separate service for tests marked `own_service`."""
    if own := request.node.get_closest_marker("own_service"):
        make = request.getfixturevalue("make_service")
        yield make(**own.kwargs) if own.kwargs else request.getfixturevalue("own_service")
        return
    with request.getfixturevalue("shared_service").new_organization() as organization:
        yield organization


@pytest.fixture(scope="module")
def module_service(shared_service: services.RunningService) -> Iterator[services.RunningService]:
    """A new organization shared by the tests of a module, for content that no test changes."""
    with shared_service.new_organization() as organization:
        yield organization


@pytest.fixture
def own_service(make_service: Callable[..., services.RunningService]) -> services.RunningService:
    """A service with its own database, for tests of sign-in, limits, alerts, metrics and whole databases."""
    return make_service()


@pytest.fixture
def service_process() -> Iterator[Callable[..., ServiceProcess]]:
    """Start `python -m service` on a separate folder: `service_process(CARREL_LOG_LEVEL="DEBUG")`; the process ends
    after the test. `from_nothing` creates the database and model, as a first start does."""
    made: list[ServiceProcess] = []

    def make(*, from_nothing: bool = False, **environment: str) -> ServiceProcess:
        process = ServiceProcess(from_nothing=from_nothing, **environment)
        made.append(process)
        process.start()
        return process

    yield make
    for process in made:
        process.close()


@pytest.fixture(scope="session")
def prefect_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a Prefect server for the session, as `make up` does; return the address. Tests withdraw deployments."""
    with prefect_server(tmp_path_factory.mktemp("prefect")) as url:
        yield url


@pytest.fixture(scope="session")
def mongo_process() -> Iterator[MongoServer]:
    with server_over_mongomock() as server:
        yield server


@pytest.fixture
def mongo(mongo_process: MongoServer) -> Iterator[MongoServer]:
    yield mongo_process.with_collection()
    mongo_process.misbehave()
