"""An agent's answer above the results of the page Search, on the real service."""

from uuid import uuid4

import httpx
import pytest
from streamlit.runtime.scriptrunner_utils.exceptions import StopException

from app.auth import current
from app.chat.conversations import is_question
from tests.app.pages import Page
from tests.app.visits import ASKED, Visit, begin_visit, until, until_replied
from tests.harness.cases import cases
from tests.service.conversations import Script, a_reply, passage


@pytest.fixture(scope="module")
def visit(house) -> Visit:
    visit = begin_visit(house)
    visit.desk.update(answersSearches=True)
    return visit


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked, real = list[str](), current.connections().send

    def send(request: httpx.Request, **options) -> httpx.Response:
        asked.append(request.url.path.rpartition("/")[2])
        return real(request, **options)

    monkeypatch.setattr(current.connections(), "send", send)
    return asked


def search(visit: Visit, text: str, email: str = "", **address: str) -> Page:
    return visit.house.open("search", signed_in_as=email or visit.email, q=text, **address)


def answers(page: Page) -> list[str]:
    return [one.label for one in page.expander if one.label.startswith("Answer from")]


def test_a_question_is_answered_above_the_results_after_these_are_shown(visit: Visit, requests: list[str]) -> None:
    page = search(visit, ASKED)
    assert requests.index("searchDocumentCatalog") < requests.index("listDocuments") < requests.index("sendMessage")
    assert "Thinking …" in page.shown or "carrel-sources" in page.shown
    shown = until_replied(page, "carrel-sources")
    assert answers(page) == [f"Answer from ` Harbour desk {visit.email[:8]} `"]
    assert shown.index("leaves at noon") < shown.index("carrel-result")
    newest = "SELECT conversation_id::text FROM turns WHERE message = %s ORDER BY conversation_id DESC LIMIT 1"
    [conversation] = visit.house.service.execute(newest, [ASKED])
    assert f"conversation={conversation[0]}" in shown
    page = page.button[0].click().run()
    assert "leaves at noon" in until_replied(page, "carrel-sources")
    assert requests.count("sendMessage") == 1


def test_what_is_no_question_is_asked_at_a_press(visit: Visit, script: Script) -> None:
    page = search(visit, "ferry to Northlight")
    assert (answers(page), script.scenes) == ([], [])
    page = page.press_key("agent_answer.ask")
    script.tell("It is growing")
    until(page, lambda shown: "It is growing" in shown and "aria-busy" in shown)
    script.end(a_reply("It is growing no more."))
    until_replied(page, "no more.")
    assert len(script.scenes) == 1


@pytest.mark.parametrize(("text", "is_one"), cases("questions_are_told_from_words"))
def test_questions_are_told_from_words(text: str, is_one: bool) -> None:
    assert is_question(text) is is_one


def test_a_narrower_search_and_people_without_the_agent_get_no_answer(visit: Visit, requests: list[str]) -> None:
    """The agent would answer from documents outside the list."""
    other = f"{uuid4().hex[:8]}@example.test"
    visit.house.add_people(other)
    for page in (
        search(visit, ASKED, other),
        search(visit, f"{ASKED} -goats"),
        search(visit, ASKED, only="team:not:deck"),
        search(visit, ASKED, **{"in": visit.desk.collection_id}),
    ):
        assert "carrel-result" in page.shown
        assert "Harbour desk" not in "".join([*answers(page), *page.labels])
    assert "sendMessage" not in requests


def test_an_answer_on_what_was_taken_away_is_withheld(visit: Visit, script: Script) -> None:
    visit.house.load("Landing stage", "You get there by foot.", internal_public=True)
    page = search(visit, "When do we get there?")
    script.end(a_reply("At noon [1].", passage(visit.desk.document_id), cited=[0]))
    until_replied(page, "carrel-sources")
    visit.desk.share()
    page = page.button[0].click().run()
    visit.desk.share(everybody=True)
    assert "At noon" not in page.shown
    assert "may no longer read" in page.shown
    assert len(script.scenes) == 1


@pytest.mark.usefixtures("impatient")
def test_results_stay_where_the_agent_can_not_be_asked(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    real = current.connections().send

    def lost(request: httpx.Request, **options) -> httpx.Response:
        if request.url.path.endswith("sendMessage"):
            raise httpx.ConnectError("refused", request=request)
        return real(request, **options)

    monkeypatch.setattr(current.connections(), "send", lost)
    page = search(visit, "Who takes the ferry?")
    assert "carrel-problem" in page.shown
    assert "carrel-result" in page.shown
    monkeypatch.setattr(current.connections(), "send", real)
    until_replied(page.press_key("agent_answer.again"), "carrel-sources")


def test_a_question_whose_sending_a_click_ends_is_asked_once(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    real, sent, text = current.connections().send, list[int](), "Where does the ferry wait at night?"

    def send(request: httpx.Request, **options) -> httpx.Response:
        response = real(request, **options)
        if request.url.path.endswith("sendMessage"):
            sent.append(response.status_code)
            if len(sent) == 1:
                raise StopException
        return response

    monkeypatch.setattr(current.connections(), "send", send)
    page = search(visit, text)
    assert "carrel-result" in page.shown
    until_replied(page.run(), "carrel-sources")
    turns = visit.house.service.execute("SELECT count(*) FROM turns WHERE message = %s", [text])
    assert (sent, turns) == ([200, 200], [(1,)])
