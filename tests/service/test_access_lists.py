"""The lists of all access: joined, they say of everybody what the look-ups say of one, and a change is noticed."""

from collections import defaultdict
from typing import Any

import pytest

from tests.harness.services import RunningService
from tests.service.directory import (
    a_group,
    a_resource,
    a_user,
    another_organization,
    code,
    done,
    group,
    readers,
    user,
    walk,
)

STATE, RESOURCES = "admin/access/getState", "admin/access/listResources"
HOLDERS, PEOPLE = "admin/access/listHolders", "admin/access/listGroupPeople"
ADA, BEN, EVE = "ada@example.test", "ben@example.test", "eve@example.test"


def grant(service: RunningService, resource: dict[str, str], *principals: dict[str, Any], **body: Any) -> None:
    """Let these, and only these, read a resource."""
    grants = [{"principal": principal, "role": "VIEWER"} for principal in principals]
    done(service.call("admin/grants/set", {"resource": resource, "grants": grants, **body}))


@pytest.fixture
def ship(service: RunningService) -> RunningService:
    """An organization in which people come by what they may read in every way there is."""
    for email in (ADA, BEN, EVE):
        a_user(service, email, active=email != EVE)
    done(service.call("admin/organization/update", {"serviceAccountsEnabled": True}))
    account = done(service.call("admin/serviceAccounts/create", {"displayName": "Bosun"}))
    bosun = {"type": "serviceAccount", "id": account["serviceAccountId"]}
    inner = a_group(service, "inner", user(ADA), user(EVE), bosun)
    outer = a_group(service, "outer", group(inner), user(ADA))
    a_group(service, "inner", user(ADA), user(EVE), bosun, group(outer), id=inner["id"])
    for name in ("deep", "deep too", "direct", "everyone", "nobody", "gone"):
        a_resource(service, name, resource_type="BOX_FILE")
    grant(service, box("deep"), group(outer))
    grant(service, box("deep too"), group(outer))
    grant(service, box("direct"), user(BEN), user(EVE), bosun)
    grant(service, box("everyone"), user(BEN), organizationWide=True)
    return service


def box(name: str) -> dict[str, str]:
    """How requests name a file of the box."""
    return {"resourceId": name, "resourceType": "BOX_FILE"}


def joined(service: RunningService, *, page_size: int) -> dict[str, set[str]]:
    """Who may read what, from the lists alone: addresses of people by the resource's id in its source system."""
    people: dict[str, set[str]] = defaultdict(set)
    for row in walk(service, PEOPLE, {}, page_size=page_size):
        assert row["principalId"] not in people[row["groupId"]]
        people[row["groupId"]].add(row["principalId"])
    users = walk(service, "admin/users/list", {}, page_size=1000)
    accounts = walk(service, "admin/serviceAccounts/list", {}, page_size=1000)
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


@pytest.mark.parametrize("page_size", [1, 2, 3, 1000])
def test_joined_they_say_what_the_look_ups_say(ship: RunningService, page_size: int) -> None:
    """By nested groups and cycles of them, directly, or with everyone: the same people, on pages of any size."""
    found = joined(ship, page_size=page_size)
    looked_up = {name: {one for one in readers(ship, box(name)) if "@" in one} for name in found}
    assert found == looked_up
    assert found["deep"] == found["deep too"] == {ADA, "bosun@example.test"}
    assert found["direct"] == {BEN, "bosun@example.test"}
    assert found["everyone"] == {ADA, BEN, ship.admin_email}
    assert found["nobody"] == found["gone"] == set()


def test_classes_are_shared_and_tell_nothing_of_others(ship: RunningService) -> None:
    """Resources with the same access name the same class; another organization's lists hold nothing of it."""
    rows = {row["resourceId"]: row["accessClass"] for row in walk(ship, RESOURCES, {}, page_size=1000)}
    assert rows["deep"] == rows["deep too"]
    assert len({rows["deep"], rows["direct"], rows["everyone"], rows["nobody"]}) == 4
    stranger = another_organization(ship)
    for operation in (RESOURCES, HOLDERS, PEOPLE):
        assert walk(ship, operation, {}, page_size=1000, api_key=stranger) == []
    since = state(ship, api_key=stranger)["state"]
    grant(ship, box("nobody"), user(ADA))
    assert not state(ship, since, api_key=stranger)["changed"]


def state(service: RunningService, since: str | None = None, **options: Any) -> dict[str, Any]:
    """The state of all access."""
    return done(service.call(STATE, {"since": since} if since else {}, **options))


def test_every_change_of_access_is_noticed(ship: RunningService) -> None:
    """Grants, groups, people and resources that change make another state; so do changes that are taken back."""
    inner = next(one for one in walk(ship, "admin/groups/list", {}, page_size=10) if one["name"] == "inner")
    member = {"groupId": inner["id"], "members": [user(BEN)]}
    changes = [
        lambda: grant(ship, box("nobody"), user(ADA)),
        lambda: [grant(ship, box("nobody")), grant(ship, box("nobody"), user(ADA))],
        lambda: done(ship.call("admin/groups/addMembers", member)),
        lambda: done(ship.call("admin/groups/removeMembers", member)),
        lambda: [done(ship.call(f"admin/groups/{verb}Members", member)) for verb in ("add", "remove")],
        lambda: a_user(ship, EVE, active=True),
        lambda: a_user(ship, "new@example.test"),
        lambda: a_resource(ship, "new"),
        lambda: _made_and_deleted(ship),
        lambda: _uploaded(ship),
        lambda: _uploaded(ship, internalPublic="true"),
        lambda: [_uploaded(ship, internalPublic=wide) for wide in ("false", "true")],
    ]
    for number, change in enumerate(changes):
        since = state(ship)["state"]
        assert state(ship, since)["changed"] is False
        change()
        assert state(ship, since)["changed"] is True, number


def _made_and_deleted(service: RunningService) -> None:
    made = done(service.call("documentCollections/createDocumentCollection", {"collectionName": "brief"}))
    done(
        service.call(
            "documentCollections/deleteDocumentCollection", {"documentCollectionId": made["documentCollectionId"]}
        )
    )


def _uploaded(service: RunningService, contents: bytes = b"Calm at sea.", **parts: str) -> None:
    files = {"file": ("log.txt", contents)}
    parts = {"documentExternalId": "log", **parts}
    done(service.http.post("/api/v0/catalog/uploadFile", data=parts, files=files))


def test_what_changes_nobody_s_access_is_no_change(ship: RunningService) -> None:
    """Searching, and giving a document other contents, leave the state as it is: a busy organization has one too."""
    _uploaded(ship)
    since = state(ship)["state"]
    _uploaded(ship, b"A storm at sea.")
    done(ship.call("search/searchDocumentCatalog", {"searchQuery": "storm"}))
    assert state(ship, since)["changed"] is False


@pytest.mark.parametrize("since", ["x", "x.y", "x.99999999999999999999999", "."])
def test_a_state_that_was_never_given(service: RunningService, since: str) -> None:
    """What is no state is refused by name."""
    assert code(service.call(STATE, {"since": since})) == (400, "invalid_state")
