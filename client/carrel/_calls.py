"""Calls (operations with arguments) and the flow that sends a call, retries, and parses the answer or raises."""

import itertools
import logging
import math
import random
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from carrel import errors
from carrel._credentials import TokenSource
from carrel._drivers import Flow, Request, Sleep
from carrel._logging import logger
from carrel._uploads import Upload
from carrel.environment import proxy_for
from carrel.errors import LONGEST_RETRY_AFTER, APIError, AuthenticationError, CarrelError, ConfigurationError
from carrel.wire.common import ErrorBody, ErrorResponse, RequestModel, ResponseModel
from carrel.wire.operations import KEYED, ApiOperation, Version

Model = TypeVar("Model", bound=ResponseModel)


def model_from(response: httpx.Response, answer: type[Model] | TypeAdapter[Model]) -> Model:
    """Return the body of a 2xx response as its wire model. Raises UnexpectedResponseError for any other body."""
    try:
        if isinstance(answer, TypeAdapter):
            return answer.validate_json(response.content)
        return answer.model_validate_json(response.content)
    except ValidationError as exc:
        expected = "what was asked for" if isinstance(answer, TypeAdapter) else f"a {answer.__name__}"
        raise unreadable(response, expected) from exc


def unreadable(response: httpx.Response, expected: str) -> errors.UnexpectedResponseError:
    """Build the exception for a 2xx response whose body isn't the `expected` type."""
    return unexpected_response(response, f"The answer isn't {expected}. Check that base_url is Carrel's address")


def unexpected_response(
    response: httpx.Response, message: str, *, code: str = "unreadable_response"
) -> errors.UnexpectedResponseError:
    """Build the exception for a response that no Carrel service would give."""
    request_id = response.headers.get("x-request-id")
    return errors.UnexpectedResponseError(message, status=response.status_code, code=code, request_id=request_id)


def error_from(response: httpx.Response) -> errors.APIError:
    """Build the exception for a response that is not 2xx, from the service or from a proxy."""
    status = response.status_code
    body = _error_body(response)
    return _error_class(status, body)(
        body.message if body else _describe_foreign_answer(response),
        status=status,
        code=body.code if body else f"http_{status}",
        request_id=(body and body.request_id) or response.headers.get("x-request-id"),
        details=(body and body.details) or (),
        retry_after=retry_after(response.headers),
        confirmation_url=body and body.confirmation_url,
        meanwhile=body and body.meanwhile,
    )


def _error_class(status: int, body: ErrorBody | None) -> type[errors.APIError]:
    if body is not None and body.meanwhile is not None:
        return errors.EditConflictError
    if status >= 500:
        return errors.ERRORS_BY_STATUS.get(status, errors.ServerError)
    return errors.ERRORS_BY_STATUS.get(status, errors.APIError if body else errors.UnexpectedResponseError)


def _error_body(response: httpx.Response) -> ErrorBody | None:
    try:
        return ErrorResponse.model_validate_json(response.content).error
    except ValidationError:
        return None


def _describe_foreign_answer(response: httpx.Response) -> str:
    if response.status_code == 407:
        return _wants_password(response.url)
    if 300 <= response.status_code < 400:
        target = response.next_request.url.copy_with(raw_path=b"/") if response.next_request else "elsewhere"
        return f"Redirected to {target}, where the API key is not sent; set base_url to the service's own address"
    return f"The answer isn't from Carrel: HTTP {response.status_code} {response.reason_phrase}".rstrip()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header (a number or a date; RFC 9110, section 10.2.3); None if invalid."""
    value = headers.get("retry-after", "")
    with suppress(ValueError):
        seconds = float(value)
        return max(seconds, 0.0) if math.isfinite(seconds) else None
    with suppress(ValueError):
        moment = parsedate_to_datetime(value)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max((aware - datetime.now(UTC)).total_seconds(), 0.0)
    return None


def connection_error(cause: httpx.HTTPError) -> errors.APIConnectionError:
    """Build the exception for a request without a whole response. Raises ConfigurationError for a proxy's password."""
    if isinstance(cause, httpx.ProxyError) and str(cause).startswith("407"):
        raise errors.ConfigurationError(_wants_password(cause.request.url)) from cause
    late = isinstance(cause, httpx.TimeoutException)
    problem = "No answer in time from" if late else "No whole answer from"
    plain = ": this port speaks http, so begin base_url with http://" if "WRONG_VERSION_NUMBER" in str(cause) else ""
    error = (errors.APITimeoutError if late else errors.APIConnectionError)(
        f"{problem} {_describe_way(cause)} ({type(cause).__name__}{f': {cause}' if str(cause) else ''}){plain}"
    )
    error.__cause__ = cause
    return error


def _describe_way(cause: httpx.HTTPError) -> str:
    try:
        url = cause.request.url
    except RuntimeError:  # httpx raises this if an error has no request
        return "the service"
    name, proxy = "", None
    if isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
        with suppress(errors.ConfigurationError):
            name, proxy = proxy_for(url)
    return f"{url.scheme}://{url.netloc.decode('ascii')}{f' through the proxy {proxy.url} of {name}' if proxy else ''}"


def _wants_password(url: httpx.URL) -> str:
    place = proxy_for(url)[0] or "the proxy of your HTTP client"
    return f"The proxy requires a valid user and password: set {place} to http://user:password@host:port"


RETRIED_CONFLICTS = frozenset({"concurrent_change"})
RETRIED_STATUSES = frozenset({408, 429})
FINAL_SERVER_ERRORS = frozenset({501, 505, 507})
FIRST_BACKOFF, LONGEST_BACKOFF = 0.5, 8.0
# The pauses add up to some twenty seconds, about the time of a restart of the service.
OVER_A_RESTART = 6

# How v0's error codes for a missing reply begin; on v1 these are the codes of a failed job.
NO_REPLY = ("model_", "reply_")
# v0 gave up waiting, but the reply is still being made.
DELAYED = "reply_delayed"

TRANSIENT = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most `max_retries` retries; waits are in seconds."""

    max_retries: int = 2

    def wait_after_answer(self, error: APIError, *, attempt: int) -> float | None:
        """Return the seconds to wait after an error response to attempt 0, 1, …; None: give up, as beyond two minutes.
        Retry-After gets some jitter, to spread callers. A busy service (503 with Retry-After) gets more retries."""
        is_busy = error.status == 503 and error.retry_after is not None
        most = self.over_a_restart().max_retries if is_busy else self.max_retries
        if attempt >= most or not is_temporary(error):
            return None
        if error.retry_after is None:
            return backoff(attempt)
        if error.retry_after > LONGEST_RETRY_AFTER:
            return None
        return error.retry_after + random.uniform(0.0, min(0.1 * error.retry_after, 1.0))  # noqa: S311 - jitter

    def wait_after_failure(self, cause: httpx.HTTPError, *, attempt: int) -> float | None:
        """Return the seconds to wait when attempt 0, 1, … got no response; None: give up."""
        return None if attempt >= self.max_retries or not isinstance(cause, TRANSIENT) else backoff(attempt)

    def wait_after_cut(self, *, cuts: int) -> float | None:
        """Return the seconds to wait before resuming a stream after 1, 2, … connections without data; None: give up."""
        return None if cuts > self.max_retries else backoff(cuts - 1)

    def over_a_restart(self) -> "RetryPolicy":
        """Return the policy for work that survives a restart of the service; disabled retries stay disabled."""
        return replace(self, max_retries=max(self.max_retries, OVER_A_RESTART)) if self.max_retries else self


def is_temporary(error: APIError) -> bool:
    """Return whether the request may succeed a little later."""
    if error.status == 409:
        return error.code in RETRIED_CONFLICTS or error.retry_after is not None
    if error.status == 503 and error.code.startswith(NO_REPLY):
        return error.code == DELAYED
    return error.status in RETRIED_STATUSES or (error.status >= 500 and error.status not in FINAL_SERVER_ERRORS)


def backoff(attempt: int) -> float:
    """Return the seconds to wait: doubling from a half up to eight, reduced randomly by up to half."""
    return min(FIRST_BACKOFF * 2**attempt, LONGEST_BACKOFF) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter


CREDENTIALS: Mapping[str | None, str] = {
    "v0": "api_key=… (or a service account's token)",
    "v1": "access_token=… or tokens=…",
}
ELSEWHERE: Mapping[str, str] = {
    "me": ". With this one, client.permissions.who_am_i() tells whose it is",
    "agents": ". With this one, agents.send_and_wait works, and client.admin.agents.list() for an admin",
}
"""Hints for ConfigurationError, by path: the alternative for the client's credential."""
IDEMPOTENCY_KEY = "Idempotency-Key"
# Error codes for a token that another token may replace.
RENEWABLE = frozenset({"credential_expired", "credential_revoked", "invalid_credential"})


@dataclass(frozen=True, slots=True)
class Call(Generic[Model]):
    """An operation with arguments: `values` in the path, `body` (or a GET's query); `patience`: seconds to wait."""

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
    """The address, headers, `timeout` (seconds, by httpx's names; `is_exact`: set by the call) and retries of all
    requests. With `tokens`, requests carry an access token and go to v1; otherwise the headers hold the key, for v0."""

    base_url: str
    headers: httpx.Headers = field(repr=False)
    timeout: Mapping[str, float | None]
    retries: RetryPolicy
    tokens: TokenSource | None = field(default=None, repr=False)
    is_exact: bool = False
    _urls: dict[str, httpx.URL] = field(default_factory=dict[str, httpx.URL], repr=False, compare=False)

    @property
    def version(self) -> Version:
        """The API version for the credential: v0 for keys, v1 for access tokens. v1 has most operations of v0."""
        return "v0" if self.tokens is None else "v1"

    @property
    def api_path(self) -> str:
        """The path all operations begin with."""
        return f"/api/{self.version}/"

    def request(self, call: Call[Any]) -> Request:
        """Return the request for a call, with a new Idempotency-Key if it has none and the operation takes one. Raises
        ConfigurationError for an operation of another version."""
        operation, path, body, timeout = call.operation, call.path, call.body, self._timeout(call.patience)
        if operation.version not in {None, self.version}:
            raise ConfigurationError(
                f"{path} works only on {operation.version}, and this client's credential is for {self.version}; "
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
    """An HTTP response, with its wire model as `parsed`."""

    http_response: httpx.Response = field(repr=False)
    parsed: Model

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        return self.http_response.status_code

    status = status_code
    """Alias of `status_code`, named as in errors."""

    @property
    def headers(self) -> httpx.Headers:
        """The response headers."""
        return self.http_response.headers

    @property
    def request_id(self) -> str | None:
        """The request id, to find the request in the service's logs."""
        return self.http_response.headers.get("x-request-id")

    @property
    def content(self) -> bytes:
        """The raw body."""
        return self.http_response.content


def perform(call: Call[Model], connection: Connection) -> Flow[RawResponse[Model]]:
    """Perform an operation with a parsed answer. Raises APIError, APIConnectionError, or ConfigurationError unsent."""
    if call.operation.answer is None:
        raise TypeError(f"{call.path} is answered with a stream; see perform_streamed")
    response = yield from send(connection.request(call), connection)
    parsed = model_from(response, call.operation.answer)
    vars(parsed)["_request_id"] = response.headers.get("x-request-id")
    return RawResponse(response, parsed)


def perform_streamed(call: Call[Any], connection: Connection) -> Flow[httpx.Response]:
    """Perform an operation and leave a 2xx body unread. The caller streams it and closes the response."""
    return (yield from send(replace(connection.request(call), stream=True), connection))


def send(request: Request, connection: Connection) -> Flow[httpx.Response]:
    """Send a request with the connection's credential, once more if its token was refused and could be renewed."""
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
    """Send a request until success or until a retry makes no sense; `refusal` builds the exception for an error."""
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
