"""Who may read what: checks of resources, the seed's two look-ups, and the lists of all access."""

from collections import defaultdict

import pytest

from tests.harness.documents import create_collection, ok, refused, upload
from tests.harness.messages import messages_of
from tests.harness.services import RunningService
from tests.service import directory
from tests.service.directory import a_group, a_resource, a_user, code, done, grant, group, readable, readers, user, walk
from tests.service.service_accounts import a_token, account, an_account, delete_account, enable_service_accounts
from tests.service.test_access_resources import ADA, BEN, EVE, ZOE, a_world

CHECK = "permissions/checkResourceAuthorizationForUser"
BULK = "permissions/checkBulkResourcesAuthorizationForUser"
NOWHERE = {"resourceId": "nowhere", "resourceType": "UPLOADED_DOCUMENT"}


def may(service: RunningService, resource: dict[str, str], email: str | None = None, **options) -> bool:
    named = {"userEmail": email} if email else {}
    return done(service.call(CHECK, {"resource": resource, "action": "READ", **named}, **options))["authorized"]


def test_a_check_says_what_grants_groups_and_ownership_say(service: RunningService) -> None:
    ada = a_user(service, "ada@example.test")
    for name in ("ben", "cleo", "dan"):
        a_user(service, f"{name}@example.test")
    inner = a_group(service, "inner", user("cleo@example.test"))
    memo, open_to_all = a_resource(service, "memo", owner=ada["id"]), a_resource(service, "open")
    grant(service, memo, user("ben@example.test"), group(a_group(service, "outer", group(inner))))
    grant(service, open_to_all, organizationWide=True)
    answers = {name: may(service, memo, f"{name}@example.test") for name in ("ada", "ben", "cleo", "dan")}
    assert answers == {"ada": True, "ben": True, "cleo": True, "dan": False}
    assert not may(service, memo)
    assert may(service, open_to_all)
    assert may(service, open_to_all, "Dan@Example.test")
    grant(service, memo)
    assert not any(may(service, memo, f"{name}@example.test") for name in ("ben", "cleo"))


def test_many_are_answered_in_the_order_asked(service: RunningService) -> None:
    memos = [a_resource(service, f"memo-{number}") for number in range(4)]
    for memo in memos[::2]:
        grant(service, memo, organizationWide=True)
    other = {**memos[0], "resourceType": "BOX_FILE"}
    asked = [memos[3], memos[2], NOWHERE, memos[0], memos[2], other, memos[1]]
    results = done(service.call(BULK, {"resources": asked, "action": "READ"}))["results"]
    assert [one["resource"] for one in results] == asked
    assert [one["authorized"] for one in results] == [False, True, False, True, True, False, False]


def test_a_thousand_are_one_query(service: RunningService) -> None:
    """As many queries as for a single resource; 1001 are refused."""
    memo = a_resource(service, "memo")

    def asked(number: int) -> int:
        resources = [{**memo, "resourceId": f"memo-{each}"} for each in range(number)]
        with messages_of(service) as said:
            assert len(done(service.call(BULK, {"resources": resources, "action": "READ"}))["results"]) == number
        return len(said)

    asked(1)
    assert asked(1000) == asked(1) > 0
    for number in (0, 1001):
        assert code(service.call(BULK, {"resources": [memo] * number, "action": "READ"})) == (400, "invalid_request")


def test_who_may_be_asked_about(service: RunningService) -> None:
    for name in ("ben", "cleo"):
        a_user(service, f"{name}@example.test")
    a_user(service, "gone@example.test", active=False)
    memo = a_resource(service, "memo")
    grant(service, memo, user("ben@example.test"), user("gone@example.test"))
    plain = directory.a_key(service, ownerEmail="ben@example.test")["apiKey"]
    acting = directory.a_key(service, ownerEmail="ben@example.test", mayActForUsers=True)["apiKey"]
    admins = directory.a_key(service, mayActForUsers=False)["apiKey"]

    def refusal(key: str, email: str) -> tuple[int, str]:
        body = {"resource": memo, "action": "READ", "userEmail": email}
        several = {"resources": [memo], "action": "READ", "userEmail": email}
        answers = {code(service.call(CHECK, body, api_key=key)), code(service.call(BULK, several, api_key=key))}
        assert len(answers) == 1
        return answers.pop()

    assert may(service, memo, api_key=plain)
    assert may(service, memo, "BEN@example.test", api_key=plain)
    assert refusal(plain, "cleo@example.test") == (403, "key_may_not_act_for_users")
    assert refusal(plain, "nobody@example.test") == (403, "key_may_not_act_for_users")
    assert not may(service, memo, "cleo@example.test", api_key=acting)
    assert refusal(acting, "nobody@example.test") == (400, "unknown_user")
    assert refusal(acting, "gone@example.test") == (400, "unknown_user")
    assert may(service, memo, "ben@example.test", api_key=admins)
    assert refusal(admins, "nobody@example.test") == (400, "unknown_user")
    assert not may(service, memo, "gone@example.test", api_key=admins)


LOOKUP = "permissions/listAuthorizedPrincipalsForResource"


def test_a_user_thirty_groups_deep_may_read(service) -> None:
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
    """A page full of inactive people leaves no gap."""
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
    ben = a_user(service, "ben@example.test")
    for number in range(12):
        a_resource(service, f"r{number}", resource_type="AGENT" if number % 5 == 0 else "BOX_FILE", owner=ben["id"])
    body = {"action": "READ", "userEmail": "ben@example.test"}
    assert len(done(service.call("permissions/listAuthorizedResources", body))["resources"]) == 10
    assert len(readable(service, "ben@example.test", resourceType="AGENT")) == 3
    assert readable(service, "ben@example.test", resourceType="GOOGLE_DRIVE_ITEM") == []
    assert readable(service) == []
    key = directory.a_key(service, ownerEmail="ben@example.test")["apiKey"]
    assert len(walk(service, "permissions/listAuthorizedResources", {"action": "READ"}, page_size=9, api_key=key)) == 12


STATE, RESOURCES = "admin/access/getState", "admin/access/listResources"
HOLDERS, PEOPLE = "admin/access/listHolders", "admin/access/listGroupPeople"


@pytest.fixture
def ship(service: RunningService) -> RunningService:
    return a_world(service).service


def joined(service: RunningService, *, page_size: int) -> dict[str, set[str]]:
    """Return the readers' addresses by the resource's id in its source system, from the lists alone."""
    people: dict[str, set[str]] = defaultdict(set)
    for row in walk(service, PEOPLE, {}, page_size=page_size):
        assert row["principalId"] not in people[row["groupId"]]
        people[row["groupId"]].add(row["principalId"])
    users = walk(service, "admin/users/list")
    accounts = walk(service, "admin/serviceAccounts/list")
    emails = {one["id"]: one["email"] for one in users} | {one["serviceAccountId"]: one["email"] for one in accounts}
    everyone = {one["id"] for one in users if one["active"]}
    of_class: dict[str, set[str]] = defaultdict(set)
    for row in walk(service, HOLDERS, {}, page_size=page_size):
        holder = row["principalId"]
        expanded = {"group": people[holder], "organization": everyone}.get(row["principalType"], {holder})
        of_class[row["accessClass"]] |= expanded
    rows = walk(service, RESOURCES, {}, page_size=page_size)
    assert len({row["objectId"] for row in rows}) == len(rows)
    return {row["resourceId"]: {emails[one] for one in of_class[row["accessClass"]]} for row in rows}


def test_joined_they_say_what_the_look_ups_say(ship: RunningService) -> None:
    found = joined(ship, page_size=1000)
    assert [joined(ship, page_size=size) for size in (1, 2, 3)] == [found] * 3
    looked_up = {
        row["resourceId"]: {one for one in readers(ship, resource_of(row)) if "@" in one}
        for row in walk(ship, RESOURCES)
    }
    assert found == looked_up
    inner = {ADA, ZOE, "bosun@example.test"}
    assert (found["to outer"], found["to inner"], found["to ben"]) == (inner, inner | {BEN}, {BEN, ZOE})
    assert found["to everyone"] == {ADA, BEN, ZOE, ship.admin_email}
    assert found["to eve"] == found["to nobody"] == {ZOE}


def resource_of(row: dict) -> dict[str, str]:
    return {"resourceId": row["resourceId"], "resourceType": row["resourceType"]}


def test_classes_are_shared_and_tell_nothing_of_others(ship: RunningService) -> None:
    for name in ("one", "two"):
        grant(ship, a_resource(ship, name), user(ADA))
    rows = {row["resourceId"]: row["accessClass"] for row in walk(ship, RESOURCES)}
    assert rows["one"] == rows["two"]
    assert len({rows["one"], rows["to ben"], rows["to everyone"], rows["to nobody"]}) == 4
    stranger = directory.another_organization(ship)
    for operation in (RESOURCES, HOLDERS, PEOPLE):
        assert walk(ship, operation, api_key=stranger) == []
    since = state(ship, api_key=stranger)["state"]
    grant(ship, directory.document("one"), user(BEN))
    assert not state(ship, since, api_key=stranger)["changed"]


def state(service: RunningService, since: str | None = None, **options) -> dict:
    return done(service.call(STATE, {"since": since} if since else {}, **options))


def test_every_change_of_access_is_noticed(ship: RunningService) -> None:
    inner = next(one for one in walk(ship, "admin/groups/list", {}, page_size=10) if one["name"] == "inner")
    member = {"groupId": inner["id"], "members": [user(BEN)]}
    memo, delete = a_resource(ship, "memo"), "documentCollections/deleteDocumentCollection"
    changes = [
        lambda: grant(ship, memo, user(ADA)),
        lambda: [grant(ship, memo), grant(ship, memo, user(ADA))],
        lambda: done(ship.call("admin/groups/addMembers", member)),
        lambda: done(ship.call("admin/groups/removeMembers", member)),
        lambda: [done(ship.call(f"admin/groups/{verb}Members", member)) for verb in ("add", "remove")],
        lambda: a_user(ship, EVE, active=True),
        lambda: a_user(ship, "new@example.test"),
        lambda: a_resource(ship, "new"),
        lambda: ok(ship.call(delete, {"documentCollectionId": create_collection(ship, "Brief")})),
        lambda: ok(upload(ship, "log")),
        lambda: ok(upload(ship, "log", internalPublic="true")),
        lambda: [ok(upload(ship, "log", internalPublic=wide)) for wide in ("false", "true")],
    ]
    for number, change in enumerate(changes):
        since = state(ship)["state"]
        assert state(ship, since)["changed"] is False
        change()
        assert state(ship, since)["changed"] is True, number


def test_what_changes_nobody_s_access_is_no_change(ship: RunningService) -> None:
    ok(upload(ship, "log"))
    since = state(ship)["state"]
    ok(upload(ship, "log", "A storm at sea."))
    done(ship.call("search/searchDocumentCatalog", {"searchQuery": "storm"}))
    assert state(ship, since)["changed"] is False


def test_a_state_that_was_never_given_is_refused(service: RunningService) -> None:
    for since in ("x", "x.y", "x.99999999999999999999999", "."):
        refused(service.call(STATE, {"since": since}), 400, "invalid_state")
