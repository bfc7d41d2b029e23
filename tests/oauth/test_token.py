"""The token and revocation endpoints (RFC 6749; RFC 7009; RFC 9700), and the server's metadata (RFC 8414)."""

import base64
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import httpx
import pytest
from authlib.oauth2 import rfc8414, rfc9207

from tests.harness.cases import cases
from tests.harness.services import RunningService
from tests.oauth.flow import App, Person, Pkce, a_person, an_app, entries, error, later, works
from tests.service.directory import a_user, another_organization, done


def token_url(service: RunningService) -> str:
    return f"{service.base_url}/api/oauth/token"


def basic(client_id: str, secret: str) -> dict[str, str]:
    """HTTP Basic, each part form-urlencoded first (RFC 6749, section 2.3.1)."""
    pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


@pytest.mark.parametrize("by", ["its client", "somebody without the verifier"])
def test_a_code_works_once_and_used_again_it_revokes_what_it_gave(app: App, ada: Person, pkce: Pkce, by: str) -> None:
    """RFC 6749, section 4.1.2: the whole family, however rotated; within ten seconds it is only refused."""
    other, code = ada.tokens(app), ada.code(app, pkce)
    first = done(app.exchange(code, pkce))
    newest = done(app.refresh(first["refresh_token"]))
    given = [tokens["access_token"] for tokens in (first, newest, other)]
    assert [works(app.service, token) for token in given] == [True, True, True]
    again = pkce if by == "its client" else Pkce()
    assert "Use the tokens of that response" in app.exchange(code, again).json()["error_description"]
    assert [works(app.service, token) for token in given] == [True, True, True]
    later(app.service, seconds=11)
    assert "All tokens of its sign-in are revoked" in app.exchange(code, again).json()["error_description"]
    assert "a token was used twice" in ada.http.get("/account/consents").text
    assert [works(app.service, token) for token in given] == [False, False, True]
    assert error(app.refresh(newest["refresh_token"])) == (400, "invalid_grant")
    (entry,) = entries(app.service, "oauth.reuseDetected")
    assert entry["details"] == {"clientId": app.client_id, "reused": "code"}


def test_fifty_redemptions_of_one_code_at_once_give_tokens_to_one(app: App, ada: Person, pkce: Pkce) -> None:
    code = ada.code(app, pkce)
    with ThreadPoolExecutor(50) as threads:
        answers = list(threads.map(lambda _: app.exchange(code, pkce), range(50)))
    winners = [answer.json() for answer in answers if answer.status_code == 200]
    assert len(winners) == 1
    assert {error(answer) for answer in answers if answer.status_code != 200} == {(400, "invalid_grant")}
    assert works(app.service, winners[0]["access_token"])
    later(app.service, seconds=11)
    assert error(app.exchange(code, pkce)) == (400, "invalid_grant")
    assert not works(app.service, winners[0]["access_token"])


def test_a_code_lives_ten_minutes(service: RunningService, app: App, ada: Person, pkce: Pkce) -> None:
    early, late = ada.code(app, pkce), ada.code(app, pkce)
    later(service, minutes=9, seconds=50)
    done(app.exchange(early, pkce))
    later(service, seconds=11)
    assert error(app.exchange(late, pkce)) == (400, "invalid_grant")


def test_an_access_token_lives_an_hour(service: RunningService, app: App, ada: Person) -> None:
    tokens = ada.tokens(app)
    later(service, minutes=59, seconds=50)
    assert works(service, tokens["access_token"])
    later(service, seconds=11)
    refused = httpx.get(f"{service.base_url}/api/v1/me", headers={"Authorization": f"Bearer {tokens['access_token']}"})
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "credential_expired"
    assert works(service, done(app.refresh(tokens["refresh_token"]))["access_token"])


def test_another_client_neither_uses_nor_burns_a_code(app: App, ada: Person, pkce: Pkce) -> None:
    other = an_app(app.service)
    code = ada.code(app, pkce)
    assert error(other.exchange(code, pkce)) == (400, "invalid_grant")
    tokens = done(app.exchange(code, pkce))
    assert error(other.exchange(code, pkce)) == (400, "invalid_grant")
    assert works(app.service, tokens["access_token"])


@pytest.mark.parametrize(("name", "expected", "values"), cases("whatever_is_wrong_with_an_exchange"))
def test_whatever_is_wrong_gives_no_token_and_leaves_the_code_as_it_is(standing, pkce, name, expected, values):
    """Each is the error of RFC 6749, section 5.2; then the right request still works."""
    code = standing.person().code(standing.app, pkce)
    for value in values:
        refused = standing.app.exchange(code, pkce, **{name: value})
        assert error(refused) == ((401 if expected == "invalid_client" else 400), expected), value
        if expected == "invalid_client":
            assert refused.headers["WWW-Authenticate"].startswith("Basic ")
        assert "access_token" not in refused.text
    done(standing.app.exchange(code, pkce))


def test_a_code_is_of_no_use_with_another_verifier(standing, pkce: Pkce) -> None:
    """Injected into another session, or with the challenge itself (RFC 9700, sections 4.5 and 4.8.2)."""
    code = standing.person().code(standing.app, pkce)
    for verifier in (Pkce().verifier, pkce.challenge):
        assert error(standing.app.exchange(code, pkce, code_verifier=verifier)) == (400, "invalid_grant")


def exchange_form(app: App, pkce: Pkce, code: str = "svc_ac_x") -> dict[str, str]:
    grant = {"grant_type": "authorization_code", "code": code}
    return grant | {"redirect_uri": app.redirect_uri, "code_verifier": pkce.verifier}


def test_the_client_may_use_http_basic(standing, pkce: Pkce) -> None:
    app = standing.app
    form = exchange_form(app, pkce, standing.person().code(app, pkce))
    headers = basic(app.client_id, app.client_secret)
    headers["Authorization"] = headers["Authorization"].replace("Basic", "bASIC")
    assert httpx.post(token_url(standing.service), data=form, headers=headers).status_code == 200


def test_the_client_proves_itself_in_one_way(standing) -> None:
    """Both at once, or two different clients, are an invalid request (RFC 6749, section 2.3)."""
    app, url = standing.app, token_url(standing.service)
    form = {"grant_type": "refresh_token", "refresh_token": "svc_rt_x"}
    headers = basic(app.client_id, app.client_secret)
    both = httpx.post(url, data=form | {"client_secret": app.client_secret}, headers=headers)
    assert error(both) == (400, "invalid_request")
    other = an_app(standing.service).client_id
    assert error(httpx.post(url, data=form | {"client_id": other}, headers=headers)) == (400, "invalid_request")
    assert error(httpx.post(url, data=form | {"client_id": app.client_id}, headers=headers)) == (400, "invalid_grant")


@pytest.mark.parametrize(
    "authorization",
    [
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"\xff\xfe:\xff").decode(),
        "Basic " + base64.b64encode(b"no colon").decode(),
        "Basic " + base64.b64encode(b":").decode(),
        "Bearer svc_at_x",
        "Digest x",
    ],
)
def test_an_unusable_authorization_header_is_an_invalid_client(standing, authorization: str) -> None:
    form = {"grant_type": "refresh_token", "refresh_token": "svc_rt_x"}
    refused = httpx.post(token_url(standing.service), data=form, headers={"Authorization": authorization})
    assert error(refused) == (401, "invalid_client")
    assert refused.headers["WWW-Authenticate"].startswith("Basic ")


@pytest.mark.parametrize("name", ["grant_type", "code", "client_id", "client_secret", "code_verifier", "redirect_uri"])
def test_a_parameter_sent_twice_is_an_invalid_request(standing, pkce: Pkce, name: str) -> None:
    """RFC 6749, section 3.2; even with equal values."""
    app = standing.app
    form = exchange_form(app, pkce) | {"client_id": app.client_id, "client_secret": app.client_secret}
    refused = httpx.post(token_url(standing.service), data=form | {name: [form[name], form[name]]})
    assert error(refused) == (400, "invalid_request")


def test_what_the_address_says_counts_for_nothing(standing, pkce: Pkce) -> None:
    """Neither credentials nor parameters are read from the query (RFC 6749, section 2.3.1)."""
    app = standing.app
    form = exchange_form(app, pkce, standing.person().code(app, pkce))
    secret = {"client_id": app.client_id, "client_secret": app.client_secret}
    url = token_url(standing.service)
    assert error(httpx.post(url, data=form, params=secret)) == (401, "invalid_client")
    assert error(httpx.post(url, data=secret, params=form)) == (400, "invalid_request")
    assert httpx.get(url, params=form | secret).status_code == 405
    assert httpx.post(url, data=form | secret).status_code == 200


def test_what_is_no_form_is_refused_in_the_same_shape(standing) -> None:
    url = token_url(standing.service)
    assert error(httpx.post(url, json={"grant_type": "refresh_token"})) == (400, "invalid_request")
    assert error(httpx.post(url)) == (400, "invalid_request")
    assert error(httpx.post(url, data={"grant_type": "x" * 70_000})) == (413, "invalid_request")
    many = "&".join(f"a{number}=1" for number in range(200))
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert error(httpx.post(url, content=many, headers=headers)) == (400, "invalid_request")


def test_guessing_secrets_is_slowed_down_for_an_address(make_service) -> None:
    """Failures lead to 429 at both endpoints; a client with its secret continues (section 2.3.1)."""
    service = make_service(rate_limit_failures=3)
    app, ada = an_app(service), a_person(service)
    tokens = ada.tokens(app)
    wrong = App(service, app.client_id, "svc_cs_wrong")
    assert [error(wrong.refresh("x")) for _ in range(3)] == [(401, "invalid_client")] * 3
    for refused in (wrong.refresh("x"), wrong.revoke("x")):
        assert error(refused) == (429, "temporarily_unavailable")
        assert int(refused.headers["Retry-After"]) >= 1
    done(app.refresh(tokens["refresh_token"]))


@pytest.mark.parametrize("path", ["token", "revoke", "authorize"])
def test_an_address_with_a_slash_at_its_end_leads_nowhere(standing, path: str) -> None:
    """A redirect would send secrets again (RFC 9700, section 4.12), to the host named in the request."""
    url = f"{standing.service.base_url}/api/oauth/{path}/"
    for answer in (httpx.post(url, data={"client_secret": "x"}, headers={"Host": "evil.test"}), httpx.get(url)):
        assert answer.status_code == 404
        assert "Location" not in answer.headers


def test_a_refusal_repeats_nothing_that_was_sent(standing) -> None:
    """Sent values may be secret; descriptions contain only characters allowed by RFC 6749."""
    app = standing.app
    secret = 'svc_cs_"mine\\é\n'
    for answer in (
        app.post("token", grant_type=secret),
        app.exchange(secret, Pkce()),
        app.refresh(secret),
        App(app.service, app.client_id, secret).refresh("x"),
    ):
        assert "mine" not in answer.text
        assert all(0x20 <= ord(char) <= 0x7E and char not in '"\\' for char in answer.json()["error_description"])


def test_a_person_who_is_deactivated_gets_no_tokens_for_a_code(app: App, ada: Person, pkce: Pkce) -> None:
    tokens = ada.tokens(app)
    code = ada.code(app, pkce)
    a_user(app.service, ada.email, active=False)
    assert error(app.exchange(code, pkce)) == (400, "invalid_grant")
    assert not works(app.service, tokens["access_token"])
    assert error(app.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
    a_user(app.service, ada.email, active=True)
    assert not works(app.service, tokens["access_token"])
    assert error(app.refresh(tokens["refresh_token"])) == (400, "invalid_grant")


def test_nothing_that_is_minted_is_kept(own_service: RunningService, pkce: Pkce) -> None:
    """The database has only SHA-256 hashes of codes, tokens, secrets and cookies."""
    app, ada = an_app(own_service), a_person(own_service)
    code = ada.code(app, pkce)
    tokens = done(app.exchange(code, pkce))
    cookie = ada.http.cookies["carrel_session"]
    values = [app.client_secret, code, tokens["access_token"], tokens["refresh_token"], cookie, ada.password]
    tables = own_service.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    rows = "\n".join(
        str(own_service.execute(f"SELECT t::text FROM {table} t"))  # noqa: S608 - ours
        for (table,) in tables
    )
    assert app.client_id in rows
    assert [value for value in values if value in rows] == []


def test_a_database_that_does_not_answer_is_said_in_the_same_shape(make_service) -> None:
    service = make_service(request_seconds=1)
    app, ada = an_app(service), a_person(service)
    tokens = ada.tokens(app)
    with service.owner_connection() as connection, connection.transaction():
        connection.execute("SELECT FROM oauth_token_families FOR UPDATE")
        refused = app.refresh(tokens["refresh_token"])
    assert error(refused) == (503, "temporarily_unavailable")
    assert int(refused.headers["Retry-After"]) >= 1
    done(app.refresh(tokens["refresh_token"]))


WRITE = "api:catalog:read api:catalog:write"


def test_a_refresh_token_works_once_and_gives_the_next(service, app: App, ada: Person) -> None:
    """A replay within ten seconds is refused without revoking: two tabs may have refreshed at once."""
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
    """A used token stays known while any token of its family works."""
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
    """After ten seconds: one of the two holders may have stolen the token."""
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
    idle, used = ada.tokens(app), ada.tokens(app)
    later(app.service, days=29, hours=23)
    renewed = done(app.refresh(used["refresh_token"]))
    later(app.service, hours=2)
    assert error(app.refresh(idle["refresh_token"])) == (400, "invalid_grant")
    later(app.service, days=29)
    done(app.refresh(renewed["refresh_token"]))


def test_another_client_neither_uses_nor_burns_a_refresh_token(service, app: App, ada: Person) -> None:
    other = an_app(service)
    first = ada.tokens(app)
    assert error(other.refresh(first["refresh_token"])) == (400, "invalid_grant")
    second = done(app.refresh(first["refresh_token"]))
    later(service, seconds=60)
    assert error(other.refresh(first["refresh_token"])) == (400, "invalid_grant")
    assert works(service, second["access_token"])
    done(app.refresh(second["refresh_token"]))


def test_a_refresh_may_ask_for_less_and_never_for_more(standing) -> None:
    """Fewer scopes hold for the access token alone; more scopes burn no token (RFC 6749, section 6)."""
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


@pytest.mark.parametrize("hint", [None, "refresh_token", "access_token", "something_else"])
def test_revoking_a_refresh_token_stops_all_its_family_has(standing, hint: str | None) -> None:
    """Access tokens too (section 2.1); the hint doesn't matter."""
    app, ada = standing.app, standing.person()
    other, tokens = ada.tokens(app), ada.tokens(app)
    answer = app.revoke(tokens["refresh_token"], token_type_hint=hint)
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert not works(standing.service, tokens["access_token"])
    assert error(app.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
    assert works(standing.service, other["access_token"])


def test_revoking_an_access_token_stops_it_alone(standing) -> None:
    app = standing.app
    tokens = standing.person().tokens(app)
    assert app.revoke(tokens["access_token"]).status_code == 200
    assert not works(standing.service, tokens["access_token"])
    assert works(standing.service, done(app.refresh(tokens["refresh_token"]))["access_token"])


def test_revoking_what_there_is_not_is_no_error(standing) -> None:
    """Section 2.2: the client couldn't do anything about it."""
    app = standing.app
    tokens = standing.person().tokens(app)
    assert app.revoke(tokens["refresh_token"]).status_code == 200
    for value in (tokens["refresh_token"], "svc_rt_unknown", "svc_at_unknown", "x", "\0", "x" * 10_000):
        assert app.revoke(value).status_code == 200


def test_a_client_revokes_its_own_tokens_alone(service, app: App, ada: Person) -> None:
    other, elsewhere = an_app(service), an_app(service, api_key=another_organization(service))
    tokens = ada.tokens(app)
    for value in (tokens["refresh_token"], tokens["access_token"]):
        assert error(other.revoke(value)) == (400, "invalid_grant")
        assert elsewhere.revoke(value).status_code == 200
    assert works(service, tokens["access_token"])
    done(app.refresh(tokens["refresh_token"]))


def test_revoking_needs_the_client_to_prove_itself(standing) -> None:
    app = standing.app
    tokens = standing.person().tokens(app)
    assert error(app.revoke(tokens["refresh_token"], client_secret="svc_cs_wrong")) == (401, "invalid_client")
    assert error(app.revoke(tokens["refresh_token"], client_secret=None)) == (401, "invalid_client")
    assert error(app.post("revoke")) == (400, "invalid_request")
    assert works(standing.service, tokens["access_token"])


def test_the_metadata_is_valid_and_true(standing) -> None:
    """RFC 8414, section 2: Authlib's validation passes, and every named endpoint exists."""
    metadata = httpx.get(f"{standing.service.base_url}/.well-known/oauth-authorization-server").json()
    document = rfc8414.AuthorizationServerMetadata(metadata)
    for key in ("issuer", "authorization_endpoint", "token_endpoint", "revocation_endpoint"):
        assert metadata[key].startswith(standing.service.base_url)
    del document["issuer"]  # must be https, which a test on loopback isn't
    for key in document.REGISTRY_KEYS:
        if key != "issuer" and not key.endswith("_endpoint"):
            getattr(document, f"validate_{key}")()
    assert rfc9207.AuthorizationServerMetadata(metadata)["authorization_response_iss_parameter_supported"] is True
    assert metadata["issuer"] == standing.service.base_url
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["response_types_supported"] == ["code"]
    assert metadata["grant_types_supported"] == ["authorization_code", "refresh_token"]
    assert metadata["token_endpoint_auth_methods_supported"] == ["client_secret_basic", "client_secret_post", "none"]
    assert httpx.get(metadata["authorization_endpoint"]).status_code == 400
    assert httpx.post(metadata["token_endpoint"], data={"grant_type": "x"}).status_code == 400
    assert httpx.post(metadata["revocation_endpoint"], data={"token": "x"}).status_code == 401


def test_an_issuer_with_a_path_has_its_metadata_after_the_well_known_part(make_service) -> None:
    service = make_service(public_url="https://carrel.example.test/base")
    found = service.http.get("/.well-known/oauth-authorization-server/base")
    assert found.json()["issuer"] == "https://carrel.example.test/base"
    assert found.json()["token_endpoint"] == "https://carrel.example.test/base/api/oauth/token"
    assert service.http.get("/.well-known/oauth-authorization-server/elsewhere").status_code == 404
