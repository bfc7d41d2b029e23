"""Who may read what: the two look-ups of the seed."""

from typing import Any

from tests.harness.services import RunningService
from tests.service.directory import (
    a_group,
    a_key,
    a_resource,
    a_user,
    code,
    done,
    grant,
    group,
    readable,
    readers,
    user,
    walk,
)
from tests.service.service_accounts import a_token, account, an_account, enable_service_accounts

LOOKUP = "permissions/listAuthorizedPrincipalsForResource"


def a_chain(service: RunningService, depth: int, *innermost: dict[str, Any]) -> list[dict[str, Any]]:
    """Groups one inside the other, the outermost first."""
    chain = [a_group(service, f"level {depth}", *innermost)]
    for level in range(depth - 1, 0, -1):
        chain.insert(0, a_group(service, f"level {level}", group(chain[0])))
    return chain


def test_a_user_thirty_groups_deep_may_read(service: RunningService) -> None:
    """Every group on the way holds READ, and is listed once; one around it, and its other members, do not."""
    for name in ("deep", "outside"):
        a_user(service, f"{name}@example.test")
    chain = a_chain(service, 30, user("deep@example.test"))
    a_group(service, "around", group(chain[0]), user("outside@example.test"))
    memo = a_resource(service, "memo")
    grant(service, memo, group(chain[0]))
    expected = sorted(["deep@example.test", *(one["name"] for one in chain)])
    assert sorted(readers(service, memo)) == expected
    assert sorted(readers(service, memo, page_size=4)) == expected
    assert readable(service, "deep@example.test") == ["memo"]
    assert readable(service, "outside@example.test") == []


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


def test_organization_wide_means_every_active_user_each_once(service: RunningService) -> None:
    """However many ways lead to them; more inactive people than a page has room for leave no gap in it."""
    emails = {active: [f"{active}{number}@example.test".lower() for number in range(9)] for active in (True, False)}
    users = [{"email": email, "active": active} for active, some in emails.items() for email in some]
    done(service.call("admin/users/upsert", {"users": users}))
    one, two = (a_group(service, name, *(user(each["email"]) for each in users)) for name in ("one", "two"))
    a_group(service, "other", *map(user, emails[True]))
    memo = a_resource(service, "memo")
    for direct in ([], [group(one), group(two), *(user(each["email"]) for each in users)]):
        grant(service, memo, *direct, organizationWide=True)
        whole = readers(service, memo)
        assert sorted(whole) == sorted([*emails[True], service.admin_email, *(["one", "two"] if direct else [])])
        for page_size in (1, 2, 5, 11, 12):
            assert readers(service, memo, page_size=page_size) == whole


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


def test_resources_are_listed_for_whoever_acts(service: RunningService) -> None:
    """For the key's owner by default, for a user when named; an admin sees only what access says."""
    ben = a_user(service, "ben@example.test")
    for number in range(12):
        a_resource(service, f"r{number}", resource_type="AGENT" if number % 5 == 0 else "BOX_FILE", owner=ben["id"])
    body = {"action": "READ", "userEmail": "ben@example.test"}
    assert len(done(service.call("permissions/listAuthorizedResources", body))["resources"]) == 10
    assert len(readable(service, "ben@example.test", resourceType="AGENT")) == 3
    assert readable(service, "ben@example.test", resourceType="GOOGLE_DRIVE_ITEM") == []
    assert readable(service) == []
    key = a_key(service, ownerEmail="ben@example.test")["apiKey"]
    assert len(walk(service, "permissions/listAuthorizedResources", {"action": "READ"}, page_size=9, api_key=key)) == 12


def test_a_malformed_question_is_a_400(module_service: RunningService) -> None:
    """Never the framework's 422, never a 500."""
    wrong: list[dict[str, Any]] = [
        *({}, {"action": "WRITE"}),
        *({"action": "READ", "pageSize": size} for size in (0, 1001, "10")),
        *({"action": "READ", "pageToken": "x"}, {"action": "READ", "userEmail": "no@example.test"}),
        *({"action": "READ", "resourceType": "NONSENSE"}, {"action": "READ", "unknown": 1}),
    ]
    for body in wrong:
        assert module_service.call("permissions/listAuthorizedResources", body).status_code == 400, body
