"""The lists of all access: joined, they say of everybody what the look-ups say of one, and a change is noticed."""

from collections import defaultdict

import pytest

from tests.harness.documents import create_collection, ok, refused, upload
from tests.harness.services import RunningService
from tests.service.directory import a_resource, a_user, another_organization, document, done, grant, readers, user, walk
from tests.service.test_access_resources import ADA, BEN, EVE, ZOE, a_world

STATE, RESOURCES = "admin/access/getState", "admin/access/listResources"
HOLDERS, PEOPLE = "admin/access/listHolders", "admin/access/listGroupPeople"


@pytest.fixture
def ship(service: RunningService) -> RunningService:
    """An organization in which people come by what they may read in every way there is."""
    return a_world(service).service


def joined(service: RunningService, *, page_size: int) -> dict[str, set[str]]:
    """Who may read what, from the lists alone: addresses of people by the resource's id in its source system."""
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
    """By nested groups and cycles of them, directly, or with everyone: the same people, on pages of any size."""
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
    stranger = another_organization(ship)
    for operation in (RESOURCES, HOLDERS, PEOPLE):
        assert walk(ship, operation, api_key=stranger) == []
    since = state(ship, api_key=stranger)["state"]
    grant(ship, document("one"), user(BEN))
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
    """Searching, and giving a document other contents, leave the state as it is: a busy organization has one too."""
    ok(upload(ship, "log"))
    since = state(ship)["state"]
    ok(upload(ship, "log", "A storm at sea."))
    done(ship.call("search/searchDocumentCatalog", {"searchQuery": "storm"}))
    assert state(ship, since)["changed"] is False


def test_a_state_that_was_never_given_is_refused(service: RunningService) -> None:
    for since in ("x", "x.y", "x.99999999999999999999999", "."):
        refused(service.call(STATE, {"since": since}), 400, "invalid_state")
