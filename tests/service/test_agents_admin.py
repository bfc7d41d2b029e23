"""Agents: definition, changes and deletion by admins."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

from carrel.wire.agents import BUILT_IN_MODEL as BUILT_IN
from service.domains.agents.definitions import queries
from service.platform.identifiers import uuid7
from tests.harness.documents import create_collection
from tests.harness.services import RunningService
from tests.service.conversations import Agent, an_agent, at_once, deploy
from tests.service.directory import another_organization, code, done, entries, on_rows, organization_id, walk

NOWHERE = "00000000-0000-7000-8000-000000000000"
WORDS = {"name": "Travel desk", "description": "Knows how we travel.", "instructions": "Prefer the night train."}


def listed(service: RunningService, **body: Any) -> list[Agent]:
    return walk(service, "admin/agents/list", body, page_size=2)


def update(service: RunningService, agent: Agent, **members: Any) -> Agent:
    return done(service.call("admin/agents/update", {"agentId": agent["agentId"], **members}))


def written(service: RunningService) -> list[dict[str, Any]]:
    return [one for one in reversed(entries(service)) if one["action"].startswith("agent.")]


def test_what_is_defined_is_what_is_listed(service: RunningService) -> None:
    one, two = sorted(create_collection(service, name) for name in ("Rail", "Sea"))
    full = an_agent(service, **WORDS, model=BUILT_IN, collectionIds=[two, one, two], apiAccessEnabled=True)
    least = an_agent(service, name="Least")
    assert {name: full[name] for name in WORDS} == WORDS
    assert (full["model"], full["collectionIds"], full["apiAccessEnabled"]) == (BUILT_IN, [one, two], True)
    assert (least["description"], least["instructions"], least["collectionIds"]) == ("", "", [])
    assert least["apiAccessEnabled"] is False
    assert "model" not in least
    assert listed(service) == [full, least]
    assert listed(service, query="vel DE") == [full]
    assert listed(service, query="%") == []
    assert done(service.call("admin/agents/list"))["models"] == [BUILT_IN]


def test_the_longest_that_can_be_given_is_kept_as_it_is(service: RunningService) -> None:
    longest = {"name": "船" * 200, "description": "д" * 10_000, "instructions": "🚢" * 20_000}
    agent = an_agent(service, **longest)
    assert {name: listed(service)[0][name] for name in longest} == longest
    for name, text in longest.items():
        for operation, about in (("create", {"name": "x"}), ("update", {"agentId": agent["agentId"]})):
            refused = service.call(f"admin/agents/{operation}", {**about, name: text + "x"})
            assert code(refused) == (400, "invalid_request")
            assert refused.json()["error"]["details"][0]["field"] == name
    for many in ({"collectionIds": [str(uuid7()) for _ in range(101)]}, {"starterQuestions": ["When?"] * 7}):
        assert code(service.call("admin/agents/update", {"agentId": agent["agentId"], **many})) == (
            400,
            "invalid_request",
        )


def test_a_name_is_one_agents_until_that_is_deleted(service: RunningService) -> None:
    first, second = an_agent(service, name="Bosun"), an_agent(service, name="Cook")
    assert code(service.call("admin/agents/create", {"name": "Bosun"})) == (409, "agent_name_taken")
    renaming = {"agentId": second["agentId"], "name": "Bosun", "instructions": "Not kept."}
    assert code(service.call("admin/agents/update", renaming)) == (409, "agent_name_taken")
    assert listed(service) == [first, second]
    assert update(service, first, name="Bosun") == first
    an_agent(service, name="Bosun", api_key=another_organization(service))
    done(service.call("admin/agents/delete", {"agentId": first["agentId"]}))
    assert update(service, second, name="Bosun")["name"] == "Bosun"
    an_agent(service, name="Cook")


def test_only_what_is_given_changes(service: RunningService) -> None:
    """A null is no change, except the model, where null is the service's default; an empty list is a change."""
    one, two, three = sorted(create_collection(service, name) for name in ("Rail", "Sea", "Air"))
    agent = an_agent(service, **WORDS, model=BUILT_IN, collectionIds=[one, two], apiAccessEnabled=True)
    nulls = dict.fromkeys(["name", "description", "instructions", "collectionIds", "apiAccessEnabled"])
    assert update(service, agent) == update(service, agent, **nulls) == agent
    changed = update(service, agent, instructions="")
    assert changed == {**agent, "instructions": "", **{name: changed[name] for name in ("updatedAt", "version")}}
    assert changed["updatedAt"] > agent["updatedAt"]
    assert "model" not in update(service, agent, model=None)
    assert update(service, agent, collectionIds=[three, two, three])["collectionIds"] == [two, three]
    assert update(service, agent, collectionIds=[])["collectionIds"] == []
    assert update(service, agent, apiAccessEnabled=False)["apiAccessEnabled"] is False
    assert update(service, agent, starterQuestions=["When?"], answersSearches=True)["starterQuestions"] == ["When?"]
    kept = update(service, agent, starterQuestions=None, answersSearches=None)
    assert (kept["starterQuestions"], kept["answersSearches"]) == (["When?"], True)
    assert update(service, agent, starterQuestions=[])["starterQuestions"] == []
    options = {"enableSmartFiltering": True, "enableReranking": False}
    assert update(service, agent, retrieval=options)["retrieval"] == options
    options = {"enableQueryExtraction": True}
    assert update(service, agent, retrieval=options)["retrieval"] == options
    assert update(service, agent, model=BUILT_IN, description="New.")["model"] == BUILT_IN
    for value in ("true", 1):
        body = {"agentId": agent["agentId"], "apiAccessEnabled": value}
        assert code(service.call("admin/agents/update", body)) == (400, "invalid_request")
    assert listed(service)[0]["description"] == "New."


def test_the_log_has_the_settings_from_and_to(service: RunningService) -> None:
    collection = create_collection(service, "Rail")
    agent = an_agent(service, **WORDS, collectionIds=[collection])
    update(service, agent, **WORDS, apiAccessEnabled=True, model=BUILT_IN, retrieval={"enableReranking": True})
    update(service, agent, **WORDS)
    update(
        service, agent, name="Ferries", instructions="Prefer the ferry.", collectionIds=[], starterQuestions=["When?"]
    )
    deploy(service, agent, organizationWide=True)
    deploy(service, agent, organizationWide=True)
    done(service.call("admin/agents/delete", {"agentId": agent["agentId"]}))
    log = written(service)
    assert {(one["target"]["type"], one["target"]["id"]) for one in log} == {("agent", agent["agentId"])}
    assert {one["actor"]["email"] for one in log} == {service.admin_email}
    bare = {"model": None, "apiAccessEnabled": False, "collectionIds": [collection], "retrieval": {}}
    bare["answersSearches"] = False
    chosen = {**bare, "model": BUILT_IN, "apiAccessEnabled": True, "retrieval": {"enableReranking": True}}
    assert [(one["action"], one["details"]) for one in log] == [
        ("agent.create", bare),
        ("agent.update", chosen),
        ("agent.update", {**chosen, "collectionIds": []}),
        ("agent.deploy", {"before": {}, "after": {str(organization_id(service)): "VIEWER"}}),
        ("agent.delete", {}),
    ]
    assert log[1]["changes"].keys() == {"model", "apiAccessEnabled", "retrieval"}
    assert log[2]["changes"] == {
        "name": {"from": "Travel desk", "to": "Ferries"},
        "instructions": {"from": WORDS["instructions"], "to": "Prefer the ferry."},
        "collectionIds": {"from": [collection], "to": []},
        "starterQuestions": {"from": [], "to": ["When?"]},
    }
    [kept] = service.execute("SELECT string_agg(details::text, '') FROM audit_entries WHERE action = 'agent.update'")
    assert "When?" not in kept[0], "words of people are kept where they can be erased"


def test_a_deleted_agent_is_not_there(service: RunningService) -> None:
    agent = an_agent(service)
    done(service.call("admin/agents/delete", {"agentId": agent["agentId"]}))
    assert listed(service) == []
    for operation, members in {"update": {"name": "x"}, "deploy": {"principals": []}, "delete": {}}.items():
        told = [
            service.call(f"admin/agents/{operation}", {"agentId": agent_id, **members}, headers={"X-Request-Id": "r"})
            for agent_id in (agent["agentId"], NOWHERE)
        ]
        assert code(told[0]) == (404, "agent_not_found")
        assert told[0].content == told[1].content
    assert on_rows(service, "SELECT deleted_at IS NOT NULL FROM agents") == [(True,)]
    assert on_rows(service, "SELECT object_id FROM resources", more="AND resource_type = 'AGENT'") == []


def test_an_unknown_model_is_refused_with_those_there_are(make_service: Callable[..., RunningService]) -> None:
    service = make_service(model_url="http://127.0.0.1:9/v1", model_names=("large", "small"))
    agent = an_agent(service, model="small")
    assert done(service.call("admin/agents/list"))["models"] == ["large", "small", BUILT_IN]
    for operation, about in (("create", {"name": "x"}), ("update", {"agentId": agent["agentId"], "name": "x"})):
        refused = service.call(f"admin/agents/{operation}", {**about, "model": "huge"})
        assert code(refused) == (400, "unknown_model")
        assert f"large, small, {BUILT_IN}" in refused.json()["error"]["message"]
        assert refused.json()["error"]["details"][0]["field"] == "model"
    assert listed(service) == [agent]


def test_unknown_collections_are_refused_by_their_places(service: RunningService) -> None:
    known, deleted = create_collection(service, "Rail"), create_collection(service, "Sea")
    done(service.call("documentCollections/deleteDocumentCollection", {"documentCollectionId": deleted}))
    key = another_organization(service)
    made = done(service.call("documentCollections/createDocumentCollection", {"collectionName": "Theirs"}, api_key=key))
    unknown = [deleted, made["documentCollectionId"], NOWHERE]
    agent = an_agent(service, name="Bosun", collectionIds=[known])
    for operation, about in (("create", {"name": "x"}), ("update", {"agentId": agent["agentId"], "name": "x"})):
        refused = service.call(f"admin/agents/{operation}", {**about, "collectionIds": [known, *unknown]})
        assert code(refused) == (400, "unknown_collection")
        fields = [detail["field"] for detail in refused.json()["error"]["details"]]
        assert fields == ["collectionIds.1", "collectionIds.2", "collectionIds.3"]
    assert listed(service) == [agent]


def test_an_admin_may_name_a_collection_without_a_role_in_it(service: RunningService) -> None:
    key = service.new_user("ada@example.test")
    made = service.call("documentCollections/createDocumentCollection", {"collectionName": "Ada's"}, api_key=key)
    place = {"documentCollectionId": done(made)["documentCollectionId"]}
    agent = an_agent(service, collectionIds=list(place.values()))
    assert code(service.call("documentCollections/listDocumentsInCollection", place)) == (404, "collection_not_found")
    done(service.call("documentCollections/deleteDocumentCollection", place, api_key=key))
    assert listed(service) == [{**agent, "collectionIds": [], "version": listed(service)[0]["version"]}]


def test_of_two_that_take_a_name_at_once_one_has_it(service: RunningService) -> None:
    one, two = an_agent(service, name="One"), an_agent(service, name="Two")

    def renamed(agent: Agent, name: str) -> Callable[[], Any]:
        return lambda: service.call("admin/agents/update", {"agentId": agent["agentId"], "name": name})

    for turn in range(4):
        name = f"Taken {turn}"
        create = lambda name=name: service.call("admin/agents/create", {"name": name})  # noqa: E731
        answers = at_once(create, renamed(one, name), create, renamed(two, name))
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
        assert [agent["name"] for agent in listed(service)].count(name) == 1
        update(service, one, name="One")
        update(service, two, name="Two")
        swapped = at_once(renamed(one, "Two"), renamed(two, "One"))
        assert [code(answer) for answer in swapped] == [(409, "agent_name_taken")] * 2


def test_two_changes_at_once_both_stay(service: RunningService) -> None:
    about = {"agentId": an_agent(service)["agentId"]}
    changes: list[dict[str, Any]] = [{"instructions": "Be brief."}, {"apiAccessEnabled": True}, {"model": BUILT_IN}]
    calls = [lambda change=change: service.call("admin/agents/update", {**about, **change}) for change in changes]
    assert [answer.status_code for answer in at_once(*calls)] == [200] * 3
    (after,) = listed(service)
    assert all(after[name] == value for change in changes for name, value in change.items())
    delete = lambda: service.call("admin/agents/delete", about)  # noqa: E731
    outcomes = [answer.status_code for answer in at_once(delete, *calls, delete)]
    assert sorted([outcomes[0], outcomes[-1]]) == [200, 404]
    assert {*outcomes[1:-1]} <= {200, 404}
    assert listed(service) == []
    assert [one["action"] for one in written(service)].count("agent.delete") == 1


def test_a_collection_is_not_deleted_while_an_agent_is_given_it(service: RunningService) -> None:
    collection = create_collection(service, "Rail")
    agent = an_agent(service)
    organization = organization_id(service)
    ids = [UUID(collection)]

    async def give() -> None:
        deletion = {"documentCollectionId": collection}
        async with service.runtime.database.transaction(organization) as connection:
            assert await queries.lock_collections(connection, organization, collection_ids=ids) == {*ids}
            deleting = asyncio.create_task(
                asyncio.to_thread(service.call, "documentCollections/deleteDocumentCollection", deletion)
            )
            await asyncio.sleep(0.3)
            assert not deleting.done()
            await queries.set_collections(connection, organization, agent_id=UUID(agent["agentId"]), collection_ids=ids)
        done(await deleting)

    service.run(give())
    assert listed(service) == [agent]
