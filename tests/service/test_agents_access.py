"""The users of an agent: deployments (grants) and look-ups."""

from functools import partial
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.agents import AgentDefinition
from service.auth.callers import acting_for, authenticate
from service.domains.agents.definitions.queries import get_deployed_agent
from tests.harness.documents import add_to_collection, add_users, create_collection, get_document, ok, uploaded
from tests.harness.services import RunningService
from tests.service.conversations import Agent, an_agent, at_once, deploy
from tests.service.directory import a_group, another_organization, code, entries, group, readable, readers, user
from tests.service.service_accounts import a_token, account, an_account, delete_account, enable_service_accounts

ADA, BEN, EVE = (f"{name}@example.test" for name in ("ada", "ben", "eve"))
NOWHERE = "00000000-0000-7000-8000-000000000000"


def resource(agent: Agent) -> dict[str, str]:
    return {"resourceId": agent["agentId"], "resourceType": "AGENT"}


def asking(agent: Agent) -> dict:
    return {"resource": resource(agent), "action": "READ"}


def names(deployed: dict) -> tuple[set[str], bool]:
    return {one["name"] for one in deployed["principals"]}, deployed["organizationWide"]


def found(service: RunningService, agent: Agent, email: str | None = None, *, key: str = "") -> AgentDefinition | None:
    async def find(connection: AsyncConnection) -> AgentDefinition | None:
        caller = await authenticate(connection, f"Bearer {key or service.api_key}", keys=service.runtime.keys)
        acting = await acting_for(connection, caller, email)
        return await get_deployed_agent(connection, acting, agent_id=UUID(agent["agentId"]))

    return service.in_transaction(None, find)


def test_a_deployment_replaces_the_one_before(service: RunningService) -> None:
    add_users(service, ADA, BEN, EVE)
    enable_service_accounts(service)
    robot = an_account(service, "Robot")
    crew = a_group(service, "Crew", group(a_group(service, "Watch", user(BEN))))
    agent = an_agent(service)
    assert [found(service, agent, email) for email in (None, ADA, BEN, EVE)] == [None] * 4
    everybody = deploy(service, agent, user(ADA), group(crew), account(robot), user(ADA.upper()))
    assert names(everybody) == ({ADA, "Crew", "Robot"}, False)
    assert {one["type"] for one in everybody["principals"]} == {"user", "group", "serviceAccount"}
    assert [found(service, agent, email) is not None for email in (None, ADA, BEN, EVE)] == [False, True, True, False]
    assert names(deploy(service, agent, user(EVE))) == ({EVE}, False)
    assert [email for email in (ADA, BEN, EVE) if found(service, agent, email)] == [EVE]
    assert names(deploy(service, agent, organizationWide=True)) == (set(), True)
    assert all(found(service, agent, email) for email in (None, ADA, BEN, EVE))
    assert names(deploy(service, agent)) == (set(), False)
    assert not any(found(service, agent, email) for email in (None, ADA, BEN, EVE))


def test_unknown_principals_are_refused_by_their_places(service: RunningService) -> None:
    add_users(service, ADA)
    agent = an_agent(service)
    deploy(service, agent, user(ADA))
    key = another_organization(service)
    theirs = ok(service.call("admin/groups/upsert", {"groups": [{"name": "Theirs"}]}, api_key=key))["groups"][0]
    unknown = [user("nobody@example.test"), group(theirs), {"type": "serviceAccount", "id": NOWHERE}]
    refused = service.call("admin/agents/deploy", {"agentId": agent["agentId"], "principals": [user(ADA), *unknown]})
    assert code(refused) == (400, "unknown_principal")
    fields = [detail["field"] for detail in refused.json()["error"]["details"]]
    assert fields == ["principals.1", "principals.2", "principals.3"]
    assert readers(service, resource(agent)) == [ADA]


def test_only_an_agent_can_be_deployed(service: RunningService) -> None:
    document_id = uploaded(service, "memo")["documentId"]
    for object_id in (document_id, create_collection(service, "Rail"), NOWHERE):
        for operation, members in (("deploy", {"principals": [], "organizationWide": True}), ("delete", {})):
            refused = service.call(f"admin/agents/{operation}", {"agentId": object_id, **members})
            assert code(refused) == (404, "agent_not_found")
    assert readers(service, get_document(service, document_id)["resource"]) == [service.admin_email]


def test_grants_and_deployments_are_the_same(service: RunningService) -> None:
    add_users(service, ADA, BEN)
    agent = an_agent(service)
    given = [{"principal": user(ADA), "role": "VIEWER"}, {"principal": user(BEN), "role": "EDITOR"}]
    ok(service.call("admin/grants/set", {"resource": resource(agent), "grants": given}))
    assert [email for email in (ADA, BEN) if found(service, agent, email)] == [ADA, BEN]
    deploy(service, agent, user(BEN), organizationWide=True)
    listed = ok(service.call("admin/grants/list", {"resource": resource(agent)}))
    assert [(one["principal"]["name"], one["role"]) for one in listed["grants"]] == [(BEN, "VIEWER")]
    assert listed["organizationWide"] is True
    (deployment,) = entries(service, action="agent.deploy")
    assert sorted(deployment["details"]["before"].values()) == ["EDITOR", "VIEWER"]
    ok(service.call("admin/grants/setMany", {"resources": [{"resource": resource(agent), "grants": []}]}))
    assert not found(service, agent, ADA)


def test_every_look_up_knows_agents(service: RunningService) -> None:
    add_users(service, ADA, BEN)
    collection = create_collection(service, "Rail")
    ok(add_to_collection(service, uploaded(service, "memo")["documentId"], collection))
    agent, other = an_agent(service, collectionIds=[collection]), an_agent(service)
    deploy(service, agent, group(a_group(service, "Crew", user(ADA))))
    deploy(service, other, user(BEN))
    asked = asking(agent)
    assert readable(service, ADA, resourceType="AGENT") == readable(service, ADA) == [agent["agentId"]]
    assert readable(service, resourceType="AGENT") == []
    assert readers(service, resource(agent)) == [ADA, "Crew"]
    for email, expected in ((ADA, True), (BEN, False)):
        check = ok(service.call("permissions/checkResourceAuthorizationForUser", {**asked, "userEmail": email}))
        assert check == {"authorized": expected}
    both = {"resources": [resource(agent), resource(other)], "action": "READ", "userEmail": ADA}
    checks = ok(service.call("permissions/checkBulkResourcesAuthorizationForUser", both))["results"]
    assert [one["authorized"] for one in checks] == [True, False]
    why = ok(service.call("permissions/explainAuthorization", {**asked, "principal": user(ADA)}))
    assert why["authorized"] is True
    assert [[step["type"] for step in path] for path in why["paths"]] == [["user", "group", "grant", "resource"]]
    assert ok(service.call("permissions/explainAuthorization", {**asked, "principal": user(BEN)}))["paths"] == []
    ok(service.call("admin/agents/delete", {"agentId": agent["agentId"]}))
    assert readable(service, ADA) == []
    requests = {"admin/grants/list": {"resource": resource(agent)}}
    requests["permissions/listAuthorizedPrincipalsForResource"] = asked
    for operation, request in requests.items():
        assert code(service.call(operation, request)) == (404, "resource_not_found")


def test_a_service_account_has_what_is_deployed_to_it(service: RunningService) -> None:
    enable_service_accounts(service)
    robot = an_account(service, "Robot")
    own, shared, open_to_all = (an_agent(service, name=name) for name in ("Own", "Shared", "Open"))
    deploy(service, own, account(robot))
    deploy(service, shared, group(a_group(service, "Crew", account(robot))))
    deploy(service, open_to_all, organizationWide=True)
    token = a_token(service, robot, "agent:message", "catalog:read")["token"]
    body = {"action": "READ", "resourceType": "AGENT"}
    listed = ok(service.call("permissions/listAuthorizedResources", body, api_key=token))["resources"]
    assert [one["resourceId"] for one in listed] == [own["agentId"], shared["agentId"]]
    assert [found(service, agent, key=token) is not None for agent in (own, shared, open_to_all)] == [True, True, False]
    delete_account(service, robot)
    assert ok(service.call("admin/grants/list", {"resource": resource(own)}))["grants"] == []
    again = {"agentId": own["agentId"], "principals": [account(robot)]}
    assert code(service.call("admin/agents/deploy", again)) == (400, "unknown_principal")


def test_a_message_finds_the_agent_as_it_is_now(service: RunningService) -> None:
    rail, sea = sorted(create_collection(service, name) for name in ("Rail", "Sea"))
    agent = an_agent(service, instructions="Be brief.", collectionIds=[sea, rail])
    deploy(service, agent, organizationWide=True)
    stored = found(service, agent)
    assert stored is not None
    assert (stored.instructions, stored.model, stored.api_access_enabled) == ("Be brief.", None, False)
    assert [str(one) for one in stored.collection_ids] == [rail, sea]
    ok(service.call("admin/agents/update", {"agentId": agent["agentId"], "instructions": "", "collectionIds": [sea]}))
    stored = found(service, agent)
    assert stored is not None
    assert (stored.instructions, [str(one) for one in stored.collection_ids]) == ("", [sea])
    assert found(service, agent, key=another_organization(service)) is None
    ok(service.call("admin/agents/delete", {"agentId": agent["agentId"]}))
    assert found(service, agent) is None


def test_a_deployment_names_up_to_ten_thousand(service: RunningService) -> None:
    add_users(service, ADA)
    agent = an_agent(service)
    assert len(deploy(service, agent, *[user(ADA)] * 10_000)["principals"]) == 1
    assert deploy(service, agent)["principals"] == []
    body = {"agentId": agent["agentId"], "principals": [user(ADA)] * 10_001}
    assert code(service.call("admin/agents/deploy", body)) == (400, "invalid_request")


def test_of_deployments_at_once_the_last_stands(service: RunningService) -> None:
    add_users(service, ADA, BEN, EVE)
    agent = an_agent(service)
    wanted = [[user(ADA), user(BEN)], [user(BEN)], [user(BEN), user(EVE)], [user(EVE)]]
    at_once(*(partial(deploy, service, agent, *principals) for principals in wanted))
    log = [one["details"] for one in entries(service, action="agent.deploy")]
    replaced = {frozenset(one["before"]): frozenset(one["after"]) for one in log}
    state = frozenset[str]()
    for _ in wanted:
        state = replaced.pop(state)
    people_now = ok(service.call("permissions/listAuthorizedPrincipalsForResource", asking(agent)))
    assert {one["id"] for one in people_now["principals"]} == state
