"""Service accountswith addresses and only explicit access, and tokens."""

from calendar import isleap
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from functools import partial

import httpx
import pytest

from service.domains.people.service_accounts import accounts
from service.domains.people.service_accounts.accounts import LONGEST, make_local_part
from service.platform.identifiers import document_id_for
from service.platform.secrets import hash_secret
from tests.harness.cases import cases
from tests.harness.documents import get_document, upload, uploaded
from tests.harness.services import RunningService
from tests.service import directory
from tests.service.conversations import at_once
from tests.service.directory import a_group, a_user, code, document, done, entries, grant, on_rows, readers, user, walk
from tests.service.rebuilds import wait_blocked
from tests.service.service_accounts import a_token, account, an_account, delete_account, enable_service_accounts

READ = {"action": "READ"}
LOOKUP = "permissions/listAuthorizedResources"
MINT, LIST, REVOKE = (f"admin/serviceAccountTokens/{name}" for name in ("mint", "list", "revoke"))
MINTED = ("AccountTokens/mint", {"name": "a token", "scopes": []})
NOBODY = "00000000-0000-7000-8000-000000000000"


@pytest.fixture
def service(service: RunningService) -> RunningService:
    enable_service_accounts(service)
    return service


def test_an_account_can_be_deleted_where_service_accounts_are_disabled(service: RunningService) -> None:
    robot = an_account(service)
    token = a_token(service, robot, "catalog:read")
    assert service.call(LOOKUP, READ, api_key=token["token"]).status_code == 200
    enable_service_accounts(service, enabled=False)
    assert code(service.call(LOOKUP, READ, api_key=token["token"])) == (403, "service_accounts_disabled")
    assert delete_account(service, robot)["revokedTokenCount"] == 1
    enable_service_accounts(service)
    assert code(service.call(LOOKUP, READ, api_key=token["token"])) == (401, "credential_revoked")


def test_an_account_is_reported_as_it_was_made(service: RunningService) -> None:
    made = [an_account(service, name) for name in ("Nightly load", "100% sure", "Mirror")]
    assert made[0]["displayName"] == "Nightly load"
    assert made[0]["email"] == "nightly-load@example.test"
    assert walk(service, "admin/serviceAccounts/list", {}, page_size=2) == made
    for query, found in (("LOAD", made[:1]), ("sure@", made[1:2]), ("%", made[1:2]), ("nobody", [])):
        assert done(service.call("admin/serviceAccounts/list", {"query": query}))["serviceAccounts"] == found
    assert [one["email"] for one in walk(service, "admin/users/list", {}, page_size=9)] == [service.admin_email]
    # No API key acts as an account.
    key = {"name": "a key", "ownerEmail": made[0]["email"]}
    assert code(service.call("admin/apiKeys/create", key)) == (400, "unknown_user")
    assert code(service.call(LOOKUP, {**READ, "userEmail": made[0]["email"]})) == (400, "unknown_user")


ADDRESSES = {
    **cases("addresses_of_service_accounts"),
    "x" * 200: "x" * LONGEST,
    "-" + "x" * (LONGEST - 1) + " y" * 70: "x" * (LONGEST - 1),
    "é" * 200: "e" * LONGEST,
}


def test_an_address_is_made_of_any_name(service: RunningService) -> None:
    assert {name: make_local_part(name) for name in ADDRESSES} == ADDRESSES
    made = [an_account(service, name) for name in ADDRESSES]
    assert [one["displayName"] for one in made] == [*ADDRESSES]
    expected = {f"{address}@example.test" for address in ADDRESSES.values()}
    numbered = {f"service-account-{number}@example.test" for number in (2, 3, 4, 5)}
    emails = {one["email"] for one in made}
    assert emails == expected | numbered
    memo = directory.a_resource(service, "memo")
    grant(service, memo, *map(user, emails))
    assert set(readers(service, memo)) == emails


def test_an_address_is_numbered_when_somebody_has_or_had_it(service: RunningService) -> None:
    a_user(service, "load@example.test")
    deleted, *_ = (an_account(service, "Load") for _ in range(2))
    assert deleted["email"] == "load-2@example.test"
    delete_account(service, deleted)
    emails = [an_account(service, "Load")["email"] for _ in range(accounts.FIRST_CANDIDATES)]
    assert emails == [f"load-{number}@example.test" for number in range(4, 4 + len(emails))]
    done(service.call("admin/organization/update", {"domain": "other.test"}))
    assert an_account(service, "Load")["email"] == "load@other.test"


def test_two_made_at_once_have_two_addresses(service: RunningService) -> None:
    made = [one["email"] for one in at_once(*[partial(an_account, service, "Load")] * 12)]
    assert sorted(made) == sorted(f"load{'' if number == 1 else f'-{number}'}@example.test" for number in range(1, 13))


def test_only_a_service_account_is_deleted_previewed_or_given_a_token_as_an_account(service: RunningService) -> None:
    ben = a_user(service, "ben@example.test")["id"]
    for other in (a_group(service, "Team")["id"], ben, str(directory.organization_id(service))):
        for operation, more in (("Accounts/delete", {}), ("AccountTokens/previewReach", {"scopes": []}), MINTED):
            refused = service.call(f"admin/service{operation}", {"serviceAccountId": other, **more})
            assert code(refused) == (404, "service_account_not_found")
    assert service.call(LOOKUP, {**READ, "userEmail": "ben@example.test"}).status_code == 200


def test_a_deleted_account_is_gone_with_its_tokens(service: RunningService) -> None:
    robot = an_account(service)
    tokens = [a_token(service, robot, "catalog:read") for _ in range(3)]
    done(service.call(REVOKE, {"tokenId": tokens[1]["tokenId"]}))
    service.execute("UPDATE service_account_tokens SET expires_at = now() WHERE token_id = %s", [tokens[2]["tokenId"]])
    named = {"serviceAccountId": robot["serviceAccountId"]}
    assert delete_account(service, robot) == {**named, "revokedTokenCount": 1}
    assert code(service.call(LOOKUP, READ, api_key=tokens[0]["token"])) == (401, "credential_revoked")
    assert done(service.call("admin/serviceAccounts/list"))["serviceAccounts"] == []
    for operation, more in (("Accounts/delete", {}), MINTED, ("AccountTokens/list", {})):
        assert code(service.call(f"admin/service{operation}", {**named, **more})) == (404, "service_account_not_found")
    assert [one["status"] for one in done(service.call(LIST))["tokens"]] == ["revoked"] * 3


def test_a_deleted_account_is_unknown_to_everything_that_names_principals(service: RunningService) -> None:
    robot, other = an_account(service), an_account(service, "Other")
    memo = directory.a_resource(service, "memo")
    grant(service, memo, account(robot), account(other))
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
    assert code(service.call("admin/users/upsert", {"users": [{"email": robot["email"]}]})) == (409, "email_taken")


def test_what_a_deleted_account_uploaded_stays_with_its_readers(service: RunningService) -> None:
    robot = an_account(service)
    token = a_token(service, robot, "catalog:write")["token"]
    admin = service.http.headers["Authorization"]
    service.http.headers["Authorization"] = f"Bearer {token}"
    document_id = uploaded(service, "log")["documentId"]
    service.http.headers["Authorization"] = admin
    delete_account(service, robot)
    assert get_document(service, document_id)["owner"]["email"] == robot["email"]
    resource = document(document_id)
    assert readers(service, resource) == []
    grant(service, resource, user(service.admin_email), role="EDITOR")
    assert readers(service, resource) == [service.admin_email]
    assert get_document(service, document_id)["owner"]["email"] == robot["email"]


def test_an_account_is_deleted_once_by_two_at_once(service: RunningService) -> None:
    for _ in range(4):
        robot = an_account(service)
        a_token(service, robot)
        named = {"serviceAccountId": robot["serviceAccountId"]}
        deleted = at_once(*[partial(service.call, "admin/serviceAccounts/delete", named)] * 4)
        assert sorted(answer.status_code for answer in deleted) == [200, 404, 404, 404]
    assert len(entries(service, action="serviceAccount.delete")) == 4


@pytest.mark.parametrize("first", ["mint", "delete"])
def test_a_token_that_is_minted_while_its_account_is_deleted_does_not_survive(own_service, first) -> None:
    service = own_service
    enable_service_accounts(service)
    named = {"serviceAccountId": an_account(service)["serviceAccountId"]}
    minted = {**named, "name": "a token", "scopes": ["catalog:read"]}
    requests = [("mint", MINT, minted), ("delete", "admin/serviceAccounts/delete", named)]
    asked: dict[str, Future[httpx.Response]] = {}
    with service.owner_connection() as connection, ThreadPoolExecutor(2) as pool:
        with connection.transaction():
            # Their audit entries come last, so that the first has done the rest, and not committed.
            connection.execute("LOCK TABLE audit_entries IN EXCLUSIVE MODE")
            for number, (name, operation, body) in enumerate(sorted(requests, key=lambda one: one[0] != first), 1):
                asked[name] = pool.submit(service.call, operation, body)
                wait_blocked(service, number)
        minting, deleted = asked["mint"].result(), done(asked["delete"].result())
    if first == "delete":
        assert code(minting) == (404, "service_account_not_found")
    else:
        assert deleted["revokedTokenCount"] == 1
        assert code(service.call(LOOKUP, READ, api_key=done(minting)["token"])) == (401, "credential_revoked")


def test_a_request_that_runs_while_its_account_is_deleted_ends_well_and_is_the_last(service: RunningService) -> None:
    robot = an_account(service)
    token = a_token(service, robot, "catalog:write", "catalog:read")["token"]
    key = int.from_bytes(document_id_for(directory.organization_id(service), "log").bytes[:8], signed=True)
    request = {
        "data": {"documentExternalId": "log"},
        "files": {"file": ("notes.txt", b"The ferry leaves at noon.")},
        "headers": {"Authorization": f"Bearer {token}"},
    }
    with service.owner_connection() as connection, ThreadPoolExecutor(1) as pool:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [key])
            uploading = pool.submit(service.http.post, "/api/v0/catalog/uploadFile", **request)
            wait_blocked(service, 1)
            delete_account(service, robot)
            assert code(service.call(LOOKUP, READ, api_key=token)) == (401, "credential_revoked")
        wait([uploading])
        document = done(uploading.result())
    assert get_document(service, document["documentId"])["owner"]["email"] == robot["email"]
    assert code(service.http.post("/api/v0/catalog/uploadFile", **request)) == (401, "credential_revoked")


def test_what_happens_to_accounts_and_tokens_is_on_the_audit_log_without_a_word_of_theirs(service) -> None:
    robot = an_account(service, "Secretive Robot")
    team = a_group(service, "Team", account(robot))
    words = {"name": "Quiet token", "description": "A silent job"}
    one, two = (a_token(service, robot, "catalog:read", **words) for _ in range(2))
    for _ in range(2):
        done(service.call(REVOKE, {"tokenId": one["tokenId"]}))
    mine = {"serviceAccountId": robot["serviceAccountId"]}
    refused = {**mine, "name": "x", "scopes": [], "expiresAt": "2020-01-01T00:00:00Z"}
    assert service.call(MINT, refused).status_code == 400
    delete_account(service, robot)
    log = [entry for entry in entries(service) if entry["action"].startswith(("service", "group.members"))][::-1]
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
    rows = on_rows(service, "SELECT details::text FROM audit_entries") + on_rows(service, "SELECT text FROM free_texts")
    kept = " ".join(str(row[0]) for row in rows)
    for word in ("Secretive", "secretive", "Quiet", "silent", one["token"], two["token"], one["hint"], "Nightly"):
        assert word not in kept


def test_a_token_acts_as_its_account_until_it_is_revoked(service: RunningService) -> None:
    robot = an_account(service)
    token, other = (a_token(service, robot, "catalog:read") for _ in range(2))
    assert service.call(LOOKUP, READ, api_key=token["token"]).status_code == 200
    # A refusal names the scope that the token lacks.
    assert "catalog:write" in service.call("catalog/planUpload", api_key=token["token"]).json()["error"]["message"]
    revoked = done(service.call(REVOKE, {"tokenId": token["tokenId"]}))
    assert revoked["status"] == "revoked"
    assert code(service.call(LOOKUP, READ, api_key=token["token"])) == (401, "credential_revoked")
    assert service.call(LOOKUP, READ, api_key=other["token"]).status_code == 200
    assert done(service.call(REVOKE, {"tokenId": token["tokenId"]})) == revoked
    assert len(entries(service, action="serviceAccountToken.revoke")) == 1
    on_rows(service, "UPDATE service_account_tokens SET expires_at = now()")
    assert code(service.call(LOOKUP, READ, api_key=other["token"])) == (401, "credential_expired")
    assert [one["status"] for one in done(service.call(LIST))["tokens"]] == ["revoked", "expired"]
    assert done(service.call(REVOKE, {"tokenId": other["tokenId"]}))["status"] == "revoked"


def test_a_tokens_value_is_shown_once_and_kept_nowhere(service: RunningService) -> None:
    scopes = ("catalog:read", "agent:message", "catalog:read")
    token = a_token(service, an_account(service), *scopes, name="nightly", description="loads at night")
    value = token.pop("token")
    assert token["scopes"] == ["agent:message", "catalog:read"]
    assert value.startswith("svc_sa_")
    assert token["hint"] == value[-4:]
    assert (token["name"], token["description"], token["status"]) == ("nightly", "loads at night", "active")
    assert done(service.call(LIST))["tokens"] == [token]
    [(kept, row)] = on_rows(service, "SELECT secret_hash, t::text FROM service_account_tokens t")
    assert kept == hash_secret(value)
    assert value not in row
    assert value.removeprefix("svc_sa_") not in service.call("admin/auditLog/query", {"pageSize": 1000}).text


def test_an_expiry_is_a_year_from_now_unless_given(service: RunningService) -> None:
    """Day and time of the next year; February 28 for February 29."""
    token = a_token(service, an_account(service))
    made, ends = (datetime.fromisoformat(token[name]) for name in ("createdAt", "expiresAt"))
    leap_day = (made.month, made.day) == (2, 29) and not isleap(made.year + 1)
    assert ends == made.replace(year=made.year + 1, day=28 if leap_day else made.day)
    given = (datetime.now(UTC) + timedelta(days=3)).replace(microsecond=0)
    elsewhere = given.astimezone(tz=None).isoformat()
    assert datetime.fromisoformat(a_token(service, an_account(service), expiresAt=elsewhere)["expiresAt"]) == given
    last = a_token(service, an_account(service), expiresAt="9999-12-31T23:59:59Z")
    assert last["expiresAt"] == "9999-12-31T23:59:59Z"


REFUSED: list[tuple[dict, tuple[int, str]]] = [
    ({"scopes": ["catalog:everything"]}, (400, "invalid_request")),
    ({"scopes": ["CATALOG:READ"]}, (400, "invalid_request")),
    ({"scopes": None}, (400, "invalid_request")),
    ({"name": ""}, (400, "invalid_request")),
    ({"name": "x" * 201}, (400, "invalid_request")),
    ({"expiresAt": "2031-01-01"}, (400, "invalid_request")),
    ({"expiresAt": "2020-01-01T00:00:00Z"}, (400, "expiry_past")),
    ({"serviceAccountId": NOBODY}, (404, "service_account_not_found")),
]


def test_a_token_that_could_not_be_used_as_asked_is_not_minted(service: RunningService) -> None:
    request = {"serviceAccountId": an_account(service)["serviceAccountId"], "name": "a token", "scopes": []}
    for body, expected in REFUSED:
        assert code(service.call(MINT, {**request, **body})) == expected, body
    assert done(service.call(LIST))["tokens"] == []


def test_tokens_are_listed_by_account_and_page_with_their_own_last_use(service: RunningService) -> None:
    one, other = an_account(service), an_account(service)
    tokens = [a_token(service, of, "catalog:read") for of in (one, other, one, one, other)]
    made = [token["tokenId"] for token in tokens]
    named = {"serviceAccountId": one["serviceAccountId"]}
    assert [token["tokenId"] for token in walk(service, LIST, {}, page_size=2)] == made
    assert [token["tokenId"] for token in walk(service, LIST, named, page_size=2)] == [made[0], made[2], made[3]]
    assert code(service.call(LIST, {"serviceAccountId": NOBODY})) == (404, "service_account_not_found")
    assert [token.get("lastUsedAt") for token in walk(service, LIST)] == [None] * 5
    service.call(LOOKUP, READ, api_key=tokens[0]["token"])
    [used, *unused] = [token.get("lastUsedAt") for token in walk(service, LIST)]
    assert datetime.now(UTC) - datetime.fromisoformat(used) < timedelta(minutes=1)
    assert unused == [None] * 4
