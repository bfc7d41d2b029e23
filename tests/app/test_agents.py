"""The page of agents on the real service."""

import csv
import html
import io
import re
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from app.agents.questions import ERASED, rank_unanswered, retention_in_words
from carrel import evaluation
from carrel.wire.agents import AgentDefinition, AgentRetrieval
from carrel.wire.common import UserPrincipal
from carrel.wire.question_log import LoggedQuestion, Outcome
from tests.app.conftest import House
from tests.app.pages import MARKUP, Page, drawn
from tests.service.conversations import ADA, BEN, Desk, a_desk
from tests.service.directory import a_group, another_organization, done, on_rows, user

VERA, OTTO = "vera@example.test", "otto@example.test"


def open_agent(house: House, agent: AgentDefinition, part: str = "define", **options) -> Page:
    return house.open("agents", agent=str(agent.agent_id), part=part, **options)


def as_it_is(house: House, agent: AgentDefinition) -> AgentDefinition:
    return next(one for one in house.client.admin.agents.list(query=agent.name[:100]) if one.agent_id == agent.agent_id)


def users_of(house: House, agent: AgentDefinition) -> tuple[set[str], bool]:
    page = next(house.client.admin.grants.list({"resourceId": str(agent.agent_id), "resourceType": "AGENT"}).pages())
    return {grant.principal.name for grant in page.grants}, page.organization_wide


@pytest.fixture
def agent(house: House) -> AgentDefinition:
    return house.client.admin.agents.create(f"Desk {uuid4()}", description="Knows the ferry.")


def test_without_agents_the_page_says_what_they_are_and_makes_the_first(new_house: House) -> None:
    page = new_house.open("agents")
    assert "No agents yet." in page.shown
    page = page.press("New agent")
    assert "Enter a name for the agent." in page.press("Create").shown
    page.text_input(key="new.name").set_value("Harbour desk")
    page = page.press("Create")
    (made,) = new_house.client.admin.agents.list()
    assert page.address["agent"] == str(made.agent_id)
    assert "Harbour desk" in page.shown
    assert "This agent has no collections" in page.shown


def test_what_is_written_is_saved_and_the_list_tells_it(house: House, agent: AgentDefinition) -> None:
    name = f"Canteen {uuid4()}"
    chosen = house.add_collection()
    page = open_agent(house, agent)
    assert "ignores instructions" in page.shown
    key = f"agent.{agent.agent_id}"
    page.text_input(key=f"{key}.name").set_value(name)
    page.text_area(key=f"{key}.instructions").set_value("Answer in one sentence.")
    page.selectbox(key=f"{key}.model").set_value("carrel-extractive")
    page.multiselect(key=f"{key}.collections").set_value([chosen])
    page.text_area(key=f"{key}.starters").set_value("When does it open?\n\n What is there today? \n")
    page.checkbox(key=f"{key}.api").set_value(True)
    page.checkbox(key=f"{key}.searches").set_value(True)
    page.checkbox(key=f"{key}.enable_smart_filtering").set_value(True)
    page = page.press("Save")
    saved = next(one for one in house.client.admin.agents.list(query=name))
    assert (saved.instructions, saved.model) == ("Answer in one sentence.", "carrel-extractive")
    assert [str(one) for one in saved.collection_ids] == [chosen]
    assert saved.starter_questions == ["When does it open?", "What is there today?"]
    assert saved.api_access_enabled
    assert saved.answers_searches
    assert saved.retrieval == AgentRetrieval(enable_smart_filtering=True)
    assert saved.description == agent.description
    assert house.open("agents", name=name).column("Name") == [name]
    # A name that is taken is refused in words.
    other = house.client.admin.agents.create(f"Other {uuid4()}")
    next(one for one in page.text_input if one.label == "Name").set_value(other.name)
    assert "carrel-problem" in page.press("Save").shown
    assert "Request id" in page.shown


def test_what_somebody_else_changed_meanwhile_is_not_overwritten_unawares(house: House, agent: AgentDefinition) -> None:
    """The first Save warns and keeps the input; a second Save overwrites."""
    page = open_agent(house, agent)
    house.client.admin.agents.update(agent.agent_id, instructions="Theirs.")
    box = f"agent.{agent.agent_id}.instructions"
    page.text_area(key=box).set_value("Mine.")
    page.text_area(key=f"agent.{agent.agent_id}.description").set_value("My own.")  # which they left alone
    page.press("Save")
    assert "description" not in str([one.key for one in page.radio])
    assert "changed this after you opened it" in page.shown
    assert "Theirs." in str(page.radio(key=f"agent.{agent.agent_id}.form.choice.instructions").proto)
    assert as_it_is(house, agent).instructions == "Theirs."
    assert page.text_area(key=box).value == "Mine."
    page.press("Save")
    saved = as_it_is(house, agent)
    assert (saved.instructions, saved.description) == ("Mine.", "My own.")


def test_earlier_settings_are_compared_and_restored(house: House, agent: AgentDefinition) -> None:
    update = house.client.admin.agents.update
    update(agent.agent_id, instructions="Be brief.\nQuote.")
    update(agent.agent_id, instructions="Be kind.\nQuote.")
    page = open_agent(house, agent, "versions")
    assert page.selectbox(key=f"agent.{agent.agent_id}.earlier").value.number == 2
    assert [one.value for one in page.code] == ["@@ Instructions @@\n- Be kind.\n+ Be brief."]
    page.press("Restore …").answer("Restore …", "Restore")
    assert as_it_is(house, agent).instructions == "Be brief.\nQuote."
    kept = list(house.client.admin.agents.list_versions(agent.agent_id))
    assert [one.number for one in kept] == [4, 3, 2, 1]
    assert kept[0].version == kept[2].version
    [entry] = next(house.client.admin.audit_log.query(target_id=str(agent.agent_id), page_size=1).pages()).entries
    page = house.open("audit_log", entry=str(entry.audit_log_id))
    assert "Be kind." in page.shown
    on_rows(house.service, "DELETE FROM agent_versions", more="AND version_no = 4")
    update(agent.agent_id, instructions="Be short.")
    kept = list(house.client.admin.agents.list_versions(agent.agent_id))
    assert [one.instructions for one in kept[:3]] == ["Be short.", "Be brief.\nQuote.", "Be kind.\nQuote."], "erased"


def test_access_to_an_agent_is_changed_as_the_dialog_says(house: House, agent: AgentDefinition) -> None:
    """Before saving, access stays; afterwards only the chosen people may use the agent."""
    house.add_people(VERA, OTTO)
    house.client.admin.agents.deploy(agent.agent_id, [user(OTTO)])
    page = open_agent(house, agent, "deploy").press("Manage access")
    page.text_input(key="grants.added.typed").set_value("vera").run()
    page = page.press("Remove")
    assert f"Vera will be able to use “{agent.name}”." in page.shown
    assert "Otto loses access." in page.shown
    assert users_of(house, agent) == ({"Otto"}, False)
    page.press_key("change.submit")
    assert users_of(house, agent) == ({"Vera"}, False)
    page.press("Manage access").checkbox(key="everybody.False").check().run().press_key("change.submit")
    assert users_of(house, agent) == ({"Vera"}, True)


def test_who_may_search_none_of_its_collections_is_named(house: House, agent: AgentDefinition) -> None:
    house.add_people(VERA)
    collection = house.add_collection()
    house.client.admin.agents.update(agent.agent_id, collection_ids=[collection])
    crew = {"type": "group", "id": house.add_group("Crew", VERA)}
    house.client.admin.agents.deploy(agent.agent_id, [user(VERA), crew])
    named = open_agent(house, agent, "deploy").shown.partition("Give them access to a collection: ")[2].splitlines()[0]
    assert ("Vera" in named, "Crew" in named) == (True, True)
    where = {"resourceId": collection, "resourceType": "DOCUMENT_COLLECTION"}
    for grants, wide in (([user(VERA), crew], False), ([], True)):
        house.client.admin.grants.set(
            where, [{"principal": one, "role": "VIEWER"} for one in grants], organization_wide=wide
        )
        assert "Give them access to a collection" not in open_agent(house, agent, "deploy").shown


def test_a_draft_and_an_agent_of_others_are_tried_at_once(house, agent):
    collection = house.add_collection()
    house.load("Ferries", "The ferry to Northlight leaves at nine.", collection_id=collection)
    house.client.admin.agents.update(agent.agent_id, collection_ids=[collection])
    page = open_agent(house, agent, "try")
    page.text_area(key="try.question").set_value("When does the ferry to Northlight leave?")
    assert "leaves at nine" in page.press("Ask").shown
    assert users_of(house, agent) == (set(), False)
    assert agent.name not in house.open("who_can_read").column("Name")
    house.add_people(VERA)
    house.client.admin.agents.deploy(agent.agent_id, [user(VERA)])
    page = open_agent(house, agent, "try")
    assert "You have no access to this agent" in page.shown
    page.text_area(key="try.question").set_value("When does the ferry to Northlight leave?")
    page = page.press("Ask")
    assert "leaves at nine" in page.shown
    assert "carrel-sources" in page.shown
    assert users_of(house, agent) == ({"Vera"}, False)
    [change] = [row for row in house.open("who_can_read").rows() if row["Name"] == agent.name]
    assert change["Latest change"].startswith("admin gave Vera Viewer access")


def test_an_agent_is_deleted_after_being_asked(house: House, agent: AgentDefinition) -> None:
    page = open_agent(house, agent).press("Delete …")
    assert "People keep their conversations" in page.shown
    page.answer("Delete …", "Cancel")
    assert as_it_is(house, agent)
    open_agent(house, agent).press("Delete …").answer("Delete …", "Delete")
    assert not list(house.client.admin.agents.list(query=agent.name))
    assert "This agent does not exist." in open_agent(house, agent).shown


def test_names_of_others_are_never_markdown(house: House) -> None:
    made = house.client.admin.agents.create(MARKUP, description=MARKUP, instructions=MARKUP)
    for part in ("define", "deploy", "try"):
        open_agent(house, made, part).assert_shown_as_text(MARKUP)


FERRY, ZEPPELIN = "When does the ferry to Northlight leave?", "What does a zeppelin pilot earn in Peru?"
CLEO = "cleo@example.test"
AGENT = uuid4()


@pytest.fixture
def desk(house: House) -> Desk:
    house.add_people(ADA, BEN)
    return a_desk(house.service, f"Desk {uuid4().hex[:6]}")


def open_questions(house: House, desk: Desk | None = None, **address) -> Page:
    if desk is not None:
        address["of"] = desk.agent_id
    return house.open("agents", show="questions", **address)


def open_one(house: House, question_id: object, **options) -> str:
    return open_questions(house, question=str(question_id), **options).shown


def test_before_anybody_asks_the_page_says_what_will_appear(house: House, desk: Desk) -> None:
    for chosen, said in (
        ("newest", "No questions in this period."),
        ("unanswered", "Every question in this period was answered."),
        ("agents", "No questions in this period."),
        ("groups", "None of the people who asked is in a group."),
    ):
        page = open_questions(house, desk, list=chosen)
        assert said in page.shown
        assert "They are kept until someone erases them" in page.shown
        assert not page.get("vega_lite_chart")
    assert retention_in_words(30).startswith("Texts are kept for 30 days")


def test_questions_are_listed_counted_narrowed_and_exported(house: House, desk: Desk) -> None:
    first = desk.ask(FERRY, userEmail=ADA)["messageId"]
    desk.ask(ZEPPELIN, userEmail=ADA)
    desk.ask("Do dogs travel free?", userEmail=BEN)
    feedback = {"feedback": "NEGATIVE", "descriptiveFeedback": f"Too short. {MARKUP}"}
    body = {"agentId": desk.agent_id, "messageId": first, "messageFeedback": feedback}
    done(house.service.call("copilots/provideMessageFeedback", body))
    crew = a_group(house.service, f"Crew {uuid4().hex[:6]}", user(BEN))
    page = open_questions(house, desk)
    assert page.column("Question") == ["Do dogs travel free?", ZEPPELIN, FERRY]
    assert page.column("Reply") == ["Answered from 1 source", "Not answered", "Answered from 1 source"]
    assert page.column("Thumbs") == ["", "", "Thumbs down"]
    assert page.column("Person") == ["Ben", "Ada", "Ada"]
    assert "3 questions from 2 people: 1 not answered, 0 failed, 0 thumbs up, 1 thumbs down." in page.shown
    assert totals(page) == {"Questions": 3, "Not answered": 1, "Thumbs down": 1}
    for narrowed, left in (
        ({"reply": "unanswered"}, [ZEPPELIN]),
        ({"thumbs": "negative"}, [FERRY]),
        ({"words": "DOGS"}, ["Do dogs travel free?"]),
        ({"group": f"group:{crew['id']}"}, ["Do dogs travel free?"]),
        ({"over": "week"}, ["Do dogs travel free?", ZEPPELIN, FERRY]),
    ):
        assert open_questions(house, desk, **narrowed).column("Question") == left, narrowed
    assert "No questions match." in open_questions(house, desk, words="airship").shown
    groups = open_questions(house, desk, list="groups").rows()
    assert [list(row.values()) for row in groups] == [[crew["name"], 1, 0, 0, 0, 0, 1]]
    page = open_questions(house, desk, list="agents").choose()
    assert page.column("Question") == ["Do dogs travel free?", ZEPPELIN, FERRY]
    [*_, exported] = csv.DictReader(io.StringIO(page.press("Export as CSV").exported))
    assert (exported["Question"], exported["Email"], exported["Sources"]) == (FERRY, ADA, "Ferries")
    assert "noon" in exported["Text of the reply"]
    assert exported["Comment"] == feedback["descriptiveFeedback"]
    shown = open_one(house, first)
    assert f"Thumbs down: Too short. {html.escape(MARKUP)}" in shown
    assert f'href="documents?document={desk.document_id}&amp;part=text&amp;chunk=0' in shown
    assert "noon" in shown


def totals(page: Page) -> dict[str, int]:
    table = drawn(*page.get("vega_lite_chart"))
    _at, line, count = table.columns
    return table.groupby(line)[count].sum().to_dict()


def test_what_nothing_answered_leads_to_what_can_be_done(house: House, desk: Desk) -> None:
    for words, email in ((ZEPPELIN, ADA), (ZEPPELIN.lower().rstrip("?"), BEN), (f"{MARKUP} gyrocopter", ADA)):
        desk.ask(words, userEmail=email)
    page = open_questions(house, desk, list="unanswered")
    assert page.cells("Asked", "People") == [(2, 2), (1, 1)]
    assert "evil" not in page.as_markdown
    shown = page.choose().shown
    assert "Find the missing document" in [each.value for each in page.subheader]
    assert f"search?q=what+does+a+zeppelin+pilot+earn+in+peru&amp;in={desk.collection_id}" in shown
    assert f'href="ingestion?collection={desk.collection_id}"' in shown
    assert "show=questions&amp;conversation=" in shown
    upload = house.open("ingestion", collection=desk.collection_id)
    assert desk.collection_id in [box.value for box in upload.selectbox]
    page = page.press("Add to an evaluation set").answer("Add to an evaluation set", "Add")
    [one] = house.client.admin.evaluation_sets.list(agent_id=desk.agent_id)
    assert house.cases_of(one.evaluation_set_id) == {ZEPPELIN.lower().rstrip("?"): {}}
    assert f"set={one.evaluation_set_id}" in page.shown
    page = open_questions(house, desk, list="unanswered").choose(1)
    page.assert_shown_as_text(MARKUP)
    assert f"{html.escape(MARKUP)} gyrocopter</h2>" in page.shown
    page = page.press("Add to an evaluation set").answer("Add to an evaluation set", "Add")
    assert len(house.cases_of(one.evaluation_set_id)) == 2
    page.press("Add to an evaluation set")
    house.client.admin.evaluation_sets.delete(one.evaluation_set_id)
    page.press_key("answers.add.submit")
    assert "This set was deleted." in page.shown
    conversation = re.search(r"conversation=([0-9a-f-]{36})", page.shown)
    assert conversation is not None
    page = open_questions(house, conversation=conversation[1])
    assert len(page.rows()) == 1
    page.get_by_key("filter.show").set_value("agents").run()
    assert "conversation" not in page.query_params
    house.client.document_collections.delete_document_collection(desk.collection_id)
    page = open_questions(house, desk, list="unanswered")
    assert [name.partition(" (")[2] for name in page.column("Agent")] == ["no collections)"] * 2
    assert "This agent has no collections, or they were deleted, so it finds nothing." in page.choose().shown


def test_a_reply_that_the_admin_may_not_read_is_not_shown(house: House, desk: Desk) -> None:
    house.add_people(CLEO, is_admin=True)
    question = desk.ask(FERRY, userEmail=ADA)["messageId"]
    desk.share(ADA)
    assert open_questions(house, desk, signed_in_as=CLEO).cells("Question", "Reply") == [(FERRY, "Hidden from you")]
    shown = open_one(house, question, signed_in_as=CLEO)
    assert "it uses a document that you cannot read" in shown
    assert "noon" not in shown
    assert desk.document_id not in shown
    assert "noon" in open_one(house, question)
    another = another_organization(house.service, admin_email=f"admin@{uuid4().hex[:8]}.test")
    made = {"name": "Theirs", "apiAccessEnabled": True}
    theirs = done(house.service.call("admin/agents/create", made, api_key=another))["agentId"]
    everybody = {"agentId": theirs, "principals": [], "organizationWide": True}
    done(house.service.call("admin/agents/deploy", everybody, api_key=another))
    asked = Desk(house.service, theirs, "", "").ask("Is it theirs?", api_key=another)["messageId"]
    assert "This question is not in the log." in open_one(house, asked)
    assert "No questions in this period." in open_questions(house, of=theirs).shown
    assert "Is it theirs?" not in open_questions(house).column("Question")


def test_erased_words_and_wrong_addresses_are_said_calmly(house: House, desk: Desk) -> None:
    question = desk.ask(FERRY, userEmail=ADA)
    house.service.execute("DELETE FROM turns WHERE turn_id = %s", [question["messageId"]])
    assert open_questions(house, desk).column("Question") == [ERASED]
    shown = open_one(house, question["messageId"])
    assert "The text of this question and its reply was erased." in shown
    assert "search?q=" not in shown
    for address in ("nothing", str(uuid4()), "a\0b"):
        assert "This question is not in the log." in open_one(house, address)
    assert "This conversation does not exist." in open_questions(house, conversation=str(uuid4())).shown


def test_equal_questions_are_counted_together() -> None:
    """Case, spaces and the last punctuation mark don't matter; ties are ordered by people, then by time."""

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

    questions = [("One?", "ada"), (" one", "ada"), ("Two?", "ada"), ("two  ?", "ben"), ("Three", "ada"), (None, "ada")]
    found = rank_unanswered([asked(*question, minute) for minute, question in enumerate(questions)])
    assert [(one.question.message, one.count, one.people_count) for one in found] == [
        ("two  ?", 2, 2),
        (" one", 2, 1),
        ("Three", 1, 1),
    ]


def test_an_answer_set_is_run_again_and_the_replies_are_compared(house: House, desk: Desk) -> None:
    one = house.client.admin.evaluation_sets.create(f"Set {uuid4().hex[:6]}", agent_id=desk.agent_id)
    notes = house.client.catalog.get_document(desk.document_id).document_external_id
    evaluation.add_judgements(house.client, one.evaluation_set_id, {FERRY: {notes: 2}, f"{ZEPPELIN} {MARKUP}": {}})
    listed = house.open("agents", agent=desk.agent_id, part="answers")
    assert listed.cells("Name", "Questions", "Runs") == [(one.name, 2, 0)]
    where = {"agent": desk.agent_id, "part": "answers", "set": str(one.evaluation_set_id)}
    page = house.open("agents", **where).press("Run")
    assert result_of(page, FERRY, "Result") == "Answered, expected documents cited: 100%, groundedness: 100%"
    assert result_of(page, ZEPPELIN, "Result") == "Not answered"
    assert page.column("Groundedness", page.list_with("Agent")) == ["1.000"]
    assert "evil" not in page.as_markdown
    house.open("agents", agent=desk.agent_id).press("Copy")
    [copy] = [str(one.agent_id) for one in house.client.admin.agents.list(query="(copy)")]
    house.client.admin.agents.update(copy, instructions=f"Be brief. {MARKUP}")
    draft = house.open("agents", **where)
    draft.selectbox(key="sets.agent").set_value(copy)
    draft = draft.press("Run again")
    assert "Changed settings: instructions." in draft.shown
    assert "ignores instructions" in draft.shown
    assert f"Be brief. {MARKUP}" in draft.texts
    assert "0 worse, 0 better, 2 unchanged." in draft.shown
    assert not list(house.client.admin.grants.list({"resourceId": copy, "resourceType": "AGENT"}))
    done(house.service.call("catalog/deleteDocument", {"documentId": desk.document_id}))
    page.text_input(key="sets.note").set_value("Without the notes")
    page = page.press("Run again")
    assert "1 worse, 0 better, 1 unchanged." in page.shown
    assert result_of(page, FERRY, "After") == "Not answered, expected documents cited: 0%"
    assert result_of(page, FERRY, "Change") == "-1.000"
    assert page.selectbox(key="sets.agent").value == str(desk.agent_id)
    page = page.choose(table=page.list_with("Change"))
    assert page.address["q"] == FERRY
    shown = page.shown
    assert "Without the notes" in shown
    assert f"Not cited: {notes}" in shown
    assert "This reply is hidden" in shown
    assert "Nothing that you may read here answers this" in shown
    page.text_area[0].set_value(f"at noon\n\n at noon \n{MARKUP}")
    page.text_area[1].set_value(f"At noon. {MARKUP}")
    page = page.press("Save")
    [case] = house.client.admin.evaluation_sets.list_cases(one.evaluation_set_id, query=FERRY)
    assert (case.note, case.grades) == (f"At noon. {MARKUP}", {notes: 2})
    assert case.statements == ["at noon", MARKUP]
    assert "Missing statements: at noon" in page.shown
    page.checkbox[0].check()
    page = page.press("Save")
    assert "has relevant documents or statements" in page.shown
    page = page.press("Remove from set").press("Remove")
    assert list(house.cases_of(one.evaluation_set_id)) == [f"{ZEPPELIN} {MARKUP}"]
    assert "q" not in page.query_params
    page = house.open("quality", part="sets", set=str(one.evaluation_set_id), q=f"{ZEPPELIN} {MARKUP}")
    page.assert_shown_as_text(MARKUP)


def result_of(page: Page, question: str, name: str) -> str:
    [found] = [row[name] for row in page.rows(page.list_with(name)) if row["Question"].startswith(question)]
    return found
