"""The chat page on the real service, with the built-in or a scripted model."""

import html
import re
from collections.abc import Callable
from unittest.mock import Mock
from uuid import uuid4

import httpx
import pytest
from markdown_it import MarkdownIt

import carrel
from app.auth import current
from app.ui.passages import label
from service.domains.agents.answering.models import ModelFailure
from tests.app.pages import HOSTILE, HOSTILE_CASES, NOTHING, NOWHERE, Page
from tests.app.visits import ASKED, Visit, begin_visit, say, until, until_replied
from tests.service.conversations import Script, a_desk, a_reply, a_visitor, passage
from tests.service.directory import collection, grant


@pytest.fixture
def visit(house) -> Visit:
    return begin_visit(house)


@pytest.fixture(scope="module")
def guest(house) -> Visit:
    return begin_visit(house)


@pytest.fixture
def cut_line(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., httpx.Response]], None]:
    return lambda send: monkeypatch.setattr(current.connections(), "send", send)


def test_without_agents_the_page_says_what_to_do(new_house) -> None:
    new_house.add_people("ada@example.test")
    page = new_house.open("chat", signed_in_as="ada@example.test")
    assert "You cannot use any agent yet." in page.shown
    assert "Ask an admin for access to an agent." in page.shown
    assert "agents" not in page.shown.partition("carrel-empty")[2].partition("href")[2]
    assert not page.chat_input
    new_house.client.admin.agents.create("Desk")
    shown = new_house.open("chat").shown
    assert ("Create an agent, or give yourself access." in shown, "No agents" in shown) == (True, False)
    assert '<a href="agents" target="_self">Go to Agents</a>' in shown


def test_a_question_is_answered_with_its_source(guest: Visit) -> None:
    desk, page = guest.desk, guest.open()
    assert f"Harbour desk {guest.email[:8]}" in page.shown
    shown = until_replied(say(page, ASKED), "carrel-sources")
    assert "leaves at noon" in shown
    place = f"chunk_in={desk.collection_id}&amp;place={desk.collection_id}"
    where = f"documents?document={desk.document_id}&amp;part=text&amp;chunk=0&amp;{place}&amp;version=1&amp;quoted="
    back = r"chat=agent%3D[0-9a-f-]{36}%26conversation%3D([0-9a-f-]{36})"
    linked = re.search(rf'href="{re.escape(where)}[0-9]+_[0-9a-f]{{16}}&amp;{back}" target="_blank"', shown)
    assert linked is not None
    opened = guest.house.open(
        "documents", signed_in_as=guest.email, document=desk.document_id, chat=f"conversation={linked[1]}"
    )
    assert f'<a href="chat?conversation={linked[1]}"' in opened.shown
    number = shown.partition('class="carrel-chip" href="#')[2].partition('"')[0]
    assert f'<li id="{number}">' in shown
    assert "<strong>Ferries</strong><blockquote>The ferry to Northlight leaves at noon" in shown
    assert '<details class="carrel-sources"><summary>Sources (1)</summary>' in shown
    [copied] = page.code
    assert re.search(
        r"leaves at noon.* \[1\].*\n\n\[1\] Ferries: “The ferry to Northlight leaves at noon", copied.value
    )


def test_a_source_opens_beside_the_reply_while_it_may_be_read(visit: Visit) -> None:
    page, desk = visit.open(), visit.desk
    assert all(column.children for column in page.columns)  # the browser keeps the room of an empty column
    page = say(page, ASKED)
    shown = until_replied(page, "carrel-sources")
    anchor = shown.partition(' data-source="')[2].partition('"')[0]
    assert 'class="carrel-preview"' not in shown
    assert f'data-source="{anchor}"' not in shown.partition('<li id="source-')[2]  # its link opens the document
    marked = "<mark>The ferry to Northlight leaves at noon. Dogs travel free of charge.</mark>"
    quoted = f'<p class="carrel-passage">{marked}'
    whole = f"<h2>Ferries</h2>{quoted}</p>"
    with pytest.MonkeyPatch.context() as lost:
        lost.setattr("app.chat.source.read_around", Mock(side_effect=carrel.APIConnectionError("cut")))
        panel = open_source(page, anchor)
    assert ('data-source-shown=""' in panel, "Ferries" in panel) == (True, False)  # so the next press reads it
    assert whole in (panel := open_source(page, anchor))
    assert f'href="documents?document={desk.document_id}&amp;part=text' in panel
    assert panel.rstrip().endswith(">Open the document</a></p></section>")
    grant(desk.service, collection(desk.collection_id))
    assert f"{quoted}</p>" in (panel := open_source(page, anchor))
    assert "no longer in its text" not in panel
    desk.share()
    assert "This document was deleted, or you can no longer read it." in (panel := open_source(page, anchor))
    assert "noon" not in panel
    assert "Open the document" not in panel
    assert "Northlight" not in open_source(page, "source-of-nothing-1")
    assert open_source(page, "") == ""
    desk.service.execute("DELETE FROM conversations WHERE conversation_id = %s", [page.address["conversation"]])
    panel = open_source(page, anchor)
    assert ("This document was deleted" in panel, "is no longer available. Reload" in panel) == (False, True)


def open_source(page: Page, anchor: str) -> str:
    page.session_state[page.get("bidi_component")[0].proto.id.split("-", 2)[-1]] = {"chosen": anchor}
    page.run()
    return page.shown.partition('class="carrel-preview"')[2]


def test_a_new_conversation_offers_the_agents_questions(visit: Visit) -> None:
    assert not examples(visit.open())
    hostile = HOSTILE[0]
    visit.house.client.admin.agents.update(visit.desk.agent_id, starter_questions=[ASKED, hostile])
    page = visit.open()
    assert examples(page) == [f"` {ASKED} `", label(hostile)]
    until_replied(page.press(f"` {ASKED} `"), "carrel-sources")
    assert visit.kept() == [[ASKED]]
    assert not examples(page)


def examples(page: Page) -> list[str]:
    return [one.label for one in page.button if str(one.key).startswith("chat.example-")]


def test_a_reply_without_a_word_yet_is_an_outline(guest: Visit, script: Script) -> None:
    page = guest.ask()
    shown = until(page, lambda shown: "carrel-skeleton" in shown)
    assert "Thinking …" in shown
    assert "Stop" in page.labels
    script.tell("So far")
    until(page, lambda shown: "So far" in shown and "carrel-skeleton" not in shown)
    again = guest.reopen(page)
    until(again, lambda shown: "So far" in shown)
    script.end(a_reply("So far, so good."))
    until_replied(again, "So far, so good.")
    assert len(script.scenes) == 1


def test_the_conversation_is_there_after_a_reload(guest: Visit) -> None:
    page = guest.ask()
    until_replied(page, "carrel-sources")
    again = guest.reopen(page)
    assert "carrel-sources" in again.shown
    say(again, "And dogs?")
    until(again, lambda shown: shown.count("carrel-reply") == 2 and "aria-busy" not in shown)
    assert guest.kept_of(page) == [ASKED, "And dogs?"]


def test_a_reply_is_shown_as_it_grows(guest: Visit, script: Script) -> None:
    page = guest.ask("First")
    script.end(a_reply("The first reply."))
    until_replied(page, "The first reply.")
    say(page, "Second")
    script.tell("Half of", number=1)
    shown = until(page, lambda shown: "Half of" in shown)
    assert "The first reply." in shown
    assert "aria-busy" in shown
    script.tell("Half of **it** and", number=1)
    until(page, lambda shown: "Half of <strong>it</strong> and" in shown)
    script.end(a_reply("Half of **it** and the rest."), number=1)
    until_replied(page, "the rest.")
    assert "Stop" not in page.labels


def test_a_reply_that_begins_anew_replaces_what_was_shown(guest: Visit, script: Script) -> None:
    page = guest.ask()
    script.tell("A first attempt")
    until(page, lambda shown: "A first attempt" in shown)
    script.tell("Quite another")
    assert "A first attempt" not in until(page, lambda shown: "Quite another" in shown)
    script.end(a_reply("Quite another reply."))
    until_replied(page, "Quite another reply.")


def test_two_windows_send_into_one_conversation(guest: Visit, script: Script) -> None:
    one = guest.ask("First")
    two = say(guest.reopen(one), "Second")
    assert "Waiting for the reply above." in two.shown
    script.end(a_reply("Reply one."))
    script.end(a_reply("Reply two."), number=1)
    for page in (one, two):
        until(page, lambda shown: "Reply one." in shown and "Reply two." in shown)
    assert guest.kept_of(one) == ["First", "Second"]


@pytest.mark.parametrize("from_the_beginning", [True, False])
def test_enter_pressed_twice_sends_once(visit: Visit, script: Script, *, from_the_beginning: bool) -> None:
    page = visit.ask("Twice")
    conversation = page.address["conversation"]
    if from_the_beginning:
        page.query_params.clear()
    say(page, "Twice")
    assert visit.kept() == [["Twice"]]
    script.end(a_reply("Once."))
    page.query_params["conversation"] = conversation
    until_replied(page, "Once.")
    say(page, "Twice")
    assert visit.kept() == [["Twice", "Twice"]]


def test_watching_can_be_stopped_and_taken_up(guest: Visit, script: Script) -> None:
    page = guest.ask()
    script.tell("So far")
    until(page, lambda shown: "So far" in shown)
    page.press("Stop")
    assert "You stopped watching." in page.shown
    assert "So far" not in page.shown
    script.end(a_reply("So far, so good."))
    until_replied(page.press("Show progress"), "So far, so good.")


def test_a_failure_is_said_and_can_be_asked_again(guest: Visit, script: Script) -> None:
    page = guest.ask("Why?")
    script.end(ModelFailure("The model's endpoint is <b>overloaded</b>. Send the message again later."))
    assert "endpoint is &lt;b&gt;overloaded&lt;/b&gt;" in until(page, lambda shown: "carrel-problem" in shown)
    for _ in range(2):
        next(one for one in page.button if one.label == "Ask again").click().run()
    script.end(a_reply("Because."), number=1)
    until_replied(page, "Because.")
    assert guest.kept_of(page) == ["Why?", "Why?"]


def test_a_reply_on_what_was_taken_away_is_withheld(visit: Visit, script: Script) -> None:
    desk, page = visit.desk, visit.ask()
    script.end(a_reply("Noon it is [1].", passage(desk.document_id), cited=[0]))
    until_replied(page, "carrel-sources")
    say(page, "And then?")
    desk.share()
    script.end(a_reply("Noon again [1].", passage(desk.document_id), cited=[0]), number=1)
    assert "Noon" not in until(page, lambda shown: shown.count("may no longer read") == 2)
    assert page.labels.count("Ask again") == 2


def test_who_is_signed_out_in_the_middle_is_told(visit: Visit, script: Script) -> None:
    page = visit.ask()
    script.tell("So far")
    until(page, lambda shown: "So far" in shown)
    tokens = current.sessions().get(page.session_state["signed_in.owner"])
    assert tokens is not None
    current.application().client().revoke(tokens)
    until(page, lambda shown: "/oauth/login?next=" in shown)


def test_a_message_the_service_does_not_take_stays(visit: Visit) -> None:
    page = visit.open()
    visit.desk.deploy()
    say(page, "Discard this")
    page.press("Discard")
    assert "Discard this" not in page.shown
    say(page, "Are you there?")
    assert "Are you there?" in page.shown
    assert "carrel-problem" in page.shown
    visit.desk.deploy(visit.email)
    until_replied(page.press("Send again"))
    assert visit.kept() == [["Are you there?"]]


@pytest.mark.usefixtures("impatient")
def test_an_answer_that_got_lost_leads_to_no_second_message(visit: Visit, cut_line: Callable[..., None]) -> None:
    page, real = visit.open(), current.connections().send

    def lost(request: httpx.Request, **options) -> httpx.Response:
        answer = real(request, **options)
        if not request.url.path.endswith("sendMessage"):
            return answer
        answer.close()
        raise httpx.ReadError("cut", request=request)

    cut_line(lost)
    say(page, "Are you there?")
    cut_line(real)
    assert visit.kept() == [["Are you there?"]]
    assert "answer" in page.shown
    until_replied(page.press("Send again"))
    assert visit.kept() == [["Are you there?"]]


def test_conversations_are_listed_and_opened(visit: Visit) -> None:
    elsewhere = a_visitor(visit.desk, visit.email)  # by another application; what a key asked is in no list
    for number in range(13):
        elsewhere.ask(f"Question {number}")
    page = visit.ask("Question 13")
    assert titles(page) == [f"` Question {number} `" for number in range(13, 1, -1)]
    page.press("Next")
    assert titles(page) == ["` Question 1 `", "` Question 0 `"]
    page.press("` Question 0 `")
    until(page, lambda shown: '<p class="carrel-passage">Question 0</p>' in shown)
    page.press("New conversation")
    assert "carrel-message" not in page.shown
    assert "conversation" not in page.query_params


def titles(page: Page) -> list[str]:
    return [one for one in page.labels if "Question" in one]


def test_a_conversation_is_renamed_found_and_deleted(visit: Visit) -> None:
    page = visit.ask("Question about ferries")
    until_replied(page, "carrel-sources")
    page.press("New conversation")
    say(page, "Question about dogs")
    until_replied(page, "carrel-reply")
    page.press("Rename")
    page.press("` Question about ferries `")  # the dialog doesn't go over to another conversation
    assert "chat.rename.submit" not in [one.key for one in page.button]
    page.press("` Question about dogs `").press("Rename")
    page.text_input(key="chat.title").set_value("Question of Rex").run().press_key("chat.rename.submit")
    assert titles(page) == ["` Question of Rex `", "` Question about ferries `"]
    assert '<h2 class="carrel-name">Question of Rex</h2>' in page.shown
    page.text_input(key="chat.find").set_value("dogs rex").run()
    assert titles(page) == ["` Question of Rex `"]
    page.press("Delete …").answer("Delete …", "Delete")
    assert "conversation" not in page.query_params
    assert "No conversations contain all of these words." in page.shown
    assert visit.kept() == [["Question about ferries"]]


def test_a_question_is_asked_again_after_its_conversation_was_deleted(visit: Visit, script: Script) -> None:
    page = visit.ask("Twice")
    page.press("Delete …").answer("Delete …", "Delete")
    say(page, "Twice")
    script.end(a_reply("Once."), number=1)
    until_replied(page, "Once.")
    assert visit.kept() == [["Twice"]]


def test_an_address_of_no_conversation_is_explained(guest: Visit) -> None:
    for conversation in NOTHING:
        page = guest.open(conversation=conversation)
        assert "This conversation is not available." in page.shown
        assert not page.chat_input
        assert page.press("New conversation").chat_input


def test_anothers_conversation_is_none(guest: Visit, house) -> None:
    page = guest.ask("A secret of mine")
    until_replied(page)
    other = house.open("chat", conversation=page.address["conversation"])
    assert "This conversation is not available." in other.shown
    assert "A secret of mine" not in other.shown


def test_a_shared_conversation_is_read_and_no_more(visit: Visit, script: Script) -> None:
    friend, page = f"friend-{visit.email}", visit.ask("When is it?")
    visit.house.add_people(friend)
    visit.desk.deploy(visit.email, friend)
    secret = visit.house.load("Night boats", "The night boat is secret.")
    visit.desk.share(visit.email, document_id=secret)
    script.end(a_reply("At noon [1].", passage(visit.desk.document_id), cited=[0]))
    until_replied(page, "At noon")
    page.press("Share").text_area(key="chat.readers").set_value(f"{friend}, nobody@example.test").run()
    page.press_key("chat.share.submit")
    assert "nobody@example.test is unknown in this organization" in page.shown
    page.text_area(key="chat.readers").set_value(friend)  # sent with the press
    page.press_key("chat.share.submit")
    assert f"Shared with {friend}." in page.shown
    say(page, "And at night?")
    script.end(a_reply("At midnight [1].", passage(secret), cited=[0]), number=1)
    until_replied(page, "At midnight")
    say(page, "And then?")
    theirs = visit.house.open("chat", signed_in_as=friend)
    assert "Your conversations will appear here." in theirs.shown
    theirs.segmented_control(key="chat.whose").set_value("Shared").run().press("` When is it? `")
    assert "Replies whose sources you cannot read are hidden." in theirs.shown
    assert ("At noon" in theirs.shown, "midnight" in theirs.shown) == (True, False)
    assert theirs.shown.count("This reply uses documents that you may not read.") == 1
    assert "The reply is not complete yet." in theirs.shown
    assert {"Rename", "Share", "Delete …", "Helpful", "Ask again", "Stop"}.isdisjoint(theirs.labels)
    assert not theirs.chat_input
    page.press("Share").text_area(key="chat.readers").set_value("").run().press_key("chat.share.submit")
    assert "This conversation is not available." in theirs.run().shown
    theirs.press("New conversation")
    assert "No conversations are shared with you." in theirs.shown
    script.end(a_reply("Later."), number=2)


def test_a_conversation_with_an_agent_that_is_gone_is_read_on(visit: Visit) -> None:
    page = visit.ask()
    until_replied(page, "carrel-sources")
    visit.desk.deploy()
    again = visit.reopen(page)
    assert "carrel-sources" in again.shown
    assert "You can no longer use this agent" in again.shown
    assert not again.chat_input


def test_one_of_several_agents_is_chosen(visit: Visit) -> None:
    other = a_desk(visit.house.service, f"Zoo desk {visit.email[:8]}")
    other.deploy(visit.email)
    other.update(description="Knows <b>animals</b>.")
    page = visit.open()
    page.selectbox(key="chat.agent").set_value(other.agent_id).run()
    assert page.address == {"agent": other.agent_id}
    assert "Knows &lt;b&gt;animals&lt;/b&gt;." in page.shown
    say(page, "Hello?")
    assert visit.kept() == []
    assert "You cannot use the agent in the URL." in visit.open(agent=NOWHERE).shown


def test_a_long_conversation_is_shown_from_its_end(guest: Visit) -> None:
    page = guest.ask("Question 0")
    until_replied(page)
    guest.house.service.execute(
        "INSERT INTO turns SELECT (jsonb_populate_record(turn, jsonb_build_object('turn_id', gen_random_uuid(), "
        "'turn_no', number, 'message', 'Question ' || number))).* "
        "FROM turns AS turn, generate_series(turn.turn_no + 1, 30) AS number WHERE conversation_id = %s",
        [page.address["conversation"]],
    )
    again = guest.reopen(page)
    assert again.shown.count("carrel-message") == 20
    assert "Question 30" in again.shown
    again.press("Show earlier messages")
    assert again.shown.count("carrel-message") == 30


def test_a_reply_takes_feedback(guest: Visit) -> None:
    page = guest.ask()
    until_replied(page, "carrel-sources")
    page.press("Not helpful").run()
    page.text_area[0].set_value("And <i>goats</i>?")
    page.press("Send comment").run()
    entries = [one for one in guest.desk.entries("agent.feedback") if guest.desk.agent_id in str(one)]
    assert [one["details"]["feedback"] for one in entries] == ["NEGATIVE", "NEGATIVE"]
    assert guest.reopen(page).text_area[0].placeholder == "What was missing?"


@pytest.mark.parametrize("hostile", HOSTILE_CASES)
def test_text_of_others_is_neither_markup_nor_link(visit: Visit, script: Script, hostile: str) -> None:
    visit.desk.update(name=f"{hostile} {uuid4().hex[:6]}", description=hostile)
    page = visit.ask(hostile)
    visit.house.load(hostile, "Sheep")
    script.tell(hostile)
    until(page, lambda shown: "aria-busy" in shown)
    quoted = passage(visit.desk.document_id, hostile)
    script.end(a_reply(f"{hostile} ![](https://evil.example) [1]", quoted, cited=[0], warnings=[hostile]))
    shown = until_replied(page, "carrel-sources")
    copied = MarkdownIt("commonmark").enable("table").render(page.code[0].value)
    assert not any(tag in copied for tag in ("<script", "<img", "<iframe", "<a "))
    assert not any(tag in shown for tag in ("<script", "<img", "<iframe"))
    links = [part.partition('"')[0] for part in shown.split('<a class="carrel-chip" href="')[1:]]
    assert all(link.startswith("#source-") for link in links)
    assert "evil" not in "".join(part.partition(">")[0] for part in shown.split("<a ")[1:])
    assert "onerror" not in "".join(part.partition("&gt;")[0] for part in shown.split("<img")[1:])
    assert html.escape(hostile.split(maxsplit=1)[0]) in shown
    spoken = page.as_markdown
    for one in page.labels:
        if one.startswith("`"):
            fence = one.partition(" ")[0]
            assert one.endswith(f" {fence}")
            assert fence not in one[len(fence) : -len(fence)]
            spoken = spoken.replace(one, "")
    assert not any(word in spoken for word in ("evil", "alert", "material/home"))


def test_what_is_too_long_is_said_and_stays(visit: Visit) -> None:
    page = visit.ask("x" * 20_001)
    assert "This message has 20,001 characters." in page.shown
    assert "x" * 20_001 in page.shown
    assert "Discard" in page.labels
    assert "Send again" not in page.labels  # the service takes it no more than before
    assert visit.kept() == []
