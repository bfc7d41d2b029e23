"""The page of agents in its states, on the real service."""

from uuid import uuid4

import pytest

from carrel.wire.agents import AgentDefinition, AgentRetrieval
from tests.app.conftest import House
from tests.app.pages import MARKUP, Page
from tests.service.directory import on_rows, user

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
    """An empty page tells what an agent is; a new one is made by its name alone, and its page is opened."""
    page = new_house.open("agents")
    assert "There is no agent yet." in page.shown
    page = page.press("New agent")
    assert "An agent needs a name." in page.press("Create").shown
    page.text_input(key="new.name").set_value("Harbour desk")
    page = page.press("Create")
    (made,) = new_house.client.admin.agents.list()
    assert page.address["agent"] == str(made.agent_id)
    assert "Harbour desk" in page.shown
    assert "It answers from no collection" in page.shown


def test_what_is_written_is_saved_and_the_list_tells_it(house: House, agent: AgentDefinition) -> None:
    name = f"Canteen {uuid4()}"
    chosen = house.add_collection()
    page = open_agent(house, agent)
    assert "follows no instructions" in page.shown
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
    """The first Save says so and keeps what was written; a second one means it."""
    page = open_agent(house, agent)
    house.client.admin.agents.update(agent.agent_id, instructions="Theirs.")
    box = f"agent.{agent.agent_id}.instructions"
    page.text_area(key=box).set_value("Mine.")
    page.press("Save")
    assert "has changed this since you opened it" in page.shown
    assert "Theirs." in str(page.radio(key=f"agent.{agent.agent_id}.form.choice.instructions").proto)
    assert as_it_is(house, agent).instructions == "Theirs."
    assert page.text_area(key=box).value == "Mine."
    page.press("Save")
    assert as_it_is(house, agent).instructions == "Mine."


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


def test_deploying_says_who_gains_and_who_loses_and_asks_first(house: House, agent: AgentDefinition) -> None:
    """Nothing changes before it is confirmed; then those chosen may use the agent, and nobody else."""
    house.add_people(VERA, OTTO)
    house.client.admin.agents.deploy(agent.agent_id, [user(OTTO)])
    page = open_agent(house, agent, "deploy")
    key = f"agent.{agent.agent_id}.who"
    page.text_input(key=f"{key}.typed").set_value("vera").run()
    page.button(key=f"{key}.add").click().run()
    page.multiselect(key=f"{key}.kept").set_value([f"user:{VERA}"]).run()
    assert "May use it from now on: Vera" in page.shown
    assert "May not use it any more: Otto" in page.shown
    page = page.press("Save access …")
    assert users_of(house, agent) == ({"Otto"}, False)
    page.answer("Save access …", "Save")
    assert users_of(house, agent) == ({"Vera"}, False)
    page = open_agent(house, agent, "deploy")
    page.toggle(key=f"agent.{agent.agent_id}.everybody").set_value(True).run()
    page.press("Save access …").answer("Save access …", "Save")
    assert users_of(house, agent) == ({"Vera"}, True)


def test_who_may_search_none_of_its_collections_is_named(house: House, agent: AgentDefinition) -> None:
    house.add_people(VERA)
    collection = house.add_collection()
    house.client.admin.agents.update(agent.agent_id, collection_ids=[collection])
    house.client.admin.agents.deploy(agent.agent_id, [user(VERA)])
    assert "Let them read one first: Vera" in open_agent(house, agent, "deploy").shown
    house.grant("DOCUMENT_COLLECTION", collection, user(VERA))
    assert "Let them read one first" not in open_agent(house, agent, "deploy").shown


def test_a_draft_and_an_agent_of_others_are_tried_at_once(house, agent):
    """A draft stays nobody's, and an agent of others theirs; the list of recent changes has no test."""
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
    assert "isn&#x27;t deployed to you" in page.shown
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
    assert "This agent isn&#x27;t here." in open_agent(house, agent).shown


def test_names_of_others_are_never_markdown(house: House) -> None:
    made = house.client.admin.agents.create(MARKUP, description=MARKUP, instructions=MARKUP)
    for part in ("define", "deploy", "try"):
        open_agent(house, made, part).assert_shown_as_text(MARKUP)
