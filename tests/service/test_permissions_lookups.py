"""Who may read what: the two look-ups of the seed."""

from typing import Any

import pytest

from tests.harness.services import RunningService
from tests.service.directory import (
    a_group,
    a_key,
    a_resource,
    a_user,
    code,
    done,
    group,
    readable,
    readers,
    user,
    walk,
)
from tests.service.service_accounts import a_token, account, an_account, enable_service_accounts

LOOKUP = "permissions/listAuthorizedPrincipalsForResource"


def grant(service: RunningService, resource: dict[str, str], *principals: dict[str, Any], **body: Any) -> None:
    """Let these principals, and no others, read a resource."""
    given = [{"principal": one, "role": "VIEWER"} for one in principals]
    done(service.call("admin/grants/set", {"resource": resource, "grants": given, **body}))


def a_chain(service: RunningService, depth: int, *innermost: dict[str, Any]) -> list[dict[str, Any]]:
    """Groups one inside the other, the outermost first."""
    chain = [a_group(service, f"level {depth}", *innermost)]
    for level in range(depth - 1, 0, -1):
        chain.insert(0, a_group(service, f"level {level}", group(chain[0])))
    return chain


def test_a_user_thirty_groups_deep_may_read(service: RunningService) -> None:
    """Every group on the way holds READ, and is listed once."""
    a_user(service, "deep@example.test")
    a_user(service, "outside@example.test")
    chain = a_chain(service, 30, user("deep@example.test"))
    memo = a_resource(service, "memo")
    grant(service, memo, group(chain[0]))
    expected = sorted(["deep@example.test", *(one["name"] for one in chain)])
    assert sorted(readers(service, memo)) == expected
    assert sorted(readers(service, memo, page_size=4)) == expected
    assert readable(service, "deep@example.test") == ["memo"]
    assert readable(service, "outside@example.test") == []


def test_only_the_groups_inside_the_one_that_was_granted_hold_read(service: RunningService) -> None:
    """A group around it, and its other members, do not."""
    for name in ("inner", "outer"):
        a_user(service, f"{name}@example.test")
    inner = a_group(service, "inner", user("inner@example.test"))
    middle = a_group(service, "middle", group(inner))
    a_group(service, "outer", group(middle), user("outer@example.test"))
    memo = a_resource(service, "memo")
    grant(service, memo, group(middle))
    assert sorted(readers(service, memo)) == ["inner", "inner@example.test", "middle"]
    assert readable(service, "outer@example.test") == []


def test_cycles_of_groups_are_harmless(service: RunningService) -> None:
    """A ring of groups, one of which contains itself, gives each of them and their people READ exactly once."""
    names = ["a", "b", "c"]
    for name in names:
        a_user(service, f"{name}@example.test")
    ring = [a_group(service, name, user(f"{name}@example.test")) for name in names]
    for one, following in zip(ring, [*ring[1:], ring[0]], strict=True):
        members = {"groupId": one["id"], "members": [group(following), group(ring[0])]}
        done(service.call("admin/groups/addMembers", members))
    memo = a_resource(service, "memo")
    grant(service, memo, group(ring[1]))
    assert sorted(readers(service, memo, page_size=2)) == sorted([*names, *(f"{name}@example.test" for name in names)])
    assert readable(service, "a@example.test") == ["memo"]


def test_everybody_is_listed_exactly_once_however_many_ways_lead_there(service: RunningService) -> None:
    """Directly, through two groups, and organization-wide at once; pages of every size give the same walk."""
    users = [f"u{number}@example.test" for number in range(9)]
    done(service.call("admin/users/upsert", {"users": [{"email": one} for one in users]}))
    one, two = a_group(service, "one", *map(user, users)), a_group(service, "two", *map(user, users[3:]))
    memo = a_resource(service, "memo")
    grant(service, memo, group(one), group(two), *map(user, users[:5]), organizationWide=True)
    whole = readers(service, memo)
    assert sorted(whole) == sorted([*users, "one", "two", service.admin_email])
    for page_size in (1, 2, 5, 11, 12):
        assert readers(service, memo, page_size=page_size) == whole


def test_organization_wide_means_every_active_user_and_nobody_else(service: RunningService) -> None:
    """An inactive user is not listed, and neither is a group that was granted nothing."""
    a_user(service, "ben@example.test")
    a_user(service, "gone@example.test", active=False)
    a_group(service, "Team", user("ben@example.test"))
    memo = a_resource(service, "memo")
    grant(service, memo, user("gone@example.test"), organizationWide=True)
    assert sorted(readers(service, memo)) == [service.admin_email, "ben@example.test"]


@pytest.mark.parametrize("organization_wide", [True, False])
def test_inactive_people_leave_no_gap_in_a_page(service: RunningService, organization_wide: bool) -> None:
    """More of them than a page has room for come first, and those after them are still listed."""
    gone = [f"gone{number}@example.test" for number in range(6)]
    here = [f"here{number}@example.test" for number in range(3)]
    for emails, active in ((gone, False), (here, True)):
        done(service.call("admin/users/upsert", {"users": [{"email": one, "active": active} for one in emails]}))
    team = a_group(service, "Team", *map(user, [*gone, *here]))
    memo = a_resource(service, "memo")
    grant(service, memo, *([] if organization_wide else [group(team)]), organizationWide=organization_wide)
    expected = {*here, *([service.admin_email] if organization_wide else ["Team"])}
    for page_size in (1, 2):
        found = readers(service, memo, page_size=page_size)
        assert set(found) == expected
        assert len(found) == len(expected)


def test_a_service_account_has_only_what_it_or_its_groups_were_granted(service: RunningService) -> None:
    """It is reported as a user with its own address; organization-wide does not reach it."""
    enable_service_accounts(service)
    robot = an_account(service, "Robot")
    token = a_token(service, robot, "catalog:read")["token"]

    def robot_reads() -> int:
        asked = service.call("permissions/listAuthorizedResources", {"action": "READ"}, api_key=token)
        return len(done(asked)["resources"])

    memo = a_resource(service, "memo")
    grant(service, memo, organizationWide=True)
    assert readers(service, memo) == [service.admin_email]
    assert robot_reads() == 0
    team = a_group(service, "Team", account(robot))
    grant(service, memo, group(team))
    listed = walk(service, LOOKUP, {"resource": memo, "action": "READ"}, page_size=9)
    assert robot_reads() == 1
    shown = {"type": "user", "id": robot["serviceAccountId"], "email": "robot@example.test", "name": "Robot"}
    assert shown in listed
    assert {"type": "group", "id": team["id"], "name": "Team"} in listed
    taken = service.call("admin/users/upsert", {"users": [{"email": "robot@example.test"}]})
    assert code(taken) == (409, "email_taken")


def test_a_walk_sees_those_who_stay_once_while_others_come_and_go(service: RunningService) -> None:
    """Between two pages members leave and join; whoever is there throughout is seen exactly once."""
    users = [f"u{number}@example.test" for number in range(12)]
    done(service.call("admin/users/upsert", {"users": [{"email": one} for one in users]}))
    team = a_group(service, "Team", *map(user, users[:10]))
    memo = a_resource(service, "memo")
    grant(service, memo, group(team))
    body = {"resource": memo, "action": "READ", "pageSize": 4}
    page = done(service.call(LOOKUP, body))
    seen = [one.get("email") for one in page["principals"]]
    leaving = {"groupId": team["id"], "members": [user(users[0]), user(users[9])]}
    done(service.call("admin/groups/removeMembers", leaving))
    done(service.call("admin/groups/addMembers", {"groupId": team["id"], "members": [user(users[11])]}))
    while token := page.get("nextPageToken"):
        page = done(service.call(LOOKUP, {**body, "pageToken": token}))
        seen += [one.get("email") for one in page["principals"]]
    for email in users[1:9]:
        assert seen.count(email) == 1
    assert len(seen) == len(set(seen))


def test_resources_are_listed_by_type_and_page_for_whoever_acts(service: RunningService) -> None:
    """For the key's owner by default, for a user when named; an admin sees only what access says."""
    ben = a_user(service, "ben@example.test")
    for number in range(25):
        resource_type = "AGENT" if number % 5 == 0 else "GOOGLE_DRIVE_ITEM"
        a_resource(service, f"r{number}", resource_type=resource_type, owner=ben["id"])
    body = {"action": "READ", "userEmail": "ben@example.test"}
    listed = walk(service, "permissions/listAuthorizedResources", body, page_size=4)
    assert sorted(one["resourceId"] for one in listed) == sorted(f"r{number}" for number in range(25))
    assert len(done(service.call("permissions/listAuthorizedResources", body))["resources"]) == 10
    assert len(readable(service, "ben@example.test", resourceType="AGENT")) == 5
    assert readable(service, "ben@example.test", resourceType="BOX_FILE") == []
    assert readable(service) == []
    key = a_key(service, ownerEmail="ben@example.test")["apiKey"]
    assert len(walk(service, "permissions/listAuthorizedResources", {"action": "READ"}, page_size=9, api_key=key)) == 25


def test_a_page_token_is_good_for_its_own_query_alone(service: RunningService) -> None:
    """With another resource, another user or another endpoint it is 400."""
    a_user(service, "ben@example.test")
    one, two = a_resource(service, "one"), a_resource(service, "two")
    for resource in (one, two):
        grant(service, resource, organizationWide=True)
    token = done(service.call(LOOKUP, {"resource": one, "action": "READ", "pageSize": 1}))["nextPageToken"]
    attempts = [
        (LOOKUP, {"resource": two, "action": "READ", "pageToken": token}),
        (LOOKUP, {"resource": one, "action": "READ", "pageToken": token[:-2] + "AA"}),
        ("permissions/listAuthorizedResources", {"action": "READ", "pageToken": token}),
    ]
    for operation, body in attempts:
        assert code(service.call(operation, body)) == (400, "invalid_page_token")
    mine = done(service.call("permissions/listAuthorizedResources", {"action": "READ", "pageSize": 1}))
    body = {"action": "READ", "pageToken": mine["nextPageToken"]}
    assert done(service.call("permissions/listAuthorizedResources", body))["resources"]
    theirs = {**body, "userEmail": "ben@example.test"}
    assert code(service.call("permissions/listAuthorizedResources", theirs)) == (400, "invalid_page_token")


@pytest.mark.parametrize(
    "body",
    [
        {"action": "WRITE"},
        {},
        {"action": "READ", "pageSize": 0},
        {"action": "READ", "pageSize": 1001},
        {"action": "READ", "pageSize": "10"},
        {"action": "READ", "resourceType": "NONSENSE"},
        {"action": "READ", "unknown": 1},
        {"action": "READ", "pageToken": "x"},
        {"action": "READ", "userEmail": "no@example.test"},
    ],
)
def test_a_malformed_question_is_a_400(service: RunningService, body: dict[str, Any]) -> None:
    """Never the framework's 422, never a 500."""
    assert service.call("permissions/listAuthorizedResources", body).status_code == 400
