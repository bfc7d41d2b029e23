"""Groups and members, as admins maintain, list, delete and restore them, and the resulting losses of access."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from uuid import UUID

from service.domains.documents.catalog.trash.service import purge
from service.permissions.service import Access, register_resource
from service.platform.identifiers import uuid7
from tests.harness.documents import uploaded
from tests.harness.services import MakeService, RunningService
from tests.oauth.test_races import until_waiting
from tests.service import directory
from tests.service.directory import a_group, a_resource, a_user, code, done, grant, group, readable, user, walk
from tests.service.provisioning import Provider
from tests.service.service_accounts import account, an_account, delete_account, enable_service_accounts

NOBODY = "00000000-0000-7000-8000-000000000000"


def test_a_group_is_found_by_id_then_external_id_then_name(service) -> None:
    plain = a_group(service, "Finance")
    external = a_group(service, "Finance", externalId="idp-1")
    assert external["id"] != plain["id"]
    assert a_group(service, "Finance") == plain
    del external["version"], plain["version"]
    assert a_group(service, "Money", externalId="idp-1").items() >= (external | {"name": "Money"}).items()
    assert a_group(service, "Accounts", id=plain["id"]).items() >= (plain | {"name": "Accounts"}).items()
    assert {one["name"] for one in walk(service, "admin/groups/list", {}, page_size=1)} == {"Money", "Accounts"}
    assert [one["name"] for one in walk(service, "admin/groups/list", {"query": "mon"}, page_size=9)] == ["Money"]


def test_members_given_replace_and_members_left_out_stay(service) -> None:
    for name in "abc":
        a_user(service, f"{name}@example.test")
    assert a_group(service, "Team", user("a@example.test"), user("B@example.test"))["memberCount"] == 2
    assert a_group(service, "Team", user("c@example.test"), user("c@example.test"))["memberCount"] == 1
    assert done(service.call("admin/groups/upsert", {"groups": [{"name": "Team"}]}))["groups"][0]["memberCount"] == 1
    assert a_group(service, "Team")["memberCount"] == 0


def test_members_are_added_and_removed_once(service) -> None:
    team, inner = a_group(service, "Team"), a_group(service, "Inner")
    a_user(service, "a@example.test")
    members = {"groupId": team["id"], "members": [user("a@example.test"), group(inner), group(team)]}
    for _ in range(2):
        assert done(service.call("admin/groups/addMembers", members)) == {"memberCount": 3}
    assert walk(service, "admin/groups/list", {"query": "team"}, page_size=9)[0]["memberCount"] == 3
    for _ in range(2):
        assert done(service.call("admin/groups/removeMembers", members)) == {"memberCount": 0}


def test_an_unknown_member_or_group_is_named_and_nothing_changes(service, elsewhere) -> None:
    a_user(elsewhere, "eve@example.test")
    team, ada = a_group(service, "Team"), a_user(service, "ada@example.test")
    known = user("ada@example.test")
    strangers: list[dict] = [
        user("nobody@example.test"),
        {"type": "group", "id": NOBODY},
        {"type": "group", "id": ada["id"]},
        {"type": "serviceAccount", "id": ada["id"]},
        user("eve@example.test"),
        group(a_group(elsewhere, "Theirs")),
    ]
    for operation in ("admin/groups/addMembers", "admin/groups/removeMembers"):
        for stranger in strangers:
            response = service.call(operation, {"groupId": team["id"], "members": [known, stranger]})
            assert code(response) == (400, "unknown_principal")
            assert [one["field"] for one in response.json()["error"]["details"]] == ["members.1"]
        for nowhere in (NOBODY, ada["id"]):
            assert code(service.call(operation, {"groupId": nowhere, "members": [known]})) == (404, "group_not_found")
    assert walk(service, "admin/groups/list", {}, page_size=9)[0]["memberCount"] == 0


def test_groups_that_contradict_each_other_refuse_the_whole_call(service) -> None:
    known = a_group(service, "Known", externalId="idp-1")
    other = a_group(service, "Other")
    refused: list[tuple[list[dict], tuple[int, str]]] = [
        ([{"name": "New"}, {"name": "New"}], (400, "duplicate_group")),
        ([{"name": "A", "externalId": "x"}, {"name": "B", "externalId": "x"}], (400, "duplicate_group")),
        ([{"name": "A", "id": known["id"]}, {"name": "B", "externalId": "idp-1"}], (400, "duplicate_group")),
        ([{"name": "A"}, {"name": "B", "id": other["id"], "externalId": "idp-1"}], (409, "external_id_taken")),
        ([{"name": "A"}, {"name": "B", "id": NOBODY}], (404, "group_not_found")),
        ([{"name": "A", "members": [user("no@example.test")]}], (400, "unknown_principal")),
    ]
    for groups, expected in refused:
        assert code(service.call("admin/groups/upsert", {"groups": groups})) == expected
    assert {one["name"] for one in walk(service, "admin/groups/list", {}, page_size=9)} == {"Known", "Other"}
    a_group(service, "Twin", id=other["id"])
    a_group(service, "Twin", id=a_group(service, "T")["id"])
    assert code(service.call("admin/groups/upsert", {"groups": [{"name": "Twin"}]})) == (409, "name_ambiguous")


def test_a_thousand_groups_with_members_are_put_at_once(service) -> None:
    users = [{"email": f"u{number}@example.test"} for number in range(20)]
    done(service.call("admin/users/upsert", {"users": users}))
    groups = [
        {"name": f"g{number}", "members": [{"type": "user", **one} for one in users[: number % 20]]}
        for number in range(1000)
    ]
    put = done(service.call("admin/groups/upsert", {"groups": groups}))["groups"]
    assert [(one["name"], one["memberCount"]) for one in put] == [(f"g{n}", n % 20) for n in range(1000)]
    assert walk(service, "admin/groups/list", {}, page_size=300) == sorted(put, key=lambda one: one["id"])


def members(service: RunningService, one: dict, page_size: int = 1000) -> list[dict]:
    return walk(service, "admin/groups/listMembers", {"groupId": one["id"]}, page_size=page_size)


def test_members_are_named_by_what_they_are(service: RunningService) -> None:
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


ADA, BOB, CAT, DAN = (f"{name}@example.test" for name in ("ada", "bob", "cat", "dan"))


def losses(service: RunningService, one: dict, *members: dict) -> dict[str, int]:
    body = {"groupId": one["id"], **({"members": list(members)} if members else {})}
    answer = done(service.call("admin/groups/previewLosses", body))
    assert answer["complete"] is True
    return {one["principal"]["email"]: sum(count["count"] for count in one["counts"]) for one in answer["losses"]}


def shared(service: RunningService, name: str, *principals: dict, everybody: bool = False) -> None:
    grant(service, a_resource(service, name), *principals, organizationWide=everybody)


def ship(service: RunningService) -> tuple[dict, dict]:
    for email in (ADA, BOB, CAT, DAN):
        a_user(service, email, active=email != DAN)
    crew = a_group(service, "Crew", user(ADA), user(BOB), user(DAN))
    outer = a_group(service, "Ship", group(crew), user(CAT))
    watch = a_group(service, "Watch", user(BOB))
    shared(service, "charts", group(outer))
    shared(service, "rota", group(crew), group(watch))
    shared(service, "menu", group(crew), everybody=True)
    shared(service, "letters", group(crew), user(ADA))
    return crew, outer


def test_who_would_read_less_is_said_as_it_then_is(service: RunningService) -> None:
    crew, outer = ship(service)
    assert losses(service, outer) == {ADA: 1, BOB: 1, CAT: 1}
    assert losses(service, outer, user(CAT)) == {CAT: 1}
    assert losses(service, outer, group(crew)) == {ADA: 1, BOB: 1}
    assert losses(service, crew) == {ADA: 2, BOB: 2}
    assert losses(service, crew, user(CAT)) == {}
    before = {email: set(readable(service, email)) for email in (ADA, BOB, CAT)}
    expected = losses(service, crew)
    done(service.call("admin/groups/delete", {"groupId": crew["id"]}))
    after = {email: set(readable(service, email)) for email in before}
    assert {email: len(before[email] - after[email]) for email in before} == {CAT: 0, **expected}
    assert all(after[email] <= before[email] for email in before)


def test_a_circle_of_groups_is_harmless(service: RunningService) -> None:
    a_user(service, ADA)
    inner = a_group(service, "Inner", user(ADA))
    outer = a_group(service, "Outer", group(inner), user(ADA))
    a_group(service, "Inner", user(ADA), group(outer))
    shared(service, "charts", group(outer))
    assert losses(service, outer, group(inner)) == {}
    assert losses(service, outer, user(ADA)) == {}
    assert losses(service, outer) == {ADA: 1}


def test_service_accounts_lose_too(service: RunningService) -> None:
    enable_service_accounts(service)
    crew = a_group(service, "Crew", account(an_account(service, "Bosun")))
    shared(service, "menu", group(crew), everybody=True)
    assert list(losses(service, crew).values()) == [1]


def test_only_the_first_hundred_are_looked_at(service: RunningService) -> None:
    people = [{"email": f"u{number}@example.test"} for number in range(103)]
    done(service.call("admin/users/upsert", {"users": people}))
    crew = a_group(service, "Crew", *(user(one["email"]) for one in people))
    shared(service, "charts", group(crew))
    answer = done(service.call("admin/groups/previewLosses", {"groupId": crew["id"]}))
    assert (answer["personCount"], len(answer["losses"]), answer["complete"]) == (103, 100, False)


def test_a_deleted_group_is_gone_from_everywhere(service: RunningService) -> None:
    crew, outer = ship(service)
    answer = done(service.call("admin/groups/delete", {"groupId": crew["id"]}))
    assert answer == {"groupId": crew["id"], "memberCount": 3, "resourceCount": 3}
    assert [one["name"] for one in walk(service, "admin/groups/list", {}, page_size=9)] == ["Ship", "Watch"]
    members = walk(service, "admin/groups/listMembers", {"groupId": outer["id"]}, page_size=9)
    assert [one["name"] for one in members] == ["cat"]
    entries = walk(service, "admin/auditLog/query", {"targetId": crew["id"]}, page_size=99)
    [entry] = [one for one in entries if one["action"] == "group.delete"]
    assert entry["target"]["name"] == "Crew"
    told = entry["details"]
    assert (told["name"], len(told["removed"]), told["resourceCount"]) == ("Crew", 3, 3)
    [left, *_] = walk(service, "admin/auditLog/query", {"targetId": outer["id"], "action": "group.members"})
    assert left["details"] == {"removed": [crew["id"]]}
    for operation in ("delete", "previewLosses", "listMembers"):
        assert code(service.call(f"admin/groups/{operation}", {"groupId": crew["id"]})) == (404, "group_not_found")


def test_what_was_granted_to_a_deleted_group_can_be_granted_again(service: RunningService) -> None:
    crew, _ = ship(service)
    old = a_group(service, "Crew", externalId="crew", id=crew["id"])
    done(service.call("admin/groups/delete", {"groupId": old["id"]}))
    new = a_group(service, "Crew", user(CAT), externalId="crew")
    assert new["id"] != old["id"]
    before = set(readable(service, CAT))
    shared(service, "rota 2", group(new))
    assert len(set(readable(service, CAT)) - before) == 1
    assert len(readable(service, BOB)) == 2


UNKNOWN = (404, "group_not_found")


def delete(service: RunningService, one: dict, **more):
    return service.call("admin/groups/delete", {"groupId": one["id"], **more})


def restore(service: RunningService, one: dict):
    return service.call("admin/groups/restore", {"groupId": one["id"]})


def trashed(service: RunningService) -> list[dict]:
    return walk(service, "admin/groups/listTrashed", {}, page_size=1)


def test_a_restored_group_has_its_members_grants_and_parents_again(service: RunningService) -> None:
    crew, outer = ship(service)
    before = {email: set(readable(service, email)) for email in (ADA, BOB, CAT)}
    held = [members(service, one) for one in (crew, outer)]
    done(delete(service, crew))
    assert code(restore(service, outer)) == UNKNOWN
    [listed] = trashed(service)
    counts = {"groupId": crew["id"], "memberCount": 3, "resourceCount": 3}
    assert listed.items() >= {"name": "Crew", **counts}.items()
    assert (listed["deletedBy"]["email"], "externalId" in listed) == (service.admin_email, False)
    with ThreadPoolExecutor(2) as both:
        back, refused = sorted(both.map(partial(restore, service), (crew, crew)), key=lambda one: one.status_code)
    assert (done(back), code(refused)) == (counts, UNKNOWN)
    assert {email: set(readable(service, email)) for email in before} == before
    assert [members(service, one) for one in (crew, outer)] == held
    assert [one["target"]["name"] for one in directory.entries(service, action="group.restore")] == ["Crew"]
    [joined, *_] = directory.entries(service, action="group.members", targetId=outer["id"])
    assert joined["details"] == {"added": [crew["id"]]}
    assert trashed(service) == []
    for deleted in ((crew, outer), (outer, crew)):
        for one in deleted:
            done(delete(service, one))
        for one in reversed(deleted):
            done(restore(service, one))
        assert [members(service, one) for one in (crew, outer)] == held


def test_a_restored_group_is_its_own_member_again(service: RunningService) -> None:
    a_user(service, ADA)
    crew = a_group(service, "Crew", user(ADA))
    done(service.call("admin/groups/addMembers", {"groupId": crew["id"], "members": [group(crew)]}))
    held = members(service, crew)
    done(delete(service, crew))
    done(restore(service, crew))
    assert (members(service, crew), len(held)) == (held, 2)


def test_what_left_or_changed_meanwhile_is_not_restored(service: RunningService) -> None:
    crew, outer = ship(service)
    provider = {"issuer": "https://id.example.test", "domains": ["example.test"], "clientId": "c", "clientSecret": "x"}
    provider_id = done(service.call("admin/signInProviders/create", {"name": "Work", **provider}))["providerId"]
    brought = "INSERT INTO provider_memberships SELECT organization_id, group_id, member_id, %s FROM group_members"
    bob = next(one["id"] for one in members(service, crew) if one["name"] == "bob")
    service.execute(f"{brought} WHERE group_id = %s AND member_id = %s", [provider_id, crew["id"], bob])
    done(delete(service, crew))
    done(delete(service, outer, forGood=True))
    grant(service, {"resourceId": "rota", "resourceType": "UPLOADED_DOCUMENT"}, user(CAT))
    directory.on_rows(service, "DELETE FROM resources", more="AND resource_id = 'menu'")
    done(service.call("admin/users/offboard", {"email": ADA, "newOwner": user(BOB)}))
    a_user(service, ADA, active=True)
    assert done(restore(service, crew)).items() >= {"memberCount": 1, "resourceCount": 1}.items()
    assert [one["name"] for one in members(service, crew)] == ["dan"]
    assert (readable(service, ADA), readable(service, BOB), readable(service, CAT)) == (["letters"], [], ["rota"])


def test_a_provider_deletes_a_group_and_may_take_its_name(service: RunningService) -> None:
    provider = Provider(service)
    old = provider.group("Crew", externalId="crew-7")
    assert provider.send("DELETE", f"Groups/{old['id']}").status_code == 204
    [listed] = trashed(service)
    assert (listed["externalId"], "deletedBy" in listed) == ("crew-7", False)
    provider.group("Crew", externalId="crew-8")  # namesakes are allowed
    new = provider.group("Team", externalId="crew-7")
    assert code(restore(service, old)) == (409, "group_name_taken")
    done(delete(service, new, forGood=True))
    assert done(restore(service, old))["groupId"] == old["id"]


def test_a_group_without_an_external_id_needs_its_name(service: RunningService) -> None:
    old = a_group(service, "Crew")
    done(delete(service, old))
    new = a_group(service, "Crew")
    assert code(restore(service, old)) == (409, "group_name_taken")
    done(delete(service, new, forGood=True))
    a_group(service, "Crew", externalId="crew-7")
    assert done(restore(service, old))["groupId"] == old["id"]


def test_a_role_that_is_given_during_the_deletion_returns(service: RunningService) -> None:
    a_user(service, ADA)
    crew, organization_id = a_group(service, "Crew", user(ADA)), directory.organization_id(service)
    named = {"resource_type": "UPLOADED_DOCUMENT", "resource_id": "memo"}

    async def give_meanwhile() -> Any:
        async with service.runtime.database.transaction(organization_id) as connection:
            access = Access(owner_id=None, viewers=frozenset({UUID(crew["id"])}))
            await register_resource(connection, organization_id, object_id=uuid7(), **named, access=access)
            deleting = asyncio.create_task(asyncio.to_thread(delete, service, crew))
            await asyncio.to_thread(until_waiting, watcher, deleting)
        return await deleting

    with service.owner_connection() as watcher:
        done(service.run(give_meanwhile()))
    assert done(restore(service, crew))["resourceCount"] == 1
    assert readable(service, ADA) == ["memo"]


def test_named_readers_end_what_a_group_in_the_trash_could_read(service: RunningService) -> None:
    a_user(service, ADA)
    crew, named = a_group(service, "Crew", user(ADA)), {"internalPublic": "false", "allowedUsersEmailAddresses": "[]"}
    uploaded(service, "memo", allowedGroupIds=json.dumps([crew["id"]]), **named)
    done(delete(service, crew))
    uploaded(service, "memo", "New text.", allowedGroupIds="[]", **named)
    assert (done(restore(service, crew))["resourceCount"], readable(service, ADA)) == (0, [])


def test_a_group_in_the_trash_is_erased_at_once_or_after_its_time(service: RunningService) -> None:
    crew, outer = ship(service)
    for one in (crew, outer):
        done(delete(service, one))
    assert [one["name"] for one in trashed(service)] == ["Crew", "Ship"]
    assert done(delete(service, crew, forGood=True))["memberCount"] == 3
    assert (code(restore(service, crew)), code(delete(service, crew, forGood=True))) == (UNKNOWN, UNKNOWN)
    assert [one["details"]["name"] for one in directory.entries(service, action="group.erase")] == ["Crew"]
    directory.on_rows(service, "UPDATE trashed_groups SET deleted_at = deleted_at - interval '7 days'")
    assert (trashed(service), code(restore(service, outer))) == ([], UNKNOWN)
    service.run(purge(service.runtime.database, days=7))
    assert directory.on_rows(service, "SELECT count(*) FROM trashed_groups") == [(0,)]


def test_without_a_trash_a_group_is_deleted_for_good(make_service: MakeService) -> None:
    service = make_service(trash_days=0)
    done(delete(service, crew := a_group(service, "Crew")))
    assert directory.on_rows(service, "SELECT count(*) FROM trashed_groups") == [(0,)]
    assert code(restore(service, crew)) == UNKNOWN
