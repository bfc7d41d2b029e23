"""A workbench on a real service and a real Prefect server with runs moved by hand."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.app.conftest import house_of
from tests.app.loading.house import LoadingHouse, offered
from tests.app.prefect_api import PrefectServer


@pytest.fixture(scope="module")
def house(prefect_api, module_service, tmp_path_factory) -> Iterator[LoadingHouse]:
    with (
        closing(PrefectServer(prefect_api)) as prefect,
        house_of(module_service, tmp_path_factory.mktemp("loading"), prefect=prefect_api) as house,
    ):
        yield LoadingHouse(house.service, house.client, prefect=prefect)


@pytest.fixture
def deployment(house: LoadingHouse) -> Iterator[str]:
    with offered(house.prefect) as deployment:
        yield deployment
