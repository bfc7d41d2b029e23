"""A workbench on a real service and a real Prefect server, on which tests move runs by hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.loading.house import LoadingHouse, house_on, offered
from tests.app.prefect_api import PrefectServer
from tests.flows.processes import prefect_server
from tests.harness.services import ServiceHarness

# Prefect leaves connections of its own clients to the garbage collector, which comes upon them when it likes.
_LEFT_OPEN = ("ignore:unclosed:ResourceWarning", "ignore:.*unclosed <socket:pytest.PytestUnraisableExceptionWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let no test here fail for a connection that Prefect left open."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            for warning in _LEFT_OPEN:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="session")
def prefect_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prefect server whose scheduler works, as `make up` starts it; its API's address."""
    with prefect_server(tmp_path_factory.mktemp("prefect")) as url:
        yield url


@pytest.fixture(scope="module")
def house(
    prefect_api: str,
    service_harness: ServiceHarness,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LoadingHouse]:
    """A service, its workbench, and a Prefect server on which tests move runs by hand."""
    with house_on(prefect_api, service_harness, tmp_path_factory.mktemp("loading")) as house:
        yield house


@pytest.fixture
def prefect(house: LoadingHouse) -> PrefectServer:
    """The Prefect server."""
    return house.prefect


@pytest.fixture
def deployment(prefect: PrefectServer) -> Iterator[str]:
    """The upload flow is offered; nothing runs what is started, the test moves it by hand."""
    with offered(prefect) as deployment:
        yield deployment
