"""The directory as admins look at it: users by what is known of them, and the groups that somebody is in."""

import pytest

from tests.harness.messages import messages_of
from tests.harness.services import RunningService
from tests.oauth.flow import a_person, an_app
from tests.service.directory import a_group, a_key, a_user, done, group, user, walk

ADA, BOB, CAT = "ada@example.test", "bob@example.test", "cat@example.test"


def users(service: RunningService, **filters) -> list[str]:
    found = [one["email"] for one in walk(service, "admin/users/list", filters, page_size=2)]
    assert done(service.call("admin/users/count", filters))["count"] == len(found)
    return sorted(found)


def test_users_are_narrowed_by_what_is_known_of_them(own_service: RunningService) -> None:
    """Each filter both ways, and together; without any there is everybody. A row tells the same."""
    service, admin = own_service, own_service.admin_email
    a_person(service, ADA).tokens(an_app(service))
    a_user(service, BOB, active=False)
    a_user(service, CAT, isAdmin=True)
    crew = a_group(service, "Crew", user(ADA), user(BOB))
    a_group(service, "Ship", group(crew))  # whose members are not counted, as they are not in it themselves
    assert users(service) == sorted([admin, ADA, BOB, CAT])
    assert users(service, active=True) == sorted([admin, ADA, CAT])
    assert users(service, active=False) == [BOB]
    assert users(service, isAdmin=True) == sorted([admin, CAT])
    assert users(service, isAdmin=False) == [ADA, BOB]
    assert users(service, signedIn=True) == [ADA]
    assert users(service, signedIn=False) == sorted([admin, BOB, CAT])
    assert users(service, inGroup=True) == [ADA, BOB]
    assert users(service, inGroup=False) == sorted([admin, CAT])
    assert users(service, inGroup=True, active=True) == [ADA]
    assert users(service, query="CAT@", isAdmin=False) == []
    rows = walk(service, "admin/users/list", {}, page_size=9)
    ada, bob = (next(row for row in rows if row["email"] == email) for email in (ADA, BOB))
    assert (ada["groupCount"], ada["hasPassword"], bob["groupCount"], bob["hasPassword"]) == (1, True, 1, False)
    [signed_in] = walk(service, "admin/auditLog/query", {"action": "session.begin"}, page_size=9)
    assert ada["lastSignedInAt"] == signed_in["at"]
    assert not {"lastSignedInAt", "invitedUntil"} & bob.keys()


def test_groups_that_somebody_is_in_say_through_what(service: RunningService) -> None:
    """Direct ones and those around them, each once, in a circle too; of people, groups and nobody else's."""
    a_user(service, ADA)
    crew = a_group(service, "Crew", user(ADA))
    watch = a_group(service, "Watch", user(ADA))
    ship = a_group(service, "Ship", group(crew), group(watch))
    fleet = a_group(service, "Fleet", group(ship), user(ADA))
    a_group(service, "Ship", group(crew), group(watch), group(fleet), id=ship["id"])
    a_group(service, "Apart")
    found = walk(service, "admin/groups/listMemberships", {"member": user(ADA)}, page_size=1)
    assert [(one["name"], one["direct"], {inner["name"] for inner in one["through"]}) for one in found] == [
        ("Crew", True, set()),
        ("Watch", True, set()),
        ("Ship", False, {"Crew", "Watch", "Fleet"}),
        ("Fleet", True, {"Ship"}),
    ]
    assert [one["memberCount"] for one in found] == [1, 1, 3, 2]
    around = walk(service, "admin/groups/listMemberships", {"member": group(ship)}, page_size=9)
    assert [(one["name"], one["direct"]) for one in around] == [("Fleet", True)]
    assert walk(service, "admin/groups/listMemberships", {"member": user(service.admin_email)}, page_size=9) == []


def test_keys_are_narrowed_to_an_owner(service: RunningService) -> None:
    a_user(service, ADA)
    made = a_key(service, name="Deck", ownerEmail=ADA)["apiKeyId"]
    for address, expected in ((ADA.upper(), [made]), ("nobody@example.test", [])):
        keys = walk(service, "admin/apiKeys/list", {"ownerEmail": address}, page_size=9)
        assert [one["apiKeyId"] for one in keys] == expected


@pytest.mark.timeout(120)
def test_fifty_thousand_users_are_listed_by_one_statement(own_service: RunningService) -> None:
    """Whatever filters: a page is one statement, and a count another, each within a second."""
    own_service.execute(
        "INSERT INTO principals (principal_id, organization_id, kind, name, email)"
        " SELECT gen_random_uuid(), organization_id, 'user', 'User ' || n, 'u' || n || '@example.test'"
        " FROM organizations, generate_series(1, 50000) n"
    )
    for filters in ({}, {"signedIn": False, "inGroup": False, "active": True}, {"query": "49999"}, {"inGroup": True}):
        with messages_of(own_service) as said:
            own_service.call("admin/users/list", filters | {"pageSize": 50})
        assert sum("FROM principals" in one and "password_hash IS NOT NULL" in one for one in said) == 1
        for operation in ("list", "count"):
            answer = own_service.call(f"admin/users/{operation}", filters)
            assert answer.status_code == 200
            assert answer.elapsed.total_seconds() < 1, (operation, filters)
