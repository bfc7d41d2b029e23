"""Sessions of people, as admins see and end them, and sign-ins in the audit log."""

import httpx
import pytest

from tests.harness.jobs import until
from tests.harness.services import MakeService, RunningService
from tests.oauth.flow import PASSWORD, App, Page, Person, Pkce, a_person, an_app, entries, error, later, works
from tests.service.directory import a_user, another_organization, done, walk

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0"
ADA = "ada@example.test"


def sessions(service: RunningService, email: str = ADA) -> list[dict]:
    return walk(service, "admin/sessions/list", {"email": email}, page_size=1)


def end(service: RunningService, email: str = ADA, **body) -> int:
    return int(done(service.call("admin/sessions/end", {"email": email, **body}))["endedCount"])


def is_signed_in(person: Person) -> bool:
    return person.http.get("/account/consents").status_code == 200


def test_sessions_are_listed_with_their_use(service: RunningService, app: App, ada: Person) -> None:
    ada.http.headers["User-Agent"] = FIREFOX
    token = ada.tokens(app)["access_token"]
    browser, application = sessions(service)
    assert (browser["kind"], browser["address"], browser["device"]) == ("BROWSER", "127.0.0.1", "Firefox on Linux")
    assert browser["lastUsedAt"]
    assert (application["kind"], application["applicationName"]) == ("APPLICATION", "An App")
    assert (application["clientId"], application["device"]) == (app.client_id, "Firefox on Linux")
    assert "lastUsedAt" not in application
    assert works(service, token)
    assert sessions(service)[1]["lastUsedAt"] >= application["createdAt"]
    later(service, days=31)
    assert sessions(service) == []


def test_all_sessions_of_a_person_end_at_once(app: App, ada: Person, ben: Person, pkce: Pkce) -> None:
    tokens, bens = ada.tokens(app), ben.tokens(app)
    unused = ada.code(app, pkce)
    assert works(app.service, tokens["access_token"])
    assert end(app.service) == 2
    assert not works(app.service, tokens["access_token"])
    assert error(app.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
    assert error(app.exchange(unused, pkce)) == (400, "invalid_grant")
    assert not is_signed_in(ada)
    assert sessions(app.service) == []
    assert works(app.service, bens["access_token"])
    assert is_signed_in(ben)
    assert end(app.service) == 0
    [entry] = entries(app.service, "session.end")
    assert (entry["target"]["name"], entry["details"]) == ("Ada Lovelace", {"browserCount": 1, "applicationCount": 1})
    assert "signIn" in Page(ada.follow(ada.open(app))).forms[0].buttons


def test_one_session_ends_alone(service: RunningService, app: App, ada: Person, ben: Person) -> None:
    token = ada.tokens(app)["access_token"]
    ben.tokens(app)
    browser, application = sessions(service)
    foreign = [one["sessionId"] for one in sessions(service, ben.email)]
    assert end(service, sessionIds=[browser["sessionId"], *foreign]) == 1
    assert not is_signed_in(ada)
    assert works(service, token)
    assert len(sessions(service, ben.email)) == 2
    assert end(service, sessionIds=[application["sessionId"]]) == 1
    assert not works(service, token)


SAFARI = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605 (KHTML, like Gecko) Version/18 Safari/605"


def fail_to_sign_in(person: Person, page: httpx.Response, **fields: str) -> int:
    return person.enter(page, **({"password": "wrong password"} | fields)).status_code


def attempts(service: RunningService) -> list[int]:
    return [one["attempts"] for one in entries(service, "session.fail")]


def test_signing_in_is_kept_with_address_and_device(service: RunningService, app: App, ada: Person) -> None:
    ada.http.headers["User-Agent"] = SAFARI
    ada.tokens(app)
    for action in ("session.begin", "consent.grant"):
        [entry] = entries(service, action)
        assert entry["actor"]["name"] == "Ada Lovelace"
        assert (entry["address"], entry["device"]) == ("127.0.0.1", "Safari on macOS")
    assert entries(service, "session.begin")[0]["details"] == {"by": "password"}


@pytest.mark.usefixtures("still_clock")
def test_failed_sign_ins_are_one_entry_that_counts(service: RunningService, app: App, ada: Person) -> None:
    ada.http.headers["User-Agent"] = SAFARI
    page = ada.open(app)
    assert [fail_to_sign_in(ada, page) for _ in range(9)] == [403] * 6 + [429] * 3
    until(lambda: attempts(service) == [9])
    [entry] = entries(service, "session.fail")
    assert "actor" not in entry
    assert entry["target"]["name"] == "Ada Lovelace"
    assert (entry["address"], entry["device"]) == ("127.0.0.1", "Safari on macOS")
    assert entry["details"] == {"by": "password"}
    later(service, minutes=20)
    assert fail_to_sign_in(ada, page) == 403
    until(lambda: attempts(service) == [1, 9])
    newest, oldest = entries(service, "session.fail")
    assert newest["lastAt"] > oldest["lastAt"]


def test_each_network_has_an_entry_of_its_own(make_service: MakeService) -> None:
    """An IPv6 network counts as one source, as in the rate limits."""
    service = make_service(trusted_proxies=("127.0.0.1",))
    app, ada = an_app(service), a_person(service)
    page = ada.open(app)
    for address in ("203.0.113.9", "2001:db8::1", "2001:db8::2"):
        ada.http.headers["X-Forwarded-For"] = address
        assert fail_to_sign_in(ada, page) == 403
    until(lambda: sum(attempts(service)) == 3)
    kept = {one["address"]: one["attempts"] for one in entries(service, "session.fail")}
    assert kept == {"203.0.113.9": 1, "2001:db8::1": 2}


def test_an_inactive_account_is_an_account(service: RunningService, app: App) -> None:
    gone = Person(service, "gone@example.test")
    a_user(service, "gone@example.test", name="Gone", password=PASSWORD, active=False)
    assert fail_to_sign_in(gone, gone.open(app), password=PASSWORD) == 403
    until(lambda: [one["target"]["name"] for one in entries(service, "session.fail")] == ["Gone"])


def test_an_address_of_nobody_leaves_nothing(service: RunningService, app: App, ada: Person, ben: Person) -> None:
    other, page = another_organization(service), ada.open(app)
    for email in ("nobody@example.test", "", "ada@example.test\0", "other@example.test"):
        assert fail_to_sign_in(ada, page, email=email) == 403
    assert fail_to_sign_in(ada, ada.http.get("/account/sign-in"), organization="no such one") == 403
    # Ben's entry is written after all of them.
    assert fail_to_sign_in(ben, ben.open(app)) == 403
    until(lambda: len(entries(service, "session.fail")) > 0)
    assert [one["target"]["name"] for one in entries(service, "session.fail")] == ["Ben"]
    assert entries(service, "session.fail", api_key=other) == []


def test_the_answer_is_there_before_anything_is_kept(service: RunningService, app: App, ada: Person) -> None:
    """The response time reveals no account."""
    page = ada.open(app)
    with service.owner_connection() as connection, connection.transaction():
        connection.execute("LOCK TABLE failed_sign_ins IN ACCESS EXCLUSIVE MODE")
        assert fail_to_sign_in(ada, page) == 403
    until(lambda: attempts(service) == [1])
