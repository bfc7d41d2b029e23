"""Everything the SDK raises of its own.

CarrelError
├── ConfigurationError            no credential or address of use, or none for this operation; nothing was sent
├── InvalidArgumentError          arguments that no request can carry; nothing was sent (also a ValueError)
├── PlanRefusedError              a directory import that isn't safe to apply as it is; nothing was changed
├── OAuthError                    no tokens came of it; `code` is OAuth's own word where it has one
│   ├── AuthorizationError        the callback says that the authorization server gave no code
│   │   └── AccessDeniedError     the person, or the server, said no
│   ├── CallbackError             the callback isn't the answer to the request it is held against
│   ├── SignInRequiredError       no token is left that works: the person has to authorize the application again
│   └── TokenRequestError         the token or revocation endpoint refused (also an APIError)
│       ├── InvalidGrantError     the code or refresh token is unknown, used, expired or revoked
│       └── InvalidClientError    the application's id or secret is wrong, or it isn't approved
├── ReplyError                    an agent has the message, and there is no reply to show
│   ├── ReplyFailedError          the model gave none
│   └── ReplyWithheldError        it rests on what the caller may not read any more
├── APIConnectionError            no answer: refused, reset, cut short
│   ├── APITimeoutError           no answer in time
│   └── ReplyConnectionError      the agent has the message, and its reply is out of reach; the agent goes on with it
│       └── ReplyTimeoutError     no reply in the time it was waited for (also an APITimeoutError)
└── APIError                      the service answered, and refused
    ├── BadRequestError           400
    ├── AuthenticationError       401
    ├── PermissionDeniedError     403
    ├── NotFoundError             404: unknown, or not the caller's to know about
    ├── ConflictError             409: a taken name, or a concurrent change
    │   └── ChangedMeanwhileError somebody else changed the resource after it was read
    ├── PayloadTooLargeError      413
    ├── UnsupportedMediaTypeError 415
    ├── RateLimitError            429
    ├── ServerError               5xx
    │   └── InsufficientStorageError 507: a disk of the service has no room for more
    └── UnexpectedResponseError   an answer that isn't the service's: a redirect, or a body that can't be read"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from carrel.wire.common import ErrorDetail, MeanwhileChange

LONGEST_RETRY_AFTER = 120.0
"""The longest Retry-After, in seconds, that is waited for without asking the caller."""


class CarrelError(Exception):
    """The root of the SDK's errors."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive a process boundary: keyword-only arguments don't by themselves."""
        return type(self).__new__, (type(self), *self.args), vars(self)


class ConfigurationError(CarrelError):
    """The client, or its credential, isn't one for what is asked of it; the message says what is missing."""


class InvalidArgumentError(CarrelError, ValueError):
    """The arguments don't make a valid request; nothing was sent."""


class PlanRefusedError(CarrelError):
    """The plan of a directory import isn't safe to apply, or not here; the message says how to go on."""


class APIConnectionError(CarrelError):
    """The service couldn't be reached, or the connection broke before the answer was whole."""


class APITimeoutError(APIConnectionError):
    """The service didn't answer in time; it may still have done what was asked."""


class ReplyConnectionError(APIConnectionError):
    """Connections failed while a reply was waited for or read; the agent goes on with it. On v1 `job_id` fetches or
    streams the reply later, and `conversation_id` is its conversation's, unless only the job was known; on v0 both are
    None."""

    def __init__(self, message: str, *, job_id: UUID | None = None, conversation_id: UUID | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.conversation_id = conversation_id


class ReplyTimeoutError(ReplyConnectionError, APITimeoutError):
    """There is no reply yet, and the time to wait for it is over."""


class ReplyError(CarrelError):
    """There is no reply to a message that was taken; `code` is what to branch on, `message` says what to do.
    `conversation_id` and `message_id` are the exchange's, as far as they are known."""

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
    """The model gave no reply: it isn't there, refused, or took too long; the message says which."""


class ReplyWithheldError(ReplyError):
    """The reply rests on a document that the caller may not read any more."""


class APIError(CarrelError):
    """The service refused. `status` is the HTTP status, `code` the stable reason to branch on, `message` says what to
    do about it, `request_id` names the request in the service's logs, `details` the members that are wrong, and
    `retry_after` the seconds after which the service asked to be called again. `confirmation_url` comes with the code
    `confirmation_required`: the person opens it in a browser, and the call is made again."""

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
        """The same as `status`, as raw answers spell it."""
        return self.status

    def __str__(self) -> str:
        # The service's message says a single detail by itself: in the same words, or after the member's name.
        told = [f"{detail.field}: {detail.message}" for detail in self.details if detail.message != self.message]
        wrong = "".join(f"; {one}" for one in told if one not in self.message)
        request = f", request {self.request_id}" if self.request_id else ""
        return f"{self.message}{wrong} ({self.status} {self.code}{request})"


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


class ChangedMeanwhileError(ConflictError):
    """409 `changed_meanwhile`: somebody else changed the resource after it was read; `meanwhile` has its current state,
    and the time and author of the change."""


class PayloadTooLargeError(APIError):
    """413: over a limit of size."""


class UnsupportedMediaTypeError(APIError):
    """415: a type of file the service can't read."""


class RateLimitError(APIError):
    """429: too many requests; `retry_after` says when to come back."""


class ServerError(APIError):
    """5xx: the service failed, or is saturated."""


class InsufficientStorageError(ServerError):
    """507: the service takes nothing more in until somebody makes room; reading, searching and deleting go on."""


class UnexpectedResponseError(APIError):
    """The answer isn't one of the service's: a redirect, a proxy's page, a body that doesn't parse."""


class OAuthError(CarrelError):
    """An OAuth flow that didn't come to tokens; `code` is what to branch on (RFC 6749, sections 4.1.2.1 and 5.2)."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class AuthorizationError(OAuthError):
    """The callback brings an error instead of a code: `invalid_scope`, `temporarily_unavailable`, …"""


class AccessDeniedError(AuthorizationError):
    """`access_denied`: the person didn't allow it, or the server doesn't."""


class CallbackError(OAuthError):
    """The callback isn't the answer to the request it is held against: `state_mismatch`, `issuer_mismatch`, …"""


class SignInRequiredError(OAuthError):
    """No token is left that works: send the person to authorize the application again."""


class TokenRequestError(APIError, OAuthError):
    """The token or revocation endpoint refused; `code` is its `error`: `invalid_request`, `invalid_scope`, …"""


class InvalidGrantError(TokenRequestError):
    """`invalid_grant`: the code or refresh token is unknown, used, expired, revoked, or another client's."""


class InvalidClientError(TokenRequestError):
    """`invalid_client`: the application's id or secret is wrong, or it isn't approved (any more)."""


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
