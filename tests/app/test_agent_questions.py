"""What people ask agents, as admins see it on the page of agents."""

import csv
import html
import io
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from streamlit.testing.v1 import AppTest

from app.agents.question_log import ERASED, rank_unanswered, retention_in_words
from carrel import evaluation
from carrel.wire.common import UserPrincipal
from carrel.wire.question_log import LoggedQuestion, Outcome
from tests.app.conftest import House, html_of, markdown_of
from tests.app.pressing import answer, press
from tests.app.test_agents import HOSTILE
from tests.app.test_quality import cases_of, choose, drawn
from tests.oauth.flow import a_person
from tests.service.conversations import ADA, BEN, Desk, a_desk
from tests.service.directory import a_group, another_organization, done, user

FERRY, ZEPPELIN = "When does the ferry to Northlight leave?", "What does a zeppelin pilot earn in Peru?"
CLEO = "cleo@example.test"
AGENT = uuid4()


@pytest.fixture
def desk(house: House) -> Desk:
    """An agent of the test's own, whose document everybody may read."""
    for email, name in ((ADA, "Ada"), (BEN, "Ben")):
        a_person(house.service, email, name=name)
    return a_desk(house.service, f"Desk {uuid4().hex[:6]}")


def open_questions(house: House, desk: Desk | None = None, **address: Any) -> AppTest:
    """Open the questions to an agent, or all."""
    if desk is not None:
        address["of"] = desk.agent_id
    page = house.open("agents", show="questions", **address)
    assert not page.exception
    return page


def open_one(house: House, question_id: object, **options: Any) -> str:
    """What the page shows of one question."""
    return html_of(open_questions(house, question=str(question_id), **options))


def rows(page: AppTest) -> Any:
    """The list on the page."""
    return page.dataframe[0].value


def test_before_anybody_asks_the_page_says_what_will_appear(house: House, desk: Desk) -> None:
    """No chart and no list, but how long words will be kept, in every list."""
    for chosen, said in (
        ("newest", "Nobody has asked an agent in this time."),
        ("unanswered", "Nothing answered no question of this time."),
        ("agents", "Nobody has asked an agent in this time."),
        ("groups", "Nobody who asked is in a group."),
    ):
        page = open_questions(house, desk, list=chosen)
        assert said in html_of(page)
        assert "Words are kept until somebody erases them" in html_of(page)
        assert not page.get("vega_lite_chart")
    assert retention_in_words(30).startswith("Words are kept for 30 days")


def test_questions_are_listed_counted_narrowed_and_exported(house: House, desk: Desk) -> None:
    """Newest first with what came of each; every filter leaves its own, and the file has what the list has."""
    first = desk.ask(FERRY, userEmail=ADA)["messageId"]
    desk.ask(ZEPPELIN, userEmail=ADA)
    desk.ask("Do dogs travel free?", userEmail=BEN)
    feedback = {"feedback": "NEGATIVE", "descriptiveFeedback": f"Too short. {HOSTILE}"}
    body = {"agentId": desk.agent_id, "messageId": first, "messageFeedback": feedback}
    done(house.service.call("copilots/provideMessageFeedback", body))
    crew = a_group(house.service, f"Crew {uuid4().hex[:6]}", user(BEN))
    page = open_questions(house, desk)
    assert rows(page)["Question"].tolist() == ["Do dogs travel free?", ZEPPELIN, FERRY]
    assert rows(page)["Reply"].tolist() == ["Answered from 1 source", "Nothing answered", "Answered from 1 source"]
    assert rows(page)["Thumbs"].tolist() == ["", "", "Thumbs down"]
    assert rows(page)["Who"].tolist() == ["Ben", "Ada", "Ada"]
    said = "3 questions of 2 people: 1 not answered, 0 failed, 0 thumbs up, 1 thumbs down."
    assert said in html_of(page)
    assert totals(page) == {"Questions": 3, "Nothing answered": 1, "Thumbs down": 1}
    for narrowed, left in (
        ({"reply": "unanswered"}, [ZEPPELIN]),
        ({"thumbs": "negative"}, [FERRY]),
        ({"words": "DOGS"}, ["Do dogs travel free?"]),
        ({"group": f"group:{crew['id']}"}, ["Do dogs travel free?"]),
        ({"over": "week"}, ["Do dogs travel free?", ZEPPELIN, FERRY]),
    ):
        assert rows(open_questions(house, desk, **narrowed))["Question"].tolist() == left, narrowed
    assert "No question is like that." in html_of(open_questions(house, desk, words="airship"))
    assert rows(open_questions(house, desk, list="groups")).values.tolist() == [[crew["name"], 1, 0, 0, 0, 0, 1]]
    page = choose(open_questions(house, desk, list="agents"), 0)
    assert rows(page)["Question"].tolist() == ["Do dogs travel free?", ZEPPELIN, FERRY]
    file = press(page, "Export as CSV").session_state["export.kept"].data.decode("utf-8-sig")
    [*_, exported] = csv.DictReader(io.StringIO(file))
    assert (exported["Question"], exported["Email"], exported["Sources"]) == (FERRY, ADA, "Ferries")
    assert "noon" in exported["Text of the reply"]
    assert exported["Comment"] == feedback["descriptiveFeedback"]
    shown = open_one(house, first)
    assert f"Thumbs down: Too short. {html.escape(HOSTILE)}" in shown
    assert f'href="documents?document={desk.document_id}&amp;part=text&amp;chunk=0' in shown
    assert "noon" in shown


def totals(page: AppTest) -> dict[str, int]:
    """What the chart's lines come to."""
    [chart] = page.get("vega_lite_chart")
    table = drawn(chart)
    _at, line, count = table.columns
    return table.groupby(line)[count].sum().to_dict()


def test_what_nothing_answered_leads_to_what_can_be_done(house: House, desk: Desk) -> None:
    """The most asked comes first; it opens with links that search, upload and ask again, and is kept in a set."""
    for words, email in ((ZEPPELIN, ADA), (ZEPPELIN.lower().rstrip("?"), BEN), (f"{HOSTILE} gyrocopter", ADA)):
        desk.ask(words, userEmail=email)
    page = open_questions(house, desk, list="unanswered")
    assert rows(page)[["Asked", "People"]].values.tolist() == [[2, 2], [1, 1]]
    assert "evil" not in markdown_of(page)
    page = choose(page, 0)
    shown = html_of(page)
    assert "Find the missing document" in [each.value for each in page.subheader]
    assert f"search?q=what+does+a+zeppelin+pilot+earn+in+peru&amp;in={desk.collection_id}" in shown
    assert f'href="ingestion?collection={desk.collection_id}"' in shown
    assert "show=questions&amp;conversation=" in shown
    upload = house.open("ingestion", collection=desk.collection_id)
    assert desk.collection_id in [box.value for box in upload.selectbox]
    page = answer(press(page, "Add to an evaluation set"), "Add to an evaluation set", "Add")
    [one] = house.client.admin.evaluation_sets.list(agent_id=desk.agent_id)
    assert cases_of(house, one) == {ZEPPELIN.lower().rstrip("?"): {}}
    assert f"set={one.evaluation_set_id}" in html_of(page)
    page = choose(open_questions(house, desk, list="unanswered"), 0, 1)
    assert f"{html.escape(HOSTILE)} gyrocopter</h2>" in html_of(page)
    assert "<img" not in html_of(page)
    page = answer(press(page, "Add to an evaluation set"), "Add to an evaluation set", "Add")
    assert len(cases_of(house, one)) == 2
    press(page, "Add to an evaluation set")
    house.client.admin.evaluation_sets.delete(one.evaluation_set_id)
    page.button(key="answers.add.submit").click().run()
    assert not page.exception
    assert "This set has been deleted." in html_of(page)
    conversation = re.search(r"conversation=([0-9a-f-]{36})", html_of(page))
    assert conversation is not None
    page = open_questions(house, conversation=conversation[1])
    assert len(rows(page)) == 1
    page.get_by_key("filter.show").set_value("agents").run()
    assert "conversation" not in page.query_params


def test_a_reply_that_the_admin_may_not_read_is_not_shown(house: House, desk: Desk) -> None:
    """Not in the list, not in the file, not on its page; the question is, and somebody else's admin sees nothing."""
    a_person(house.service, CLEO, name="Cleo", isAdmin=True)
    question = desk.ask(FERRY, userEmail=ADA)["messageId"]
    desk.share(ADA)
    page = open_questions(house, desk, signed_in_as=CLEO)
    assert rows(page)[["Question", "Reply"]].values.tolist() == [[FERRY, "Not shown to you"]]
    page = open_questions(house, question=question, signed_in_as=CLEO)
    shown = html_of(page)
    assert "it rests on a document that you may not read" in shown
    assert "noon" not in shown
    assert desk.document_id not in shown
    assert "noon" in open_one(house, question)
    another = another_organization(house.service, admin_email=f"admin@{uuid4().hex[:8]}.test")
    made = {"name": "Theirs", "apiAccessEnabled": True}
    theirs = done(house.service.call("admin/agents/create", made, api_key=another))["agentId"]
    everybody = {"agentId": theirs, "principals": [], "organizationWide": True}
    done(house.service.call("admin/agents/deploy", everybody, api_key=another))
    asked = Desk(house.service, theirs, "", "").ask("Is it theirs?", api_key=another)["messageId"]
    assert "This question isn&#x27;t in the log." in open_one(house, asked)
    assert "Nobody has asked an agent in this time." in html_of(open_questions(house, of=theirs))
    assert "Is it theirs?" not in rows(open_questions(house))["Question"].tolist()


def test_erased_words_and_wrong_addresses_are_said_calmly(house: House, desk: Desk) -> None:
    """Who asked which agent and when stays; nothing can be searched for or kept without words."""
    question = desk.ask(FERRY, userEmail=ADA)
    with house.service.owner_connection() as connection:
        connection.execute("DELETE FROM turns WHERE turn_id = %s", [question["messageId"]])
    page = open_questions(house, desk)
    assert rows(page)["Question"].tolist() == [ERASED]
    shown = open_one(house, question["messageId"])
    assert "The words of this question and its reply were erased." in shown
    assert "search?q=" not in shown
    for address in ("nothing", str(uuid4()), "a\0b"):
        assert "This question isn&#x27;t in the log." in open_one(house, address)
    assert "This conversation isn&#x27;t here." in html_of(open_questions(house, conversation=str(uuid4())))


def test_a_member_sees_no_question(house: House, desk: Desk) -> None:
    """Neither the list, nor one by its address."""
    question = desk.ask(FERRY, userEmail=ADA)["messageId"]
    for address in ({}, {"question": str(question)}):
        page = house.open("agents", signed_in_as=ADA, show="questions", **address)
        assert "This page is for admins." in html_of(page)
        assert "ferry" not in html_of(page)


def test_equal_questions_are_counted_together() -> None:
    """Whatever their case, spaces and last mark; of as many the one that more people asked, then the newest."""

    def asked(words: str | None, person: str, minute: int) -> LoggedQuestion:
        return LoggedQuestion(
            message_id=uuid4(),
            conversation_id=uuid4(),
            at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute),
            agent_id=AGENT,
            agent_name="Desk",
            actor=UserPrincipal(id=person, email=f"{person}@example.test", name=person),
            message=words,
            outcome=Outcome.UNANSWERED,
            withheld=False,
        )

    found = rank_unanswered(
        [
            asked("One?", "ada", 1),
            asked(" one", "ada", 2),
            asked("Two?", "ada", 3),
            asked("two  ?", "ben", 4),
            asked("Three", "ada", 5),
            asked(None, "ada", 6),
        ]
    )
    assert [(one.question.message, one.count, one.people_count) for one in found] == [
        ("two  ?", 2, 2),
        (" one", 2, 1),
        ("Three", 1, 1),
    ]


def test_an_answer_set_is_run_again_and_the_replies_are_compared(house: House, desk: Desk) -> None:
    """A run says of each question whether it was answered and what it cites; after a change both replies are shown."""
    one = house.client.admin.evaluation_sets.create(f"Set {uuid4().hex[:6]}", agent_id=desk.agent_id)
    notes = house.client.catalog.get_document(desk.document_id).document_external_id
    evaluation.add_judgements(house.client, one.evaluation_set_id, {FERRY: {notes: 2}, f"{ZEPPELIN} {HOSTILE}": {}})
    listed = house.open("agents", agent=desk.agent_id, part="answers")
    assert rows(listed)[["Name", "Questions", "Runs"]].values.tolist() == [[one.name, 2, 0]]
    where = {"agent": desk.agent_id, "part": "answers", "set": str(one.evaluation_set_id)}
    page = press(house.open("agents", **where), "Run")
    assert result_of(page, FERRY, "Result") == "Answered, expected documents cited: 100%, groundedness: 100%"
    assert result_of(page, ZEPPELIN, "Result") == "Nothing answered"
    assert next(each.value for each in page.dataframe if "Agent" in each.value)["Groundedness"].tolist() == ["1.000"]
    assert "evil" not in markdown_of(page)
    press(house.open("agents", agent=desk.agent_id), "Copy")
    [copy] = [str(one.agent_id) for one in house.client.admin.agents.list(query="(copy)")]
    house.client.admin.agents.update(copy, instructions=f"Be brief. {HOSTILE}")
    draft = house.open("agents", **where)
    draft.selectbox(key="sets.agent").set_value(copy)
    draft = press(draft, "Run again")
    assert "Other settings: instructions." in html_of(draft)
    assert "follows no instructions" in html_of(draft)
    assert f"Be brief. {HOSTILE}" in [each.value for each in draft.text]
    assert "0 worse, 0 better, 2 as before." in html_of(draft)
    assert not list(house.client.admin.grants.list({"resourceId": copy, "resourceType": "AGENT"}))
    done(house.service.call("catalog/deleteDocument", {"documentId": desk.document_id}))
    page.text_input(key="sets.note").set_value("Without the notes")
    page = press(page, "Run again")
    assert "1 worse, 0 better, 1 as before." in html_of(page)
    assert result_of(page, FERRY, "After") == "Nothing answered, expected documents cited: 0%"
    assert result_of(page, FERRY, "Change") == "-1.000"
    assert page.selectbox(key="sets.agent").value == str(desk.agent_id)
    changes = next(number for number, table in enumerate(page.dataframe) if "Change" in table.value)
    page = choose(page, changes, 0)
    assert page.query_params["q"] in (FERRY, [FERRY])
    shown = html_of(page)
    assert "Without the notes" in shown
    assert f"Not cited: {notes}" in shown
    assert "This reply isn&#x27;t shown to you" in shown
    assert "Nothing that you may read here answers this" in shown
    page.text_area[0].set_value(f"at noon\n\n at noon \n{HOSTILE}")
    page.text_area[1].set_value(f"At noon. {HOSTILE}")
    page = press(page, "Save")
    [case] = house.client.admin.evaluation_sets.list_cases(one.evaluation_set_id, query=FERRY)
    assert (case.note, case.grades) == (f"At noon. {HOSTILE}", {notes: 2})
    assert case.statements == ["at noon", HOSTILE]
    assert "Not said: at noon" in html_of(page)
    page.checkbox[0].check()
    page = press(page, "Save")
    assert "has relevant documents or statements" in html_of(page)
    page = press(press(page, "Remove from the set"), "Remove it")
    assert list(cases_of(house, one)) == [f"{ZEPPELIN} {HOSTILE}"]
    assert "q" not in page.query_params
    page = house.open("quality", part="sets", set=str(one.evaluation_set_id), q=f"{ZEPPELIN} {HOSTILE}")
    assert not page.exception
    assert html.escape(HOSTILE) in html_of(page)
    assert "<img" not in html_of(page)


def result_of(page: AppTest, question: str, column: str) -> str:
    """What the list of results says in a column about a question."""
    table = next(each.value for each in page.dataframe if column in each.value)
    return table[table["Question"].str.startswith(question)][column].item()
