"""API operations, each declared once, after its models; the text below an operation documents the SDK's method."""

from dataclasses import dataclass
from enum import Flag, auto
from typing import Generic, Literal, TypeAlias, TypeVar

from pydantic import TypeAdapter

from carrel.wire.common import RequestModel
from carrel.wire.scopes import ApiScope, Scope

Sent = TypeVar("Sent", bound=RequestModel)
Answer = TypeVar("Answer")
Method: TypeAlias = Literal["GET", "POST"]
Version: TypeAlias = Literal["v0", "v1"]


@dataclass(frozen=True, slots=True)
class Requirement:
    """Requirements on a caller. `scope`: for service-account tokens (None: refused, unless `any_token`). `api_scope`:
    for access tokens (None: any scope). `service_accounts`: the organization must have enabled them."""

    scope: Scope | None
    api_scope: ApiScope | None
    admin: bool = False
    service_accounts: bool = False
    any_token: bool = False


MESSAGE = Requirement(Scope.AGENT_MESSAGE, ApiScope.AGENT_MESSAGE)
WRITE = Requirement(Scope.CATALOG_WRITE, ApiScope.CATALOG_WRITE)
READ = Requirement(Scope.CATALOG_READ, ApiScope.CATALOG_READ)
ADMIN = Requirement(None, ApiScope.ADMIN, admin=True)
SERVICE_ACCOUNTS = Requirement(None, ApiScope.ADMIN, admin=True, service_accounts=True)
MEMBER = Requirement(None, None)
ANYBODY = Requirement(None, None, any_token=True)
# A sync makes the service open connections, so no scope of a service account's token allows it.
DOCSTORE_WRITE = Requirement(None, ApiScope.CATALOG_WRITE)
DOCSTORE_READ = Requirement(None, ApiScope.CATALOG_READ)
# Nor can programs share their resources.
SHARING, SHARES_READ = DOCSTORE_WRITE, DOCSTORE_READ


class Trait(Flag):
    """Properties of some operations."""

    KEYED = auto()
    """Repeating has a further effect, so the operation takes an Idempotency-Key."""
    SECRET = auto()
    """The answer contains a secret, and is not stored for repeated requests."""
    ADDS_DATA = auto()
    """The operation is refused while disk space is low, unlike reading, deleting and ending access."""
    NOT_FOUND = auto()
    """The operation answers 404 for resources that don't exist or are hidden from the caller."""
    CONFLICT = auto()
    """The operation answers 409, even without an Idempotency-Key."""
    CONFIRMED = auto()
    """The operation changes access or credentials. If the organization requires a second factor, people must have
    confirmed their identity in the last 15 minutes; otherwise the answer is 403 `confirmation_required`."""
    SHARED = auto()
    """The operation is part of the original API (seed); other operations are extensions."""


NONE = Trait(0)
KEYED, SECRET, ADDS_DATA, NOT_FOUND, CONFLICT, CONFIRMED, SHARED = Trait


@dataclass(frozen=True, slots=True)
class ApiOperation(Generic[Sent, Answer]):
    """An operation of the API. `path`: after `/api/v0/` and `/api/v1/`, or after the only `version`. `request`: the
    model of the JSON body, or of a GET's parameters; None for a form. `answer`: the model of the answer; None for a
    file or events. `successor`: the replacement of a deprecated operation, in the same folder; "" without a
    replacement. `by_position`: the members that the SDK's method also takes by position; None: the required members."""

    path: str
    request: type[Sent] | None
    answer: type[Answer] | TypeAdapter[Answer] | None
    requires: Requirement
    traits: Trait = NONE
    method: Method = "POST"
    version: Version | None = None
    successor: str | None = None
    by_position: tuple[str, ...] | None = None

    @property
    def is_deprecated(self) -> bool:
        """Whether the operation is deprecated for new programs."""
        return self.successor is not None

    def has(self, trait: Trait) -> bool:
        """Whether the operation has a trait."""
        return trait in self.traits
