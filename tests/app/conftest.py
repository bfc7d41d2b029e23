"""The workbench's pages, drawn by Streamlit's own test runner, before the real service."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app import api
from app.settings import settings
from tests.harness.services import RunningService

VIEWS = Path(__file__).parents[2] / "app" / "views"
NOBODY_LISTENS = "http://127.0.0.1:1"

Open = Callable[..., AppTest]


@pytest.fixture(autouse=True)
def _main_module_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """AppTest puts a page in the place of `__main__`, which every process started later would run as its own."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


@pytest.fixture
def workbench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Set the workbench up anew: `workbench(base_url=…, api_key=…, prefect=…)`, nothing kept of other tests."""

    def set_up(*, base_url: str = NOBODY_LISTENS, api_key: str = "", prefect: str = NOBODY_LISTENS) -> None:
        monkeypatch.setenv("CARREL_BASE_URL", base_url)
        monkeypatch.setenv("CARREL_API_KEY", api_key)
        monkeypatch.setenv("CARREL_UPLOADS_DIR", str(tmp_path / "uploads"))
        monkeypatch.setenv("PREFECT_API_URL", prefect)
        forget()

    def forget() -> None:
        settings.cache_clear()
        st.cache_data.clear()
        st.cache_resource.clear()

    forget()
    yield set_up
    if settings().api_key.get_secret_value():
        api.client().close()
    forget()


@pytest.fixture
def open_page(workbench: Callable[..., None], service: RunningService) -> Open:
    """Open a page of a workbench on the running service: `open_page("search", q="refund")`."""
    workbench(base_url=service.base_url, api_key=service.api_key)
    return draw


def draw(view: str, **address: str) -> AppTest:
    """Draw a page at an address."""
    page = AppTest.from_file(str(VIEWS / f"{view}.py"), default_timeout=60)
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
