"""Sessions of people, as admins see and end them: browsers, and applications that act for them."""

from tests.harness.services import RunningService
from tests.oauth.flow import App, Page, Person, Pkce, entries, error, later, works
from tests.service.directory import done, walk

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0"
ADA = "ada@example.test"


def sessions(service: RunningService, email: str = ADA) -> list[dict]:
    return walk(service, "admin/sessions/list", {"email": email}, page_size=1)


def end(service: RunningService, email: str = ADA, **body) -> int:
    return int(done(service.call("admin/sessions/end", {"email": email, **body}))["endedCount"])


def is_signed_in(person: Person) -> bool:
    return person.http.get("/account/consents").status_code == 200


def test_sessions_are_listed_with_their_use(service: RunningService, app: App, ada: Person) -> None:
    """A browser's and an application's, from where; the application's last use is that of its token."""
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
    """With the next request; nobody else's end, nothing lasts of a code that was not exchanged, and it is recorded."""
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
