# ruff: noqa: N818 - each is named after its status, as HTTP names it
"""The service's errors, each named by its HTTP status, and the common format of their answers. Every error body is
`{"error": {"message", "code", "requestId", "details"?}}`. A message says how to proceed. From the request it repeats
only names of fields, people and groups, and never credentials, even within names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from psycopg import Error as DriverError
from psycopg import errors as driver_errors
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from service.platform.logs import logger, redact_credentials, request_id

Found = TypeVar("Found")
LONGEST_FIELD_NAME = 200
RETRY_SECONDS = 1
SATURATED_SECONDS = 5

# Driver errors that mean "not now": PostgreSQL restarts, has no connection left, or a transaction lost a race or wait.
TRANSIENT_DRIVER_ERRORS = (
    driver_errors.OperationalError,
    driver_errors.TransactionRollback,
    driver_errors.QueryCanceled,
    driver_errors.IdleInTransactionSessionTimeout,
)

# The errors of using the database: of statements, of connecting, and of waiting for a connection.
DATABASE_ERRORS = (DBAPIError, DriverError, PoolTimeoutError)


@dataclass(frozen=True, slots=True)
class FieldError:
    """An invalid field of the request: its path in wire names (`searchOptions.maxResults`) and the reason."""

    field: str
    message: str


class ServiceError(Exception):
    """The base class of all refusals, with HTTP status, stable code, and advice for the caller."""

    default_status = 500
    default_code = "internal"

    def __init_subclass__(cls, *, status: int | None = None, code: str | None = None) -> None:
        cls.default_status = status or cls.default_status
        cls.default_code = code or cls.default_code

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        details: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.status = status or self.default_status
        self.details = tuple(details)
        self.headers = dict(headers or {})
        self.confirmation_url: str | None = None
        self.meanwhile: Mapping[str, Any] | None = None


class BadRequest(ServiceError, status=400, code="invalid_request"):
    """400: the request is wrong; an unchanged retry can't help."""


class Unauthenticated(ServiceError, status=401, code="unauthenticated"):
    """401: no usable credential. Carries `WWW-Authenticate: Bearer`."""

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message, code=code, headers={"WWW-Authenticate": "Bearer"})


class Forbidden(ServiceError, status=403, code="forbidden"):
    """403: the caller is authenticated but not allowed."""


class NotFound(ServiceError, status=404, code="not_found"):
    """404: unknown, or hidden from the caller; answers never tell the two cases apart."""


class Conflict(ServiceError, status=409, code="conflict"):
    """409: a taken name, or a concurrent change."""


class TooLarge(ServiceError, status=413, code="too_large"):
    """413: over a size limit."""


class UnsupportedMedia(ServiceError, status=415, code="unsupported_media_type"):
    """415: an unsupported content type or file type."""


class _Later(ServiceError):
    default_wait = RETRY_SECONDS

    def __init__(self, message: str, *, retry_after: int | None = None, code: str | None = None) -> None:
        self.retry_after = self.default_wait if retry_after is None else retry_after
        super().__init__(message, code=code, headers={"Retry-After": str(self.retry_after)})


class TooMany(_Later, status=429, code="too_many_requests"):
    """429 with `Retry-After` in seconds."""


class Unavailable(_Later, status=503, code="unavailable"):
    """503 with `Retry-After` in seconds: saturated, or the database is briefly unavailable."""


class InsufficientStorage(_Later, status=507, code="storage_full"):
    """507 with `Retry-After` in seconds: a disk or bucket is full (RFC 4918, section 11.5)."""

    default_wait = 60  # an operator must free room first


def require(found: Found | None, error: Exception) -> Found:
    if found is None:
        raise error
    return found


def error_response(error: ServiceError) -> JSONResponse:
    """Build the answer in the common format, with credentials in its texts redacted."""
    message = redact_credentials(error.message)
    body: dict[str, Any] = {"message": message, "code": error.code, "requestId": request_id()}
    if error.confirmation_url is not None:
        body["confirmationUrl"] = error.confirmation_url
    if error.details:
        body["details"] = [
            {"field": redact_credentials(detail.field), "message": redact_credentials(detail.message)}
            for detail in error.details
        ]
    if error.meanwhile is not None:
        body["meanwhile"] = error.meanwhile
    return JSONResponse({"error": body}, status_code=error.status, headers=error.headers)


def internal_error() -> ServiceError:
    """Build the answer for a defect, without details. The log has the details under the request's id."""
    return ServiceError("The service failed on this request. Try again. If it fails again, report the request id.")


def from_validation(errors: Sequence[Mapping[str, Any]]) -> BadRequest:
    """Convert pydantic's validation errors of a model to a single 400 naming each invalid field, never its value."""
    details = [FieldError(_field_name(error["loc"]), _reason(error)) for error in errors]
    first = details[0]
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    where = f"{first.field}: " if first.field else ""
    return BadRequest(f"The request is invalid. {where}{first.message}{more}", details=details)


def _field_name(location: Sequence[str | int]) -> str:
    parts = location[1:] if location and location[0] in {"body", "query", "path", "header"} else location
    return ".".join(str(part) for part in parts)[:LONGEST_FIELD_NAME]


def _reason(error: Mapping[str, Any]) -> str:
    kind, message, hint = str(error["type"]), str(error["msg"]).removeprefix("Value error, "), error.get("hint", "")
    if error.get("input", message) is None and kind != "value_error":
        return "must not be null; send a value or leave it out"
    if isinstance(error.get("input"), str) and kind in {"int_type", "float_type", "bool_type"}:
        hint = ", without quotes"
    return _REASONS.get(kind.removesuffix("_type").removesuffix("_parsing"), message) + hint


# Instead of pydantic's messages, which name Python's types or the parts of an id.
_REASONS = {
    "extra_forbidden": "unknown member; remove it",
    "missing": "required",
    "union_tag_not_found": "needs the member that gives its kind, such as type",
    "uuid": "must be an id, such as 0190b6ce-5f3a-7c21-9d4e-2b8f6a1c3d55",
    "model": "must be a JSON object",
    "model_attributes": "must be a JSON object",
    "dict": "must be a JSON object",
    "list": "must be a list: [ … ]",
    "bool": "must be true or false",
    "int": "must be a whole number",
    "timezone_aware": "must be an RFC 3339 time with its zone, such as 2026-01-31T09:30:00Z",
    "datetime": "must be an RFC 3339 time, such as 2026-01-31T09:30:00Z",
    "datetime_from_date": "must be an RFC 3339 time, such as 2026-01-31T09:30:00Z",
}


def from_database(error: DBAPIError) -> ServiceError:
    """Convert a database error: 507 for lack of space, 503 when away or in a lost race (worth a retry), else 500."""
    cause = error.orig
    if isinstance(cause, driver_errors.DiskFull):
        return database_full()
    if isinstance(cause, driver_errors.QueryCanceled):
        return Unavailable(
            f"The database took too long to answer this request. Try again in {SATURATED_SECONDS} s.",
            code="database_slow",
            retry_after=SATURATED_SECONDS,
        )
    if error.connection_invalidated or isinstance(cause, TRANSIENT_DRIVER_ERRORS):
        return database_away()
    return internal_error()


def database_full() -> InsufficientStorage:
    return InsufficientStorage("The database has no space left. Nothing was changed. Tell an operator, then try again.")


def is_database_full(error: BaseException) -> bool:
    """Return whether an error means that PostgreSQL has no space left, regardless of the statement."""
    return isinstance(error.orig if isinstance(error, DBAPIError) else error, driver_errors.DiskFull)


def database_away() -> Unavailable:
    return Unavailable("The database is down or restarting. Try again shortly.", code="database_unavailable")


def commit_unconfirmed() -> Unavailable:
    """Answer when the database took a change without confirming it as durable."""
    return Unavailable(
        "The database has not confirmed this change, because it waits for a standby. The change may still take effect. "
        "Try again later.",
        code="commit_unconfirmed",
        retry_after=SATURATED_SECONDS,
    )


def requests_saturated() -> Unavailable:
    """Answer when no connection became free within the longest wait, because of concurrent requests."""
    return Unavailable(
        f"Other requests use all connections to the database. Try again in {SATURATED_SECONDS} s.",
        code="requests_saturated",
        retry_after=SATURATED_SECONDS,
    )


def install(app: FastAPI) -> None:
    """Answer every ServiceError and database error of `app` in the common format."""
    for kind in (ServiceError, *DATABASE_ERRORS):
        app.add_exception_handler(kind, _on_error)


async def _on_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, (ServiceError, *DATABASE_ERRORS))  # noqa: S101 - registered for these classes alone
    return error_response(error if isinstance(error, ServiceError) else answer_for_database(request, error))


def answer_for_database(request: Request, error: DBAPIError | DriverError | PoolTimeoutError) -> ServiceError:
    """Log the database error of a request, and return its answer; a full disk is named as the cause."""
    if isinstance(error, DBAPIError):
        answer = from_database(error)
        # The statement's parameters may contain secrets and contents, so only the driver's message is logged.
        logger.error("database_error", status=answer.status, kind=type(error.orig).__name__, cause=str(error.orig))
    elif isinstance(error, PoolTimeoutError):
        answer = requests_saturated()
        logger.error("requests_saturated")
    else:
        answer = database_full() if is_database_full(error) else database_away()
        logger.error("database_away", kind=type(error).__name__)
    if answer.status != Unavailable.default_status:
        return answer
    runtime = getattr(request.app.state, "runtime", None)
    return (runtime and runtime.disk.refusal_of_database()) or answer
