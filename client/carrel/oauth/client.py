"""OAuthClient and AsyncOAuthClient: OAuth for an application."""

import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar
from uuid import UUID

import httpx

from carrel import _connect as connect
from carrel._calls import Connection
from carrel._drivers import Flow, SyncDriver, driver_of
from carrel._logging import log_if_configured
from carrel._operations import Async, FlowOperation, Resource, Session, Sync
from carrel._pages import AsyncClosing, Closing
from carrel.environment import http_options
from carrel.errors import ConfigurationError
from carrel.oauth.authorization import AuthorizationRequest, ServerMetadata, begin, metadata_at
from carrel.oauth.endpoints import Endpoints
from carrel.oauth.source import StoredTokens
from carrel.oauth.stores import TokenStore
from carrel.oauth.tokens import Tokens

M = TypeVar("M")


class _OAuthClient(Resource[M], Generic[M, connect.Http]):
    """The operations of an application, in the client's mode."""

    _endpoints: Endpoints
    _redirect_uri: str
    _scopes: tuple[str, ...]
    _owns_http: bool
    _http_class: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        client_id: UUID | str,
        client_secret: str,
        *,
        redirect_uri: str,
        scopes: Sequence[str] = (),
        auth_url: str | None = None,
        timeout: connect.Timeout = connect.DEFAULT_TIMEOUT,
        max_retries: int = connect.DEFAULT_MAX_RETRIES,
        http_client: connect.Http | None = None,
    ) -> None:
        log_if_configured()
        address = authorization_address(auth_url)
        self._owns_http, self._redirect_uri, self._scopes = http_client is None, redirect_uri, tuple(scopes)
        self._http = http_client or self._http_class(**http_options(address))
        connection = _connect(address, self._http.headers, timeout=timeout, max_retries=max_retries)
        self._endpoints = _endpoints(connection, client_id, client_secret)
        super().__init__(Session(connection, driver_of(self._http, is_own=self._owns_http)))

    def authorization_request(
        self, *, scopes: Sequence[str] | None = None, prompt: str | None = None, max_age: int | None = None
    ) -> AuthorizationRequest:
        """Create an authorization request: keep it in the person's session, and redirect the person to its `url`.
        `scopes` replace the client's; an empty list asks for all registered. `prompt`: `login`, `consent` or
        `select_account` asks the person again, `none` nothing. `max_age`: sign in again after more seconds."""
        wanted = self._scopes if scopes is None else scopes
        how = {"prompt": prompt, "max_age": None if max_age is None else str(max_age)}
        endpoints = self._endpoints
        return begin(endpoints.server, endpoints.client_id, redirect_uri=self._redirect_uri, scopes=wanted, how=how)

    @FlowOperation
    def exchange(self, callback: str, request: AuthorizationRequest) -> Flow[Tokens]:
        """Exchange the code in the callback's URL or query for tokens. Raises CallbackError for a callback of another
        request, AccessDeniedError if the person refused, AuthorizationError for other errors in the callback,
        InvalidGrantError for a used or expired code, other TokenRequestErrors, and APIConnectionError."""
        return self._endpoints.redeem(callback, request)

    @FlowOperation
    def refresh(self, tokens: Tokens) -> Flow[Tokens]:
        """Exchange a refresh token for new tokens; the old token stops working. `token_source` does this when needed.
        Raises InvalidGrantError if the person has to authorize the application again, SignInRequiredError for tokens
        without a refresh token, other TokenRequestErrors, and APIConnectionError."""
        return self._endpoints.refresh(tokens)

    @FlowOperation
    def revoke(self, tokens: Tokens | str) -> Flow[None]:
        """Revoke a person's consent, or one token passed as text. Raises TokenRequestError, APIConnectionError."""
        return self._endpoints.revoke(tokens)

    @FlowOperation
    def discover(self) -> Flow[ServerMetadata]:
        """Fetch a server's endpoints for `with_server`. Raises APIError, also if unusable, and APIConnectionError."""
        return self._endpoints.discover()

    def with_server(self, server: ServerMetadata) -> Self:
        """Return a client of the application with other endpoints, over the current connections."""
        endpoints = self._endpoints
        other = object.__new__(type(self))
        other._session = self._session
        vars(other).update(vars(self))
        other._owns_http = False
        other._endpoints = Endpoints(server, endpoints.client_id, endpoints.client_secret, endpoints.connection)
        return other

    def token_source(self, store: TokenStore, key: str, *, http_client: httpx.Client | None = None) -> StoredTokens:
        """Return a session's tokens from the store, refreshed when they expire: `Carrel(tokens=…)`. Refreshes run in a
        thread, over `http_client`, else the client's own blocking HTTP client, else a new connection."""
        own = self._http if isinstance(self._http, httpx.Client) and not self._owns_http else None
        return StoredTokens(store, key, refresh=_blocking(self._endpoints, http_client or own))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._endpoints.client_id!r}, {self._endpoints.server.issuer!r})"

    def __getstate__(self) -> object:
        raise TypeError(f"An {type(self).__name__} has a secret and connections: create one where you use it")


class OAuthClient(_OAuthClient[Sync, httpx.Client], Closing):
    """An application that acts for people, registered by an admin; blocking. `auth_url` defaults to CARREL_AUTH_URL,
    then CARREL_BASE_URL. `scopes` are requested from people. `timeout` is in seconds. Pass `http_client` for proxies,
    transports and hooks; `close` leaves it open. Raises ConfigurationError for a bad address, or without id or
    secret."""

    _http_class = httpx.Client

    def close(self) -> None:
        """Close the connections, except an `http_client` of the caller."""
        if self._owns_http:
            self._http.close()


class AsyncOAuthClient(_OAuthClient[Async, httpx.AsyncClient], AsyncClosing):
    """An application with operations to await; otherwise like OAuthClient."""

    _http_class = httpx.AsyncClient

    async def close(self) -> None:
        """Close the connections, except an `http_client` of the caller."""
        if self._owns_http:
            await self._http.aclose()


def authorization_address(auth_url: str | None) -> str:
    """Return the address of the authorization server, by default of the environment. Raises ConfigurationError."""
    environment = os.environ.get("CARREL_AUTH_URL") or os.environ.get("CARREL_BASE_URL")
    return connect.normalize(auth_url or environment or connect.DEFAULT_BASE_URL)


def _connect(address: str, http_headers: httpx.Headers, *, timeout: connect.Timeout, max_retries: int) -> Connection:
    headers = http_headers.copy()
    headers["User-Agent"] = connect.USER_AGENT
    headers["Accept"] = "application/json"
    return Connection(address, headers, connect.seconds(timeout), connect.policy(max_retries))


def _endpoints(connection: Connection, client_id: UUID | str, client_secret: str) -> Endpoints:
    client_id, client_secret = str(client_id).strip(), client_secret.strip()
    if not client_id or not client_secret:
        raise ConfigurationError("Give the application's id and secret. An admin sees them once, when registering it")
    return Endpoints(metadata_at(connection.base_url), client_id, client_secret, connection)


def _blocking(endpoints: Endpoints, http_client: httpx.Client | None) -> Callable[[Tokens], Tokens]:
    """Return a function that refreshes tokens, over `http_client` or over new connections for each call."""

    def refresh(tokens: Tokens) -> Tokens:
        if http_client is not None:
            return SyncDriver(http_client).run(endpoints.refresh(tokens))
        with httpx.Client(**http_options(endpoints.connection.base_url)) as http:
            return SyncDriver(http).run(endpoints.refresh(tokens))

    return refresh
