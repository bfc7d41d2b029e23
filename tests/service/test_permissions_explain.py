"""Explanations of why a person may or may not read a resource."""

import time
from itertools import pairwise

from tests.harness.documents import create_collection, ok, upload
from tests.harness.services import RunningService
from tests.service.conversations import an_agent, deploy
from tests.service.directory import a_group, a_resource, a_user, code, collection, document, done, grant, group, user
from tests.service.service_accounts import account, an_account, delete_account, enable_service_accounts

EXPLAIN = "permissions/explainAuthorization"
DEPTH = 30


def explained(service: RunningService, resource: dict[str, str], principal: dict) -> dict:
    return done(service.call(EXPLAIN, {"resource": resource, "principal": principal, "action": "READ"}))


def written(answer: dict) -> list[str]:
    return [" > ".join(_word(step) for step in path) for path in answer["paths"]]


def _word(step: dict) -> str:
    if step["type"] == "grant":
        return step["role"]
    return step["id"] if step["type"] == "resource" else step.get("email") or step["name"]


def missing(answer: dict) -> str:
    assert answer["authorized"] is False
    assert answer["paths"] == []
    assert answer["complete"] is True
    return answer["missing"]


def join(service: RunningService, outer: dict, *members: dict) -> None:
    done(service.call("admin/groups/addMembers", {"groupId": outer["id"], "members": list(members)}))


def test_every_shortest_chain_to_every_grant_is_shown(service: RunningService) -> None:
    ada = a_user(service, "ada@example.test")
    left = a_group(service, "left", user("ada@example.test"))
    right = a_group(service, "right", user("ada@example.test"))
    top = a_group(service, "top", group(left), group(right))
    a_group(service, "aside", user("ada@example.test"))
    join(service, top, group(a_group(service, "detour", group(left))))
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
    assert answer["paths"][3] == [
        {"type": "user", "id": ada["id"], "name": "ada", "email": "ada@example.test"},
        {"type": "group", "id": left["id"], "name": "left"},
        {"type": "group", "id": top["id"], "name": "top"},
        {"type": "grant", "role": "VIEWER"},
        {"type": "resource", "id": "memo"},
    ]
    assert [step["type"] for step in answer["paths"][2]] == ["user", "organization", "grant", "resource"]


def test_what_it_leads_to_is_named(service: RunningService) -> None:
    document_id = ok(upload(service, "log", documentName="Log of May"))["documentId"]
    collection_id, agent = create_collection(service, "Logs"), an_agent(service, name="Mate")
    deploy(service, agent, user(service.admin_email))
    mate = {"resourceId": agent["agentId"], "resourceType": "AGENT"}
    for resource, name in ((document(document_id), "Log of May"), (collection(collection_id), "Logs"), (mate, "Mate")):
        answer = explained(service, resource, user(service.admin_email))
        assert {"type": "resource", "id": resource["resourceId"], "name": name} in answer["paths"][0]


def test_groups_and_service_accounts_are_explained_too(service: RunningService) -> None:
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
    assert missing(explained(service, memo, user("ben@example.test"))).startswith("No grant gives access to")
    assert "An admin" in missing(explained(service, memo, user(service.admin_email)))
    assert "Everyone" not in missing(explained(service, memo, group(a_group(service, "Alone"))))


def test_cycles_lead_nowhere(service: RunningService) -> None:
    a_user(service, "ada@example.test")
    ring = [a_group(service, name) for name in "abc"]
    for one, following in pairwise([*ring, ring[0]]):
        join(service, following, group(one))
    join(service, ring[0], user("ada@example.test"), group(ring[0]))
    memo = a_resource(service, "memo")
    grant(service, memo, group(ring[0]), group(ring[2]))
    answer = explained(service, memo, user("ada@example.test"))
    assert written(answer) == ["ada@example.test > a > VIEWER > memo", "ada@example.test > a > b > c > VIEWER > memo"]
    assert answer["complete"] is True


def test_a_lattice_with_a_billion_shortest_chains_is_explained_at_once(service: RunningService) -> None:
    """Two groups a layer, each in both of the next: 100 different chains are shown, marked as incomplete."""
    ada = user(a_user(service, "ada@example.test")["email"])
    lower = [ada]
    for depth in range(DEPTH):
        names = [{"name": f"{depth} {side}", "members": lower} for side in "ab"]
        lower = [group(one) for one in done(service.call("admin/groups/upsert", {"groups": names}))["groups"]]
    memo = a_resource(service, "memo")
    grant(service, memo, lower[0])
    began = time.perf_counter()
    answer = explained(service, memo, ada)
    assert time.perf_counter() - began < 5
    assert answer["authorized"] is True
    assert answer["complete"] is False
    paths = written(answer)
    assert len(set(paths)) == len(paths) == 100
    for path in answer["paths"]:
        assert [step["type"] for step in path] == ["user", *["group"] * DEPTH, "grant", "resource"]
        assert [int(step["name"].split()[0]) for step in path[1:-2]] == list(range(DEPTH))


def test_exactly_a_hundred_chains_are_all(service: RunningService) -> None:
    ada = user(a_user(service, "ada@example.test")["email"])
    groups = [{"name": f"g{each}", "members": [ada]} for each in range(101)]
    *hundred, last = done(service.call("admin/groups/upsert", {"groups": groups}))["groups"]
    top = a_group(service, "top", *map(group, hundred))
    memo = a_resource(service, "memo")
    grant(service, memo, group(top))
    for is_complete in (True, False):
        answer = explained(service, memo, ada)
        assert len(set(written(answer))) == 100
        assert answer["complete"] is is_complete
        join(service, top, group(last))


def test_what_is_unknown_is_refused(service: RunningService) -> None:
    """A principal is searched for only within the type."""
    team, memo = a_group(service, "Team"), a_resource(service, "memo")
    admin, cleo = user(service.admin_email), a_user(service, "cleo@example.test")

    def refused(resource: dict[str, str], principal: dict) -> tuple[int, str]:
        return code(service.call(EXPLAIN, {"resource": resource, "principal": principal, "action": "READ"}))

    assert refused({**memo, "resourceId": "nowhere"}, admin) == (404, "resource_not_found")
    for unknown in (
        user("no@example.test"),
        {"type": "group", "id": cleo["id"]},
        {"type": "serviceAccount", "id": team["id"]},
    ):
        assert refused(memo, unknown) == (400, "unknown_principal")
