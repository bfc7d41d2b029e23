"""Which credential a client uses, and what it does when an access token is refused."""

import itertools

import pytest

from carrel import AsyncCarrel, AuthenticationError, Carrel, ConfigurationError
from carrel._drivers import Flow
from tests.client.conftest import API_KEY, MakeCaller, delete
from tests.client.samples import DELETED, DOCUMENT_ID, FOUND
from tests.client.server import Server, refuse

EXPIRED = refuse(401, "credential_expired")


class Counting:
    """Tokens that are numbered in the order they are renewed in."""

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
    """Every operation has the same path and body there; a key calls v0."""
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
    """With the same Idempotency-Key, by which the service knows it for the same call."""
    tokens = Counting()
    caller = make_caller(api_key=None, tokens=tokens)
    server.will(refuse(401, code), {"collectionId": DOCUMENT_ID, "documentCollectionId": DOCUMENT_ID})
    await caller(lambda c: c.document_collections.create_document_collection("Trains"))
    assert [authorization for _, authorization in _sent(server)] == ["Bearer token-0", "Bearer token-1"]
    assert tokens.refused == ["token-0"]
    assert len({request.headers["idempotency-key"] for request in server.received}) == 1


async def test_a_call_is_made_again_once(make_caller: MakeCaller, server: Server) -> None:
    """A service that refuses the renewed token too isn't asked for ever."""
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
    """After one request: another token would be refused for the same reason, or there is none."""
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
    """Two that are given, or two in the environment, are refused; what is given comes before the environment."""
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
    """Beside v0, unless it is told to be elsewhere; an address that was given comes before the environment."""
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
