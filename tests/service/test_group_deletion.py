"""Deleting a group, and saying beforehand who would read less without it or without some of its members."""

from tests.harness.services import RunningService
from tests.service.directory import a_group, a_resource, a_user, code, done, grant, group, readable, user, walk
from tests.service.service_accounts import account, an_account, enable_service_accounts

ADA, BOB, CAT, DAN = (f"{name}@example.test" for name in ("ada", "bob", "cat", "dan"))


def losses(service: RunningService, one: dict, *members: dict) -> dict[str, int]:
    """The number of resources that each would not read any more, by address."""
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
    """Of the whole group and of members; what is read in another way is not lost, and it comes so."""
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
    """They are named; what everybody may read was never theirs, so it is lost to them where it was the group's."""
    enable_service_accounts(service)
    crew = a_group(service, "Crew", account(an_account(service, "Bosun")))
    shared(service, "menu", group(crew), everybody=True)
    assert list(losses(service, crew).values()) == [1]


def test_only_the_first_hundred_are_looked_at(service: RunningService) -> None:
    """How many there are is said all the same."""
    people = [{"email": f"u{number}@example.test"} for number in range(103)]
    done(service.call("admin/users/upsert", {"users": people}))
    crew = a_group(service, "Crew", *(user(one["email"]) for one in people))
    shared(service, "charts", group(crew))
    answer = done(service.call("admin/groups/previewLosses", {"groupId": crew["id"]}))
    assert (answer["personCount"], len(answer["losses"]), answer["complete"]) == (103, 100, False)


def test_a_deleted_group_is_gone_from_everywhere(service: RunningService) -> None:
    """Lists, groups around it and grants; the log has its name and who was in it; its id is unknown from then on."""
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
    """Resources keep their other readers, and take new ones; a group of the same external id is a new one."""
    crew, _ = ship(service)
    old = a_group(service, "Crew", externalId="crew", id=crew["id"])
    done(service.call("admin/groups/delete", {"groupId": old["id"]}))
    new = a_group(service, "Crew", user(CAT), externalId="crew")
    assert new["id"] != old["id"]
    before = set(readable(service, CAT))
    shared(service, "rota 2", group(new))
    assert len(set(readable(service, CAT)) - before) == 1
    assert len(readable(service, BOB)) == 2
