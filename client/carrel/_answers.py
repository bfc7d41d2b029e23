"""Converting an HTTP response, or the lack of one, to a wire model or an exception."""

import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from carrel import errors
from carrel.environment import proxy_for
from carrel.wire.common import ErrorBody, ErrorResponse, ResponseModel

Model = TypeVar("Model", bound=ResponseModel)


def model_from(response: httpx.Response, answer: type[Model] | TypeAdapter[Model]) -> Model:
    """Return the body of a 2xx response as its wire model; raises UnexpectedResponseError when it isn't one."""
    try:
        if isinstance(answer, TypeAdapter):
            return answer.validate_json(response.content)
        return answer.model_validate_json(response.content)
    except ValidationError as exc:
        wanted = "what was asked for" if isinstance(answer, TypeAdapter) else f"a {answer.__name__}"
        raise unreadable(response, wanted) from exc


def unreadable(response: httpx.Response, wanted: str) -> errors.UnexpectedResponseError:
    """Build the exception for a 2xx response whose body isn't `wanted`."""
    return errors.UnexpectedResponseError(
        f"The answer isn't {wanted}; is base_url the address of a Carrel service?",
        status=response.status_code,
        code="unreadable_response",
        request_id=response.headers.get("x-request-id"),
    )


def error_from(response: httpx.Response) -> errors.APIError:
    """Build the exception for a response that is not 2xx, from the service or from a proxy."""
    status = response.status_code
    body = _error_body(response)
    return _error_class(status, body)(
        body.message if body else _unknown_message(response),
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
        return errors.ChangedMeanwhileError
    if status >= 500:
        return errors.ERRORS_BY_STATUS.get(status, errors.ServerError)
    return errors.ERRORS_BY_STATUS.get(status, errors.APIError if body else errors.UnexpectedResponseError)


def _error_body(response: httpx.Response) -> ErrorBody | None:
    try:
        return ErrorResponse.model_validate_json(response.content).error
    except ValidationError:
        return None


def _unknown_message(response: httpx.Response) -> str:
    if response.status_code == 407:
        return _wants_password(response.url)
    if 300 <= response.status_code < 400:
        target = response.next_request.url.copy_with(raw_path=b"/") if response.next_request else "elsewhere"
        return f"Redirected to {target}, where the API key is not sent; set base_url to the service's own address"
    return f"The answer isn't one of Carrel's: HTTP {response.status_code} {response.reason_phrase}".rstrip()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header, which is a number or a date (RFC 9110, section 10.2.3)."""
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
    """Build the exception for a request without a complete response; ConfigurationError for a proxy's password."""
    if isinstance(cause, httpx.ProxyError) and str(cause).startswith("407"):
        raise errors.ConfigurationError(_wants_password(cause.request.url)) from cause
    late = isinstance(cause, httpx.TimeoutException)
    what = "No answer in time from" if late else "No whole answer from"
    plain = ": this port speaks http, so begin base_url with http://" if "WRONG_VERSION_NUMBER" in str(cause) else ""
    error = (errors.APITimeoutError if late else errors.APIConnectionError)(
        f"{what} {_way_of(cause)} ({type(cause).__name__}{f': {cause}' if str(cause) else ''}){plain}"
    )
    error.__cause__ = cause
    return error


def _way_of(cause: httpx.HTTPError) -> str:
    try:
        url = cause.request.url
    except RuntimeError:  # raised by httpx when an error belongs to no request
        return "the service"
    name, proxy = "", None
    if isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
        with suppress(errors.ConfigurationError):
            name, proxy = proxy_for(url)
    return f"{url.scheme}://{url.netloc.decode('ascii')}{f' through the proxy {proxy.url} of {name}' if proxy else ''}"


def _wants_password(url: httpx.URL) -> str:
    place = proxy_for(url)[0] or "the proxy of your HTTP client"
    return f"The proxy asks for a user and a password that it knows: set {place} to http://user:password@host:port"
