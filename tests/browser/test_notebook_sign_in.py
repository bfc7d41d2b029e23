"""Signing in from a notebook with a kernel, in a real browser, against the running service."""

import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from playwright.sync_api import Page, expect

from carrel.oauth import LOOPBACK_REDIRECT_URIS
from scripts.run_notebooks import run
from tests.browser.people import give_password
from tests.harness.jobs import until
from tests.oauth.flow import PASSWORD, a_person, an_app

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

# Writes the address where a browser would open it.
BROWSER = """#!{python}
import pathlib, sys
path = pathlib.Path({address!r})
path.with_suffix(".new").write_text(sys.argv[1])
path.with_suffix(".new").rename(path)
"""
CELLS = [
    "import carrel\nclient = carrel.sign_in()\nclient",
    "client.me().email",
    "client.search.search_document_catalog('anything')",
    "carrel.sign_out()",
    "try:\n    client.me()\nexcept carrel.SignInRequiredError as error:\n    print(error.code)",
]


@pytest.fixture
def environment(service, tmp_path: Path) -> Mapping[str, str]:
    app = an_app(service, *LOOPBACK_REDIRECT_URIS)
    a_person(service)
    script = tmp_path / "browser"
    script.write_text(BROWSER.format(python=sys.executable, address=str(tmp_path / "address")))
    script.chmod(0o700)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CARREL_")}
    return kept | {
        "BROWSER": f"{script} %s",
        "CARREL_BASE_URL": service.base_url,
        "CARREL_NOTEBOOK_CLIENT_ID": app.client_id,
        "CARREL_NOTEBOOK_CLIENT_SECRET": app.client_secret,
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }


def text_of(notebook: NotebookNode, cell: int) -> str:
    return "".join(output.get("text") or output.data["text/plain"] for output in notebook.cells[cell].outputs)


def address_in(path: Path) -> str:
    until(path.exists, 120, told=lambda: "the notebook opened no browser")
    return path.read_text()


def test_a_person_signs_in_from_a_notebook(page: Page, environment: Mapping[str, str], tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    with ThreadPoolExecutor(1) as thread:
        work = thread.submit(run, notebook, environment)
        page.goto(address_in(tmp_path / "address"))
        give_password(page, "ada@example.test", PASSWORD)
        page.get_by_role("button", name="Allow").click()
        expect(page.get_by_role("heading", name="Go back to your notebook")).to_be_visible()
        done = work.result()
    assert text_of(done, 1) == "'ada@example.test'"
    assert text_of(done, 2) == "0 documents"
    assert text_of(done, 4) == "sign_in_required\n"
    code = page.url.partition("code=")[2].partition("&")[0]
    assert code
    shown = nbformat.writes(done)
    assert code not in shown
    assert "svc_" not in shown
    kept = [path.read_text() for path in (tmp_path / "config").rglob("*.json")]
    assert not any("access_token" in text for text in kept)
