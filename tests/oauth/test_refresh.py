"""The token endpoint: refresh tokens (RFC 6749, section 6; RFC 9700, section 4.14)."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.oauth.flow import App, Person, an_app, entries, error, later, works
from tests.service.directory import done

WRITE = "api:catalog:read api:catalog:write"


def test_a_refresh_token_works_once_and_gives_the_next(service, app: App, ada: Person) -> None:
    """A replay within ten seconds is refused, and the family lives: two tabs may have refreshed at once."""
    first = ada.tokens(app)
    second = done(app.refresh(first["refresh_token"]))
    later(service, seconds=5)
    third = done(app.refresh(second["refresh_token"]))
    assert error(app.refresh(first["refresh_token"])) == (400, "invalid_grant")
    assert error(app.refresh(second["refresh_token"])) == (400, "invalid_grant")
    fourth = done(app.refresh(third["refresh_token"]))
    given = (first, second, third, fourth)
    assert len({tokens["refresh_token"] for tokens in given}) == 4
    assert all(works(service, tokens["access_token"]) for tokens in given)
    assert {tokens["expires_in"] for tokens in given} == {3600}


@pytest.mark.parametrize("reused", ["code", "first", "second"])
def test_a_replay_ends_a_family_however_old_it_is(app, ada, pkce, purge, reused):
    """What was used is known for as long as anything that came of it works, whatever was forgotten since."""
    code = ada.code(app, pkce)
    first = done(app.exchange(code, pkce))
    second = done(app.refresh(first["refresh_token"]))
    newest = second
    for _ in range(3):
        later(app.service, days=25)
        newest = done(app.refresh(newest["refresh_token"]))
        purge()
    assert works(app.service, newest["access_token"])
    stolen = {"first": first, "second": second}.get(reused)
    answer = app.exchange(code, pkce) if stolen is None else app.refresh(stolen["refresh_token"])
    assert error(answer) == (400, "invalid_grant")
    assert not works(app.service, newest["access_token"])
    assert error(app.refresh(newest["refresh_token"])) == (400, "invalid_grant")


def test_fifty_refreshes_at_once_give_tokens_to_one_whose_family_a_replay_ends(app: App, ada: Person) -> None:
    """After ten seconds: one of the two who have the token has stolen it, and nobody can tell which."""
    other, first = ada.tokens(app), ada.tokens(app)
    with ThreadPoolExecutor(50) as threads:
        answers = list(threads.map(lambda _: app.refresh(first["refresh_token"]), range(50)))
    winners = [answer.json() for answer in answers if answer.status_code == 200]
    assert len(winners) == 1
    assert {error(answer) for answer in answers if answer.status_code != 200} == {(400, "invalid_grant")}
    assert works(app.service, winners[0]["access_token"])
    newest = done(app.refresh(winners[0]["refresh_token"]))
    later(app.service, seconds=11)
    assert error(app.refresh(first["refresh_token"])) == (400, "invalid_grant")
    assert error(app.refresh(newest["refresh_token"])) == (400, "invalid_grant")
    given = (first, newest, other)
    assert [works(app.service, tokens["access_token"]) for tokens in given] == [False, False, True]
    (entry,) = entries(app.service, "oauth.reuseDetected")
    assert entry["details"] == {"clientId": app.client_id, "reused": "refreshToken"}


def test_a_refresh_token_lives_thirty_days_from_when_it_was_given(app: App, ada: Person) -> None:
    """Then the person must authorize again; who refreshes goes on."""
    idle, used = ada.tokens(app), ada.tokens(app)
    later(app.service, days=29, hours=23)
    renewed = done(app.refresh(used["refresh_token"]))
    later(app.service, hours=2)
    assert error(app.refresh(idle["refresh_token"])) == (400, "invalid_grant")
    later(app.service, days=29)
    done(app.refresh(renewed["refresh_token"]))


def test_another_client_neither_uses_nor_burns_a_refresh_token(service, app: App, ada: Person) -> None:
    """Nor does its replay end the family, however late."""
    other = an_app(service)
    first = ada.tokens(app)
    assert error(other.refresh(first["refresh_token"])) == (400, "invalid_grant")
    second = done(app.refresh(first["refresh_token"]))
    later(service, seconds=60)
    assert error(other.refresh(first["refresh_token"])) == (400, "invalid_grant")
    assert works(service, second["access_token"])
    done(app.refresh(second["refresh_token"]))


def test_a_refresh_may_ask_for_less_and_never_for_more(standing) -> None:
    """Less holds for the access token alone; asking for more burns nothing (RFC 6749, section 6)."""
    app = standing.app
    first = standing.person().tokens(app, scope=WRITE)
    for scope in ("api:admin", f"{WRITE} api:admin", "api:everything", "api:agent:message:*"):
        refused = app.refresh(first["refresh_token"], scope=scope)
        assert error(refused) == (400, "invalid_scope")
        assert "can't be given api:everything" in refused.json()["error_description"] or scope != "api:everything"
    narrow = done(app.refresh(first["refresh_token"], scope="api:catalog:read"))
    assert narrow["scope"] == "api:catalog:read"
    assert done(app.refresh(narrow["refresh_token"]))["scope"] == WRITE


def test_other_values_are_no_refresh_tokens(standing) -> None:
    app = standing.app
    tokens = standing.person().tokens(app)
    for value in (tokens["access_token"], "svc_ac_x", "x" * 10_000, "\0", tokens["refresh_token"][:-1]):
        assert error(app.refresh(value)) == (400, "invalid_grant")
    assert error(app.refresh("")) == (400, "invalid_request")
