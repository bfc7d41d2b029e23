"""The application's side of OAuth: callbacks, tokens and metadata, also malformed and hostile."""

import base64
import copy
import hashlib
import pickle
from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx
import pytest
from pydantic import ValidationError

from carrel import errors
from carrel.oauth import AsyncOAuthClient, AuthorizationRequest, OAuthClient, ServerMetadata, Tokens
from carrel.oauth.authorization import metadata_at, metadata_from
from tests.client.conftest import Caller, MakeCaller
from tests.client.server import Answer, Server, json_answer, raw, refuse, resetting
from tests.harness.cases import cases

CALLBACK = "https://app.example.test/callback"
SECRET = "svc_cs_in_confidence"
ELSEWHERE = "https://elsewhere.test"
GIVEN = {"access_token": "at-1", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "rt-1", "scope": "a b"}


@pytest.fixture
def make_oauth(open_client: MakeCaller, server: Server) -> MakeCaller:
    values = {"redirect_uri": CALLBACK, "scopes": ["a", "b"], "auth_url": server.base_url}
    return lambda **options: open_client(
        "client-1", SECRET, kinds=(OAuthClient, AsyncOAuthClient), **{**values, **options}
    )


@pytest.fixture
def oauth(make_oauth: MakeCaller) -> Caller:
    return make_oauth()


def answer(request: AuthorizationRequest, server: Server, **changes: str | None) -> str:
    values = {"code": "code-1", "state": request.state, "iss": server.base_url, **changes}
    return f"{CALLBACK}?{urlencode({name: value for name, value in values.items() if value is not None})}"


async def exchanged(oauth: Caller, server: Server, **changes: str | None) -> Tokens:
    request = oauth.client.authorization_request()
    return await oauth(lambda c: c.exchange(answer(request, server, **changes), request))


def form(server: Server) -> dict[str, str]:
    assert server.received[-1].headers["content-type"] == "application/x-www-form-urlencoded"
    return dict(parse_qsl(server.received[-1].body.decode(), strict_parsing=True))


def test_the_authorization_request() -> None:
    oauth = OAuthClient("client-1", SECRET, redirect_uri=CALLBACK, scopes=["a", "b"], auth_url="https://auth.test/x/")
    requests = [oauth.authorization_request() for _ in range(50)]
    assert len({request.state for request in requests} | {request.code_verifier for request in requests}) == 100
    for request in requests:
        assert len(request.state) >= 43
        assert 43 <= len(request.code_verifier) <= 128
        digest = hashlib.sha256(request.code_verifier.encode()).digest()
        assert parse_qs(urlsplit(request.url).query, strict_parsing=True) == {
            "response_type": ["code"],
            "client_id": ["client-1"],
            "redirect_uri": [CALLBACK],
            "scope": ["a b"],
            "state": [request.state],
            "code_challenge": [base64.urlsafe_b64encode(digest).decode().rstrip("=")],
            "code_challenge_method": ["S256"],
        }
        assert request.url.startswith("https://auth.test/x/api/oauth/authorize?")
        assert request.code_verifier not in request.url
    assert "scope" not in parse_qs(urlsplit(oauth.authorization_request(scopes=()).url).query)
    assert parse_qs(urlsplit(oauth.authorization_request(prompt="login").url).query)["prompt"] == ["login"]


def test_an_authorization_request_can_be_kept() -> None:
    oauth = OAuthClient("client-1", SECRET, redirect_uri=CALLBACK)
    request = oauth.authorization_request(scopes=["a"])
    assert AuthorizationRequest.model_validate_json(request.model_dump_json()) == request
    for shown in (repr(request), str(request)):
        assert request.state not in shown
        assert request.code_verifier not in shown
    with pytest.raises(ValidationError):
        request.state = "another"  # type: ignore[misc]


async def test_a_callbacks_code_is_exchanged(oauth: Caller, server: Server) -> None:
    request = oauth.client.authorization_request()
    for callback in (answer(request, server), urlsplit(answer(request, server)).query):
        server.will(GIVEN)
        before = datetime.now(UTC)
        tokens = await oauth(lambda c, callback=callback: c.exchange(callback, request))
        assert form(server) == {
            "grant_type": "authorization_code",
            "code": "code-1",
            "redirect_uri": CALLBACK,
            "code_verifier": request.code_verifier,
            "client_id": "client-1",
            "client_secret": SECRET,
        }
        assert (tokens.access_token, tokens.refresh_token, tokens.scope) == ("at-1", "rt-1", "a b")
        assert tokens.expires_at is not None
        assert before <= tokens.expires_at - timedelta(hours=1) <= datetime.now(UTC)
        assert tokens.expires_at.tzinfo is UTC


DENIED = {"error": "access_denied", "code": None}
FLOOD = "".join(f"&a{number}=b" for number in range(100))


@pytest.mark.parametrize(
    ("changes", "more", "code"),
    [
        *(({"state": odd}, "", "state_mismatch") for odd in (None, "", "another", "\udc80é")),
        ({"state": "another", **DENIED}, "", "state_mismatch"),
        *(({"iss": odd}, "", "issuer_mismatch") for odd in (None, ELSEWHERE)),
        ({"iss": ELSEWHERE, **DENIED}, "", "issuer_mismatch"),
        *(({"code": odd}, "", "code_missing") for odd in (None, "")),
        *(({}, more, "invalid_callback") for more in ("&code=code-2", "&state=another", f"&iss={ELSEWHERE}")),
        pytest.param({}, FLOOD, "invalid_callback", id="flood"),
    ],
)
async def test_a_callback_that_isnt_the_answer(oauth, server, changes, more, code):
    """Refused, also with a repeated parameter; an error in it is ignored, and no request is sent."""
    request = oauth.client.authorization_request()
    values = {"code": "code-1", "state": request.state, "iss": server.base_url, **changes}
    query = "&".join(f"{name}={value}" for name, value in values.items() if value is not None) + more
    with pytest.raises(errors.CallbackError) as caught:
        await oauth(lambda c: c.exchange(f"{CALLBACK}?{query}", request))
    assert caught.value.code == code
    assert server.received == []


@pytest.mark.parametrize("callback", ["", CALLBACK, f"{CALLBACK}?", "what is this", "?", "\0"])
async def test_no_callback_at_all(oauth: Caller, server: Server, callback: str) -> None:
    request = oauth.client.authorization_request()
    with pytest.raises(errors.CallbackError, match="state_mismatch"):
        await oauth(lambda c: c.exchange(callback, request))
    assert server.received == []


async def test_a_callbacks_error_is_typed(oauth: Caller, server: Server) -> None:
    with pytest.raises(errors.AccessDeniedError, match="It was not allowed"):
        await exchanged(oauth, server, code=None, error="access_denied")
    with pytest.raises(errors.AuthorizationError) as caught:
        await exchanged(
            oauth, server, code=None, error="invalid_scope", error_description="No such\nscope" + "!" * 1000
        )
    assert not isinstance(caught.value, errors.AccessDeniedError)
    assert caught.value.code == "invalid_scope"
    assert str(caught.value).startswith("No suchscope!!!")
    assert len(str(caught.value)) < 400
    assert server.received == []


async def test_a_server_that_names_no_issuer(oauth: Caller, server: Server) -> None:
    known = oauth.client._endpoints.server
    quiet = oauth.client.with_server(known.model_copy(update={"authorization_response_iss_parameter_supported": False}))
    request = quiet.authorization_request()
    server.will(GIVEN)
    await oauth(lambda _: quiet.exchange(answer(request, server, iss=None), request))
    with pytest.raises(errors.CallbackError, match="issuer_mismatch"):
        await oauth(lambda _: quiet.exchange(answer(request, server, iss=ELSEWHERE), request))


@pytest.mark.parametrize(
    "odd",
    [
        *({"access_token": odd} for odd in (None, "", "a b", "a\r\nX-Evil: 1", "schlüssel", 5)),
        *({"token_type": odd} for odd in (None, "mac")),
        {"expires_in": -1},
        {"expires_in": 10**30},
        {"expires_in": "soon"},
        {"refresh_token": "r t"},
        *(raw(content) for content in (b"<html>", b"", b"[]", b'"' + b"x" * 100_000, b"\xff")),
    ],
)
async def test_answers_that_are_no_tokens(oauth: Caller, server: Server, odd: dict | Answer) -> None:
    server.will(GIVEN | odd if isinstance(odd, dict) else odd)
    with pytest.raises(errors.UnexpectedResponseError, match="unreadable_response") as caught:
        await exchanged(oauth, server)
    assert "rt-1" not in repr(caught.value) + repr(caught.value.__cause__)


async def test_redirects_are_not_followed(oauth: Caller, server: Server) -> None:
    server.will(raw(b"", status=307, headers={"location": f"{ELSEWHERE}/api/oauth/token"}))
    with pytest.raises(errors.UnexpectedResponseError, match="Redirected"):
        await exchanged(oauth, server)
    assert len(server.received) == 1


async def test_what_a_refresh_leaves_out_stays_as_it_was(oauth: Caller, server: Server) -> None:
    """Scope and refresh token (RFC 6749, section 6); without expires_in the end is unknown."""
    server.will({"access_token": "at-2", "token_type": "bearer"})
    tokens = Tokens(access_token="at-1", refresh_token="rt-1", scope="a b", expires_at=datetime.now(UTC))
    renewed = await oauth(lambda c: c.refresh(tokens))
    assert renewed == Tokens(access_token="at-2", refresh_token="rt-1", scope="a b")
    assert not renewed.ends_within(timedelta(days=10_000))
    assert form(server) == {
        "grant_type": "refresh_token",
        "refresh_token": "rt-1",
        "client_id": "client-1",
        "client_secret": SECRET,
    }


async def test_without_a_refresh_token_the_person_signs_in(oauth: Caller, server: Server) -> None:
    with pytest.raises(errors.SignInRequiredError):
        await oauth(lambda c: c.refresh(Tokens(access_token="at-1")))
    assert server.received == []


@pytest.mark.parametrize(("status", "body", "expected"), cases("refusals_of_tokens"))
async def test_refusals_are_typed(make_oauth, server, status, body, expected):
    """By the error's code (RFC 6749, section 5.2), with the status, and the request's name in the logs."""
    kind, code = getattr(errors, expected[0]), expected[1]
    server.will(json_answer(body, status=status, headers={"x-request-id": "request-1"}))
    with pytest.raises(kind) as caught:
        await exchanged(make_oauth(max_retries=0), server)
    error = caught.value
    assert (type(error), error.status, error.code, error.request_id) == (kind, status, code, "request-1")
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own bytes
        assert (type(twin), vars(twin), str(twin)) == (kind, vars(error), str(error))


def test_errors_cross_processes() -> None:
    for kind in (errors.AuthorizationError, errors.AccessDeniedError, errors.CallbackError, errors.SignInRequiredError):
        twin = pickle.loads(pickle.dumps(kind("no", code="some_code")))  # noqa: S301 - our own bytes
        assert (type(twin), twin.code, str(twin)) == (kind, "some_code", "no (some_code)")
    assert issubclass(errors.TokenRequestError, errors.OAuthError)


async def test_passing_failures_are_tried_again(oauth: Caller, server: Server) -> None:
    busy = json_answer({"error": "temporarily_unavailable"}, status=503, headers={"retry-after": "7"})
    server.will(busy, refuse(429, headers={"retry-after": "3"}), GIVEN)
    assert (await exchanged(oauth, server)).access_token == "at-1"
    assert 7 <= oauth.naps[0] <= 8
    assert 3 <= oauth.naps[1] <= 4


async def test_offline(make_oauth: MakeCaller) -> None:
    with resetting() as address:
        for url in ("http://127.0.0.1:9", address):
            oauth = make_oauth(auth_url=url)
            with pytest.raises(errors.APIConnectionError) as caught:
                await oauth(lambda c: c.refresh(Tokens(access_token="at-1", refresh_token="rt-in-confidence")))
            assert "confidence" not in repr(caught.value) + repr(caught.value.__cause__)
            assert len(oauth.naps) == 2
            with pytest.raises(errors.APIConnectionError):
                await oauth(lambda c: c.discover())


async def test_revoking(oauth: Caller, server: Server) -> None:
    for given, sent in (
        (Tokens(access_token="at-1", refresh_token="rt-1"), "rt-1"),
        (Tokens(access_token="at-1"), "at-1"),
        ("at-2", "at-2"),
    ):
        server.will(raw(b""))
        assert await oauth(lambda c, given=given: c.revoke(given)) is None
        assert form(server) == {"token": sent, "client_id": "client-1", "client_secret": SECRET}
        assert server.received[-1].path == "/api/oauth/revoke"
    bare = oauth.client._endpoints.server.model_copy(update={"revocation_endpoint": None})
    with pytest.raises(errors.ConfigurationError, match="revocation"):
        await oauth(lambda c: c.with_server(bare).revoke("at-1"))


def described(server: Server, **changes) -> dict:
    url = server.base_url
    endpoints = {f"{name}_endpoint": f"{url}/{name}" for name in ("authorization", "token", "revocation")}
    return {"issuer": url, **endpoints, "code_challenge_methods_supported": ["plain", "S256"], **changes}


async def test_discovery(oauth: Caller, make_oauth: MakeCaller, server: Server) -> None:
    """Known endpoints are used; otherwise the metadata is read from the address of RFC 8414, section 3.1."""
    issuer = f"{server.base_url}/carrel"
    server.will(described(server), GIVEN, described(server, issuer=issuer))
    found = oauth.client.with_server(await oauth(lambda c: c.discover()))
    request = found.authorization_request()
    assert request.url.startswith(f"{server.base_url}/authorization?")
    await oauth(lambda _: found.exchange(answer(request, server), request))
    assert isinstance(await make_oauth(auth_url=issuer)(lambda c: c.discover()), ServerMetadata)
    well_known = "/.well-known/oauth-authorization-server"
    assert [one.path for one in server.received] == [well_known, "/token", f"{well_known}/carrel"]


@pytest.mark.parametrize("changes", cases("unusable_metadata"))
async def test_metadata_that_cant_be_used(oauth: Caller, server: Server, changes: dict) -> None:
    """Another issuer (RFC 8414, section 3.3), no S256, or invalid endpoints."""
    server.will(described(server, **changes))
    with pytest.raises(errors.UnexpectedResponseError, match="unusable_metadata"):
        await oauth(lambda c: c.discover())


def test_metadata_doesnt_lead_away_from_https() -> None:
    """A secret sent over https is never sent over plain http because of metadata."""
    issuer = "https://auth.test"
    known = metadata_at(issuer).model_dump()
    assert metadata_from(httpx.Response(200, json=known), issuer=issuer) == metadata_at(issuer)
    for name in ("authorization_endpoint", "token_endpoint", "revocation_endpoint"):
        odd = known | {name: "http://auth.test/plain"}
        with pytest.raises(errors.UnexpectedResponseError, match="plain http"):
            metadata_from(httpx.Response(200, json=odd), issuer=issuer)


def test_where_the_authorization_server_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """CARREL_AUTH_URL, else CARREL_BASE_URL, by default."""
    monkeypatch.delenv("CARREL_AUTH_URL", raising=False)
    monkeypatch.setenv("CARREL_BASE_URL", "https://v0.example.com/")

    def issuer(**options: str) -> str:
        return OAuthClient("client-1", SECRET, redirect_uri=CALLBACK, **options)._endpoints.server.issuer

    assert issuer() == "https://v0.example.com"
    monkeypatch.setenv("CARREL_AUTH_URL", "https://auth.example.com")
    assert issuer() == "https://auth.example.com"
    assert issuer(auth_url="https://given.example.com/") == "https://given.example.com"


@pytest.mark.parametrize("kind", [OAuthClient, AsyncOAuthClient])
def test_an_applications_secret_stays_out_of_sight(kind) -> None:
    oauth = kind("client-1", SECRET, redirect_uri=CALLBACK, auth_url="https://auth.test")
    assert repr(oauth) == f"{kind.__name__}('client-1', 'https://auth.test')"
    assert SECRET not in repr(oauth._endpoints)
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(oauth)
    for given in (("", SECRET), ("client-1", " ")):
        with pytest.raises(errors.ConfigurationError, match="id and secret"):
            kind(*given, redirect_uri=CALLBACK)


def test_tokens_are_kept_as_json_and_show_no_secret() -> None:
    east = timezone(timedelta(hours=2))
    tokens = Tokens(
        access_token="at-1", refresh_token="rt-1", scope="a", expires_at=datetime(2030, 1, 1, 2, tzinfo=east)
    )
    assert tokens.expires_at == datetime(2030, 1, 1, tzinfo=UTC)
    assert str(tokens.expires_at).endswith("+00:00")
    assert Tokens.model_validate_json(tokens.model_dump_json()) == tokens
    assert "at-1" not in f"{tokens!r} {tokens}"
    assert "rt-1" not in f"{tokens!r} {tokens}"
    with pytest.raises(ValidationError, match="timezone"):
        Tokens(access_token="at-1", expires_at=datetime(2030, 1, 1))  # noqa: DTZ001 - what is refused
