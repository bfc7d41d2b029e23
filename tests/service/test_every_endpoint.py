"""Every operation with every kind of credential: refusals give the exact reason, and reveal and change no data. Rows
are the operations, columns the credentials. An operation without a value in `tests.service.examples` fails here."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product

import httpx
import pytest
from psycopg import sql

from carrel.wire.api import OPERATIONS
from carrel.wire.operations import KEYED, SECRET, Requirement
from carrel.wire.scopes import Scope
from service.platform.identifiers import NIL
from service.platform.secrets import API_KEY, SERVICE_ACCOUNT_TOKEN, mint
from tests.harness.cases import cases
from tests.harness.requirements import REQUIREMENTS as SHARED
from tests.harness.requirements import V0_REQUIREMENTS
from tests.harness.services import RunningService, ServiceHarness
from tests.service.directory import a_key, a_user, another_organization, done, user
from tests.service.examples import ABOUT_ANYONE, EXAMPLES, USER_EMAIL, Example, Owner, Things
from tests.service.service_accounts import a_token, an_account, delete_account, enable_service_accounts
from tests.service.service_accounts import account as account_of

Outcome = tuple[int, str | None]
SUCCESS: Outcome = (200, None)
REQUIREMENTS = {**SHARED, **V0_REQUIREMENTS}
MEMBER, OTHER_MEMBER, GONE = "member@example.test", "other@example.test", "gone@example.test"
ALL_SCOPES = tuple(scope.value for scope in Scope)


@dataclass
class World:
    """A service with an organization; its admin, a member and a service account each own an object of each kind."""

    service: RunningService
    http: httpx.Client
    things: dict[str, Things] = field(default_factory=dict)
    credentials: dict[str, str | None] = field(default_factory=dict)

    def send(self, operation: str, credential: str, **members) -> httpx.Response:
        example = EXAMPLES[operation]
        body = {**example.body(self.things_for(credential)), **members}
        return example.send(self.http, operation, body, self.headers(credential))

    def things_for(self, credential: str) -> Things:
        return self.things.get(COLUMNS[credential].owner, self.things["admin"])

    def headers(self, credential: str) -> dict[str, str]:
        value = self.credentials[credential]
        return {} if value is None else {"Authorization": value}


def rule_of_tokens(*scopes: str) -> Callable[[Requirement], Outcome]:
    def outcome(requirement: Requirement) -> Outcome:
        if requirement.scope is None and not requirement.any_token:
            return (403, "service_account_not_allowed")
        return SUCCESS if requirement.any_token or requirement.scope in scopes else (403, "missing_scope")

    return outcome


def rule_of_members(requirement: Requirement) -> Outcome:
    return (403, "admin_only") if requirement.admin else SUCCESS


@dataclass(frozen=True)
class Column:
    """A kind of credential: allowed operations, and the owner of the objects in requests."""

    rule: Callable[[Requirement], Outcome]
    owner: str = "admin"


# With these nothing can be called: the code of the 401.
UNUSABLE = cases("unusable_credentials")
COLUMNS: dict[str, Column] = {
    **{name: Column(lambda _, code=code: (401, code)) for name, code in UNUSABLE.items()},
    "a token where service accounts are disabled": Column(lambda _: (403, "service_accounts_disabled")),
    "a token without scopes": Column(rule_of_tokens(), "account"),
    **{f"a token with {scope}": Column(rule_of_tokens(scope), "account") for scope in ALL_SCOPES},
    "a token with all scopes": Column(rule_of_tokens(*ALL_SCOPES), "account"),
    "a member's key": Column(rule_of_members, "member"),
    "a member's key that may act": Column(rule_of_members, "member"),
    "an admin's key": Column(lambda _: SUCCESS),
    "an admin's key that may act": Column(lambda _: SUCCESS),
}
REFUSED = [
    (operation, column)
    for operation, column in product(REQUIREMENTS, COLUMNS)
    if COLUMNS[column].rule(REQUIREMENTS[operation]) != SUCCESS
]
ALLOWED = [one for one in product(REQUIREMENTS, COLUMNS) if one not in REFUSED]


@pytest.fixture(scope="module")
def world(service_harness: ServiceHarness) -> Iterator[World]:
    with (
        service_harness.running(sweep_seconds=3600, docstore_workers=0) as service,
        httpx.Client(base_url=service.base_url, timeout=60) as http,
    ):
        yield a_world(service, http)


def a_world(service: RunningService, http: httpx.Client) -> World:
    enable_service_accounts(service)
    for email in (MEMBER, OTHER_MEMBER, f"spare-{OTHER_MEMBER}", GONE):
        a_user(service, email)
    account, deleted = an_account(service, "Bosun"), an_account(service, "Drowned")
    token = a_token(service, account, *ALL_SCOPES)
    member_key = a_key(service, ownerEmail=MEMBER)
    expired, revoked = a_key(service), a_key(service)
    expired_token, revoked_token = a_token(service, account, *ALL_SCOPES), a_token(service, account, *ALL_SCOPES)
    values = {
        "a revoked key": revoked["apiKey"],
        "an expired key": expired["apiKey"],
        "a key of an inactive user": a_key(service, ownerEmail=GONE)["apiKey"],
        "a revoked token": revoked_token["token"],
        "an expired token": expired_token["token"],
        "a token of a deleted account": a_token(service, deleted, *ALL_SCOPES)["token"],
        "a token where service accounts are disabled": a_token_elsewhere(service),
        "a token without scopes": a_token(service, account)["token"],
        **{f"a token with {scope}": a_token(service, account, scope)["token"] for scope in ALL_SCOPES},
        "a token with all scopes": token["token"],
        "a member's key": member_key["apiKey"],
        "a member's key that may act": a_key(service, ownerEmail=MEMBER, mayActForUsers=True)["apiKey"],
        "an admin's key": a_key(service)["apiKey"],
        "an admin's key that may act": service.api_key,
        "a key with a typing error": service.api_key[:-1] + "x",
        "a key that was never made": mint(API_KEY).value.get_secret_value(),
        "a token with a typing error": token["token"][:-1] + ("x" if token["token"][-1] != "x" else "y"),
        "a token that was never made": mint(SERVICE_ACCOUNT_TOKEN).value.get_secret_value(),
        "an access token": mint("svc_at_").value.get_secret_value(),
        "garbage": "open sesame",
        "a prefix nobody knows": token["token"].replace("svc_sa_", "svc_xx_"),
    }
    bare = {"none": None, "empty": "", "Bearer of nothing": "Bearer", "not Bearer": "Basic b3BlbjpzZXNhbWU="}
    world = World(service, http, credentials={**bare, **{name: f"Bearer {value}" for name, value in values.items()}})
    assert world.credentials.keys() == COLUMNS.keys()
    owners = {"admin": service.api_key, "member": member_key["apiKey"], "account": token["token"]}
    for name, credential in owners.items():
        world.things[name] = Things(Owner(service, credential, f"{name}-harbour"), OTHER_MEMBER)
    name_admin_things(world.things["admin"])
    principals = {"admin": user(service.admin_email), "member": user(MEMBER), "account": account_of(account)}
    for name, principal in principals.items():
        converse(world.things[name], world.things["admin"].owner, principal)
    done(service.call("admin/apiKeys/revoke", {"apiKeyId": revoked["apiKeyId"]}))
    done(service.call("admin/serviceAccountTokens/revoke", {"tokenId": revoked_token["tokenId"]}))
    delete_account(service, deleted)
    a_user(service, GONE, active=False)
    let_expire(service, expired["apiKeyId"], expired_token["tokenId"])
    return world


def a_token_elsewhere(service: RunningService) -> str:
    key = another_organization(service, admin_email="admin@disabled.test")
    enable_service_accounts(service, api_key=key)
    account = an_account(service, api_key=key)
    body = {"serviceAccountId": account["serviceAccountId"], "name": "late", "scopes": list(ALL_SCOPES)}
    token = done(service.call("admin/serviceAccountTokens/mint", body, api_key=key))["token"]
    enable_service_accounts(service, enabled=False, api_key=key)
    return str(token)


def name_admin_things(things: Things) -> None:
    service = things.owner.service
    things.make("group_id", "trashed_group_id", "account_id", "client_id")
    things.renew("agent_id")
    things.api_key_id = a_key(service)["apiKeyId"]
    things.scim_token_id = done(service.call("admin/scimTokens/create", {"name": "Entra"}))["tokenId"]
    things.token_id = a_token(service, {"serviceAccountId": things.account_id})["tokenId"]
    things.evaluate()
    things.fail()


def converse(things: Things, admin: Owner, principal: dict[str, str]) -> None:
    things.agent_id = admin.agent(things.collection_id)
    admin.deploy(things.agent_id, principal)
    things.converse()


def let_expire(service: RunningService, api_key_id: str, token_id: str) -> None:
    past = "SET expires_at = now() - interval '1 second'"
    service.execute(f"UPDATE api_keys {past} WHERE api_key_id = %s", [api_key_id])
    service.execute(f"UPDATE service_account_tokens {past} WHERE token_id = %s", [token_id])


def outcome_of(response: httpx.Response) -> Outcome:
    """Return the status and error code of an answer; check the error's shape, and a 401's authentication header."""
    if response.status_code == 200:
        return SUCCESS
    error = response.json()["error"]
    assert response.json().keys() == {"error"}
    assert error.keys() - {"details"} == {"message", "code", "requestId"}
    assert error["requestId"] == response.headers["X-Request-Id"]
    assert error["message"]
    told = 'Bearer error="invalid_token"' if "authorization" in response.request.headers else "Bearer"
    assert response.headers.get("WWW-Authenticate") == (told if response.status_code == 401 else None)
    return response.status_code, error["code"]


def everything(service: RunningService, *, but: str | None = None) -> dict[str, str | None]:
    """Return a digest of each table (without an organization's rows, if given), without times of credentials' use."""
    with service.owner_connection() as connection:
        # The queue is the library's, and empty but while a message is answered; deliveries change by themselves.
        names = connection.execute(
            "SELECT tablename FROM pg_policies WHERE policyname = 'organization'"
            " AND tablename NOT IN ('procrastinate_jobs', 'alert_deliveries')"
        ).fetchall()
        digest = sql.SQL(
            "SELECT {}, md5(string_agg(row, '' ORDER BY row)) FROM (SELECT (to_jsonb(t) - 'last_used_at')::text AS row"
            " FROM {} t WHERE organization_id <> {}) rows"
        )
        without = sql.Literal(but or str(NIL))
        digests = [digest.format(sql.Literal(name), sql.Identifier(name), without) for (name,) in names]
        return dict(connection.execute(sql.SQL(" UNION ALL ").join(digests)).fetchall())


BROKEN = ((b"{", "application/json"), (b'{"nonsense": 1}', "application/json"), (b"nonsense", "text/plain"))


def turn(operation: str, credential: str) -> int:
    """Return a number for varying bodies over operations and credentials, until each sends all bodies."""
    return list(COLUMNS).index(credential) + list(REQUIREMENTS).index(operation)


def broken(world: World, operation: str, credential: str) -> httpx.Response:
    content, kind = BROKEN[turn(operation, credential) % len(BROKEN)]
    headers = {**world.headers(credential), "Content-Type": kind}
    return world.http.post(f"/api/v0/{operation}", content=content, headers=headers)


@pytest.mark.parametrize("credential", dict.fromkeys(column for _, column in REFUSED))
def test_a_refusal_says_why_whatever_the_body(world: World, credential: str) -> None:
    operations = [operation for operation, column in REFUSED if column == credential]
    expected = {operation: COLUMNS[credential].rule(REQUIREMENTS[operation]) for operation in operations}
    before = everything(world.service)
    for number, ask in enumerate((World.send, broken)):
        asked = [one for one in operations if credential not in UNUSABLE or turn(one, credential) % 2 == number]
        assert {one: outcome_of(ask(world, one, credential)) for one in asked} == {one: expected[one] for one in asked}
    assert everything(world.service) == before


@pytest.mark.parametrize("credential", dict.fromkeys(column for _, column in ALLOWED))
def test_who_may_call_is_served(world: World, credential: str) -> None:
    operations = [operation for operation, column in ALLOWED if column == credential]
    found = {operation: served(world, operation, credential) for operation in operations}
    assert found == dict.fromkeys(operations, SUCCESS)
    assert {outcome_of(broken(world, operation, credential))[0] for operation in operations} <= {400, 415}


def served(world: World, operation: str, credential: str) -> Outcome:
    outcome = outcome_of(world.send(operation, credential))
    anew = EXAMPLES[operation].anew
    if outcome == SUCCESS and anew is not None:
        anew(world.things_for(credential))
    return outcome


@pytest.mark.parametrize("credential", ["a key with a typing error", "a token with a typing error"])
def test_a_typing_error_is_told_from_an_unknown_credential(world: World, credential: str) -> None:
    unknown = credential.replace("with a typing error", "that was never made")
    messages = [world.send("catalog/listDocuments", one).json()["error"]["message"] for one in (credential, unknown)]
    assert ["mistyped" in message for message in messages] == [True, False]


def not_a_member(example: Example) -> str:
    return "part_unknown" if example.file else "invalid_request"


@pytest.mark.parametrize("credential", [name for name, column in COLUMNS.items() if column.owner == "account"])
def test_a_token_never_acts_as_a_person(world: World, credential: str) -> None:
    expected, found = {}, {}
    for operation, example in EXAMPLES.items():
        code = "service_account_acts_as_itself" if example.acting else not_a_member(example)
        outcome = COLUMNS[credential].rule(REQUIREMENTS[operation])
        expected[operation] = {(400, code) if outcome == SUCCESS else outcome}
        member = {example.acting or USER_EMAIL: MEMBER}
        bodies = [{**example.body(world.things[one]), **member} for one in ("account", "admin")]
        headers = world.headers(credential)
        found[operation] = {outcome_of(example.send(world.http, operation, one, headers)) for one in bodies}
    assert found == expected


# Operations in which a key may name the user that it acts for. The examples know them from the requests' models, and
# would follow without a word if a model lost the member.
ACTING = cases("acting_operations")


def test_a_key_names_a_user_wherever_it_could_before() -> None:
    named = {f"{folder}/{name}" for folder, names in ACTING.items() for name in names.split()}
    assert {operation for operation, example in EXAMPLES.items() if example.acting} == named


def test_a_key_that_may_act_acts_as_the_user(world: World) -> None:
    headers, things = world.headers("an admin's key that may act"), world.things["member"]
    for operation, example in EXAMPLES.items():
        member = {example.acting or USER_EMAIL: MEMBER}
        response = example.send(world.http, operation, {**example.body(things), **member}, headers)
        assert (operation, outcome_of(response)) == (
            operation,
            SUCCESS if example.acting else (400, not_a_member(example)),
        )
        if example.acting and example.anew:
            example.anew(things)


# They see to their keys themselves, and tests of their own show that.
OWN_KEYS = {
    *("catalog/uploadDocumentFile", "admin/evaluationSets/addRun"),
    *("copilots/sendMessage", "copilots/streamMessage"),
}


def test_what_cannot_be_repeated_is_done_once_under_a_key(world: World) -> None:
    things, headers = world.things["admin"], world.headers("an admin's key that may act")
    for operation, example in EXAMPLES.items():
        if operation in OWN_KEYS or not OPERATIONS[operation].has(KEYED):
            continue
        body, keyed = example.body(things), {**headers, "Idempotency-Key": operation}
        first, again = (example.send(world.http, operation, body, keyed) for _ in range(2))
        if OPERATIONS[operation].has(SECRET):
            assert (operation, outcome_of(again)) == (operation, (409, "already_done"))
        else:
            assert (operation, again.content) == (operation, first.content)
            assert again.headers["Idempotent-Replayed"] == "true", operation
        assert (operation, outcome_of(first)) == (operation, SUCCESS)
        if example.anew is not None:
            example.anew(things)


# A key gives its users' feedback on what was its own: it tells nothing of that.
PASSING_ON = {"search/submitSearchFeedback", "copilots/provideMessageFeedback"}


def test_as_a_user_an_admins_key_has_no_more_than_the_user(world: World) -> None:
    credential = "an admin's key that may act"
    expected = {
        operation: example.elsewhere
        for operation, example in EXAMPLES.items()
        if example.acting and example.elsewhere and operation not in PASSING_ON
    }
    assert len(expected) > 8
    assert {one: outcome_of(world.send(one, credential, userEmail=MEMBER)) for one in expected} == expected


@pytest.mark.parametrize("credential", ["an admin's key", "a member's key"])
def test_a_key_that_may_not_act_does_not(world: World, credential: str) -> None:
    expected, found = {}, {}
    for operation, example in EXAMPLES.items():
        outcome = COLUMNS[credential].rule(REQUIREMENTS[operation])
        refused = (403, "key_may_not_act_for_users") if example.acting else (400, not_a_member(example))
        expected[operation] = [refused if outcome == SUCCESS else outcome] * 2
        if example.about_anyone:
            expected[operation] = [SUCCESS, SUCCESS if credential == "an admin's key" else refused]
        member = example.acting or USER_EMAIL
        asked = [world.send(operation, credential, **{member: email}) for email in (MEMBER, OTHER_MEMBER)]
        found[operation] = [outcome_of(one) for one in asked]
    assert found == expected


@pytest.fixture(scope="module")
def stranger(world: World) -> dict[str, str]:
    key = another_organization(world.service)
    enable_service_accounts(world.service, api_key=key)
    return {"Authorization": f"Bearer {key}"}


def test_for_another_organizations_admin_nothing_is_there(world: World, stranger: dict[str, str]) -> None:
    things = world.things["admin"]
    key = stranger["Authorization"].removeprefix("Bearer ")
    own = done(world.service.call("admin/organization/get", api_key=key))["organizationId"]
    before = everything(world.service, but=own)
    for operation, example in EXAMPLES.items():
        body = example.body(things)
        response = example.send(world.http, operation, body, stranger)
        assert (operation, outcome_of(response)) == (operation, example.elsewhere or SUCCESS)
        if operation in ABOUT_ANYONE:
            assert '"authorized":false' in response.text
            assert '"authorized":true' not in response.text
        sent = json.dumps(body)
        assert [one for one in things.ids() if one in response.text and one not in sent] == [], operation
    assert everything(world.service, but=own) == before


def told(response: httpx.Response, things: Things) -> tuple[int, dict[str, str], str]:
    text = response.text.replace(response.headers["X-Request-Id"], "…")
    for each in sorted(things.ids() | {things.email}):
        text = text.replace(each, "…")
    headers = {name: value for name, value in response.headers.items() if name not in {"x-request-id", "date"}}
    return response.status_code, headers, text


def assert_told_alike(world: World, headers: dict[str, str], operations: Iterable[str]) -> set[int]:
    """Assert that answers to strangers about the admin's objects equal, to the byte, answers about missing objects;
    return the statuses."""
    statuses, theirs = set[int](), world.things["admin"]
    for operation in operations:
        example = EXAMPLES[operation]
        found, unknown = (
            told(example.send(world.http, operation, example.body(things), headers), things)
            for things in (theirs, theirs.nowhere())
        )
        assert (operation, found) == (operation, unknown)
        statuses.add(found[0])
    return statuses


def test_what_is_not_yours_answers_like_what_there_is_not(world: World, stranger: dict[str, str]) -> None:
    operations = [name for name, example in EXAMPLES.items() if example.elsewhere]
    assert len(operations) > 20
    assert_told_alike(world, stranger, operations)


def test_what_a_member_may_not_know_of_answers_like_what_there_is_not(world: World) -> None:
    operations = [name for name, one in EXAMPLES.items() if one.elsewhere and not REQUIREMENTS[name].admin]
    assert len(operations) > 8
    of_tokens = [name for name in operations if REQUIREMENTS[name].scope is not None]
    for credential, asked in (("a member's key", operations), ("a token with all scopes", of_tokens)):
        assert assert_told_alike(world, world.headers(credential), asked) == {404}


def test_where_service_accounts_are_disabled_none_are_made(world: World) -> None:
    key = another_organization(world.service, admin_email="admin@without.test")
    headers = {"Authorization": f"Bearer {key}"}
    found: dict[str, Outcome] = {}
    for operation, example in EXAMPLES.items():
        if operation.startswith("admin/serviceAccount"):
            bodies = (example.body(world.things["admin"]), {"nonsense": 1})
            answers = [outcome_of(example.send(world.http, operation, body, headers)) for body in bodies]
            found[operation] = answers[0]
            assert not REQUIREMENTS[operation].service_accounts or answers[0] == answers[1]
    making = {"admin/serviceAccounts/create", "admin/serviceAccountTokens/mint"}
    refused = {operation for operation, outcome in found.items() if outcome == (403, "service_accounts_disabled")}
    assert refused == making
    assert {outcome for operation, outcome in found.items() if operation.endswith("/list")} == {SUCCESS}
