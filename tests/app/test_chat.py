"""The chat page in all its states, on the real service, with the built-in model or one that a test moves."""

import html
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
import pytest
from streamlit.testing.v1 import AppTest

from app.auth import container
from service.domains.answering import ModelFailure
from tests.app.conftest import House, html_of, markdown_of
from tests.app.test_search import HOSTILE
from tests.oauth.flow import a_person
from tests.service.conversations import SECONDS, Desk, Script, a_desk, a_reply, passage

UNKNOWN = "0198c5b0-0000-7000-8000-000000000000"


@dataclass
class Visit:
    """A person of their own in the module's house, with an agent that is deployed to them alone."""

    house: House
    desk: Desk
    email: str

    def open(self, **address: str) -> AppTest:
        """Draw the page at an address."""
        return self.house.open("chat", signed_in_as=self.email, **address)

    def ask(self, words: str = "When does the ferry leave?", **address: str) -> AppTest:
        """Open the page, and send a message."""
        return say(self.open(**address), words)

    def conversation(self, page: AppTest) -> str:
        """The conversation that a page's address names."""
        return address(page)["conversation"]

    def kept(self) -> list[tuple[str, ...]]:
        """The words of each of the person's messages, by conversation."""
        with self.house.service.owner_connection() as connection:
            rows = connection.execute(
                "SELECT array_agg(message ORDER BY turn_no) FROM turns JOIN conversations USING (conversation_id) "
                "WHERE agent_id = %s GROUP BY conversation_id ORDER BY conversation_id",
                [self.desk.agent_id],
            ).fetchall()
        return [tuple(row[0]) for row in rows]


@pytest.fixture
def visit(house: House) -> Visit:
    """Somebody to whom an agent is deployed."""
    name = uuid4().hex[:8]
    email = f"{name}@example.test"
    a_person(house.service, email)
    desk = a_desk(house.service, f"Harbour desk {name}")
    desk.deploy(email)
    return Visit(house, desk, email)


@pytest.fixture
def script(house: House, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    """The model, as the test has it; whatever it wasn't told to end fails in the end."""
    monkeypatch.setattr("service.domains.conversations.drafts.PAUSE_SECONDS", 0)
    monkeypatch.setattr("service.domains.conversations.streaming.LOOK_SECONDS", 0.02)
    script = Script(house.service)
    monkeypatch.setattr("service.domains.answering.answer", script)
    yield script
    for number, scene in enumerate(script.scenes):
        if not scene.ended.done():
            script.end(ModelFailure("The test is over."), number=number)


def address(page: AppTest) -> dict[str, str]:
    """The parameters of a page's address."""
    given = page.query_params.items()
    return {name: str(value[0] if isinstance(value, list) else value) for name, value in given}


def say(page: AppTest, words: str) -> AppTest:
    """Send a message."""
    return page.chat_input(key="chat.words").set_value(words).run()


def until(page: AppTest, fits: Callable[[str], bool]) -> str:
    """Draw the page until what it shows fits, as its fragment does in a browser; what it shows."""
    deadline = time.monotonic() + SECONDS
    while not fits(shown := html_of(page)):
        assert time.monotonic() < deadline, shown[-2000:]
        assert not page.exception
        page.run()
    return shown


def button(page: AppTest, name: str) -> Any:
    """The page's button of this name."""
    return next(one for one in page.button if one.label == name)


def labels(page: AppTest) -> list[str]:
    """What the page's buttons are called."""
    return [one.label for one in page.button]


def test_without_agents_the_page_says_what_to_do(house: House) -> None:
    """A member is sent to an admin, an admin to the page where agents are made; there is nothing to write into."""
    email = f"{uuid4().hex[:8]}@example.test"
    a_person(house.service, email)
    page = house.open("chat", signed_in_as=email)
    assert "No agent is deployed to you yet." in html_of(page)
    assert "Ask an admin for one." in html_of(page)
    assert "agents" not in html_of(page).partition("carrel-empty")[2].partition("href")[2]
    assert not page.chat_input
    page = house.open("chat")
    assert '<a href="agents" target="_self">To the agents</a>' in html_of(page)


def test_a_question_is_answered_with_its_source(visit: Visit) -> None:
    """The reply stands under the question, with a number that leads to the quote, and from there to the document."""
    page = visit.open()
    assert f"Harbour desk {visit.email[:8]}" in html_of(page)
    say(page, "When does the ferry leave?")
    shown = until(page, lambda shown: "carrel-sources" in shown)
    assert "leaves at noon" in shown
    place = f"chunk_in={visit.desk.collection_id}&amp;place={visit.desk.collection_id}"
    where = (
        f"documents?document={visit.desk.document_id}&amp;part=text&amp;chunk=0&amp;{place}&amp;version=1&amp;quoted="
    )
    back = r"chat=agent%3D[0-9a-f-]{36}%26conversation%3D([0-9a-f-]{36})"
    linked = re.search(rf'href="{re.escape(where)}[0-9]+_[0-9a-f]{{16}}&amp;{back}" target="_blank"', shown)
    assert linked is not None
    opened = visit.house.open(
        "documents", signed_in_as=visit.email, document=str(visit.desk.document_id), chat=f"conversation={linked[1]}"
    )
    assert f'<a href="chat?conversation={linked[1]}"' in html_of(opened)
    number = shown.partition('class="carrel-chip" href="#')[2].partition('"')[0]
    assert f'<li id="{number}">' in shown
    assert "<strong>Ferries</strong><blockquote>The ferry to Northlight leaves at noon" in shown


def test_a_new_conversation_offers_questions(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    """About documents that the person may read, of collections that they may search; pressing one asks it.

    Where none can be had, one can still ask.
    """
    real = container.connections().send

    def lost(request: httpx.Request, **options: Any) -> httpx.Response:
        if request.url.path.endswith("listDocumentsInCollection"):
            raise httpx.ReadError("cut", request=request)
        return real(request, **options)

    with monkeypatch.context() as cut:
        cut.setattr("carrel._retries.RetryPolicy.wait_after_failure", lambda *_, **__: None)
        cut.setattr(container.connections(), "send", lost)
        page = visit.open()
        assert page.chat_input
        assert not [one for one in page.button if str(one.key).startswith("chat.example-")]
    page = visit.open()
    questions = [one.label for one in page.button if str(one.key).startswith("chat.example-")]
    assert questions == ["` What is in “Ferries”? `"]
    button(page, questions[0]).click().run()
    until(page, lambda shown: "carrel-sources" in shown)
    assert visit.kept() == [("What is in “Ferries”?",)]
    assert not [one for one in page.button if str(one.key).startswith("chat.example-")]


def test_a_reply_without_a_word_yet_is_an_outline(visit: Visit, script: Script) -> None:
    """It says that the agent is thinking, and can be stopped; the outline goes with the first words."""
    page = visit.ask()
    shown = until(page, lambda shown: "carrel-skeleton" in shown)
    assert "Thinking …" in shown
    assert "Stop" in labels(page)
    script.tell("So far")
    until(page, lambda shown: "So far" in shown and "carrel-skeleton" not in shown)


def test_sources_fold_and_say_how_many(visit: Visit) -> None:
    """Under their number, which a browser's own folding opens and closes."""
    shown = until(visit.ask(), lambda shown: "carrel-sources" in shown)
    assert '<details class="carrel-sources"><summary>Sources (1)</summary>' in shown


def test_the_conversation_is_there_after_a_reload(visit: Visit) -> None:
    """The address names the conversation, and whoever opens it anew sees the same, and goes on with it."""
    page = visit.ask()
    until(page, lambda shown: "carrel-sources" in shown)
    again = visit.open(conversation=visit.conversation(page))
    assert "carrel-sources" in html_of(again)
    say(again, "And dogs?")
    until(again, lambda shown: shown.count("carrel-reply") == 2 and "aria-busy" not in shown)
    assert visit.kept() == [("When does the ferry leave?", "And dogs?")]


def test_a_reply_is_shown_as_it_grows(visit: Visit, script: Script) -> None:
    """Its text so far, then all of it; the history above is there meanwhile."""
    page = visit.ask("First")
    script.end(a_reply("The first reply."))
    until(page, lambda shown: "The first reply." in shown and "aria-busy" not in shown)
    say(page, "Second")
    script.tell("Half of", number=1)
    shown = until(page, lambda shown: "Half of" in shown)
    assert "The first reply." in shown
    assert "aria-busy" in shown
    script.tell("Half of **it** and", number=1)
    until(page, lambda shown: "Half of <strong>it</strong> and" in shown)
    script.end(a_reply("Half of **it** and the rest."), number=1)
    shown = until(page, lambda shown: "the rest." in shown and "aria-busy" not in shown)
    assert "Stop" not in labels(page)


def test_a_reply_that_begins_anew_replaces_what_was_shown(visit: Visit, script: Script) -> None:
    """After a crash of the service nothing of the first attempt is left."""
    page = visit.ask()
    script.tell("A first attempt")
    until(page, lambda shown: "A first attempt" in shown)
    script.tell("Quite another")
    shown = until(page, lambda shown: "Quite another" in shown)
    assert "A first attempt" not in shown
    script.end(a_reply("Quite another reply."))
    until(page, lambda shown: "Quite another reply." in shown)


def test_a_reload_in_the_middle_finds_the_reply_going_on(visit: Visit, script: Script) -> None:
    """A window that knows nothing but the address shows what has come so far, and the rest as it comes."""
    page = visit.ask()
    script.tell("So far")
    again = visit.open(conversation=visit.conversation(page))
    until(again, lambda shown: "So far" in shown)
    script.end(a_reply("So far, so good."))
    until(again, lambda shown: "So far, so good." in shown and "aria-busy" not in shown)
    assert len(script.scenes) == 1


def test_two_windows_send_into_one_conversation(visit: Visit, script: Script) -> None:
    """The second message waits for the first one's reply; both windows come to show both."""
    one = visit.ask("First")
    two = visit.open(conversation=visit.conversation(one))
    say(two, "Second")
    assert "Waits until the reply above is there." in html_of(two)
    script.end(a_reply("Reply one."))
    script.end(a_reply("Reply two."), number=1)
    for page in (one, two):
        until(page, lambda shown: "Reply one." in shown and "Reply two." in shown)
    assert visit.kept() == [("First", "Second")]


@pytest.mark.parametrize("from_the_beginning", [True, False])
def test_enter_pressed_twice_sends_once(visit: Visit, script: Script, *, from_the_beginning: bool) -> None:
    """The same words again, while they are on their way, are no other message; also where no conversation was yet."""
    page = visit.ask("Twice")
    if from_the_beginning:
        page.query_params.clear()
    say(page, "Twice")
    assert visit.kept() == [("Twice",)]
    script.end(a_reply("Once."))
    page.query_params["conversation"] = first(visit)
    until(page, lambda shown: "Once." in shown and "aria-busy" not in shown)
    say(page, "Twice")
    assert visit.kept() == [("Twice", "Twice")]


def first(visit: Visit) -> str:
    """The person's first conversation."""
    with visit.house.service.owner_connection() as connection:
        row = connection.execute(
            "SELECT conversation_id FROM conversations WHERE agent_id = %s", [visit.desk.agent_id]
        ).fetchone()
    assert row is not None
    return str(row[0])


def test_watching_can_be_stopped_and_taken_up(visit: Visit, script: Script) -> None:
    """The agent goes on meanwhile, and nothing is lost."""
    page = visit.ask()
    script.tell("So far")
    until(page, lambda shown: "So far" in shown)
    button(page, "Stop").click().run()
    assert "You have stopped watching." in html_of(page)
    assert "So far" not in html_of(page)
    script.end(a_reply("So far, so good."))
    button(page, "Watch again").click().run()
    until(page, lambda shown: "So far, so good." in shown and "aria-busy" not in shown)


def test_a_failure_is_said_and_can_be_asked_again(visit: Visit, script: Script) -> None:
    """In the service's words, beside the message; asking again sends its text once more, however often."""
    page = visit.ask("Why?")
    script.end(ModelFailure("The model's endpoint is <b>overloaded</b>. Send the message again later."))
    shown = until(page, lambda shown: "carrel-problem" in shown)
    assert "endpoint is &lt;b&gt;overloaded&lt;/b&gt;" in shown
    button(page, "Ask again").click().run()
    button(page, "Ask again").click().run()
    script.end(a_reply("Because."), number=1)
    until(page, lambda shown: "Because." in shown and "aria-busy" not in shown)
    assert visit.kept() == [("Why?", "Why?")]


def test_a_reply_on_what_was_taken_away_is_withheld(visit: Visit, script: Script) -> None:
    """At its end and in the history: a word why, none of its text, and asking again."""
    desk = visit.desk
    page = visit.ask()
    script.end(a_reply("Noon it is [1].", passage(desk.document_id), cited=[0]))
    until(page, lambda shown: "carrel-sources" in shown)
    say(page, "And then?")
    desk.share()
    script.end(a_reply("Noon again [1].", passage(desk.document_id), cited=[0]), number=1)
    shown = until(page, lambda shown: shown.count("may not read any more") == 2)
    assert "Noon" not in shown
    assert labels(page).count("Ask again") == 2


def test_who_is_signed_out_in_the_middle_is_told(visit: Visit, script: Script) -> None:
    """When the tokens are taken back while a reply grows, the page leads to signing in."""
    page = visit.ask()
    script.tell("So far")
    until(page, lambda shown: "So far" in shown)
    tokens = container.sessions().get(page.session_state["signed_in.owner"])
    assert tokens is not None
    container.application().client().revoke(tokens)
    until(page, lambda shown: "/oauth/login?next=" in shown)


def test_a_message_the_service_does_not_take_stays(visit: Visit) -> None:
    """It is shown with the reason, and sent again as the same message, which is answered once."""
    page = visit.open()
    visit.desk.deploy()
    say(page, "Are you there?")
    assert "Are you there?" in html_of(page)
    assert "carrel-problem" in html_of(page)
    visit.desk.deploy(visit.email)
    button(page, "Send again").click().run()
    until(page, lambda shown: "aria-busy" not in shown and "carrel-reply" in shown)
    assert visit.kept() == [("Are you there?",)]


def test_an_answer_that_got_lost_leads_to_no_second_message(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent again after the connection broke, a message that the service had taken is still one."""
    page = visit.open()
    real = container.connections().send

    def lost(request: httpx.Request, **options: Any) -> httpx.Response:
        answer = real(request, **options)
        if not request.url.path.endswith("sendMessage"):
            return answer
        answer.close()
        raise httpx.ReadError("cut", request=request)

    with monkeypatch.context() as cut:
        cut.setattr("carrel._retries.RetryPolicy.wait_after_failure", lambda *_, **__: None)
        cut.setattr(container.connections(), "send", lost)
        say(page, "Are you there?")
    assert visit.kept() == [("Are you there?",)]
    assert "answer" in html_of(page)
    button(page, "Send again").click().run()
    until(page, lambda shown: "aria-busy" not in shown and "carrel-reply" in shown)
    assert visit.kept() == [("Are you there?",)]


def test_a_message_can_be_discarded(visit: Visit) -> None:
    """One that the service didn't take is then gone."""
    page = visit.open()
    visit.desk.deploy()
    say(page, "Are you there?")
    button(page, "Discard").click().run()
    assert "Are you there?" not in html_of(page)
    assert visit.kept() == []


def test_conversations_are_listed_and_opened(visit: Visit) -> None:
    """The latest first, twelve at a time; choosing one shows it and names it in the address."""
    for number in range(14):
        page = visit.ask(f"Question {number}")
    titles = [one for one in labels(page) if "Question" in one]
    assert titles == [f"` Question {number} `" for number in range(13, 1, -1)]
    button(page, "Next").click().run()
    assert [one for one in labels(page) if "Question" in one] == ["` Question 1 `", "` Question 0 `"]
    button(page, "` Question 0 `").click().run()
    until(page, lambda shown: '<p class="carrel-passage">Question 0</p>' in shown)
    button(page, "New conversation").click().run()
    assert "carrel-message" not in html_of(page)
    assert "conversation" not in page.query_params


@pytest.mark.parametrize("conversation", [UNKNOWN, "no-such", "a\0b"])
def test_an_address_of_no_conversation_is_explained(visit: Visit, conversation: str) -> None:
    """One that isn't there, or is somebody else's, is the same calm sentence; a new one can be begun."""
    page = visit.open(conversation=conversation)
    assert not page.exception
    assert "You have no such conversation." in html_of(page)
    assert not page.chat_input
    button(page, "New conversation").click().run()
    assert page.chat_input


def test_anothers_conversation_is_none(visit: Visit, house: House) -> None:
    """Even for an admin: the words of a person are theirs."""
    page = visit.ask("A secret of mine")
    until(page, lambda shown: "aria-busy" not in shown and "carrel-reply" in shown)
    other = house.open("chat", conversation=visit.conversation(page))
    assert "You have no such conversation." in html_of(other)
    assert "A secret of mine" not in html_of(other)


def test_a_conversation_with_an_agent_that_is_gone_is_read_on(visit: Visit) -> None:
    """Its history stays; there is nothing to write into, and a word why."""
    page = visit.ask()
    until(page, lambda shown: "carrel-sources" in shown)
    visit.desk.deploy()
    again = visit.house.open("chat", signed_in_as=visit.email, conversation=visit.conversation(page))
    assert "carrel-sources" in html_of(again)
    assert "isn&#x27;t deployed to you any more" in html_of(again)
    assert not again.chat_input


def test_one_of_several_agents_is_chosen(visit: Visit) -> None:
    """By its name, with what it is for; the address has the choice, and one that isn't there is said."""
    other = a_desk(visit.house.service, f"Zoo desk {visit.email[:8]}")
    other.deploy(visit.email)
    other.update(description="Knows <b>animals</b>.")
    page = visit.open()
    page.selectbox(key="chat.agent").set_value(other.agent_id).run()
    assert address(page) == {"agent": other.agent_id}
    assert "Knows &lt;b&gt;animals&lt;/b&gt;." in html_of(page)
    say(page, "Hello?")
    assert visit.kept() == []
    page = visit.open(agent=UNKNOWN)
    assert "The agent that the address names isn&#x27;t there for you." in html_of(page)


def test_a_long_conversation_is_shown_from_its_end(visit: Visit) -> None:
    """Twenty exchanges, and twenty more when they are asked for."""
    page = visit.ask("Question 0")
    conversation = visit.conversation(page)
    until(page, lambda shown: "aria-busy" not in shown and "carrel-reply" in shown)
    with visit.house.service.owner_connection() as connection:
        connection.execute(
            "INSERT INTO turns SELECT (jsonb_populate_record(turn, jsonb_build_object('turn_id', gen_random_uuid(), "
            "'turn_no', number, 'message', 'Question ' || number))).* "
            "FROM turns AS turn, generate_series(turn.turn_no + 1, 30) AS number WHERE conversation_id = %s",
            [conversation],
        )
    again = visit.open(conversation=conversation)
    assert html_of(again).count("carrel-message") == 20
    assert "Question 30" in html_of(again)
    button(again, "Show earlier messages").click().run()
    assert html_of(again).count("carrel-message") == 30


def test_a_reply_takes_feedback(visit: Visit) -> None:
    """A thumb and a comment reach the audit log once each; after a reload the thumb is there."""
    page = visit.ask()
    until(page, lambda shown: "carrel-sources" in shown)
    button(page, "Not helpful").click().run()
    page.run()
    page.text_area[0].set_value("And <i>goats</i>?")
    button(page, "Send the comment").click().run()
    page.run()
    entries = [one for one in visit.desk.entries("agent.feedback") if visit.desk.agent_id in str(one)]
    assert [one["details"]["feedback"] for one in entries] == ["NEGATIVE", "NEGATIVE"]
    again = visit.open(conversation=visit.conversation(page))
    assert again.text_area[0].placeholder == "What was missing?"


@pytest.mark.parametrize("hostile", HOSTILE)
def test_text_of_others_is_neither_markup_nor_link(visit: Visit, script: Script, hostile: str) -> None:
    """Messages, replies, quotes, and the names of agents and documents: nothing runs, and nothing leads elsewhere."""
    visit.desk.update(name=f"{hostile} {uuid4().hex[:6]}", description=hostile)
    page = visit.ask(hostile)
    quoted = passage(visit.desk.document_id, hostile)
    visit.house.client.catalog.upload_file(
        b"Sheep", document_external_id=f"{visit.desk.document_id} hostile", document_name=hostile, file_name="n.txt"
    )
    script.tell(hostile)
    until(page, lambda shown: "aria-busy" in shown)
    script.end(a_reply(f"{hostile} [1]", quoted, cited=[0], warnings=[hostile]))
    shown = until(page, lambda shown: "carrel-sources" in shown)
    assert not any(tag in shown for tag in ("<script", "<img", "<iframe"))
    links = [part.partition('"')[0] for part in shown.split('<a class="carrel-chip" href="')[1:]]
    assert all(link.startswith("#source-") for link in links)
    assert "evil" not in "".join(part.partition(">")[0] for part in shown.split("<a ")[1:])
    assert "onerror" not in "".join(part.partition("&gt;")[0] for part in shown.split("<img")[1:])
    assert html.escape(hostile.split(maxsplit=1)[0]) in shown
    spoken = markdown_of(page)
    for one in labels(page):
        if one.startswith("`"):
            fence = one.partition(" ")[0]
            assert one.endswith(f" {fence}")
            assert fence not in one[len(fence) : -len(fence)]
            spoken = spoken.replace(one, "")
    assert not any(word in spoken for word in ("evil", "alert", "material/home"))


def test_a_service_that_is_down_is_explained(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the service the page says so, and how to start it."""

    def refused(request: httpx.Request, **_: Any) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    page = visit.open()
    monkeypatch.setattr("carrel._retries.RetryPolicy.wait_after_failure", lambda *_, **__: None)
    monkeypatch.setattr(container.connections(), "send", refused)
    say(page, "Are you there?")
    assert not page.exception
    assert "doesn&#x27;t answer" in html_of(page)
    assert "make up" in html_of(page)


def test_what_is_too_long_is_said_and_stays(visit: Visit) -> None:
    """A message beyond the service's limit is not cut and not dropped: it stands there with the reason, unsent."""
    page = visit.ask("x" * 20_001)
    assert not page.exception
    assert "This is too long: 20,001 characters." in html_of(page)
    assert "x" * 20_001 in html_of(page)
    assert "Discard" in labels(page)
    assert "Send again" not in labels(page)  # the service takes it no more than before
    assert visit.kept() == []
