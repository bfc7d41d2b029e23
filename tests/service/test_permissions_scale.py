"""Look-ups of many: every strategy for a page gives the same list, and walks are right under changes."""

from collections.abc import Callable

import pytest

from service.domains.access.lookups import queries
from service.platform.sql import param
from tests.harness.cases import statement
from tests.harness.loops import going_on
from tests.harness.services import RunningService
from tests.service import directory
from tests.service.directory import a_group, a_key, a_resource, a_user, code, done, grant, group, readers, user, walk

pytestmark = pytest.mark.own_service  # tests fill its tables with thousands of rows

RESOURCES = "permissions/listAuthorizedResources"
PRINCIPALS = "permissions/listAuthorizedPrincipalsForResource"
ADA = "ada@example.test"
LONG = [pytest.mark.long, pytest.mark.timeout(1800)]
# More than are asked one by one, so that a page is walked; no multiple of five, so that each has some of all kinds.
GROUPS = queries.FEW + 9


@pytest.fixture
def read_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    def change(few: int, stretch: int) -> None:
        monkeypatch.setattr(queries, "FEW", few)
        monkeypatch.setattr(queries, "STRETCH", stretch)
        build = queries._readable_resources
        of_type = param(queries.resources.c.resource_type)
        monkeypatch.setattr(queries, "_READABLE_RESOURCES", build(resource_type=None))
        monkeypatch.setattr(queries, "_READABLE_RESOURCES_OF_TYPE", build(resource_type=of_type))

    return change


WAYS = [(0, 1), (0, 3), (2, 5), (0, 17), (3, 10_000), (0, 10_000), (10_000, 10_000)]


def test_every_way_to_read_a_page_of_resources_gives_the_same(service, read_by) -> None:
    a_user(service, ADA)
    a_user(service, "ben@example.test")
    teams = [a_group(service, f"team {number}", user(ADA)) for number in range(5)]
    memos = [
        a_resource(service, f"m{number:02}", resource_type="AGENT" if number % 7 == 0 else "BOX_FILE")
        for number in range(50)
    ]
    # A stretch that she may not read, classes of many sizes, and others' in between.
    holders = [group(teams[number % 5 if number > 25 else 0]) for number in range(50)]
    holders[10:22] = [user("ben@example.test")] * 12
    given_to = [
        {"resource": memo, "grants": [{"principal": one, "role": "VIEWER"}]}
        for memo, one in zip(memos, holders, strict=True)
    ]
    done(service.call("admin/grants/setMany", {"resources": given_to}))
    expected = [memo["resourceId"] for memo, holder in zip(memos, holders, strict=True) if holder["type"] == "group"]
    agents = [one for one in expected if int(one[1:]) % 7 == 0]
    for few, stretch in WAYS:
        read_by(few, stretch)
        for page_size in (1, 4, 11, 1000):
            for body, listed in (({}, expected), ({"resourceType": "AGENT"}, agents)):
                asked = {"action": "READ", "userEmail": ADA, **body}
                found = [one["resourceId"] for one in walk(service, RESOURCES, asked, page_size=page_size)]
                assert sorted(found) == listed, (few, stretch, page_size)
    assert directory.readable(service, "ben@example.test") == [f"m{number}" for number in range(10, 22)]


def test_every_way_to_read_a_page_of_principals_gives_the_same(service, read_by) -> None:
    emails = [f"u{number:02}@example.test" for number in range(40)]
    gone = {*emails[8:14], emails[39]}
    users = [{"email": email, "active": email not in gone} for email in emails]
    done(service.call("admin/users/upsert", {"users": users}))
    inner = [a_group(service, f"inner {number}", *map(user, emails[number::4])) for number in range(4)]
    outer = a_group(service, "outer", *map(group, inner), *map(user, emails[:20]))
    a_group(service, "other", *map(user, emails))
    memo = a_resource(service, "memo")
    grant(service, memo, group(outer), group(inner[3]), user(emails[5]))
    expected = sorted([*(set(emails) - gone), "outer", *(one["name"] for one in inner)])
    whole = readers(service, memo)
    for few, stretch in WAYS:
        read_by(few, stretch)
        for page_size in (1, 3, 10, 1000):
            found = readers(service, memo, page_size=page_size)
            assert sorted(found) == expected, (few, stretch, page_size)
            assert found == whole


def many_resources(service: RunningService, number: int) -> None:
    service.execute(
        statement("many_resources"),
        {"groups": GROUPS, "number": number, "organization": directory.organization_id(service)},
    )


# What happens to resource r<n>, by n % 5.
STAYS, MOVES, LOSES, GAINS, NEVER = range(5)


@pytest.mark.parametrize(("number", "page_size"), [(5_000, 100), pytest.param(100_000, 1000, marks=LONG)])
def test_a_walk_through_resources_is_right_while_grants_change(service, number, page_size) -> None:
    a_user(service, ADA)
    a_user(service, "ben@example.test")
    teams = [a_group(service, f"team {each}", user(ADA)) for each in range(GROUPS)]
    many_resources(service, number)

    def holder(kind: int, turn: int) -> dict | None:
        others = {LOSES: None, GAINS: user(ADA), NEVER: user("ben@example.test")}
        return group(teams[turn % GROUPS]) if kind == MOVES else others[kind]

    changeable = [each for each in range(number) if each % 5 != STAYS]
    batch = 200

    def change() -> None:
        turn = len(changes)
        start = turn * batch * 7 % len(changeable)
        resources = [
            {
                "resource": {"resourceId": f"r{each}", "resourceType": "BOX_FILE"},
                "grants": [{"principal": who, "role": "VIEWER"}] if (who := holder(each % 5, turn)) else [],
            }
            for each in changeable[start : start + batch]
        ]
        done(service.call("admin/grants/setMany", {"resources": resources}))
        changes.append(turn)

    asked, changes = {"action": "READ", "userEmail": ADA}, list[int]()
    with going_on(change):
        found = [one["resourceId"] for one in walk(service, RESOURCES, asked, page_size=page_size)]
        assert changes
    is_right([int(one[1:]) for one in found], number)


def is_right(found: list[int], number: int) -> None:
    seen = set(found)
    assert len(seen) == len(found)
    assert {each for each in range(number) if each % 5 in {STAYS, MOVES}} <= seen
    assert not {each for each in seen if each % 5 == NEVER}


def many_users(service: RunningService, number: int) -> None:
    for start in range(0, number, 1000):
        users = [{"email": f"v{each}@example.test"} for each in range(start, min(start + 1000, number))]
        done(service.call("admin/users/upsert", {"users": users}))


@pytest.mark.parametrize(("number", "page_size"), [(2_000, 40), pytest.param(50_000, 1000, marks=LONG)])
def test_a_walk_through_principals_is_right_while_memberships_change(service, number, page_size) -> None:
    many_users(service, number)
    named = [user(f"v{each}@example.test") for each in range(number)]
    # Those who never read are in a group beside; the others are spread over many, all of them inside one.
    groups = [
        a_group(
            service,
            f"group {place}",
            *(named[each] for each in range(number) if each % 5 < 3 and each % GROUPS == place),
        )
        for place in range(GROUPS)
    ]
    a_group(service, "beside", *named[NEVER::5])
    outer = a_group(service, "outer", *map(group, groups))
    memo = a_resource(service, "memo")
    grant(service, memo, group(outer))

    def members(operation: str, where: dict, who: list[dict]) -> None:
        done(service.call(f"admin/groups/{operation}", {"groupId": where["id"], "members": who}))

    changes = list[int]()

    def change() -> None:
        turn = len(changes)
        here, there = groups[turn % GROUPS], groups[(turn + 1) % GROUPS]
        own = range(turn % GROUPS, number, GROUPS)
        moving = [named[each] for each in own if each % 5 == MOVES]
        members("addMembers", there, moving)
        members("removeMembers", here, [*moving, *(named[each] for each in own if each % 5 == LOSES)])
        members("addMembers", here, [named[each] for each in own if each % 5 == GAINS])
        # Back again, for the next time.
        members("addMembers", here, moving)
        members("removeMembers", there, moving)
        changes.append(turn)

    with going_on(change):
        found = [one for one in readers(service, memo, page_size=page_size) if one.startswith("v")]
        assert changes
    is_right([int(one[1:].partition("@")[0]) for one in found], number)


def test_ten_thousand_grants_on_a_resource(service: RunningService) -> None:
    number = 10_000
    many_users(service, number - 1)
    memo, team = a_resource(service, "memo"), a_group(service, "Team", user(service.admin_email))
    given_to = [{"principal": user(f"v{each}@example.test"), "role": "VIEWER"} for each in range(number - 1)]
    body = {"resource": memo, "grants": [*given_to, {"principal": group(team), "role": "EDITOR"}]}
    assert len(done(service.call("admin/grants/set", body))["grants"]) == number
    ids = [one["principal"]["id"] for one in walk(service, "admin/grants/list", {"resource": memo}, page_size=999)]
    assert len(set(ids)) == len(ids) == number
    assert ids == sorted(ids)
    assert len(set(readers(service, memo))) == number + 1


def test_a_page_of_grants_begins_between_two_roles_of_one_principal(service: RunningService) -> None:
    memo = a_resource(service, "memo")
    people = [a_user(service, f"u{number}@example.test") for number in range(3)]
    given_to = [{"principal": user(one["email"]), "role": role} for one in people for role in ("VIEWER", "EDITOR")]
    done(service.call("admin/grants/set", {"resource": memo, "grants": given_to}))
    expected = sorted((one["id"], role) for one in people for role in ("VIEWER", "EDITOR"))
    for page_size in range(1, 8):
        listed = walk(service, "admin/grants/list", {"resource": memo}, page_size=page_size)
        assert [(one["principal"]["id"], one["role"]) for one in listed] == expected


def test_page_tokens_of_lists_are_bound_to_query_and_caller(service: RunningService) -> None:
    """With another query, another admin, or a changed token: 400."""
    a_user(service, "other@example.test", isAdmin=True)
    other = a_key(service, ownerEmail="other@example.test", mayActForUsers=True)["apiKey"]
    memos = [a_resource(service, f"memo-{number}") for number in range(3)]
    for memo in memos:
        grant(service, memo, user(service.admin_email), user("other@example.test"))
    asked: list[tuple[str, dict, list[dict]]] = [
        ("admin/grants/list", {"resource": memos[0]}, [{"resource": memos[1]}]),
        (PRINCIPALS, {"resource": memos[0], "action": "READ"}, [{"resource": memos[1]}]),
        (RESOURCES, {"action": "READ"}, [{"resourceType": "UPLOADED_DOCUMENT"}, {"userEmail": "other@example.test"}]),
    ]
    tokens = [done(service.call(one, {**body, "pageSize": 1}))["nextPageToken"] for one, body, _ in asked]
    for (operation, body, others), token in zip(asked, tokens, strict=True):
        middle = len(token) // 2
        changed = token[:middle] + ("A" if token[middle] != "A" else "B") + token[middle + 1 :]
        refused = [
            *(service.call(operation, {**body, **another, "pageToken": token}) for another in others),
            service.call(operation, {**body, "pageToken": token}, api_key=other),
            service.call(operation, {**body, "pageToken": changed}),
            *(service.call(operation, {**body, "pageToken": each}) for each in tokens if each != token),
        ]
        assert {code(one) for one in refused} == {(400, "invalid_page_token")}, operation
        done(service.call(operation, {**body, "pageToken": token, "pageSize": 2}))
