"""The upload page in all its states, on the real service and a real Prefect server."""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from streamlit.testing.v1 import AppTest

from app.settings import settings
from carrel import Carrel
from flows.operations.summary import Summary
from tests.app.conftest import NOBODY_LISTENS, draw, html_of, markdown_of
from tests.app.prefect_api import PrefectServer
from tests.flows.conftest import _collected, prefect_api  # noqa: F401 - fixtures
from tests.harness.services import RunningService

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*unclosed <socket:pytest.PytestUnraisableExceptionWarning"),
]

NOTE = ("note.md", b"# A note\n\nThe ferry leaves at nine.\n", "text/markdown")
HOSTILE = "<img src=x onerror=alert(1)> **b** https://evil.example :material/home:"
FAILURE = {"place": HOSTILE, "document": HOSTILE, "code": "file_empty", "reason": f"Empty: {HOSTILE}"}


@pytest.fixture
def prefect(
    prefect_api: str,  # noqa: F811
    workbench: Callable[..., None],
    service: RunningService,
) -> Iterator[PrefectServer]:
    """A workbench on the running service and a Prefect server that nobody serves flows on."""
    workbench(service, prefect=prefect_api)
    server = PrefectServer(prefect_api)
    yield server
    server.close()


@pytest.fixture
def deployment(prefect: PrefectServer) -> Iterator[str]:
    """The upload flow is offered; nothing runs what is started, the test moves it by hand."""
    deployment = prefect.deploy()
    yield deployment
    prefect.withdraw(deployment)


def drop(*files: tuple[str, bytes, str]) -> AppTest:
    """Open the page and drop files on it."""
    page = draw("upload")
    return page.file_uploader[0].set_value(list(files)).run()


def start(page: AppTest) -> AppTest:
    """Press the button that starts."""
    return next(button for button in page.button if button.label == "Start the upload").click().run()


def name_place(page: AppTest, place: str) -> AppTest:
    """Choose a place on the server as the source."""
    page.get_by_key("source").set_value("A folder or manifest on the server").run()
    return page.text_input[0].set_value(place).run()


def run_of(page: AppTest) -> str:
    """The run that the page's address names."""
    return str(page.query_params["run"])


def staged() -> list[Path]:
    """What waits in the folder of uploads."""
    return sorted(settings().uploads_dir.rglob("*"))


def test_nothing_starts_without_a_source(prefect: PrefectServer, deployment: str) -> None:
    """An empty page says what can be loaded, and when pressed what is missing; blanks are no place."""
    page = draw("upload")
    assert not page.exception
    assert "what can't be read is listed" in page.caption[0].value
    assert "nothing to upload yet" in html_of(start(page))
    assert "nothing to upload yet" in html_of(start(name_place(page, "  ")))
    assert prefect.runs_of(deployment) == []


def test_dropped_files_are_handed_to_the_flow_and_removed_after_it(prefect: PrefectServer, deployment: str) -> None:
    """The flow gets a folder with the files; it stays while the run goes on, and is gone once it has ended."""
    page = start(drop(NOTE, (".dotted.md", b"text", "text/markdown")))
    assert not page.exception
    (run,) = prefect.runs_of(deployment)
    assert run["id"] == run_of(page)
    assert run["parameters"]["options"]["hidden"] is True
    folder = Path(run["parameters"]["source"])
    assert sorted(path.name for path in folder.iterdir()) == [".dotted.md", "note.md"]
    assert (folder / "note.md").read_bytes() == NOTE[1]
    assert "Waiting for the flow to start" in page.get("progress")[0].proto.text
    assert not page.file_uploader[0].value
    prefect.move(run["id"], "RUNNING")
    page.run()
    assert folder.exists()
    prefect.tell(run["id"], Summary(documents=2, to_send=2, created=2), phase="done")
    prefect.move(run["id"], "COMPLETED")
    page.run()
    assert "Done in 3 s" in page.get("progress")[0].proto.text
    assert staged() == []


def test_what_a_closed_page_left_goes_at_the_next_start(prefect: PrefectServer, deployment: str) -> None:
    """Files of runs that ended while nobody looked are removed when files are dropped again, others stay."""
    start(drop(NOTE))
    start(drop(NOTE))
    ended, going = sorted(prefect.runs_of(deployment), key=lambda run: run["created"])
    prefect.move(ended["id"], "FAILED", "stopped")
    start(drop(NOTE))
    assert not Path(ended["parameters"]["source"]).exists()
    assert Path(going["parameters"]["source"]).exists()


def test_a_second_click_starts_nothing_more(prefect: PrefectServer, deployment: str) -> None:
    """A click that comes while the first one's run is being shown does not start it twice."""
    page = drop(NOTE)
    page.session_state["batch"] = 1
    start(page)
    assert prefect.runs_of(deployment) == []
    assert staged() == []


@pytest.mark.parametrize("second", ["note.md", "NOTE.md", "folder/note.md", "no\0te.md"])
def test_files_that_would_overwrite_each_other_are_refused(
    prefect: PrefectServer, deployment: str, second: str
) -> None:
    """Two files that would have one name are named, and nothing starts."""
    page = drop(NOTE, (second, b"other", "text/markdown"))
    assert not page.exception
    assert "Several files are called note.md." in html_of(page)
    start(page)
    assert "Several files are called note.md." in html_of(page)
    assert prefect.runs_of(deployment) == []
    assert staged() == []


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../etc/passwd.md", "passwd.md"),
        ("C:\\files\\plan.docx", "plan.docx"),
        ("a\0b\n.md", "ab.md"),
        ("..", "unnamed"),
        ("", "unnamed"),
        ("📄 ✓ \u202eplan.md", "📄 ✓ \u202eplan.md"),
        ("é" * 300 + ".md", "é" * 126 + ".md"),
        ("x" * 400, "x" * 255),
    ],
)
def test_odd_names_are_kept_as_far_as_a_folder_can(
    prefect: PrefectServer, deployment: str, name: str, kept: str
) -> None:
    """A name with separators, NUL, emoji or of any length is one file in the run's folder; a change is said."""
    page = drop((name, b"text", "text/markdown"))
    assert ("becomes" in html_of(page)) == (name != kept)
    start(page)
    assert not page.exception
    (run,) = prefect.runs_of(deployment)
    assert [path.name for path in Path(run["parameters"]["source"]).iterdir()] == [kept]


@pytest.mark.usefixtures("deployment")
def test_a_name_with_markup_is_shown_as_it_is() -> None:
    """What the page says of odd names is escaped."""
    page = drop((f"{HOSTILE}\0", b"", ""))
    assert "becomes" in html_of(page)
    assert "<img" not in html_of(page)
    assert "evil" not in markdown_of(page)


def test_access_and_collection_go_with_the_run(
    prefect: PrefectServer, deployment: str, service: RunningService
) -> None:
    """Who may read is given to the flow by id; without anybody chosen nothing can start."""
    with Carrel(service.api_key, service.base_url) as client:
        group = client.admin.groups.upsert([{"name": "Deck"}]).groups[0]
        client.document_collections.create_document_collection("Handbook")
    page = drop(NOTE)
    page.radio[0].set_value("People and groups I choose").run()
    assert "Nobody is chosen" in html_of(start(page))
    page.multiselect[1].select(str(group.id)).run()
    page.selectbox[0].select_index(1)
    start(page)
    (run,) = prefect.runs_of(deployment)
    options = run["parameters"]["options"]
    assert (options["allowed_groups"], options["internal_public"]) == ([str(group.id)], False)
    assert options["collection"] == page.selectbox[0].value


def test_a_place_on_the_server_is_the_source(prefect: PrefectServer, deployment: str) -> None:
    """A path is given to the flow as it is, and the field is empty again after the start."""
    page = start(name_place(draw("upload"), " /srv/handbook "))
    (run,) = prefect.runs_of(deployment)
    assert run["parameters"]["source"] == "/srv/handbook"
    assert page.text_input[0].value == ""


@pytest.mark.usefixtures("deployment")
def test_a_place_that_is_not_there_is_a_clear_error(prefect: PrefectServer) -> None:
    """A run that can't read its source says so without Python's names."""
    page = start(name_place(draw("upload"), "/no/such"))
    message = "Flow run encountered an exception: SourceError: /no/such does not exist; give a folder"
    prefect.move(run_of(page), "FAILED", message)
    page.run()
    assert "<p>The upload failed.</p><p>/no/such does not exist; give a folder</p>" in html_of(page)
    assert "SourceError" not in html_of(page)
    assert not page.get("progress")


@pytest.mark.usefixtures("deployment")
def test_a_reload_shows_the_run_that_goes_on(prefect: PrefectServer) -> None:
    """The address is enough to watch a run again, in another window too."""
    run = run_of(start(drop(NOTE)))
    prefect.move(run, "RUNNING")
    prefect.tell(run, Summary(documents=8, to_send=8, created=3, waiting=5), phase="sending")
    again = draw("upload", run=run)
    assert "Uploading … 12.5 documents a second" in again.get("progress")[0].proto.text
    assert again.get("progress")[0].proto.value == 37
    assert [metric.value for metric in again.metric] == ["3", "0", "0", "5", "0"]


@pytest.mark.usefixtures("deployment")
def test_what_was_not_loaded_is_listed_as_it_is(prefect: PrefectServer) -> None:
    """Names and reasons from files are escaped, in the list, the plan and the run's message."""
    run = run_of(start(drop(NOTE)))
    plan = f"| planned | documents |\n|---|---|\n| create | 2 |\n\nLeft out as hidden: 1 (such as {HOSTILE})."
    summary = Summary(documents=2, to_send=2, created=1, failed=1, problems=300)
    prefect.tell(run, summary, phase="done", failures=[FAILURE], plan=plan)
    prefect.move(run, "COMPLETED", HOSTILE)
    page = draw("upload", run=run)
    assert "&lt;img src=x onerror=alert(1)&gt;" in html_of(page)
    assert "<img" not in html_of(page)
    assert "evil" not in markdown_of(page)
    assert HOSTILE in page.text[0].value
    assert "and 300 more" in page.caption[0].value
    assert "<th scope='row'>create</th><td>2</td>" in html_of(page)


@pytest.mark.usefixtures("deployment")
@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("FAILED", "The upload failed."),
        ("CRASHED", "The process that ran the upload ended before it was done."),
        ("CANCELLED", "The upload was stopped."),
    ],
)
def test_a_run_that_ends_early_says_how_and_what_to_do(prefect: PrefectServer, state: str, words: str) -> None:
    """However a run ended, it is told apart, its message is escaped, and what was sent is said to stay."""
    run = run_of(start(drop(NOTE)))
    prefect.tell(run, Summary(documents=8, to_send=8, created=3, waiting=5), phase="sending")
    prefect.move(run, state, f"ServiceDownError: {HOSTILE}")
    page = draw("upload", run=run)
    assert f"<p>{words}</p>" in html_of(page)
    assert "What was sent stays." in html_of(page)
    assert "<img" not in html_of(page)
    assert "evil" not in markdown_of(page)


@pytest.mark.usefixtures("deployment")
def test_an_empty_source_is_no_failure(prefect: PrefectServer) -> None:
    """A run that found nothing says so."""
    run = run_of(start(drop(NOTE)))
    prefect.tell(run, Summary(), phase="done")
    prefect.move(run, "COMPLETED")
    assert "there was nothing to load" in draw("upload", run=run).get("progress")[0].proto.text


@pytest.mark.usefixtures("prefect")
@pytest.mark.parametrize("run", ["not-a-run", "0199b3f0-0000-7000-8000-000000000000", "", "<img src=x>"])
def test_an_address_that_names_no_run_says_so(run: str) -> None:
    """A bad or forgotten run in the address leaves the page usable."""
    page = draw("upload", run=run)
    assert not page.exception
    assert "The address names no upload." in html_of(page)
    assert page.file_uploader


@pytest.mark.usefixtures("prefect")
def test_flows_that_nobody_serves_are_said() -> None:
    """When a start fails the reason is shown, the files stay chosen, and nothing is left staged."""
    page = start(drop(NOTE))
    assert not page.exception
    assert "python -m flows serve" in html_of(page)
    assert "run" not in page.query_params
    assert page.file_uploader[0].value
    assert staged() == []


def test_a_flow_server_that_is_down_is_said(workbench: Callable[..., None], service: RunningService) -> None:
    """Without Prefect neither a start nor a run in the address ends in a traceback."""
    workbench(base_url=service.base_url, api_key=service.api_key, prefect=NOBODY_LISTENS)
    page = start(drop(NOTE))
    assert not page.exception
    assert "The upload did not start." in html_of(page)
    assert NOBODY_LISTENS in html_of(page)
    watched = draw("upload", run=str(uuid4()))
    assert not watched.exception
    assert "can&#x27;t be told now" in html_of(watched)


def test_a_folder_that_cannot_be_written_is_said(
    workbench: Callable[..., None], service: RunningService, tmp_path: Path
) -> None:
    """When files can't be staged the page says where and why."""
    (tmp_path / "uploads").write_text("a file where the folder should be")
    workbench(base_url=service.base_url, api_key=service.api_key)
    page = start(drop(NOTE))
    assert not page.exception
    assert f"can&#x27;t be kept in {tmp_path / 'uploads'}" in html_of(page)


def test_a_service_that_is_down_is_explained(workbench: Callable[..., None]) -> None:
    """Without the service the page says so instead of offering choices that aren't there."""
    workbench(api_key="svc_key_" + "x" * 40)
    page = draw("upload")
    assert not page.exception
    assert "doesn&#x27;t answer" in html_of(page)
