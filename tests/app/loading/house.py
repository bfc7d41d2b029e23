"""A workbench on a service and a Prefect server with runs moved by hand."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.settings import settings
from flows.runs import DEPLOYMENT
from tests.app.conftest import House
from tests.app.pages import Page
from tests.app.prefect_api import PrefectServer

NOTE = ("note.md", b"# A note\n\nThe ferry leaves at nine.\n", "text/markdown")


@dataclass(kw_only=True)
class LoadingHouse(House):
    prefect: PrefectServer

    def start(self, place: str = "/srv/handbook") -> str:
        return run_of(start(name_place(self.open("ingestion"), place)))


@contextmanager
def offered(prefect: PrefectServer, flow: str = "bulk-upload", *, name: str = DEPLOYMENT, **members) -> Iterator[str]:
    deployment = prefect.deploy(flow, name=name, **members)
    try:
        yield deployment
    finally:
        prefect.withdraw(deployment)


def drop(page: Page, *files: tuple[str, bytes, str]) -> Page:
    return page.file_uploader[0].set_value(list(files)).run()


def name_place(page: Page, place: str) -> Page:
    page.get_by_key("start.from").set_value("Server folder or URL").run()
    return page.text_input[0].set_value(place).run()


def plan(page: Page) -> Page:
    return page.press("Show plan")


def start(page: Page) -> Page:
    return page.press("Start upload")


def run_of(page: Page) -> str:
    return page.address["run"]


def bar(page: Page) -> str:
    return str(page.get("progress")[0].proto.text)


def staged() -> list[Path]:
    return sorted(settings().uploads_dir.rglob("*"))


def dropped(house: LoadingHouse, *files: tuple[str, bytes, str]) -> Page:
    return drop(house.open("ingestion"), *(files or (NOTE,)))
