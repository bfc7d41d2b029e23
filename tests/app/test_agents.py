"""The page of agents in its states, on the real service."""

import html
from typing import Any
from uuid import uuid4

import pytest
from streamlit.testing.v1 import AppTest

from carrel import Carrel
from carrel.wire.agents import AgentDefinition, AgentRetrieval
from tests.app.conftest import House, html_of, markdown_of
from tests.app.pressing import answer, press
from tests.oauth.flow import a_person

HOSTILE = "<img src=x onerror=alert(1)> **b** https://evil.example :material/home:"


def open_agent(house: House, agent: AgentDefinition, part: str = "define", **options: Any) -> AppTest:
    """Open the page of an agent."""
    page = house.open("agents", agent=str(agent.agent_id), part=part, **options)
    assert not page.exception
    return page


def as_it_is(client: Carrel, agent: AgentDefinition) -> AgentDefinition:
    """The agent as the service has it now."""
    return next(one for one in client.admin.agents.list(query=agent.name[:100]) if one.agent_id == agent.agent_id)


def users_of(client: Carrel, agent: AgentDefinition) -> tuple[set[str], bool]:
    """The names of who may use an agent, and whether everybody may."""
    page = next(client.admin.grants.list({"resourceId": str(agent.agent_id), "resourceType": "AGENT"}).pages())
    return {grant.principal.name for grant in page.grants}, page.organization_wide


@pytest.fixture
def agent(house: House) -> Any:
    """An agent of the test's own, deployed to nobody."""
    made = house.client.admin.agents.create(f"Desk {uuid4()}", description="Knows the ferry.")
    yield made
    if any(one.agent_id == made.agent_id for one in house.client.admin.agents.list()):
        house.client.admin.agents.delete(made.agent_id)


def test_without_agents_the_page_says_what_they_are_and_makes_the_first(house: House) -> None:
    """An empty page tells what an agent is; a new one is made by its name alone, and its page is opened."""
    page = house.open("agents")
    assert not page.exception
    assert "There is no agent yet." in html_of(page)
    page = press(page, "New agent")
    assert "An agent needs a name." in html_of(press(page, "Create"))
    page.text_input(key="new.name").set_value("Harbour desk")
    page = press(page, "Create")
    (made,) = house.client.admin.agents.list()
    assert page.query_params["agent"] in (str(made.agent_id), [str(made.agent_id)])
    assert "Harbour desk" in html_of(page)
    assert "It answers from no collection" in html_of(page)
    house.client.admin.agents.delete(made.agent_id)


def test_what_is_written_is_saved_and_the_list_tells_it(house: House, agent: AgentDefinition) -> None:
    """Every field of the form reaches the service, and the list has the new name."""
    name = f"Canteen {uuid4()}"
    collection = house.client.document_collections.create_document_collection(f"Handbook {uuid4()}")
    chosen = str(collection.document_collection_id)
    page = open_agent(house, agent)
    assert "follows no instructions" in html_of(page)
    key = f"agent.{agent.agent_id}"
    page.text_input(key=f"{key}.name").set_value(name)
    page.text_area(key=f"{key}.instructions").set_value("Answer in one sentence.")
    page.selectbox(key=f"{key}.model").set_value("carrel-extractive")
    page.multiselect(key=f"{key}.collections").set_value([chosen])
    page.checkbox(key=f"{key}.api").set_value(True)
    page.checkbox(key=f"{key}.enable_smart_filtering").set_value(True)
    page = press(page, "Save")
    saved = next(one for one in house.client.admin.agents.list(query=name))
    assert (saved.instructions, saved.model) == ("Answer in one sentence.", "carrel-extractive")
    assert [str(one) for one in saved.collection_ids] == [chosen]
    assert saved.api_access_enabled
    assert saved.retrieval == AgentRetrieval(enable_smart_filtering=True)
    assert saved.description == agent.description
    listed = house.open("agents", name=name).dataframe[0].value
    assert listed["Name"].tolist() == [name]


def test_what_somebody_else_changed_meanwhile_is_not_overwritten_unawares(house: House, agent: AgentDefinition) -> None:
    """The first Save says so and keeps what was written; a second one means it."""
    page = open_agent(house, agent)
    house.client.admin.agents.update(agent.agent_id, instructions="Theirs.")
    box = f"agent.{agent.agent_id}.instructions"
    page.text_area(key=box).set_value("Mine.")
    page = press(page, "Save")
    assert "Somebody else has changed this agent" in html_of(page)
    assert as_it_is(house.client, agent).instructions == "Theirs."
    assert page.text_area(key=box).value == "Mine."
    page = press(page, "Save")
    assert as_it_is(house.client, agent).instructions == "Mine."


def test_a_name_that_is_taken_is_refused_in_words(house: House, agent: AgentDefinition) -> None:
    """The service's reason stands on the page, with the request id to quote."""
    other = house.client.admin.agents.create(f"Other {uuid4()}")
    page = open_agent(house, agent)
    page.text_input(key=f"agent.{agent.agent_id}.name").set_value(other.name)
    page = press(page, "Save")
    assert "carrel-problem" in html_of(page)
    assert "Request id" in html_of(page)
    house.client.admin.agents.delete(other.agent_id)


def test_deploying_says_who_gains_and_who_loses_and_asks_first(house: House, agent: AgentDefinition) -> None:
    """Nothing changes before it is confirmed; then those chosen may use the agent, and nobody else."""
    house.client.admin.users.upsert(
        [{"email": "vera@example.test", "name": "Vera Quill"}, {"email": "otto@example.test", "name": "Otto Reed"}]
    )
    house.client.admin.agents.deploy(agent.agent_id, [{"type": "user", "email": "otto@example.test"}])
    page = open_agent(house, agent, "deploy")
    key = f"agent.{agent.agent_id}.who"
    page.text_input(key=f"{key}.typed").set_value("vera").run()
    page.button(key=f"{key}.add").click().run()
    page.multiselect(key=f"{key}.kept").set_value(["user:vera@example.test"]).run()
    assert "May use it from now on: Vera Quill" in html_of(page)
    assert "May not use it any more: Otto Reed" in html_of(page)
    page = press(page, "Save access …")
    assert users_of(house.client, agent) == ({"Otto Reed"}, False)
    answer(page, "Save access …", "Save")
    assert users_of(house.client, agent) == ({"Vera Quill"}, False)
    page = open_agent(house, agent, "deploy")
    page.toggle(key=f"agent.{agent.agent_id}.everybody").set_value(True).run()
    answer(press(page, "Save access …"), "Save access …", "Save")
    assert users_of(house.client, agent) == ({"Vera Quill"}, True)


def test_who_may_search_none_of_its_collections_is_named(house: House, agent: AgentDefinition) -> None:
    """An agent can answer them nothing, and says so to nobody else; who may search one is not named."""
    house.client.admin.users.upsert([{"email": "vera@example.test", "name": "Vera Quill"}])
    collection = house.client.document_collections.create_document_collection(f"Pier {uuid4()}").document_collection_id
    house.client.admin.agents.update(agent.agent_id, collection_ids=[collection])
    house.client.admin.agents.deploy(agent.agent_id, [{"type": "user", "email": "vera@example.test"}])
    page = open_agent(house, agent, "deploy")
    assert "Let them read one first: Vera Quill" in html_of(page)
    house.client.admin.grants.set(
        {"resourceId": str(collection), "resourceType": "DOCUMENT_COLLECTION"},
        [{"principal": {"type": "user", "email": "vera@example.test"}, "role": "VIEWER"}],
    )
    assert "Let them read one first" not in html_of(open_agent(house, agent, "deploy"))


def test_a_draft_is_tried_at_once_and_an_agent_of_others_once_deployed_to_me(
    house: House, agent: AgentDefinition
) -> None:
    """A draft stays nobody's; of an agent of others the page says so, deploys it beside them, and shows the reply."""
    collection = house.client.document_collections.create_document_collection(f"Pier {uuid4()}")
    house.client.catalog.upload_file(
        b"The ferry to Northlight leaves at nine.",
        file_name="ferry.txt",
        document_external_id=f"ferry-{uuid4()}",
        collection_id=collection.document_collection_id,
        await_vector_store_sync=True,
    )
    house.client.admin.agents.update(agent.agent_id, collection_ids=[collection.document_collection_id])
    page = open_agent(house, agent, "try")
    page.text_area(key="try.question").set_value("When does the ferry to Northlight leave?")
    assert "leaves at nine" in html_of(press(page, "Ask"))
    assert users_of(house.client, agent) == (set(), False)
    house.client.admin.users.upsert([{"email": "vera@example.test", "name": "Vera Quill"}])
    house.client.admin.agents.deploy(agent.agent_id, [{"type": "user", "email": "vera@example.test"}])
    page = open_agent(house, agent, "try")
    assert "isn&#x27;t deployed to you" in html_of(page)
    page = press(page, "Deploy it to me")
    assert "Vera Quill" in users_of(house.client, agent)[0]
    page.text_area(key="try.question").set_value("When does the ferry to Northlight leave?")
    page = press(page, "Ask")
    assert "leaves at nine" in html_of(page)
    assert "carrel-sources" in html_of(page)


def test_an_agent_is_deleted_after_being_asked(house: House, agent: AgentDefinition) -> None:
    """The dialog comes first, and Cancel leaves it; then it is gone, and its address says so."""
    page = press(open_agent(house, agent), "Delete …")
    assert "People keep their conversations" in html_of(page)
    answer(page, "Delete …", "Cancel")
    assert as_it_is(house.client, agent)
    answer(press(open_agent(house, agent), "Delete …"), "Delete …", "Delete")
    assert not list(house.client.admin.agents.list(query=agent.name))
    assert "This agent isn&#x27;t here." in html_of(open_agent(house, agent))


def test_names_of_others_are_never_markdown(house: House) -> None:
    """A hostile name, description and instruction is text everywhere on the page."""
    made = house.client.admin.agents.create(HOSTILE, description=HOSTILE, instructions=HOSTILE)
    for part in ("define", "deploy", "try"):
        page = open_agent(house, made, part)
        assert html.escape(HOSTILE) in html_of(page)
        assert "<img" not in html_of(page)
        assert "evil" not in markdown_of(page)
    house.client.admin.agents.delete(made.agent_id)


@pytest.mark.parametrize("address", ["no-such-agent", "0198c5b0-0000-7000-8000-000000000000"])
def test_an_address_of_nothing_is_said_calmly(house: House, address: str) -> None:
    """An unknown agent, or none at all, is a word and the way back."""
    page = house.open("agents", agent=address)
    assert not page.exception
    assert "This agent isn&#x27;t here." in html_of(page)
    assert "All agents" in [button.label for button in page.button]


def test_a_member_is_refused(house: House) -> None:
    """At the address of an agent, too."""
    a_person(house.service, "jonas@example.test")
    page = house.open("agents", signed_in_as="jonas@example.test", agent="0198c5b0-0000-7000-8000-000000000000")
    assert "This page is for admins." in html_of(page)
    assert not page.button
