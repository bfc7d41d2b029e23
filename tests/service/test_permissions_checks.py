"""Whether somebody may read a resource, asked about one and about many."""

from tests.harness.messages import messages_of
from tests.harness.services import RunningService
from tests.service.directory import a_group, a_key, a_resource, a_user, code, done, grant, group, user

CHECK = "permissions/checkResourceAuthorizationForUser"
BULK = "permissions/checkBulkResourcesAuthorizationForUser"
NOWHERE = {"resourceId": "nowhere", "resourceType": "UPLOADED_DOCUMENT"}


def may(service: RunningService, resource: dict[str, str], email: str | None = None, **options) -> bool:
    """Whether somebody (the caller unless an address is given) may read a resource."""
    named = {"userEmail": email} if email else {}
    return done(service.call(CHECK, {"resource": resource, "action": "READ", **named}, **options))["authorized"]


def test_a_check_says_what_grants_groups_and_ownership_say(service: RunningService) -> None:
    """Directly, through groups, organization-wide and as the owner; else no, also for an admin, or once it is taken."""
    ada = a_user(service, "ada@example.test")
    for name in ("ben", "cleo", "dan"):
        a_user(service, f"{name}@example.test")
    inner = a_group(service, "inner", user("cleo@example.test"))
    memo, open_to_all = a_resource(service, "memo", owner=ada["id"]), a_resource(service, "open")
    grant(service, memo, user("ben@example.test"), group(a_group(service, "outer", group(inner))))
    grant(service, open_to_all, organizationWide=True)
    answers = {name: may(service, memo, f"{name}@example.test") for name in ("ada", "ben", "cleo", "dan")}
    assert answers == {"ada": True, "ben": True, "cleo": True, "dan": False}
    assert not may(service, memo)
    assert may(service, open_to_all)
    assert may(service, open_to_all, "Dan@Example.test")
    grant(service, memo)
    assert not any(may(service, memo, f"{name}@example.test") for name in ("ben", "cleo"))


def test_many_are_answered_in_the_order_asked(service: RunningService) -> None:
    """One that is asked about twice is answered twice; an unknown one, or one of another type, is a no."""
    memos = [a_resource(service, f"memo-{number}") for number in range(4)]
    for memo in memos[::2]:
        grant(service, memo, organizationWide=True)
    other = {**memos[0], "resourceType": "BOX_FILE"}
    asked = [memos[3], memos[2], NOWHERE, memos[0], memos[2], other, memos[1]]
    results = done(service.call(BULK, {"resources": asked, "action": "READ"}))["results"]
    assert [one["resource"] for one in results] == asked
    assert [one["authorized"] for one in results] == [False, True, False, True, True, False, False]


def test_a_thousand_are_one_query(service: RunningService) -> None:
    """However many are asked about, the database is asked as often as for one; 1001 are refused."""
    memo = a_resource(service, "memo")

    def asked(number: int) -> int:
        resources = [{**memo, "resourceId": f"memo-{each}"} for each in range(number)]
        with messages_of(service) as said:
            assert len(done(service.call(BULK, {"resources": resources, "action": "READ"}))["results"]) == number
        return len(said)

    asked(1)
    assert asked(1000) == asked(1) > 0
    for number in (0, 1001):
        assert code(service.call(BULK, {"resources": [memo] * number, "action": "READ"})) == (400, "invalid_request")


def test_who_may_be_asked_about(service: RunningService) -> None:
    """Oneself by anyone; anybody by an admin; any active user by a key that may act for users; else 403."""
    for name in ("ben", "cleo"):
        a_user(service, f"{name}@example.test")
    a_user(service, "gone@example.test", active=False)
    memo = a_resource(service, "memo")
    grant(service, memo, user("ben@example.test"), user("gone@example.test"))
    plain = a_key(service, ownerEmail="ben@example.test")["apiKey"]
    acting = a_key(service, ownerEmail="ben@example.test", mayActForUsers=True)["apiKey"]
    admins = a_key(service, mayActForUsers=False)["apiKey"]

    def refusal(key: str, email: str) -> tuple[int, str]:
        body = {"resource": memo, "action": "READ", "userEmail": email}
        several = {"resources": [memo], "action": "READ", "userEmail": email}
        answers = {code(service.call(CHECK, body, api_key=key)), code(service.call(BULK, several, api_key=key))}
        assert len(answers) == 1
        return answers.pop()

    assert may(service, memo, api_key=plain)
    assert may(service, memo, "BEN@example.test", api_key=plain)
    assert refusal(plain, "cleo@example.test") == (403, "key_may_not_act_for_users")
    assert refusal(plain, "nobody@example.test") == (403, "key_may_not_act_for_users")
    assert not may(service, memo, "cleo@example.test", api_key=acting)
    assert refusal(acting, "nobody@example.test") == (400, "unknown_user")
    assert refusal(acting, "gone@example.test") == (400, "unknown_user")
    assert may(service, memo, "ben@example.test", api_key=admins)
    assert refusal(admins, "nobody@example.test") == (400, "unknown_user")
    assert not may(service, memo, "gone@example.test", api_key=admins)
