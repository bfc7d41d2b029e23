"""Why somebody may read a resource, or why not."""

import time
from itertools import pairwise
from typing import Any

import pytest

from tests.harness.services import RunningService
from tests.service.directory import a_group, a_resource, a_user, another_organization, code, done, group, user
from tests.service.service_accounts import account, an_account, delete_account, enable_service_accounts

EXPLAIN = "permissions/explainAuthorization"
DEPTH = 30


def grant(service: RunningService, resource: dict[str, str], *principals: dict[str, Any], **body: Any) -> None:
    """Let these principals, and no others, read a resource."""
    given = [{"principal": one, "role": "VIEWER"} for one in principals]
    done(service.call("admin/grants/set", {"resource": resource, "grants": given, **body}))


def explained(service: RunningService, resource: dict[str, str], principal: dict[str, Any]) -> dict[str, Any]:
    """The whole answer."""
    return done(service.call(EXPLAIN, {"resource": resource, "principal": principal, "action": "READ"}))


def written(answer: dict[str, Any]) -> list[str]:
    """Each path in one line: names of groups and the organization, addresses of people, roles of grants."""
    return [" > ".join(_word(step) for step in path) for path in answer["paths"]]


def _word(step: dict[str, Any]) -> str:
    if step["type"] == "grant":
        return step["role"]
    return step["id"] if step["type"] == "resource" else step.get("email") or step["name"]


def missing(answer: dict[str, Any]) -> str:
    """What is said to be missing, of somebody who may not."""
    assert answer["authorized"] is False
    assert answer["paths"] == []
    assert answer["complete"] is True
    return answer["missing"]


def join(service: RunningService, outer: dict[str, Any], *members: dict[str, Any]) -> None:
    """Add members to a group."""
    done(service.call("admin/groups/addMembers", {"groupId": outer["id"], "members": list(members)}))


def test_every_shortest_chain_to_every_grant_is_shown(service: RunningService) -> None:
    """Direct, through two groups at once, by owning it and as everyone: the shortest first, longer detours left out."""
    ada = a_user(service, "ada@example.test")
    left = a_group(service, "left", user("ada@example.test"))
    right = a_group(service, "right", user("ada@example.test"))
    top = a_group(service, "top", group(left), group(right))
    a_group(service, "aside", user("ada@example.test"))
    detour = a_group(service, "detour", group(left))
    join(service, top, group(detour))
    memo = a_resource(service, "memo", owner=ada["id"])
    grant(service, memo, user("ada@example.test"), group(top), organizationWide=True)
    answer = explained(service, memo, user("Ada@example.test"))
    assert written(answer) == [
        "ada@example.test > OWNER > memo",
        "ada@example.test > VIEWER > memo",
        "ada@example.test > Everyone > VIEWER > memo",
        "ada@example.test > left > top > VIEWER > memo",
        "ada@example.test > right > top > VIEWER > memo",
    ]
    assert answer["authorized"] is answer["complete"] is True
    assert "missing" not in answer
    person = {"type": "user", "id": ada["id"], "name": "ada", "email": "ada@example.test"}
    assert answer["paths"][3] == [
        person,
        {"type": "group", "id": left["id"], "name": "left"},
        {"type": "group", "id": top["id"], "name": "top"},
        {"type": "grant", "role": "VIEWER"},
        {"type": "resource", "id": "memo"},
    ]
    assert [step["type"] for step in answer["paths"][2]] == ["user", "organization", "grant", "resource"]


def test_what_it_leads_to_is_named(service: RunningService) -> None:
    """A document, a collection and an agent by their names, beside the ids that requests name them by."""
    files, data = {"file": ("log.txt", b"Calm at sea.")}, {"documentExternalId": "log", "documentName": "Log of May"}
    uploaded = done(service.http.post("/api/v0/catalog/uploadFile", data=data, files=files))
    collection = done(service.call("documentCollections/createDocumentCollection", {"collectionName": "Logs"}))
    agent = done(service.call("admin/agents/create", {"name": "Mate", "collectionIds": []}))
    done(service.call("admin/agents/deploy", {"agentId": agent["agentId"], "principals": [user(service.admin_email)]}))
    for kind, resource_id, name in (
        ("UPLOADED_DOCUMENT", uploaded["documentId"], "Log of May"),
        ("DOCUMENT_COLLECTION", collection["documentCollectionId"], "Logs"),
        ("AGENT", agent["agentId"], "Mate"),
    ):
        resource = {"resourceId": resource_id, "resourceType": kind}
        answer = explained(service, resource, user(service.admin_email))
        assert {"type": "resource", "id": resource_id, "name": name} in answer["paths"][0]


def test_groups_and_service_accounts_are_explained_too(service: RunningService) -> None:
    """A group by the groups around it; an account by its id or its address; neither by what everyone may read."""
    enable_service_accounts(service)
    robot = an_account(service, "Robot")
    inner = a_group(service, "inner", account(robot))
    outer = a_group(service, "outer", group(inner))
    memo, open_to_all = a_resource(service, "memo"), a_resource(service, "open")
    grant(service, memo, group(outer))
    grant(service, open_to_all, organizationWide=True)
    assert written(explained(service, memo, group(outer))) == ["outer > VIEWER > memo"]
    assert written(explained(service, memo, group(inner))) == ["inner > outer > VIEWER > memo"]
    for named in (account(robot), user(robot["email"])):
        answer = explained(service, memo, named)
        assert written(answer) == [f"{robot['email']} > inner > outer > VIEWER > memo"]
        assert answer["paths"][0][0]["type"] == "serviceAccount"
    for named in (account(robot), group(inner)):
        assert "Everyone in the organization may read it" in missing(explained(service, open_to_all, named))


def test_what_is_missing_is_said(service: RunningService) -> None:
    """No grant; being active; being there at all; and that admins read by grants as well."""
    enable_service_accounts(service)
    robot = an_account(service)
    a_user(service, "ben@example.test")
    a_user(service, "gone@example.test", active=False)
    memo = a_resource(service, "memo")
    named = (user("gone@example.test"), account(robot), group(a_group(service, "Team", user("gone@example.test"))))
    grant(service, memo, *named, organizationWide=True)
    delete_account(service, robot)
    assert "not active" in missing(explained(service, memo, user("gone@example.test")))
    for deleted in (account(robot), user(robot["email"])):
        assert "was deleted" in missing(explained(service, memo, deleted))
    grant(service, memo)
    assert missing(explained(service, memo, user("ben@example.test"))).startswith("Nobody has given access to")
    assert "An admin" in missing(explained(service, memo, user(service.admin_email)))
    assert "Everyone" not in missing(explained(service, memo, group(a_group(service, "Alone"))))


def test_cycles_lead_nowhere(service: RunningService) -> None:
    """A ring of groups, one of them in itself, is walked once; the way round it is no shortest chain."""
    a_user(service, "ada@example.test")
    ring = [a_group(service, name) for name in "abc"]
    for one, following in pairwise([*ring, ring[0]]):
        join(service, following, group(one))
    join(service, ring[0], user("ada@example.test"), group(ring[0]))
    memo = a_resource(service, "memo")
    grant(service, memo, group(ring[0]), group(ring[2]))
    answer = explained(service, memo, user("ada@example.test"))
    assert written(answer) == [
        "ada@example.test > a > VIEWER > memo",
        "ada@example.test > a > b > c > VIEWER > memo",
    ]
    assert answer["complete"] is True


def test_a_lattice_with_a_billion_shortest_chains_is_explained_at_once(service: RunningService) -> None:
    """Two groups a layer, each in both of the next: 100 different chains are shown, and said not to be all."""
    a_user(service, "ada@example.test")
    layers = [[a_group(service, f"{depth} {side}") for side in "ab"] for depth in range(DEPTH)]
    for lower, upper in pairwise(layers):
        for one in upper:
            join(service, one, *map(group, lower))
    for one in layers[0]:
        join(service, one, user("ada@example.test"))
    memo = a_resource(service, "memo")
    grant(service, memo, group(layers[-1][0]))
    began = time.perf_counter()
    answer = explained(service, memo, user("ada@example.test"))
    assert time.perf_counter() - began < 5
    assert answer["authorized"] is True
    assert answer["complete"] is False
    paths = written(answer)
    assert len(set(paths)) == len(paths) == 100
    for path in answer["paths"]:
        assert [step["type"] for step in path] == ["user", *["group"] * DEPTH, "grant", "resource"]
        names = [step["name"].split() for step in path[1:-2]]
        assert [int(depth) for depth, _ in names] == list(range(DEPTH))


@pytest.mark.parametrize("number", [100, 101])
def test_exactly_a_hundred_chains_are_all(service: RunningService, number: int) -> None:
    """One more, and the answer is no longer complete."""
    a_user(service, "ada@example.test")
    members = [user("ada@example.test")]
    groups = [{"name": f"g{each}", "members": members} for each in range(number)]
    made = done(service.call("admin/groups/upsert", {"groups": groups}))["groups"]
    top = a_group(service, "top", *map(group, made))
    memo = a_resource(service, "memo")
    grant(service, memo, group(top))
    answer = explained(service, memo, user("ada@example.test"))
    assert len(set(written(answer))) == 100
    assert answer["complete"] is (number == 100)


def test_what_is_unknown_is_refused(service: RunningService) -> None:
    """A resource with 404, a principal with 400; those of another organization are unknown; a key that isn't an
    admin's is 403.
    """
    other = another_organization(service)
    team = a_group(service, "Team")
    memo = a_resource(service, "memo")
    nowhere = {**memo, "resourceId": "nowhere"}
    key = service.new_user("ben@example.test")
    admin = user(service.admin_email)

    def refused(resource: dict[str, str], principal: dict[str, Any], **options: Any) -> tuple[int, str]:
        return code(service.call(EXPLAIN, {"resource": resource, "principal": principal, "action": "READ"}, **options))

    assert refused(nowhere, admin) == (404, "resource_not_found")
    assert refused(memo, admin, api_key=other) == (404, "resource_not_found")
    assert refused(memo, user("no@example.test")) == (400, "unknown_principal")
    assert refused(memo, {"type": "group", "id": memo_id(service)}) == (400, "unknown_principal")
    assert refused(memo, {"type": "serviceAccount", "id": team["id"]}) == (400, "unknown_principal")
    assert refused(memo, admin, api_key=key) == (403, "admin_only")


def memo_id(service: RunningService) -> str:
    """The id of a user, which is no group's."""
    return a_user(service, "cleo@example.test")["id"]
