"""Carrel and AsyncCarrel: a credential, an address, and the resources as attributes."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

import httpx

from carrel import _connect as connect
from carrel._calls import Call
from carrel._credentials import Credentials, TokenSource
from carrel._display import register_displays
from carrel._drivers import driver_of
from carrel._logging import log_if_configured
from carrel._operations import Async, Operation, Session, Sync
from carrel._pages import AsyncClosing, Closing
from carrel.environment import http_options
from carrel.resources._client import Resources
from carrel.wire.common import RequestModel
from carrel.wire.me import ME, MeResponse

M = TypeVar("M")

register_displays()


class _Client(Resources[M], Generic[M, connect.Http]):
    _http_class: ClassVar[Callable[..., Any]]
    _owns_http: bool

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        access_token: str | None = None,
        tokens: TokenSource | None = None,
        v1_base_url: str | None = None,
        timeout: connect.Timeout = connect.DEFAULT_TIMEOUT,
        max_retries: int = connect.DEFAULT_MAX_RETRIES,
        headers: Mapping[str, str] | None = None,
        http_client: connect.Http | None = None,
    ) -> None:
        log_if_configured()
        self._owns_http = http_client is None
        connection, self._http = connect.connect(
            Credentials(api_key, access_token, tokens),
            lambda address: http_client or self._http_class(**http_options(address)),
            base_url=base_url,
            v1_base_url=v1_base_url,
            headers=headers,
            timeout=timeout,
            max_retries=max_retries,
        )
        super().__init__(Session(connection, driver_of(self._http, is_own=self._owns_http)))

    @Operation
    def me(self) -> Call[MeResponse]:
        """Return the user of the access token, and the token's scopes (v1 only)."""
        return Call(ME, RequestModel())

    @property
    def base_url(self) -> str:
        """The address of the service, without a trailing slash."""
        return self._session.connection.base_url

    def with_options(
        self,
        *,
        timeout: connect.MaybeTimeout = connect.UNCHANGED,
        max_retries: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """Return a client with new options and shared connections. Omitted options stay unchanged. `headers` are added
        to the client's headers, for example an `Idempotency-Key` for a single operation:
        `client.with_options(headers={…}).search…`. Raises ConfigurationError for headers such as Authorization, which
        the client sets."""
        old = self._session
        connection = connect.reconnect(old.connection, timeout=timeout, max_retries=max_retries, headers=headers or {})
        other = object.__new__(type(self))
        other._owns_http = False
        other._session = Session(connection, old.driver)
        return other

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self.base_url!r})"

    def __getstate__(self) -> object:
        raise TypeError(f"A {type(self).__name__} has a credential and connections: create one where you use it")


class Carrel(_Client[Sync, httpx.Client], Closing):
    """A client with blocking operations; safe to share between threads. Pass one credential: `api_key` (an API key, or
    a service account's token) calls v0; `access_token`, or `tokens` with automatic renewal (see `carrel.oauth`), calls
    v1 on behalf of a person. Defaults: CARREL_API_KEY or CARREL_ACCESS_TOKEN, CARREL_BASE_URL, and CARREL_V1_BASE_URL
    (default: next to v0). `timeout` is in seconds. `headers` are sent with every request, besides the client's own.
    Pass `http_client` for proxies, transports and hooks; `close` leaves it open. Raises ConfigurationError without a
    credential, with two, for an invalid address, and for headers that only the client may set."""

    _http_class = httpx.Client

    def close(self) -> None:
        """Close the connections, except an `http_client` of the caller."""
        if self._owns_http:
            self._http.close()


class AsyncCarrel(_Client[Async, httpx.AsyncClient], AsyncClosing):
    """A client with operations to await, in one event loop; otherwise like Carrel."""

    _http_class = httpx.AsyncClient

    async def close(self) -> None:
        """Close the connections, except an `http_client` of the caller."""
        if self._owns_http:
            await self._http.aclose()
