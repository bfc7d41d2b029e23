"""Sharing by owners: receivers, refusals that reveal no more, and the ends of shares."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from tests.harness.documents import refused
from tests.harness.services import RunningService
from tests.oauth.test_races import meanwhile, until_waiting
from tests.service import directory
from tests.service.conversations import at_once
from tests.service.directory import a_group, a_user, code, done, entries, grant, group, on_rows, readers, user
from tests.service.provisioning import USER, Provider
from tests.service.service_accounts import account, an_account, enable_service_accounts

ADA, BEN, CAT, EVE = (f"{name}@example.test" for name in ("ada", "ben", "cat", "eve"))
MEMO, TO = {"resourceId": "memo", "resourceType": "UPLOADED_DOCUMENT"}, {"newOwner": user(CAT)}
SHARE, SHARED, GRANTS = "permissions/setShares", "permissions/getShares", "admin/grants/list"


ENDS: dict[str, tuple[str, Any]] = {
    "transfer": ("admin/owners/transfer", {"resources": [MEMO], **TO}),
    "transfer of all": ("admin/owners/transfer", {"owner": user(ADA), **TO}),
    "offboarding": ("admin/users/offboard", {"email": ADA, **TO}),
    "deactivation": ("admin/users/upsert", {"users": [{"email": ADA, "active": False}]}),
    "deactivation by a provider": ("PUT", {"schemas": [USER], "userName": ADA, "active": False}),
    "deletion by a provider": ("DELETE", None),
}


@pytest.fixture
def ids(service: RunningService) -> dict[str, str]:
    return {email: a_user(service, email, active=email != EVE)["id"] for email in (ADA, BEN, CAT, EVE)}


@pytest.fixture
def memo(service: RunningService, ids: dict[str, str]) -> dict[str, str]:
    """A document of Ada's."""
    return directory.a_resource(service, "memo", owner=ids[ADA])


def shares(resource: dict[str, str], *given: Any, by: str = ADA, **more: Any) -> dict[str, Any]:
    """A request; each principal reads, or has the role beside it."""
    pairs = [one if isinstance(one, tuple) else (one, "VIEWER") for one in given]
    grants = [{"principal": who, "role": role} for who, role in pairs]
    return {"resource": resource, "grants": grants, "userEmail": by, **more}


def end(service: RunningService, how: str, ids: dict[str, str]) -> Any:
    call, body = ENDS[how]
    return service.call(call, body) if "/" in call else Provider(service).send(call, f"Users/{ids[ADA]}", body)


def named(answer: dict[str, Any]) -> dict[str, str]:
    return {one["principal"]["name"]: one["role"] for one in answer["grants"]}


def granted(service: RunningService) -> dict[str, tuple[str, str | None]]:
    """The roles on the memo, as admins see them, with the owner who gave each."""
    listed = done(service.call(GRANTS, {"resource": MEMO}))["grants"]
    return {one["principal"]["name"]: (one["role"], one.get("givenBy", {}).get("email")) for one in listed}


def test_an_owner_shares_with_people_and_their_groups_and_takes_back(service, ids, memo) -> None:
    """Roles given by admins are not shown, changed or taken away; admins see the giver of each role."""
    inner = a_group(service, "Inner", user(ADA))
    outer = a_group(service, "Outer", group(inner), user(CAT))
    grant(service, memo, user(CAT))
    done(service.call(SHARE, shares(memo, (user("Ben@example.test"), "EDITOR"), group(outer), user(CAT), user(ADA))))
    answer = done(service.call(SHARED, {"resource": memo, "userEmail": ADA}))
    assert named(answer) == {"ben": "EDITOR", "Outer": "VIEWER"}
    assert set(readers(service, memo)) == {ADA, BEN, CAT, "Outer", "Inner"}
    assert granted(service) == {"ben": ("EDITOR", ADA), "Outer": ("VIEWER", ADA), "cat": ("VIEWER", None)}
    [entry] = entries(service, action="grants.share")
    assert entry["details"]["before"] == {}
    assert entry["details"]["after"] == {ids[BEN]: "EDITOR", outer["id"]: "VIEWER"}
    assert entry["actingFor"]["id"] == ids[ADA]
    a_group(service, "Inner", id=inner["id"])
    a_user(service, BEN, active=False)
    raised = service.call(SHARE, shares(memo, (user(BEN), "EDITOR"), (group(outer), "EDITOR")))
    assert [one["field"] for one in raised.json()["error"]["details"]] == ["grants.1.principal"], "no better role"
    answer = done(service.call(SHARE, shares(memo, user(BEN), group(outer))))
    assert named(answer) == {"ben": "VIEWER", "Outer": "VIEWER"}, "a role may be lowered"
    done(service.call(SHARE, shares(memo, group(outer), version=answer["version"])))
    assert set(readers(service, memo)) == {ADA, CAT, "Outer", "Inner"}, "a group that the owner has left stays"
    stale = refused(service.call(SHARE, shares(memo, version=answer["version"])), 409, "changed_meanwhile")
    assert stale["meanwhile"]["changedAt"] == entries(service, action="grants.share")[0]["at"]
    grant(service, memo, user(CAT), group(outer), role="EDITOR")
    assert named(done(service.call(SHARED, {"resource": memo, "userEmail": ADA}))) == {}, "an admin's from now on"
    done(service.call(SHARE, shares(memo)))
    assert granted(service) == {"cat": ("EDITOR", None), "Outer": ("EDITOR", None)}


def test_whom_an_owner_may_not_name_is_as_unknown_as_nobody(service, memo) -> None:
    enable_service_accounts(service)
    theirs, robot = a_group(service, "Theirs", user(BEN)), an_account(service)
    nobody = {"type": "group", "id": "0198c5b0-0000-7000-8000-000000000000"}
    hidden = [user("no@example.test"), nobody, user(EVE), group(theirs), account(robot), user(robot["email"])]
    error = refused(service.call(SHARE, shares(memo, user(BEN), *hidden)), 400, "unknown_principal")
    details = [(one["field"], one["message"].partition(" is ")[2]) for one in error["details"]]
    assert details == [(f"grants.{place}.principal", "unknown in this organization") for place in range(1, 7)]
    assert "exact addresses" in error["message"]
    assert readers(service, memo) == [ADA]
    assert named(done(service.call(SHARE, shares(memo, user(BEN), validateOnly=True)))) == {"ben": "VIEWER"}
    assert (readers(service, memo), entries(service, action="grants.share")) == ([ADA], [])
    assert named(done(service.call(SHARE, shares(memo, (user(BEN), "EDITOR"), user(BEN))))) == {"ben": "EDITOR"}


def test_a_role_that_an_older_release_revoked_is_shared_no_more(service, ids, memo) -> None:
    """The older release changes access and leaves the note of the share."""
    grant(service, memo, user(CAT))
    note = f'{{"{ids[BEN]}": "EDITOR"}}'
    on_rows(service, "UPDATE resources SET shares = %s", note)
    assert named(done(service.call(SHARED, {"resource": memo, "userEmail": ADA}))) == {}
    done(service.call("admin/organization/update", {"ownerSharingEnabled": False}))
    again = shares(memo, (user(BEN), "EDITOR"))
    assert code(service.call(SHARE, again)) == (403, "owner_sharing_disabled")
    assert entries(service, action="grants.share") == []
    grant(service, memo, user(BEN), role="EDITOR")
    assert granted(service) == {"ben": ("EDITOR", None)}, "an admin gave it"
    grant(service, memo, user(CAT))
    on_rows(service, "UPDATE resources SET shares = %s", note)
    a_user(service, ADA, active=False)
    assert entries(service, action="grants.share") == []
    assert granted(service) == {"cat": ("VIEWER", None)}


@pytest.mark.parametrize("how", ["deactivation", "offboarding", "deactivation by a provider", "deletion by a provider"])
def test_the_end_of_an_account_waits_for_its_owners_own_upload(service, ids, memo, how: str) -> None:
    """An upload locks the document, and then refers to its owner, whom the other request has not locked yet."""
    done(service.call(SHARE, shares(memo, user(BEN))))
    with ThreadPoolExecutor(1) as threads:
        with meanwhile(service, "SELECT FROM resources WHERE resource_id = 'memo' FOR UPDATE") as upload:
            answer = threads.submit(end, service, how, ids)
            until_waiting(upload, answer)
            upload.execute("SELECT FROM principals WHERE principal_id = %s FOR KEY SHARE NOWAIT", [ids[ADA]])
        answer.result().raise_for_status()
    assert BEN not in readers(service, memo)


def test_who_does_not_own_it_shares_nothing(service, ids, memo) -> None:
    """Editors and readers are refused; others, admins too, learn nothing of it. An archive's file has its readers."""
    inside = directory.a_resource(service, "inside", owner=ids[ADA])
    [(archive,)] = on_rows(service, "SELECT object_id FROM resources", more="AND resource_id = 'memo'")
    on_rows(service, "UPDATE resources SET container_id = %s", archive, more="AND resource_id = 'inside'")
    grant(service, memo, user(BEN), role="EDITOR")
    for operation, more in ((SHARE, {"grants": []}), (SHARED, {})):
        ask = partial(service.call, operation)
        assert code(ask({"resource": memo, "userEmail": BEN, **more})) == (403, "owner_required")
        assert code(ask({"resource": memo, "userEmail": CAT, **more})) == (404, "resource_not_found")
        assert code(ask({"resource": memo, **more})) == (404, "resource_not_found")
        assert code(ask({"resource": inside, "userEmail": ADA, **more})) == (409, "document_in_container")
        assert code(ask({"resource": inside, "userEmail": CAT, **more})) == (404, "resource_not_found")
    assert set(readers(service, memo)) == {ADA, BEN}


def test_without_the_setting_owners_only_take_back(service, memo) -> None:
    done(service.call(SHARE, shares(memo, user(BEN), (user(CAT), "EDITOR"))))
    done(service.call("admin/organization/update", {"ownerSharingEnabled": False}))
    for given in (((user(BEN), "EDITOR"), user(CAT)), (user(BEN), user(service.admin_email))):
        assert code(service.call(SHARE, shares(memo, *given))) == (403, "owner_sharing_disabled")
    assert named(done(service.call(SHARE, shares(memo, user(CAT))))) == {"cat": "VIEWER"}, "a lower role takes back"
    assert set(readers(service, memo)) == {ADA, CAT}
    on_rows(service, "UPDATE organizations SET owner_sharing_enabled = DEFAULT")
    assert not done(service.call("admin/organization/get"))["ownerSharingEnabled"], "as in those before the setting"


@pytest.mark.parametrize("how", ENDS)
def test_what_an_owner_shared_ends_with_their_own_right(service, ids, memo, monkeypatch, how: str) -> None:
    """In the same request, for good. Roles given by an admin, and shares of another owner, stay."""
    monkeypatch.setattr("service.permissions.service._SHARES_AT_ONCE", 1)
    other = directory.a_resource(service, "other", owner=ids[CAT])
    done(service.call(SHARE, shares(other, user(BEN), by=CAT)))
    grant(service, memo, user(BEN))
    done(service.call(SHARE, shares(memo, (user(BEN), "EDITOR"), user(service.admin_email))))
    end(service, how, ids).raise_for_status()
    to = set[str]() if how.startswith("de") else {CAT}
    assert set(readers(service, memo)) == {BEN, *to}
    assert granted(service) == {"ben": ("VIEWER", None)}
    assert set(readers(service, other)) == {BEN, CAT}
    [entry] = [one for one in entries(service, action="grants.share") if one["details"]["after"] == {}]
    assert set(entry["details"]["before"].values()) == {"EDITOR", "VIEWER"}
    a_user(service, ADA, active=True)
    assert set(readers(service, memo)) == {BEN, *(to or {ADA})}


@pytest.mark.parametrize("how", [*ENDS, SHARE])
def test_what_was_shared_with_a_group_in_the_trash_ends_too(service, ids, memo, how: str) -> None:
    crew = a_group(service, "Crew", user(ADA), user(BEN))
    done(service.call(SHARE, shares(memo, group(crew))))
    done(service.call("admin/groups/delete", {"groupId": crew["id"]}))
    (service.call(SHARE, shares(memo)) if how == SHARE else end(service, how, ids)).raise_for_status()
    done(service.call("admin/groups/restore", {"groupId": crew["id"]}))
    assert BEN not in readers(service, memo)


def test_many_shares_end_in_portions(service, ids, monkeypatch) -> None:
    monkeypatch.setattr("service.permissions.service._SHARES_AT_ONCE", 2)
    letters = [directory.a_resource(service, f"letter-{number}", owner=ids[ADA]) for number in range(5)]
    for letter in letters:
        done(service.call(SHARE, shares(letter, user(BEN))))
    end(service, "deactivation", ids)
    assert [readers(service, letter) for letter in letters] == [[]] * 5
    assert len([one for one in entries(service, action="grants.share") if one["details"]["after"] == {}]) == 5


def test_sharing_while_the_owner_is_deactivated_leaves_nothing(service, memo) -> None:
    share = partial(service.call, SHARE, shares(memo, user(BEN)))
    deactivate = partial(service.call, "admin/users/upsert", {"users": [{"email": ADA, "active": False}]})
    for _ in range(5):
        done(at_once(share, deactivate)[1])
        assert readers(service, memo) == []
        a_user(service, ADA, active=True)
