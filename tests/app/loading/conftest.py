"""A workbench on a real service and a real Prefect server, on which tests move runs by hand."""

from collections.abc import Iterator

import pytest

from tests.app.loading.house import LoadingHouse, house_on, offered
from tests.app.prefect_api import PrefectServer
from tests.harness.services import ServiceHarness


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
