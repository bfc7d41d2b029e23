"""admin/groups/listMembers: who is directly in a group."""

from tests.harness.services import RunningService
from tests.service.directory import a_group, a_user, code, done, group, user, walk
from tests.service.service_accounts import account, an_account, delete_account, enable_service_accounts


def members(service: RunningService, one: dict, page_size: int = 1000) -> list[dict]:
    return walk(service, "admin/groups/listMembers", {"groupId": one["id"]}, page_size=page_size)


def test_members_are_named_by_what_they_are(service: RunningService) -> None:
    """A user by address, a group by name, a service account as one; in the order of their ids; not who is nested."""
    enable_service_accounts(service)
    ada, loader = a_user(service, "ada@example.test", name="Ada"), an_account(service)
    ben = a_user(service, "ben@example.test", active=False)
    inner = a_group(service, "Inner", user(service.admin_email))
    crew = a_group(service, "Crew", user("ada@example.test"), user("ben@example.test"), group(inner), account(loader))
    expected = [
        {"type": "user", "id": ada["id"], "name": "Ada", "email": "ada@example.test"},
        {"type": "user", "id": ben["id"], "name": "ben", "email": "ben@example.test"},
        {"type": "group", "id": inner["id"], "name": "Inner"},
        {"type": "serviceAccount", "id": loader["serviceAccountId"], "name": "Nightly load", "email": loader["email"]},
    ]
    assert members(service, crew) == sorted(expected, key=lambda one: one["id"])
    assert crew["memberCount"] == 4
    assert code(service.call("admin/groups/listMembers", {"groupId": ada["id"]})) == (404, "group_not_found")


def test_every_member_is_on_one_page_of_a_walk(service: RunningService) -> None:
    """Who stays is seen once, though others come and go between the pages; a token is of its group."""
    emails = [f"user{number:02}@example.test" for number in range(25)]
    done(service.call("admin/users/upsert", {"users": [{"email": email} for email in emails]}))
    crew = a_group(service, "Crew", *(user(email) for email in emails))
    whole = members(service, crew)
    assert {one["email"] for one in whole} == set(emails)
    body = {"groupId": crew["id"], "pageSize": 10}
    first = done(service.call("admin/groups/listMembers", body))
    gone = [user(whole[place]["email"]) for place in (0, 15)]
    done(service.call("admin/groups/removeMembers", {"groupId": crew["id"], "members": gone}))
    second = done(service.call("admin/groups/listMembers", {**body, "pageToken": first["nextPageToken"]}))
    assert first["members"] == whole[:10]
    assert second["members"] == [*whole[10:15], *whole[16:21]]
    assert members(service, crew, page_size=3) == [*whole[1:15], *whole[16:]]
    of_another = {"groupId": a_group(service, "Other")["id"], "pageSize": 10, "pageToken": first["nextPageToken"]}
    assert code(service.call("admin/groups/listMembers", of_another)) == (400, "invalid_page_token")


def test_a_deleted_service_account_is_in_no_list(service: RunningService) -> None:
    """It leaves its groups when it is deleted; were it left behind in one, it still would not be shown."""
    enable_service_accounts(service)
    loader = an_account(service)
    crew = a_group(service, "Crew", account(loader), user(service.admin_email))
    assert len(members(service, crew)) == 2
    delete_account(service, loader)
    assert [one["email"] for one in members(service, crew)] == [service.admin_email]
    service.execute(
        "INSERT INTO group_members SELECT organization_id, %s, %s, false FROM principals WHERE principal_id = %s",
        [crew["id"], loader["serviceAccountId"], crew["id"]],
    )
    assert [one["email"] for one in members(service, crew)] == [service.admin_email]
