"""Who may read what: the two look-ups of the seed."""

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
from tests.service.service_accounts import a_token, account, an_account, delete_account, enable_service_accounts
from tests.service.test_permissions_checks import CHECK, may

LOOKUP = "permissions/listAuthorizedPrincipalsForResource"


def test_a_user_thirty_groups_deep_may_read(service) -> None:
    """Every group on the way holds READ, and is listed once, in a ring too; one around it, and its others, do not."""
    for name in ("deep", "outside"):
        a_user(service, f"{name}@example.test")
    chain = [a_group(service, "level 30", user("deep@example.test"))]
    for level in range(29, 0, -1):
        chain.insert(0, a_group(service, f"level {level}", group(chain[0])))
    a_group(service, "around", group(chain[0]), user("outside@example.test"))
    memo = a_resource(service, "memo")
    grant(service, memo, group(chain[0]))
    expected = sorted(["deep@example.test", *(one["name"] for one in chain)])
    for closed in (False, True):
        if closed:
            members = {"groupId": chain[-1]["id"], "members": [group(chain[0]), group(chain[-1])]}
            done(service.call("admin/groups/addMembers", members))
            grant(service, memo, group(chain[10]))
        assert sorted(readers(service, memo)) == expected
        assert sorted(readers(service, memo, page_size=4)) == expected
        assert readable(service, "deep@example.test") == ["memo"]
        assert readable(service, "outside@example.test") == []


def test_organization_wide_means_every_active_user_each_once(service) -> None:
    """However many ways lead to them; more inactive people than a page has room for leave no gap in it."""
    emails = {active: [f"{active}{number}@example.test".lower() for number in range(9)] for active in (True, False)}
    users = [{"email": email, "active": active} for active, some in emails.items() for email in some]
    done(service.call("admin/users/upsert", {"users": users}))
    one, two = (a_group(service, name, *(user(each["email"]) for each in users)) for name in ("one", "two"))
    a_group(service, "other", *map(user, emails[True]))
    memo = a_resource(service, "memo")
    everyone = [group(one), group(two), *(user(each["email"]) for each in users)]
    for direct, wide in (([], True), (everyone, True), (everyone, False)):
        grant(service, memo, *direct, organizationWide=wide)
        whole = readers(service, memo)
        others = [service.admin_email] * wide + ["one", "two"] * bool(direct)
        assert sorted(whole) == sorted([*emails[True], *others])
        for page_size in (1, 2, 5, 11, 12):
            assert readers(service, memo, page_size=page_size) == whole


def test_a_service_account_has_only_what_it_or_its_groups_were_granted(service) -> None:
    """It is reported as a user with its own address; organization-wide does not reach it; deleted it is unknown."""
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
    assert not may(service, memo, robot["email"])
    assert not may(service, memo, api_key=token)
    team = a_group(service, "Team", account(robot))
    grant(service, memo, group(team))
    listed = walk(service, LOOKUP, {"resource": memo, "action": "READ"}, page_size=9)
    assert robot_reads() == 1
    assert may(service, memo, robot["email"])
    assert may(service, memo, api_key=token)
    assert {"type": "user", "id": robot["serviceAccountId"], "email": "robot@example.test", "name": "Robot"} in listed
    assert {"type": "group", "id": team["id"], "name": "Team"} in listed
    taken = service.call("admin/users/upsert", {"users": [{"email": "robot@example.test"}]})
    assert code(taken) == (409, "email_taken")
    delete_account(service, robot)
    asked = service.call(CHECK, {"resource": memo, "action": "READ", "userEmail": robot["email"]})
    assert code(asked) == (400, "unknown_user")


def test_resources_are_listed_for_whoever_acts(service) -> None:
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
