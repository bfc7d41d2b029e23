"""Service accounts: made with an address of their own, with no access but what they are given, and deleted at once."""

from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import httpx
import pytest

from service.domains.service_accounts import accounts
from service.domains.service_accounts.addresses import LONGEST, make_local_part
from service.platform.identifiers import document_id_for
from tests.harness.documents import get_document, upload, uploaded
from tests.harness.services import RunningService
from tests.service.directory import (
    a_group,
    a_resource,
    a_user,
    another_organization,
    code,
    done,
    organization_id,
    readers,
    user,
    walk,
)
from tests.service.service_accounts import a_token, account, an_account, delete_account, enable_service_accounts

READ = {"action": "READ"}
LOOKUP = "permissions/listAuthorizedResources"


def test_nothing_is_made_before_the_organization_enables_service_accounts(service: RunningService) -> None:
    """Creating and minting are 403 until then, whatever the body, and a token stops when it is taken back."""
    for operation in ("admin/serviceAccounts/create", "admin/serviceAccountTokens/mint"):
        assert code(service.call(operation, {"nonsense": 1})) == (403, "service_accounts_disabled")
    assert done(service.call("admin/serviceAccounts/list"))["serviceAccounts"] == []
    enable_service_accounts(service)
    robot = an_account(service)
    token = a_token(service, robot, "catalog:read")
    assert service.call(LOOKUP, READ, api_key=token["token"]).status_code == 200
    enable_service_accounts(service, enabled=False)
    assert code(service.call(LOOKUP, READ, api_key=token["token"])) == (403, "service_accounts_disabled")
    assert code(service.call("admin/serviceAccounts/create", {"displayName": "x"}))[0] == 403
    assert delete_account(service, robot)["revokedTokenCount"] == 1
    enable_service_accounts(service)
    assert code(service.call(LOOKUP, READ, api_key=token["token"])) == (401, "credential_revoked")


def test_an_account_is_reported_as_it_was_made(service: RunningService) -> None:
    """By its name, and an address on the organization's domain; found by a part of either."""
    enable_service_accounts(service)
    made = [an_account(service, name) for name in ("Nightly load", "100% sure", "Mirror")]
    assert made[0]["displayName"] == "Nightly load"
    assert made[0]["email"] == "nightly-load@example.test"
    assert walk(service, "admin/serviceAccounts/list", {}, page_size=2) == made
    for query, found in (("LOAD", made[:1]), ("sure@", made[1:2]), ("%", made[1:2]), ("nobody", [])):
        assert done(service.call("admin/serviceAccounts/list", {"query": query}))["serviceAccounts"] == found
    assert walk(service, "admin/users/list", {}, page_size=9)[0]["email"] == service.admin_email
    assert len(walk(service, "admin/users/list", {}, page_size=9)) == 1


def test_an_account_is_made_once_by_a_request_that_is_sent_again(service: RunningService) -> None:
    """With an idempotency key the first answer is given again; a deletion's too."""
    enable_service_accounts(service)
    retried = {"headers": {"Idempotency-Key": "attempt-1"}}
    first, again = (done(service.call("admin/serviceAccounts/create", {"displayName": "x"}, **retried)) for _ in "ab")
    assert first == again
    named = {"serviceAccountId": first["serviceAccountId"]}
    retried = {"headers": {"Idempotency-Key": "attempt-2"}}
    gone, again = (done(service.call("admin/serviceAccounts/delete", named, **retried)) for _ in "ab")
    assert gone == again == {**named, "revokedTokenCount": 0}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Nightly load", "nightly-load"),
        ("  Zürich / Straße #2 ", "zurich-strasse-2"),
        ("\N{LATIN SMALL LIGATURE FI}le \N{FULLWIDTH LATIN CAPITAL LETTER A}", "file-a"),
        ("İstanbul", "istanbul"),
        ("\N{KELVIN SIGN}elvin", "kelvin"),
        ("🤖🤖", "service-account"),
        ("בוט לילי", "service-account"),
        ("بوت ٣", "service-account"),
        (" ", "service-account"),
        ("--@--", "service-account"),
        ("a@b.test", "a-b-test"),
        ("root\r\nBcc: x", "root-bcc-x"),
        ("x" * 200, "x" * LONGEST),
        ("-" + "x" * (LONGEST - 1) + " y" * 70, "x" * (LONGEST - 1)),
        ("é" * 200, "e" * LONGEST),
    ],
)
def test_an_address_is_made_of_any_name(service: RunningService, name: str, expected: str) -> None:
    """Plain ASCII that every other request takes as an address, whatever was written."""
    assert make_local_part(name) == expected
    enable_service_accounts(service)
    robot = an_account(service, name)
    assert (robot["email"], robot["displayName"]) == (f"{expected}@example.test", name)
    memo = a_resource(service, "memo")
    grants = [{"principal": user(robot["email"]), "role": "VIEWER"}]
    done(service.call("admin/grants/set", {"resource": memo, "grants": grants}))
    assert readers(service, memo) == [robot["email"]]


def test_an_address_is_numbered_when_somebody_has_or_had_it(service: RunningService) -> None:
    """A user's, another account's, a deleted account's; in another domain it is free."""
    enable_service_accounts(service)
    a_user(service, "load@example.test")
    deleted, *_ = (an_account(service, "Load") for _ in range(2))
    assert deleted["email"] == "load-2@example.test"
    delete_account(service, deleted)
    emails = [an_account(service, "Load")["email"] for _ in range(accounts.FIRST_CANDIDATES)]
    assert emails == [f"load-{number}@example.test" for number in range(4, 4 + len(emails))]
    done(service.call("admin/organization/update", {"domain": "other.test"}))
    assert an_account(service, "Load")["email"] == "load@other.test"


def test_two_made_at_once_have_two_addresses(service: RunningService) -> None:
    """However many ask at the same time, each gets an account."""
    enable_service_accounts(service)
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: an_account(service, "Load")["email"], range(12)))
    assert sorted(made) == sorted(f"load{'' if number == 1 else f'-{number}'}@example.test" for number in range(1, 13))


def test_another_organizations_account_is_unknown(service: RunningService) -> None:
    """It is not listed, not deleted and given no token, and its address is free there."""
    enable_service_accounts(service)
    robot = an_account(service)
    theirs = another_organization(service)
    enable_service_accounts(service, api_key=theirs)
    named = {"serviceAccountId": robot["serviceAccountId"]}
    assert done(service.call("admin/serviceAccounts/list", api_key=theirs))["serviceAccounts"] == []
    for operation, more in (
        ("admin/serviceAccounts/delete", {}),
        ("admin/serviceAccountTokens/mint", {"name": "a", "scopes": []}),
        ("admin/serviceAccountTokens/list", {}),
    ):
        answer = service.call(operation, {**named, **more}, api_key=theirs)
        assert code(answer) == (404, "service_account_not_found")
    assert an_account(service, api_key=theirs)["email"] == "nightly-load@other.test"


def test_no_api_key_acts_as_an_account(service: RunningService) -> None:
    """It is called with its own tokens alone: no key is made for its address, and none acts as it."""
    enable_service_accounts(service)
    robot = an_account(service)
    key = {"name": "a key", "ownerEmail": robot["email"]}
    assert code(service.call("admin/apiKeys/create", key)) == (400, "unknown_user")
    assert code(service.call(LOOKUP, {**READ, "userEmail": robot["email"]})) == (400, "unknown_user")


@pytest.mark.parametrize("who", ["group", "user", "everyone"])
def test_only_a_service_account_is_deleted_as_one(service: RunningService, who: str) -> None:
    """Not a group, not a user, not everybody, by their ids."""
    ids = {
        "group": a_group(service, "Team")["id"],
        "user": a_user(service, "ben@example.test")["id"],
        "everyone": str(organization_id(service)),
    }
    refused = service.call("admin/serviceAccounts/delete", {"serviceAccountId": ids[who]})
    assert code(refused) == (404, "service_account_not_found")
    assert service.call(LOOKUP, {**READ, "userEmail": "ben@example.test"}).status_code == 200


def test_a_deleted_account_is_gone_with_its_tokens(service: RunningService) -> None:
    """From the next request on its tokens are 401, and whatever names it is told that it is unknown."""
    enable_service_accounts(service)
    robot = an_account(service)
    tokens = [a_token(service, robot, "catalog:read") for _ in range(3)]
    done(service.call("admin/serviceAccountTokens/revoke", {"tokenId": tokens[1]["tokenId"]}))
    with service.owner_connection() as connection:
        expire = "UPDATE service_account_tokens SET expires_at = now() WHERE token_id = %s"
        connection.execute(expire, [tokens[2]["tokenId"]])
    named = {"serviceAccountId": robot["serviceAccountId"]}
    assert delete_account(service, robot) == {**named, "revokedTokenCount": 1}
    assert code(service.call(LOOKUP, READ, api_key=tokens[0]["token"])) == (401, "credential_revoked")
    assert done(service.call("admin/serviceAccounts/list"))["serviceAccounts"] == []
    for operation, more in (
        ("admin/serviceAccounts/delete", {}),
        ("admin/serviceAccountTokens/mint", {"name": "late", "scopes": []}),
        ("admin/serviceAccountTokens/list", {}),
    ):
        assert code(service.call(operation, {**named, **more})) == (404, "service_account_not_found")
    listed = done(service.call("admin/serviceAccountTokens/list"))["tokens"]
    assert [one["status"] for one in listed] == ["revoked"] * 3


def test_a_deleted_account_is_unknown_to_everything_that_names_principals(service: RunningService) -> None:
    """Grants, groups and uploads refuse it; its grants and memberships are shown no more; its address stays taken."""
    enable_service_accounts(service)
    robot, other = an_account(service), an_account(service, "Other")
    memo = a_resource(service, "memo")
    grants = [{"principal": account(one), "role": "VIEWER"} for one in (robot, other)]
    done(service.call("admin/grants/set", {"resource": memo, "grants": grants}))
    inner = a_group(service, "Inner", account(robot), account(other))
    a_group(service, "Outer", {"type": "group", "id": inner["id"]}, account(robot))
    delete_account(service, robot)
    shown = done(service.call("admin/grants/list", {"resource": memo}))["grants"]
    assert [one["principal"]["email"] for one in shown] == [other["email"]]
    assert readers(service, memo) == [other["email"]]
    counts = {one["name"]: one["memberCount"] for one in walk(service, "admin/groups/list", {}, page_size=9)}
    assert counts == {"Inner": 1, "Outer": 1}
    for named in (account(robot), user(robot["email"])):
        again = {"resource": memo, "grants": [{"principal": named, "role": "VIEWER"}]}
        adding = {"groupId": inner["id"], "members": [named]}
        assert code(service.call("admin/grants/set", again)) == (400, "unknown_principal")
        assert code(service.call("admin/groups/addMembers", adding)) == (400, "unknown_principal")
    assert code(upload(service, "a", allowedUsersEmailAddresses=robot["email"])) == (400, "unknown_principal")
    taken = service.call("admin/users/upsert", {"users": [{"email": robot["email"]}]})
    assert code(taken) == (409, "email_taken")


def test_what_a_deleted_account_uploaded_stays_with_its_readers(service: RunningService) -> None:
    """An admin still sees whose it was, and may say who reads it."""
    enable_service_accounts(service)
    robot = an_account(service)
    token = a_token(service, robot, "catalog:write")["token"]
    admin = service.http.headers["Authorization"]
    service.http.headers["Authorization"] = f"Bearer {token}"
    document_id = uploaded(service, "log")["documentId"]
    service.http.headers["Authorization"] = admin
    delete_account(service, robot)
    assert get_document(service, document_id)["owner"]["email"] == robot["email"]
    resource = {"resourceId": document_id, "resourceType": "UPLOADED_DOCUMENT"}
    grants = [{"principal": user(service.admin_email), "role": "EDITOR"}]
    assert readers(service, resource) == []
    done(service.call("admin/grants/set", {"resource": resource, "grants": grants}))
    assert readers(service, resource) == [service.admin_email]
    assert get_document(service, document_id)["owner"]["email"] == robot["email"]


def test_an_account_is_deleted_once_by_two_at_once(service: RunningService) -> None:
    """One is told so, the other that it is unknown."""
    enable_service_accounts(service)
    for _ in range(4):
        robot = an_account(service)
        a_token(service, robot)
        named = {"serviceAccountId": robot["serviceAccountId"]}
        with ThreadPoolExecutor(4) as pool:
            deleting = [pool.submit(service.call, "admin/serviceAccounts/delete", named) for _ in range(4)]
        assert sorted(one.result().status_code for one in deleting) == [200, 404, 404, 404]
    deletions = walk(service, "admin/auditLog/query", {"action": "serviceAccount.delete"}, page_size=9)
    assert len(deletions) == 4


def test_a_token_that_is_minted_while_its_account_is_deleted_does_not_survive(service: RunningService) -> None:
    """Whichever comes first: a token that was given out is revoked with the rest."""
    enable_service_accounts(service)
    for _ in range(5):
        robot = an_account(service)
        named = {"serviceAccountId": robot["serviceAccountId"]}
        minted = {**named, "name": "a token", "scopes": ["catalog:read"]}
        with ThreadPoolExecutor(4) as pool:
            minting = [pool.submit(service.call, "admin/serviceAccountTokens/mint", minted) for _ in range(6)]
            deleting = pool.submit(service.call, "admin/serviceAccounts/delete", named)
        assert deleting.result().status_code == 200
        assert_given_out_in_vain([one.result() for one in minting], service=service)


def assert_given_out_in_vain(answers: list[httpx.Response], *, service: RunningService) -> None:
    """Each was refused, or is a token that doesn't work."""
    given = [done(answer) for answer in answers if answer.status_code == 200]
    assert {code(answer) for answer in answers if answer.status_code != 200} <= {(404, "service_account_not_found")}
    for token in given:
        assert code(service.call(LOOKUP, READ, api_key=token["token"])) == (401, "credential_revoked")
    listed = walk(service, "admin/serviceAccountTokens/list", {}, page_size=1000)
    assert {one["status"] for one in listed} <= {"revoked"}


def test_whoever_deletes_an_account_waits_for_a_token_that_is_being_minted(service: RunningService) -> None:
    """The deletion ends after it, and has stopped it."""
    enable_service_accounts(service)
    robot = an_account(service)
    named = {"serviceAccountId": robot["serviceAccountId"]}
    with service.owner_connection() as connection, ThreadPoolExecutor(2) as pool:
        with connection.transaction():
            # What comes last in minting: its audit entry. So the token is there, and not committed.
            connection.execute("LOCK TABLE audit_entries IN EXCLUSIVE MODE")
            minted = {**named, "name": "a token", "scopes": ["catalog:read"]}
            minting = pool.submit(service.call, "admin/serviceAccountTokens/mint", minted)
            _wait_until_blocked(service, 1)
            deleting = pool.submit(service.call, "admin/serviceAccounts/delete", named)
            _wait_until_blocked(service, 2)
        token = done(minting.result())
        assert done(deleting.result())["revokedTokenCount"] == 1
    assert code(service.call(LOOKUP, READ, api_key=token["token"])) == (401, "credential_revoked")


def test_a_request_that_runs_while_its_account_is_deleted_ends_well_and_is_the_last(service: RunningService) -> None:
    """What was let in is done; nothing breaks, and the next request is 401."""
    enable_service_accounts(service)
    robot = an_account(service)
    token = a_token(service, robot, "catalog:write", "catalog:read")["token"]
    key = int.from_bytes(document_id_for(organization_id(service), "log").bytes[:8], signed=True)
    request = {
        "data": {"documentExternalId": "log"},
        "files": {"file": ("notes.txt", b"The ferry leaves at noon.")},
        "headers": {"Authorization": f"Bearer {token}"},
    }
    with service.owner_connection() as connection, ThreadPoolExecutor(1) as pool:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [key])
            uploading = pool.submit(service.http.post, "/api/v0/catalog/uploadFile", **request)
            _wait_until_blocked(service, 1)
            delete_account(service, robot)
            assert code(service.call(LOOKUP, READ, api_key=token)) == (401, "credential_revoked")
        wait([uploading])
        document = done(uploading.result())
    assert get_document(service, document["documentId"])["owner"]["email"] == robot["email"]
    assert code(service.http.post("/api/v0/catalog/uploadFile", **request)) == (401, "credential_revoked")


def _wait_until_blocked(service: RunningService, number: int) -> None:
    """Wait until so many of the service's statements wait for a lock of another's."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with service.owner_connection() as connection:
        for _ in range(6000):
            if connection.execute(waiting).fetchone() == (number,):
                return
            connection.execute("SELECT pg_sleep(0.01)")
    pytest.fail("Nothing waits for the lock.")


def test_what_happens_to_accounts_and_tokens_is_on_the_audit_log_without_a_word_of_theirs(
    service: RunningService,
) -> None:
    """Who, what and when, with scopes and expiry; neither names nor values. What came to nothing is not on it."""
    enable_service_accounts(service)
    robot = an_account(service, "Secretive Robot")
    team = a_group(service, "Team", account(robot))
    words = {"name": "Quiet token", "description": "A silent job"}
    one, two = (a_token(service, robot, "catalog:read", **words) for _ in range(2))
    for _ in range(2):
        done(service.call("admin/serviceAccountTokens/revoke", {"tokenId": one["tokenId"]}))
    refused = {
        "serviceAccountId": robot["serviceAccountId"],
        "name": "x",
        "scopes": [],
        "expiresAt": "2020-01-01T00:00:00Z",
    }
    assert service.call("admin/serviceAccountTokens/mint", refused).status_code == 400
    delete_account(service, robot)
    entries = walk(service, "admin/auditLog/query", {}, page_size=100)
    log: list[dict[str, Any]] = [entry for entry in entries if entry["action"].startswith(("service", "group.members"))]
    log.reverse()
    mine = {"serviceAccountId": robot["serviceAccountId"]}
    minted = [{**mine, "scopes": ["catalog:read"], "expiresAt": token["expiresAt"]} for token in (one, two)]
    assert [(entry["action"], entry["target"]["id"], entry["details"]) for entry in log[:5]] == [
        ("serviceAccount.create", robot["serviceAccountId"], {}),
        ("group.members", team["id"], {"added": [robot["serviceAccountId"]]}),
        ("serviceAccountToken.mint", one["tokenId"], minted[0]),
        ("serviceAccountToken.mint", two["tokenId"], minted[1]),
        ("serviceAccountToken.revoke", one["tokenId"], mine),
    ]
    assert {(entry["action"], entry["target"]["id"]): entry["details"] for entry in log[5:]} == {
        ("serviceAccount.delete", robot["serviceAccountId"]): {"revokedTokenCount": 1},
        ("serviceAccountToken.revoke", two["tokenId"]): mine,
        ("group.members", team["id"]): {"removed": [robot["serviceAccountId"]]},
    }
    assert all(entry["actor"]["email"] == service.admin_email and entry["requestId"] for entry in log)
    with service.owner_connection() as connection:
        rows = connection.execute("SELECT details::text FROM audit_entries UNION ALL SELECT text FROM free_texts")
        kept = " ".join(str(row[0]) for row in rows)
    for word in ("Secretive", "secretive", "Quiet", "silent", one["token"], two["token"], one["hint"], "Nightly"):
        assert word not in kept
