"""The code in the README and the documentation runs unchanged, in order, against the real service."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from carrel.oauth import SignInRequiredError
from tests.harness.services import RunningService
from tests.oauth.flow import a_person, later
from tests.oauth.sdk import callback
from tests.service.conversations import a_desk, a_visitor

ROOT = Path(__file__).parents[2]


# What stands on the line before a block that can't run, with the reason.
BLOCK = re.compile(
    r"^(?:<!-- not run here: (?P<why>[^\n]+) -->\n)?```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)
LANGUAGES = {"caddy", "console", "cron", "csv", "json", "nginx", "python", "sh", "sql", "yaml", "text"}
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def run_code_of(page: Path, names: dict | None = None, *, up_to: int | None = None) -> int:
    """Run a page's Python blocks as one program; `names` receives the definitions. Return the number of blocks."""
    text = page.read_text()
    blocks = list(BLOCK.finditer(text))[:up_to]
    names = {} if names is None else names
    with ThreadPoolExecutor(1) as thread:  # a thread of its own, because the guide starts an event loop
        for block in blocks:
            code = compile("\n" * text.count("\n", 0, block.start("code")) + block["code"], str(page), "exec")
            if block["why"] is None:
                thread.submit(exec, code, names).result(60)
    return sum(block["why"] is None for block in blocks)


def use(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> RunningService:
    """Set the service's address and a key in the environment, as readers do."""
    monkeypatch.setenv("CARREL_API_KEY", service.api_key)
    monkeypatch.setenv("CARREL_BASE_URL", service.base_url)
    return service


@pytest.fixture
def _two_variables(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    use(service, monkeypatch)


def test_every_block_says_what_language_it_is_in() -> None:
    opened = {page.name: set(re.findall(r"^```(.*)$", page.read_text(), re.MULTILINE)[::2]) for page in PAGES}
    assert {name: fences - LANGUAGES for name, fences in opened.items() if fences - LANGUAGES} == {}


@pytest.mark.usefixtures("_two_variables")
@pytest.mark.parametrize(
    ("page", "blocks"),
    [(ROOT / "docs" / "sdk.md", 18), (ROOT / "docs" / "access.md", 7), (ROOT / "docs" / "agents.md", 11)],
    ids=["sdk", "access", "agents"],
)
def test_a_page_runs(page: Path, blocks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_code_of(page) == blocks


def test_the_page_about_document_databases_runs(make_service, monkeypatch):
    """The first run waits for another replica."""
    use(make_service(docstore_workers=0), monkeypatch)
    page: dict = {}
    assert run_code_of(ROOT / "docs" / "docstore-sync.md", page) == 1
    assert (page["sync"].status, page["sync"].config.collection_name) == ("PENDING", "articles")


@pytest.mark.usefixtures("_two_variables")
def test_the_page_about_indexing_again_runs() -> None:
    page: dict = {}
    assert run_code_of(ROOT / "docs" / "reindexing.md", page) == 1
    assert (page["rebuild"].index_rebuild_id, page["failures"]) == (page["started"].index_rebuild_id, [])


def test_the_page_about_asking_runs(own_service, monkeypatch, capsys):
    desk = a_desk(use(own_service, monkeypatch))
    monkeypatch.setenv("AGENT_ID", desk.agent_id)
    page: dict = {}
    assert run_code_of(ROOT / "docs" / "asking.md", page, up_to=5) == 5
    page["client"].close()
    shown = _sources(capsys.readouterr().out)
    assert shown
    monkeypatch.delenv("CARREL_API_KEY")
    monkeypatch.setenv("CARREL_ACCESS_TOKEN", a_visitor(desk).token)
    assert run_code_of(ROOT / "docs" / "asking.md") == 7
    assert _sources(capsys.readouterr().out) == shown


def _sources(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if line.startswith("[1] Ferries: “")]


def test_the_page_about_oauth_runs(own_service, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ada = a_person(use(own_service, monkeypatch))
    came_back: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: came_back.append(callback(ada, url)))
    monkeypatch.setattr("builtins.input", lambda _: came_back.pop())
    page: dict = {}
    assert run_code_of(ROOT / "docs" / "oauth.md", page) == 8
    assert {"state_mismatch", "send the browser to login()"} <= set(capsys.readouterr().out.splitlines())
    session: dict[str, str] = {}
    answer = callback(ada, page["login"](session))
    assert page["callback"]({}, answer).startswith("This sign-in has ended")
    assert page["callback"](session, answer) == "Signed in."
    assert page["callback"](session, answer).startswith("This sign-in has ended")
    assert page["titles"](session) == []
    later(own_service, hours=1, seconds=1)
    assert page["titles"](session) == []
    key = session["tokens"]
    page["logout"](session)
    assert session == {}
    with pytest.raises(SignInRequiredError):
        page["titles"]({"tokens": key})
    denied = callback(ada, page["login"](session) + "&prompt=consent", press="deny")
    assert page["callback"](session, denied) == "Nothing was allowed."
    for name in ("organization", "client", "oauth"):
        page[name].close()


@pytest.mark.usefixtures("_two_variables")
def test_the_directory_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "directory.md"
    assert run_code_of(page) == 2
    shown = re.findall(r"^`(\w+\.csv)`\n\n```csv\n(.*?)```$", page.read_text(), re.DOTALL | re.MULTILINE)
    assert [name for name, _ in shown] == ["users.csv", "groups.csv", "memberships.csv"]
    assert {name: (tmp_path / name).read_text() for name, _ in shown[:2]} == dict(shown[:2])


@pytest.mark.usefixtures("_two_variables")
def test_the_readme_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    assert run_code_of(ROOT / "README.md") == 1
    assert "Lost property" in capsys.readouterr().out
