"""All exceptions raised by the SDK.

CarrelError
├── ConfigurationError            no usable credential or address, or none for this operation; nothing was sent
├── InvalidArgumentError          arguments that no request can carry; nothing was sent (also a ValueError)
├── PlanRefusedError              a directory import that isn't safe to apply as planned; nothing was changed
├── OAuthError                    the flow gave no tokens; `code` is OAuth's error code if it has one
│   ├── AuthorizationError        the callback reports an error instead of a code
│   │   └── AccessDeniedError     the person or the server denied access
│   ├── CallbackError             the callback doesn't match the request
│   ├── SignInRequiredError       no working token is left: the person has to authorize the application again
│   └── TokenRequestError         the token or revocation endpoint refused (also an APIError)
│       ├── InvalidGrantError     the code or refresh token is unknown, used, expired or revoked
│       └── InvalidClientError    the application's id or secret is wrong, or it isn't approved
├── ReplyError                    the agent received the message, but there is no reply to show
│   ├── ReplyFailedError          the model gave no reply
│   └── ReplyWithheldError        the reply rests on a document that the caller may no longer read
├── APIConnectionError            no answer: refused, reset, cut short
│   ├── APITimeoutError           no answer in time
│   └── ReplyConnectionError      the connection was lost; the agent received the message and continues
│       └── ReplyTimeoutError     no reply within the timeout (also an APITimeoutError)
└── APIError                      the service answered with an error
    ├── BadRequestError           400
    ├── AuthenticationError       401
    ├── PermissionDeniedError     403
    ├── NotFoundError             404: unknown, or hidden from the caller
    ├── ConflictError             409: a taken name, or a concurrent change
    │   └── EditConflictError     another user changed the resource after it was read
    ├── PayloadTooLargeError      413
    ├── UnsupportedMediaTypeError 415
    ├── RateLimitError            429
    ├── ServerError               5xx
    │   └── InsufficientStorageError 507: a disk of the service has no room for more
    └── UnexpectedResponseError   an answer from another server, such as a redirect, or an unreadable body"""

import warnings
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from carrel.wire.common import ErrorDetail, MeanwhileChange

LONGEST_RETRY_AFTER = 120.0
"""The longest Retry-After, in seconds, for an automatic retry."""


class CarrelError(Exception):
    """The root of the SDK's errors."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive a process boundary: keyword-only arguments don't by themselves."""
        return type(self).__new__, (type(self), *self.args), vars(self)


class ConfigurationError(CarrelError):
    """The client or its credential can't do the operation; the message says why."""


class InvalidArgumentError(CarrelError, ValueError):
    """Invalid arguments for the request; nothing was sent."""


class PlanRefusedError(CarrelError):
    """The plan of a directory import isn't safe to apply, or belongs elsewhere; the message says how to continue."""


class APIConnectionError(CarrelError):
    """The service couldn't be reached, or the connection broke before the answer was whole."""


class APITimeoutError(APIConnectionError):
    """The service didn't answer in time; the operation may still have taken effect."""


class ReplyConnectionError(APIConnectionError):
    """The connection failed while waiting for a reply or reading it; the agent continues. On v1 `job_id` fetches or
    streams the reply later, in `conversation_id` (None if only the job was known). On v0 both are None."""

    def __init__(self, message: str, *, job_id: UUID | None = None, conversation_id: UUID | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.conversation_id = conversation_id


class ReplyTimeoutError(ReplyConnectionError, APITimeoutError):
    """The timeout passed before the reply was complete."""


class ReplyError(CarrelError):
    """An accepted message has no reply. Branch on `code`; `message` says what to do. `conversation_id` and `message_id`
    identify the exchange, as far as known."""

    def __init__(
        self, message: str, *, code: str, conversation_id: UUID | None = None, message_id: UUID | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.conversation_id = conversation_id
        self.message_id = message_id

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class ReplyFailedError(ReplyError):
    """The model gave no reply: it is missing, refused, or took too long; the message says which."""


class ReplyWithheldError(ReplyError):
    """The reply rests on a document that the caller may no longer read."""


class APIError(CarrelError):
    """The service answered with an error. `status` is the HTTP status. Branch on `code`, which is stable; `message`
    says what to do. `request_id` names the request in the logs, `details` the wrong members; `retry_after` is in
    seconds. For `confirmation_required` the person opens `confirmation_url`, then the program repeats the call."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        request_id: str | None = None,
        details: Sequence[ErrorDetail] = (),
        retry_after: float | None = None,
        confirmation_url: str | None = None,
        meanwhile: MeanwhileChange | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.request_id = request_id
        self.details = tuple(details)
        self.retry_after = retry_after
        self.confirmation_url = confirmation_url
        self.meanwhile = meanwhile

    @property
    def status_code(self) -> int:
        """Alias of `status`, named as in raw responses."""
        return self.status

    def __str__(self) -> str:
        # The service's message may repeat details: in a sentence, or a single detail after its member's name.
        start, fields = self.message.partition(": ")[0], {detail.field for detail in self.details}
        shown = self.message if " " in start and start not in fields else ""
        details = [f"{detail.field}: {detail.message}" for detail in self.details if detail.message not in shown]
        wrong = "".join(f"; {item}" for item in details if item not in self.message)
        request = f", request {self.request_id}" if self.request_id else ""
        return f"{self.message}{wrong} ({self.status} {self.code}{request})"


class BadRequestError(APIError):
    """400: the request is wrong; `details` names the members."""


class AuthenticationError(APIError):
    """401: no usable credential."""


class PermissionDeniedError(APIError):
    """403: the caller lacks permission."""


class NotFoundError(APIError):
    """404: unknown, or hidden from the caller."""


class ConflictError(APIError):
    """409: a taken name, or a concurrent change."""


class EditConflictError(ConflictError):
    """409 `changed_meanwhile`: another user changed the resource; `meanwhile` has its state, the time and author."""


class PayloadTooLargeError(APIError):
    """413: over a limit of size."""


class UnsupportedMediaTypeError(APIError):
    """415: a file type unknown to the service."""


class RateLimitError(APIError):
    """429: too many requests; `retry_after` says when to try again."""


class ServerError(APIError):
    """5xx: the service failed, or is saturated."""


class InsufficientStorageError(ServerError):
    """507: a disk of the service is full. New data is refused until space is freed; reading and deleting work."""


class UnexpectedResponseError(APIError):
    """The answer didn't come from Carrel: a redirect, a proxy's page, or an unreadable body."""


class OAuthError(CarrelError):
    """An OAuth flow without tokens as a result; branch on `code` (RFC 6749, sections 4.1.2.1 and 5.2)."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class AuthorizationError(OAuthError):
    """The callback brings an error instead of a code: `invalid_scope`, `temporarily_unavailable`, …"""


class AccessDeniedError(AuthorizationError):
    """`access_denied`: the person or the server denied access."""


class CallbackError(OAuthError):
    """The callback doesn't match the request: `state_mismatch`, `issuer_mismatch`, …"""


class SignInRequiredError(OAuthError):
    """No working token is left: ask the person to authorize the application again."""


class TokenRequestError(APIError, OAuthError):
    """The token or revocation endpoint refused; `code` is its `error`: `invalid_request`, `invalid_scope`, …"""


class InvalidGrantError(TokenRequestError):
    """`invalid_grant`: the code or refresh token is unknown, used, expired, revoked, or another client's."""


class InvalidClientError(TokenRequestError):
    """`invalid_client`: the application's id or secret is wrong, or the application is not (or no longer) approved."""


ERRORS_BY_STATUS: dict[int, type[APIError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    413: PayloadTooLargeError,
    415: UnsupportedMediaTypeError,
    429: RateLimitError,
    507: InsufficientStorageError,
}


FORMER_NAME = "ChangedMeanwhileError"


def warn_of_former_name() -> type[EditConflictError]:
    """Return the class of the former name, and warn the caller of a module's `__getattr__`."""
    warnings.warn(f"{FORMER_NAME} is now EditConflictError.", DeprecationWarning, stacklevel=3)
    return EditConflictError


def __getattr__(name: str) -> Any:
    if name == FORMER_NAME:
        return warn_of_former_name()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
