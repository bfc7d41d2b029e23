"""Who may use an agent: deployments, which are grants, and what every look-up says of them."""

from functools import partial
from typing import Any
from uuid import UUID

import pytest
from fastapi import Request

from service.auth.callers import acting_for
from service.domains.agents.service import StoredAgent, get_deployed_agent
from service.web.dependencies import current_caller
from tests.harness.documents import create_collection, uploaded
from tests.harness.services import RunningService
from tests.service.agents import Agent, an_agent, at_once, deploy
from tests.service.directory import (
    a_group,
    a_user,
    another_organization,
    code,
    done,
    group,
    readable,
    readers,
    user,
    walk,
)
from tests.service.service_accounts import (
    a_token,
    account,
    an_account,
    delete_account,
    enable_service_accounts,
)
from tests.service.test_audit import entries

ADA, BEN, EVE = (f"{name}@example.test" for name in ("ada", "ben", "eve"))
NOWHERE = "00000000-0000-7000-8000-000000000000"


def resource(agent: Agent) -> dict[str, str]:
    """How grants and look-ups name an agent."""
    return {"resourceId": agent["agentId"], "resourceType": "AGENT"}


def asking(agent: Agent) -> dict[str, Any]:
    """A question about who may use an agent."""
    return {"resource": resource(agent), "action": "READ"}


def people(service: RunningService, *emails: str) -> None:
    """Users of these addresses."""
    for email in emails:
        a_user(service, email)


def names(deployed: dict[str, Any]) -> tuple[set[str], bool]:
    """Whom an answer to deploy names, and whether everyone may use the agent."""
    return {one["name"] for one in deployed["principals"]}, deployed["organizationWide"]


def found(service: RunningService, agent: Agent, email: str | None = None, *, key: str = "") -> StoredAgent | None:
    """The agent as a message to it finds it, sent with a key (the admin's), for a user if one is named."""

    async def find() -> StoredAgent | None:
        authorization = f"Bearer {key or service.api_key}".encode()
        request = Request(
            {"type": "http", "path": "/api/v0/x", "client": ("::1", 1), "headers": [(b"authorization", authorization)]}
        )
        caller = await current_caller(request, service.runtime)
        async with service.runtime.database.transaction(caller.organization_id) as connection:
            acting = await acting_for(connection, caller, email)
            return await get_deployed_agent(connection, acting, agent_id=UUID(agent["agentId"]))

    return service.run(find())


def test_a_deployment_replaces_the_one_before(service: RunningService) -> None:
    """Users, groups with those in them, service accounts, everyone, nobody: who may is who is answered."""
    people(service, ADA, BEN, EVE)
    enable_service_accounts(service)
    robot = an_account(service, "Robot")
    crew = a_group(service, "Crew", group(a_group(service, "Watch", user(BEN))))
    agent = an_agent(service)
    assert [found(service, agent, email) for email in (None, ADA, BEN, EVE)] == [None] * 4
    everybody = deploy(service, agent, user(ADA), group(crew), account(robot), user(ADA.upper()))
    assert names(everybody) == ({"ada", "Crew", "Robot"}, False)
    assert {one["type"] for one in everybody["principals"]} == {"user", "group", "serviceAccount"}
    assert [found(service, agent, email) is not None for email in (None, ADA, BEN, EVE)] == [False, True, True, False]
    assert names(deploy(service, agent, user(EVE))) == ({"eve"}, False)
    assert [email for email in (ADA, BEN, EVE) if found(service, agent, email)] == [EVE]
    assert names(deploy(service, agent, organizationWide=True)) == (set(), True)
    assert all(found(service, agent, email) for email in (None, ADA, BEN, EVE))
    assert names(deploy(service, agent)) == (set(), False)
    assert not any(found(service, agent, email) for email in (None, ADA, BEN, EVE))


def test_unknown_principals_are_refused_by_their_places(service: RunningService) -> None:
    """All or none: those it was deployed to stay; those of another organization are as unknown."""
    people(service, ADA)
    agent = an_agent(service)
    deploy(service, agent, user(ADA))
    key = another_organization(service)
    theirs = done(service.call("admin/groups/upsert", {"groups": [{"name": "Theirs"}]}, api_key=key))["groups"][0]
    unknown = [user("nobody@example.test"), group(theirs), {"type": "serviceAccount", "id": NOWHERE}]
    body = {"agentId": agent["agentId"], "principals": [user(ADA), *unknown]}
    refused = service.call("admin/agents/deploy", body)
    assert code(refused) == (400, "unknown_principal")
    fields = [detail["field"] for detail in refused.json()["error"]["details"]]
    assert fields == ["principals.1", "principals.2", "principals.3"]
    assert readers(service, resource(agent)) == [ADA]


def test_only_an_agent_can_be_deployed(service: RunningService) -> None:
    """A document's or a collection's id is no agent's, whatever else it is; their readers stay."""
    document = uploaded(service, "memo")["documentId"]
    for object_id in (document, create_collection(service, "Rail"), NOWHERE):
        for operation, members in (("deploy", {"principals": [], "organizationWide": True}), ("delete", {})):
            refused = service.call(f"admin/agents/{operation}", {"agentId": object_id, **members})
            assert code(refused) == (404, "agent_not_found")
    memo = {"resourceId": document, "resourceType": "UPLOADED_DOCUMENT"}
    assert readers(service, memo) == [service.admin_email]


def test_grants_and_deployments_are_the_same(service: RunningService) -> None:
    """What is set as grants is used, what is deployed is listed as grants, and each replaces the other."""
    people(service, ADA, BEN)
    agent = an_agent(service)
    given = [{"principal": user(ADA), "role": "VIEWER"}, {"principal": user(BEN), "role": "EDITOR"}]
    done(service.call("admin/grants/set", {"resource": resource(agent), "grants": given}))
    assert [email for email in (ADA, BEN) if found(service, agent, email)] == [ADA, BEN]
    deploy(service, agent, user(BEN), organizationWide=True)
    listed = done(service.call("admin/grants/list", {"resource": resource(agent)}))
    assert [(one["principal"]["name"], one["role"]) for one in listed["grants"]] == [("ben", "VIEWER")]
    assert listed["organizationWide"] is True
    (deployment,) = [one for one in entries(service) if one["action"] == "agent.deploy"]
    assert sorted(deployment["details"]["before"].values()) == ["EDITOR", "VIEWER"]
    done(service.call("admin/grants/setMany", {"resources": [{"resource": resource(agent), "grants": []}]}))
    assert not found(service, agent, ADA)


def test_every_look_up_knows_agents(service: RunningService) -> None:
    """Listed as AGENT to whom it is deployed, checked, explained by group and grant; a deleted one is unknown."""
    people(service, ADA, BEN)
    agent, other = an_agent(service), an_agent(service)
    crew = a_group(service, "Crew", user(ADA))
    deploy(service, agent, group(crew))
    deploy(service, other, user(BEN))
    asked = asking(agent)
    assert readable(service, ADA, resourceType="AGENT") == readable(service, ADA) == [agent["agentId"]]
    assert readable(service, resourceType="AGENT") == []
    assert readers(service, resource(agent)) == [ADA, "Crew"]
    for email, expected in ((ADA, True), (BEN, False)):
        check = done(service.call("permissions/checkResourceAuthorizationForUser", {**asked, "userEmail": email}))
        assert check == {"authorized": expected}
    both = {"resources": [resource(agent), resource(other)], "action": "READ", "userEmail": ADA}
    checks = done(service.call("permissions/checkBulkResourcesAuthorizationForUser", both))["results"]
    assert [one["authorized"] for one in checks] == [True, False]
    why = done(service.call("permissions/explainAuthorization", {**asked, "principal": user(ADA)}))
    assert why["authorized"] is True
    assert [[step["type"] for step in path] for path in why["paths"]] == [["user", "group", "grant", "resource"]]
    assert done(service.call("permissions/explainAuthorization", {**asked, "principal": user(BEN)}))["paths"] == []
    done(service.call("admin/agents/delete", {"agentId": agent["agentId"]}))
    assert readable(service, ADA) == []
    for operation in ("admin/grants/list", "permissions/listAuthorizedPrincipalsForResource"):
        request = asked if operation.startswith("permissions") else {"resource": resource(agent)}
        assert code(service.call(operation, request)) == (404, "resource_not_found")


def test_a_service_account_has_what_is_deployed_to_it(service: RunningService) -> None:
    """Itself or through a group; what is everyone's is the users'. A deleted account is named no more."""
    enable_service_accounts(service)
    robot = an_account(service, "Robot")
    own, shared, open_to_all = (an_agent(service, name=name) for name in ("Own", "Shared", "Open"))
    deploy(service, own, account(robot))
    deploy(service, shared, group(a_group(service, "Crew", account(robot))))
    deploy(service, open_to_all, organizationWide=True)
    token = a_token(service, robot, "agent:message", "catalog:read")["token"]
    body = {"action": "READ", "resourceType": "AGENT"}
    listed = done(service.call("permissions/listAuthorizedResources", body, api_key=token))["resources"]
    assert [one["resourceId"] for one in listed] == [own["agentId"], shared["agentId"]]
    deployed = [found(service, agent, key=token) is not None for agent in (own, shared, open_to_all)]
    assert deployed == [True, True, False]
    delete_account(service, robot)
    assert done(service.call("admin/grants/list", {"resource": resource(own)}))["grants"] == []
    again = {"agentId": own["agentId"], "principals": [account(robot)]}
    assert code(service.call("admin/agents/deploy", again)) == (400, "unknown_principal")


def test_a_message_finds_the_agent_as_it_is_now(service: RunningService) -> None:
    """With its collections, from the next message on; not when it is deleted or another organization's."""
    rail, sea = sorted(create_collection(service, name) for name in ("Rail", "Sea"))
    agent = an_agent(service, instructions="Be brief.", collectionIds=[sea, rail])
    deploy(service, agent, organizationWide=True)
    stored = found(service, agent)
    assert stored is not None
    assert (stored.instructions, stored.model, stored.api_access_enabled) == ("Be brief.", None, False)
    assert [str(one) for one in stored.collection_ids] == [rail, sea]
    changed = {"agentId": agent["agentId"], "instructions": "", "collectionIds": [sea]}
    done(service.call("admin/agents/update", changed))
    stored = found(service, agent)
    assert stored is not None
    assert (stored.instructions, [str(one) for one in stored.collection_ids]) == ("", [sea])
    assert found(service, agent, key=another_organization(service)) is None
    done(service.call("admin/agents/delete", {"agentId": agent["agentId"]}))
    assert found(service, agent) is None


def test_deploying_opens_nothing_else(service: RunningService) -> None:
    """Whoever may use an agent has no role in its collections, and none in their documents."""
    people(service, ADA)
    collection, document = create_collection(service, "Rail"), uploaded(service, "memo")["documentId"]
    place = {"documentCollectionId": collection, "documentId": document, "customMetadata": {}}
    done(service.call("documentCollections/addDocumentToCollection", place))
    agent = an_agent(service, collectionIds=[collection])
    deploy(service, agent, user(ADA))
    assert readable(service, ADA) == [agent["agentId"]]


@pytest.mark.parametrize("count", [0, 10_000])
def test_a_deployment_names_up_to_ten_thousand(service: RunningService, count: int) -> None:
    """However often the same is named, it is deployed to once; one more is a 400."""
    people(service, ADA)
    agent = an_agent(service)
    assert len(deploy(service, agent, *[user(ADA)] * count)["principals"]) == min(count, 1)
    body = {"agentId": agent["agentId"], "principals": [user(ADA)] * 10_001}
    assert code(service.call("admin/agents/deploy", body)) == (400, "invalid_request")


def test_of_deployments_at_once_the_last_stands(service: RunningService) -> None:
    """Whole, and the log tells of each what it replaced: none is lost between two others."""
    people(service, ADA, BEN, EVE)
    agent = an_agent(service)
    wanted = [[user(ADA), user(BEN)], [user(BEN)], [user(BEN), user(EVE)], [user(EVE)]]
    at_once(*(partial(deploy, service, agent, *principals) for principals in wanted))
    log = [one["details"] for one in entries(service) if one["action"] == "agent.deploy"]
    replaced = {frozenset(one["before"]): frozenset(one["after"]) for one in log}
    state = frozenset[str]()
    for _ in wanted:
        state = replaced.pop(state)
    people_now = walk(service, "permissions/listAuthorizedPrincipalsForResource", asking(agent), page_size=9)
    assert {one["id"] for one in people_now} == state
