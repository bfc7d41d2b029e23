"""What an operation is: a Call. How it is carried out: one flow that sends, retries, and reads the answer."""

import itertools
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import httpx

from carrel._answers import connection_error, error_from, model_from
from carrel._credentials import TokenSource
from carrel._flow import Flow, Request, Sleep
from carrel._logging import logger
from carrel._retries import RetryPolicy
from carrel._uploads import Upload
from carrel.errors import APIError, AuthenticationError, CarrelError, ConfigurationError
from carrel.wire.common import RequestModel, ResponseModel
from carrel.wire.operations import KEYED, ApiOperation, Version

Model = TypeVar("Model", bound=ResponseModel)
CREDENTIALS: Mapping[str | None, str] = {
    "v0": "api_key=… (or a service account's token)",
    "v1": "access_token=… or tokens=…",
}
ELSEWHERE: Mapping[str, str] = {
    "me": ". With this one, client.permissions.who_am_i() tells whose it is",
    "agents": ". With this one, agents.send_and_wait works, and client.admin.agents.list() for an admin",
}
"""By path: what works with the credential in its place."""
IDEMPOTENCY_KEY = "Idempotency-Key"
# What the service says of a token that another may take the place of.
RENEWABLE = frozenset({"credential_expired", "credential_revoked", "invalid_credential"})


@dataclass(frozen=True, slots=True)
class Call(Generic[Model]):
    """An operation with its arguments, before sending; the members of a GET's `body` are its parameters. `patience`:
    least seconds to wait for the answer. `values`: those of the operation's path."""

    operation: ApiOperation[Any, Model]
    body: RequestModel | Upload
    patience: float = 0.0
    values: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def path(self) -> str:
        """The path of the operation, behind the API's version."""
        return self.operation.path.format_map(self.values) if self.values else self.operation.path


@dataclass(frozen=True, slots=True)
class Connection:
    """Where requests go and what they all carry; `timeout` in seconds, by httpx's names; a call's own `is_exact`. With
    `tokens`, requests carry an access token and go to v1; without, the headers hold the key and they go to v0."""

    base_url: str
    headers: httpx.Headers = field(repr=False)
    timeout: Mapping[str, float | None]
    retries: RetryPolicy
    tokens: TokenSource | None = field(default=None, repr=False)
    is_exact: bool = False
    _urls: dict[str, httpx.URL] = field(default_factory=dict[str, httpx.URL], repr=False, compare=False)

    @property
    def version(self) -> Version:
        """The version of the API that the credential is for; most operations of v0 have their place on v1 too."""
        return "v0" if self.tokens is None else "v1"

    @property
    def api_path(self) -> str:
        """The path all operations begin with."""
        return f"/api/{self.version}/"

    def request(self, call: Call[Any]) -> Request:
        """Return the request for a call. Raises ConfigurationError when the operation is of another version."""
        operation, path, body, timeout = call.operation, call.path, call.body, self._timeout(call.patience)
        if operation.version not in {None, self.version}:
            raise ConfigurationError(
                f"{path} is on {operation.version} alone, and this client's credential is for {self.version}; "
                f"make one with {CREDENTIALS[operation.version]}{ELSEWHERE.get(path, '')}"
            )
        if operation.method == "GET" and isinstance(body, RequestModel):
            return self._query(path, body, timeout)
        if (url := self._urls.get(path)) is None:
            url = self._urls[path] = httpx.URL(self.base_url + self.api_path + path)
        headers = self.headers
        if operation.has(KEYED) and IDEMPOTENCY_KEY not in headers:
            headers = headers.copy()
            headers[IDEMPOTENCY_KEY] = uuid.uuid4().hex
        if isinstance(body, Upload):
            return Request(url, _upload_headers(headers, body, url), body, timeout)
        return Request(url, headers, body.to_json(), timeout)

    def _query(self, path: str, parameters: RequestModel, timeout: Mapping[str, float | None]) -> Request:
        values = parameters.model_dump(mode="json", by_alias=True, exclude_none=True)
        headers = self.headers.copy()
        headers.pop("Content-Type", None)
        url = httpx.URL(self.base_url + self.api_path + path, params=values)
        return Request(url, headers, b"", timeout, method="GET")

    def _timeout(self, patience: float) -> Mapping[str, float | None]:
        read = self.timeout["read"]
        return self.timeout if self.is_exact or read is None or read >= patience else {**self.timeout, "read": patience}


def _upload_headers(headers: httpx.Headers, body: Upload, url: httpx.URL) -> httpx.Headers:
    headers = headers.copy()
    headers["Host"] = url.netloc.decode("ascii")
    headers["Content-Type"] = body.content_type
    if body.length is None:
        headers["Transfer-Encoding"] = "chunked"
    else:
        headers["Content-Length"] = str(body.length)
    return headers


@dataclass(frozen=True, slots=True)
class RawResponse(Generic[Model]):
    """An answer as it came, and its wire model `parsed`."""

    http_response: httpx.Response = field(repr=False)
    parsed: Model

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        return self.http_response.status_code

    status = status_code
    """The same, as errors spell it."""

    @property
    def headers(self) -> httpx.Headers:
        """The answer's headers."""
        return self.http_response.headers

    @property
    def request_id(self) -> str | None:
        """The name of the request in the service's logs."""
        return self.http_response.headers.get("x-request-id")

    @property
    def content(self) -> bytes:
        """The body, as it came."""
        return self.http_response.content


def perform(call: Call[Model], connection: Connection) -> Flow[RawResponse[Model]]:
    """Carry out an operation; raises APIError, APIConnectionError, ConfigurationError before anything is sent."""
    if call.operation.answer is None:
        raise TypeError(f"{call.path} is answered with a stream; see perform_streamed")
    response = yield from send(connection.request(call), connection)
    parsed = model_from(response, call.operation.answer)
    vars(parsed)["_request_id"] = response.headers.get("x-request-id")
    return RawResponse(response, parsed)


def perform_streamed(call: Call[Any], connection: Connection) -> Flow[httpx.Response]:
    """Carry out an operation whose 2xx answer is left unread, for the caller to stream and close."""
    return (yield from send(replace(connection.request(call), stream=True), connection))


def send(request: Request, connection: Connection) -> Flow[httpx.Response]:
    """Send a request with the connection's credential, and again, once, when its token was refused and renewed."""
    if (tokens := connection.tokens) is None:
        return (yield from exchange(request, connection.retries))
    token = yield from tokens.current()
    try:
        return (yield from exchange(request.bearing(token), connection.retries))
    except AuthenticationError as refused:
        if refused.code not in RENEWABLE:
            raise
        renewed = yield from tokens.renewed(token)
        if renewed is None or not request.repeatable:
            raise
    return (yield from exchange(request.bearing(renewed), connection.retries))


def exchange(
    request: Request, retries: RetryPolicy, *, refusal: Callable[[httpx.Response], APIError] = error_from
) -> Flow[httpx.Response]:
    """Send a request until it succeeds or a retry makes no sense; raise what `refusal` makes of a refusal."""
    for attempt in itertools.count():
        began = time.monotonic()
        error: CarrelError
        try:
            response: httpx.Response = yield request
        except httpx.HTTPError as exc:
            error, wait = connection_error(exc), retries.wait_after_failure(exc, attempt=attempt)
            logger.debug("%s attempt %d: %s", request.url.path, attempt + 1, error)
        else:
            if logger.isEnabledFor(logging.DEBUG):
                _log(request, response, attempt=attempt, seconds=time.monotonic() - began)
            if response.is_success:
                return response
            answered = refusal(response)
            error, wait = answered, retries.wait_after_answer(answered, attempt=attempt)
        if wait is None or not request.repeatable:
            raise error
        yield Sleep(wait)
    raise AssertionError  # itertools.count() doesn't end


def _log(request: Request, response: httpx.Response, *, attempt: int, seconds: float) -> None:
    name = response.headers.get("x-request-id")
    template = "%s attempt %d: %d in %.0f ms, request %s"
    logger.debug(template, request.url.path, attempt + 1, response.status_code, seconds * 1000, name)
