"""A workbench on a service and a Prefect server, on which tests move runs by hand."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

from app.settings import settings
from carrel import Carrel
from flows.run_status import DEPLOYMENT
from tests.app.conftest import House, set_up_in
from tests.app.prefect_api import PrefectServer
from tests.app.pressing import press
from tests.harness.services import ServiceHarness

NOTE = ("note.md", b"# A note\n\nThe ferry leaves at nine.\n", "text/markdown")
HOSTILE = "<img src=x onerror=alert(1)> **b** https://evil.example :material/home:"


class LoadingHouse(House):
    """A house whose runs are on a Prefect server."""

    prefect: PrefectServer


@contextmanager
def house_on(prefect_api: str, harness: ServiceHarness, folder: Path) -> Iterator[LoadingHouse]:
    """Start a service and its workbench, whose runs are on this Prefect server."""
    service, stack = harness.start()
    prefect = PrefectServer(prefect_api)
    try:
        with set_up_in(folder) as set_up, Carrel(service.api_key, service.base_url) as client:
            set_up(service, prefect=prefect_api)
            house = LoadingHouse(service, client)
            house.prefect = prefect
            yield house
    finally:
        prefect.close()
        harness.stop(service, stack)


@contextmanager
def offered(
    prefect: PrefectServer, flow: str = "bulk-upload", *, name: str = DEPLOYMENT, **members: Any
) -> Iterator[str]:
    """Offer a flow that nobody carries out; the deployment's id."""
    deployment = prefect.deploy(flow, name=name, **members)
    try:
        yield deployment
    finally:
        prefect.withdraw(deployment)


def drop(page: AppTest, *files: tuple[str, bytes, str]) -> AppTest:
    """Drop files on the page."""
    return page.file_uploader[0].set_value(list(files)).run()


def name_place(page: AppTest, place: str) -> AppTest:
    """Choose a place that the runs can read."""
    page.get_by_key("start.from").set_value("Server folder or URL").run()
    return page.text_input[0].set_value(place).run()


def plan(page: AppTest) -> AppTest:
    """Ask for the plan."""
    return press(page, "Show the plan")


def start(page: AppTest) -> AppTest:
    """Start the upload without looking at the plan."""
    return press(page, "Start the upload")


def run_of(page: AppTest) -> str:
    """The run that the page's address names."""
    value = page.query_params["run"]
    return str(value[0] if isinstance(value, list) else value)


def bar(page: AppTest) -> str:
    """What stands in the page's progress bar."""
    return str(page.get("progress")[0].proto.text)


def metrics(page: AppTest) -> dict[str, str]:
    """The page's numbers by what they are called."""
    return {metric.label: metric.value for metric in page.metric}


def staged() -> list[Path]:
    """What waits in the folder of uploads."""
    return sorted(settings().uploads_dir.rglob("*"))


def dropped(house: LoadingHouse, *files: tuple[str, bytes, str]) -> AppTest:
    """Open the page and drop files on it."""
    return drop(house.open("ingestion"), *(files or (NOTE,)))
