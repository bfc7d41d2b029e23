"""Credentials of clients, with retries, pauses and keys."""

import itertools
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from carrel import AsyncCarrel, AuthenticationError, Carrel, ConfigurationError, errors
from carrel._calls import LONGEST_BACKOFF, RetryPolicy, backoff
from carrel._drivers import Flow
from tests.client.conftest import API_KEY, Caller, MakeCaller, delete
from tests.client.samples import COLLECTION_ID, DELETED, DOCUMENT_ID, FOUND, OTHER_ID, SENT_CHAT
from tests.client.server import Server, cut_short, raw, refuse, resetting, slowly

EXPIRED = refuse(401, "credential_expired")


class Counting:
    """Tokens numbered in the order of renewal."""

    def __init__(self, *, last: int = 99) -> None:
        self.refused: list[str] = []
        self._last = last

    def current(self) -> Flow[str]:
        return f"token-{len(self.refused)}"
        yield

    def renewed(self, refused: str) -> Flow[str | None]:
        self.refused.append(refused)
        return f"token-{len(self.refused)}" if len(self.refused) <= self._last else None
        yield


def _sent(server: Server) -> list[tuple[str, str]]:
    return [(request.path, request.headers["authorization"]) for request in server.received]


async def test_an_access_token_calls_v1(make_caller: MakeCaller, server: Server) -> None:
    server.will(DELETED, DELETED, FOUND)
    await make_caller()(delete)
    person = make_caller(api_key=None, access_token=" token-1\n")
    await person(delete)
    await person(lambda c: c.search.search_document_catalog("trains"))
    assert _sent(server) == [
        ("/api/v0/catalog/deleteDocument", f"Bearer {API_KEY}"),
        ("/api/v1/catalog/deleteDocument", "Bearer token-1"),
        ("/api/v1/search/searchDocumentCatalog", "Bearer token-1"),
    ]
    assert server.received[0].body == server.received[1].body


@pytest.mark.parametrize("code", ["credential_expired", "credential_revoked", "invalid_credential"])
async def test_a_refused_token_is_renewed_and_the_call_made_again(make_caller, server, code):
    tokens = Counting()
    caller = make_caller(api_key=None, tokens=tokens)
    server.will(refuse(401, code), {"collectionId": DOCUMENT_ID, "documentCollectionId": DOCUMENT_ID})
    await caller(lambda c: c.document_collections.create_document_collection("Trains"))
    assert [authorization for _, authorization in _sent(server)] == ["Bearer token-0", "Bearer token-1"]
    assert tokens.refused == ["token-0"]
    assert len({request.headers["idempotency-key"] for request in server.received}) == 1


async def test_a_call_is_made_again_once(make_caller: MakeCaller, server: Server) -> None:
    caller = make_caller(api_key=None, tokens=Counting())
    server.will(EXPIRED, EXPIRED)
    with pytest.raises(AuthenticationError):
        await caller(delete)
    assert len(server.received) == 2


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"tokens": Counting()}, "owner_inactive"),
        ({"tokens": Counting()}, "wrong_version"),
        ({"tokens": Counting()}, "missing_credential"),
        ({"tokens": Counting(last=0)}, "credential_expired"),
        ({"access_token": "token-0"}, "credential_expired"),
    ],
)
async def test_refusals_that_another_token_would_not_change(make_caller, server, options, code):
    """Only a single request: a new token would be refused too, or is missing."""
    server.will(refuse(401, code))
    with pytest.raises(AuthenticationError, match=code):
        await make_caller(api_key=None, **options)(delete)
    assert len(server.received) == 1


async def test_a_copy_with_options_has_the_same_tokens(make_caller: MakeCaller, server: Server) -> None:
    caller = make_caller(api_key=None, tokens=Counting())
    server.will(EXPIRED, DELETED)
    await caller(lambda c: delete(c.with_options(timeout=5)))
    assert _sent(server)[-1] == ("/api/v1/catalog/deleteDocument", "Bearer token-1")


def _origin(client: Carrel | AsyncCarrel) -> tuple[str, str]:
    connection = client._session.connection
    return connection.base_url, connection.api_path


@pytest.mark.parametrize("kind", [Carrel, AsyncCarrel])
def test_exactly_one_credential(kind: type[Carrel] | type[AsyncCarrel], monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"api_key": "key-in-confidence", "access_token": "token-in-confidence", "tokens": Counting()}
    for name in ("CARREL_API_KEY", "CARREL_ACCESS_TOKEN", "CARREL_BASE_URL", "CARREL_V1_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for pair in itertools.combinations(given, 2):
        with pytest.raises(ConfigurationError, match=", ".join(pair)) as caught:
            kind(**{name: given[name] for name in pair})
        assert "confidence" not in str(caught.value)
    monkeypatch.setenv("CARREL_API_KEY", "key")
    assert _origin(kind())[1] == "/api/v0/"
    assert _origin(kind(access_token="token"))[1] == "/api/v1/"
    monkeypatch.setenv("CARREL_ACCESS_TOKEN", "token")
    with pytest.raises(ConfigurationError, match="CARREL_API_KEY and CARREL_ACCESS_TOKEN are both set"):
        kind()
    assert _origin(kind("key"))[1] == "/api/v0/"
    monkeypatch.delenv("CARREL_API_KEY")
    assert _origin(kind())[1] == "/api/v1/"


def test_where_v1_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Next to v0 by default; an explicit address precedes the environment."""
    monkeypatch.delenv("CARREL_BASE_URL", raising=False)
    monkeypatch.delenv("CARREL_V1_BASE_URL", raising=False)
    token = {"access_token": "token"}
    assert _origin(Carrel(**token))[0] == "http://127.0.0.1:8000"
    monkeypatch.setenv("CARREL_BASE_URL", "https://v0.example.com")
    assert _origin(Carrel(**token))[0] == "https://v0.example.com"
    monkeypatch.setenv("CARREL_V1_BASE_URL", "https://v1.example.com/api/v1/")
    assert _origin(Carrel(**token))[0] == "https://v1.example.com"
    assert _origin(Carrel("key"))[0] == "https://v0.example.com"
    assert _origin(Carrel(base_url="https://given.example.com", **token))[0] == "https://given.example.com"
    both = {"base_url": "https://given.example.com", "v1_base_url": "https://given-v1.example.com"}
    assert _origin(Carrel(**both, **token))[0] == "https://given-v1.example.com"
    assert _origin(Carrel("key", **both))[0] == "https://given.example.com"


def test_tokens_stay_out_of_sight() -> None:
    client = Carrel(access_token="token-in-confidence")
    shown = [repr(client), repr(client._session.connection), repr(client._session.connection.tokens)]
    assert not [text for text in shown if "confidence" in text]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_temporary_refusals_are_retried(caller: Caller, server: Server, status: int) -> None:
    server.will(refuse(status), refuse(status), DELETED)
    assert str((await caller(delete)).document_id) == DOCUMENT_ID
    assert len(caller.naps) == 2
    assert 0.25 <= caller.naps[0] <= 0.5 <= caller.naps[1] <= 1.0


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 415, 418, 501, 505, 507])
async def test_final_refusals_are_not_retried(caller: Caller, server: Server, status: int) -> None:
    server.will(refuse(status, "collection_name_taken"), DELETED)
    with pytest.raises(errors.APIError) as caught:
        await caller(delete)
    assert (caught.value.status, len(server.received), caller.naps) == (status, 1, [])


@pytest.mark.parametrize("answer", [refuse(409, "concurrent_change"), refuse(409, "busy", {"retry-after": "0"})])
async def test_passing_conflicts_are_retried(caller: Caller, server: Server, answer) -> None:
    """A 409 is retried when its code is temporary, or the service gives a time."""
    server.will(answer, DELETED)
    await caller(delete)
    assert len(server.received) == 2


@pytest.mark.parametrize("code", ["model_unavailable", "model_rate_limited", "reply_timeout", "reply_lost"])
@pytest.mark.parametrize("headers", [{}, {"retry-after": "5"}])
async def test_a_model_that_was_tried_is_not_tried_again(caller, server, code, headers):
    """The service has already retried the model; its error says when to send again."""
    server.will(refuse(503, code, headers), SENT_CHAT)
    with pytest.raises(errors.ServerError) as caught:
        await caller(lambda c: c.copilots.send_message(OTHER_ID, "How?"))
    assert (caught.value.code, len(server.received), caller.naps) == (code, 1, [])
    assert caught.value.retry_after == (5 if headers else None)


async def test_a_reply_that_is_still_made_is_waited_for(caller: Caller, server: Server) -> None:
    server.will(refuse(503, "reply_delayed", {"retry-after": "5"}), SENT_CHAT)
    await caller(lambda c: c.copilots.send_message(OTHER_ID, "How?"))
    assert len({request.headers["idempotency-key"] for request in server.received}) == 1
    assert (len(server.received), len(caller.naps)) == (2, 1)


@pytest.mark.parametrize("retries", [0, 1, 4])
async def test_retries_end(make_caller: MakeCaller, server: Server, retries: int) -> None:
    server.will(*[refuse(503, "saturated")] * (retries + 1))
    with pytest.raises(errors.ServerError, match="saturated"):
        await make_caller(max_retries=retries)(delete)
    assert len(server.received) == retries + 1


def _date(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        pytest.param(lambda: "7", 7.0, 7.7, id="seconds"),
        pytest.param(lambda: _date(30), 28, 33, id="date"),
        pytest.param(lambda: _date(-30), 0, 0, id="past"),
        *(pytest.param(lambda odd=odd: odd, 0, 1, id=f"odd {odd!a}") for odd in ("soon", "", "-3", "nan", "inf", "Â²")),
    ],
)
async def test_retry_after(caller, server, header, least, most):
    """The client waits for Retry-After plus at most a tenth; invalid headers cause no long pause; a 503 is retried more
    often."""
    server.will(
        refuse(429, headers={"retry-after": header()}), DELETED, *[refuse(503, "busy", {"retry-after": "1"})] * 5
    )
    await caller(delete)
    [nap] = caller.naps
    assert least <= nap <= most
    server.will(DELETED)
    await caller(delete)


async def test_long_retry_after_is_the_callers(caller: Caller, server: Server) -> None:
    server.will(refuse(429, "quota", {"retry-after": "3600"}))
    with pytest.raises(errors.RateLimitError) as caught:
        await caller(delete)
    assert (caught.value.retry_after, caller.naps) == (3600, [])


async def test_idempotency_key_is_kept_over_retries(caller: Caller, server: Server) -> None:
    for _ in range(2):
        server.will(refuse(503), refuse(503), {"documentCollectionId": COLLECTION_ID})
        await caller(lambda c: c.document_collections.create_document_collection("Policies"))
    keys = [request.headers["idempotency-key"] for request in server.received]
    assert len(keys) == 6
    assert len(set(keys[:3])) == len(set(keys[3:])) == 1
    assert keys[0] != keys[3]


async def test_own_idempotency_key(caller: Caller, server: Server) -> None:
    server.will({"auditLogId": OTHER_ID})
    own = caller.client.with_options(headers={"Idempotency-Key": "mine"})
    await caller(lambda _: own.search.submit_search_feedback(search_id=OTHER_ID, feedback="THUMBS_UP"))
    assert server.received[0].headers["idempotency-key"] == "mine"


async def test_connection_failures_are_retried(make_caller: MakeCaller) -> None:
    with resetting() as address:
        for base_url in (address, "http://127.0.0.1:1"):
            caller = make_caller(base_url=base_url)
            with pytest.raises(errors.APIConnectionError, match=r"127\.0\.0\.1") as caught:
                await caller(delete)
            assert isinstance(caught.value.__cause__, httpx.TransportError)
            assert len(caller.naps) == 2


async def test_a_proxy_that_is_down_is_told(make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the proxy's variable and address without password; NO_PROXY is respected."""
    monkeypatch.setenv("HTTP_PROXY", "http://ada:secret@127.0.0.1:2")
    for left_out, said in (("", r"the proxy http://127\.0\.0\.1:2 of HTTP_PROXY"), ("192.0.2.1", r"\)$")):
        monkeypatch.setenv("NO_PROXY", left_out)
        with pytest.raises(errors.APIConnectionError, match=said) as caught:
            await make_caller(base_url="http://192.0.2.1:1")(delete)
        assert "secret" not in str(caught.value)


async def test_truncated_answers_are_retried(caller: Caller, server: Server) -> None:
    server.will(cut_short(b'{"documentId": "', promised=100), DELETED)
    assert str((await caller(delete)).document_id) == DOCUMENT_ID
    assert len(server.received) == 2


async def test_timeout(make_caller: MakeCaller, server: Server) -> None:
    late = slowly(0.5, refuse(500))
    server.will(late, late)
    caller = make_caller(timeout=0.1, max_retries=1)
    with pytest.raises(errors.APITimeoutError, match="in time"):
        await caller(delete)
    assert len(caller.naps) == 1


async def test_timeout_by_option(caller: Caller, server: Server) -> None:
    server.will(slowly(0.3, refuse(500)), slowly(0.3, refuse(404)))
    hasty = caller.client.with_options(timeout=0.1, max_retries=0)
    with pytest.raises(errors.APITimeoutError):
        await caller(lambda _: hasty.catalog.delete_document(DOCUMENT_ID))
    with pytest.raises(errors.APIError, match="404"):
        await caller(delete)


async def test_redirects_are_not_followed(caller: Caller, server: Server) -> None:
    """The key is never sent to a redirect's target; the error omits possible secrets of the address."""
    with resetting() as elsewhere:
        server.will(refuse(307, headers={"location": f"{elsewhere}/login?token=abc"}))
        with pytest.raises(errors.APIError) as caught:
            await caller(delete)
    assert len(server.received) == 1
    assert "abc" not in str(caught.value)


async def test_redirect_without_the_services_error_shape(make_caller: MakeCaller, server: Server) -> None:
    location = {"location": "https://login.example.com/?next=secret"}
    caller = make_caller()
    caller.client._session.driver.http.follow_redirects = True
    server.will(raw(b"moved", status=302, headers=location))
    with pytest.raises(errors.UnexpectedResponseError, match=r"https://login\.example\.com/, .*base_url") as caught:
        await caller(delete)
    assert "secret" not in str(caught.value)


async def test_proxy_pages(caller: Caller, server: Server) -> None:
    page = raw(b"<html>Bad Gateway</html>", status=502)
    server.will(page, page, page)
    with pytest.raises(errors.ServerError) as caught:
        await caller(delete)
    assert (caught.value.code, len(server.received)) == ("http_502", 3)


async def test_conflict_after_a_lost_secret(caller: Caller, server: Server) -> None:
    server.will(refuse(503), refuse(409, "already_done"))
    with pytest.raises(errors.ConflictError) as caught:
        await caller(lambda c: c.admin.api_keys.create("loader"))
    assert caught.value.code == "already_done"


def test_backoff_grows_and_is_bounded() -> None:
    """Pauses double up to eight seconds, and are spread so that callers don't return together."""
    for attempt in range(12):
        pauses = {backoff(attempt) for _ in range(50)}
        longest = min(0.5 * 2**attempt, LONGEST_BACKOFF)
        assert len(pauses) > 10
        assert all(longest / 2 <= pause <= longest for pause in pauses)


def test_unsendable_requests_are_not_retried() -> None:
    policy = RetryPolicy(max_retries=5)
    assert policy.wait_after_failure(httpx.UnsupportedProtocol("no"), attempt=0) is None
    assert policy.wait_after_failure(httpx.LocalProtocolError("no"), attempt=0) is None
    assert policy.wait_after_failure(httpx.ReadError("reset"), attempt=0) is not None
