"""Everything the SDK raises of its own.

CarrelError
├── ConfigurationError            no API key, or an address that can't be one; nothing was sent
├── InvalidArgumentError          arguments that no request can carry; nothing was sent (also a ValueError)
├── PlanRefusedError              a directory import that isn't safe to apply as it is; nothing was changed
├── APIConnectionError            no answer: refused, reset, cut short
│   └── APITimeoutError           no answer in time
└── APIError                      the service answered, and refused
    ├── BadRequestError           400
    ├── AuthenticationError       401
    ├── PermissionDeniedError     403
    ├── NotFoundError             404: unknown, or not the caller's to know about
    ├── ConflictError             409: a taken name, or a concurrent change
    ├── PayloadTooLargeError      413
    ├── UnsupportedMediaTypeError 415
    ├── RateLimitError            429
    ├── ServerError               5xx
    └── UnexpectedResponseError   an answer that isn't the service's: a redirect, or a body that can't be read
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from carrel.wire.common import ErrorDetail


class CarrelError(Exception):
    """The root of the SDK's errors."""


class ConfigurationError(CarrelError):
    """The client can't be made from what it was given; the message says what is missing."""


class InvalidArgumentError(CarrelError, ValueError):
    """The arguments don't make a valid request; nothing was sent."""


class PlanRefusedError(CarrelError):
    """The plan of a directory import has problems, or would deactivate too many; the message says how to go on."""


class APIConnectionError(CarrelError):
    """The service couldn't be reached, or the connection broke before the answer was whole."""


class APITimeoutError(APIConnectionError):
    """The service didn't answer in time; it may still have done what was asked."""


class APIError(CarrelError):
    """The service refused.

    `status` is the HTTP status, `code` the stable reason to branch on, `message` says what to do about it,
    `request_id` names the request in the service's logs, `details` the members that are wrong, and `retry_after` the
    seconds after which the service asked to be called again.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        request_id: str | None = None,
        details: Sequence[ErrorDetail] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.request_id = request_id
        self.details = tuple(details)
        self.retry_after = retry_after

    def __str__(self) -> str:
        wrong = "".join(f"; {detail.field}: {detail.message}" for detail in self.details)
        request = f", request {self.request_id}" if self.request_id else ""
        return f"{self.message}{wrong} ({self.status} {self.code}{request})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive a process boundary: keyword-only arguments don't by themselves."""
        members = {name: value for name, value in vars(self).items() if name != "message"}
        return partial(type(self), self.message, **members), ()


class BadRequestError(APIError):
    """400: the request is wrong; `details` names the members."""


class AuthenticationError(APIError):
    """401: no usable credential."""


class PermissionDeniedError(APIError):
    """403: the caller may not do this."""


class NotFoundError(APIError):
    """404: unknown, or not the caller's to know about."""


class ConflictError(APIError):
    """409: a taken name, or a concurrent change."""


class PayloadTooLargeError(APIError):
    """413: over a limit of size."""


class UnsupportedMediaTypeError(APIError):
    """415: a type of file the service can't read."""


class RateLimitError(APIError):
    """429: too many requests; `retry_after` says when to come back."""


class ServerError(APIError):
    """5xx: the service failed, or is saturated."""


class UnexpectedResponseError(APIError):
    """The answer isn't one of the service's: a redirect, a proxy's page, a body that doesn't parse."""


ERRORS_BY_STATUS: dict[int, type[APIError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    413: PayloadTooLargeError,
    415: UnsupportedMediaTypeError,
    429: RateLimitError,
}
