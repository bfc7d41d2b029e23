"""An operation of the API, for router, authorization, OpenAPI, SDK, references and tests. Each is declared once, after
its models; `carrel.wire.api` has them all. The text under an operation documents the SDK's method (`make docs`)."""

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
    """The requirements of an operation on its caller: of a service-account token its `scope` (None: no such token will
    do, unless `any_token`), of an access token its `api_scope` (None: any will do), of a user to be an admin.
    `service_accounts`: the organization must have enabled them."""

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
# They make the service open connections, which no service account's token is for, whatever its scopes.
DOCSTORE_WRITE = Requirement(None, ApiScope.CATALOG_WRITE)
DOCSTORE_READ = Requirement(None, ApiScope.CATALOG_READ)


class Trait(Flag):
    """What is so for some operations and not for others."""

    KEYED = auto()
    """Doing it twice is not the same as once, so it takes an Idempotency-Key."""
    SECRET = auto()
    """Its answer shows a secret, which is not kept for a repeated request."""
    ADDS_DATA = auto()
    """It is refused while a disk runs short. What reads, takes away, or decides who may do what is not: nobody's access
    may outlive its end for want of disk space."""
    NOT_FOUND = auto()
    """It answers 404: what the request names must exist, and be the caller's to know about."""
    CONFLICT = auto()
    """It answers 409, even without an Idempotency-Key."""
    CONFIRMED = auto()
    """It changes access or credentials: where the organization demands a second factor of a person, they must have
    proven who they are in the last 15 minutes, or it answers 403 `confirmation_required`."""
    SHARED = auto()
    """The original API has it (seed); the other operations are extensions."""


NONE = Trait(0)
KEYED, SECRET, ADDS_DATA, NOT_FOUND, CONFLICT, CONFIRMED, SHARED = Trait


@dataclass(frozen=True, slots=True)
class ApiOperation(Generic[Sent, Answer]):
    """An operation of the API. `path`: behind `/api/v0/` and `/api/v1/`, or behind the one `version` that has it.
    `request`: the model of the JSON body, of a GET the parameters; None for a form. `answer`: the model of the answer;
    None for a file or events. `successor`: the operation that takes the place of a deprecated one, in the same folder;
    "" when there is none. `by_position`: the members that the SDK's method takes by position too; None: those that are
    required."""

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
        """Whether new programs should not use it."""
        return self.successor is not None

    def has(self, trait: Trait) -> bool:
        """Whether a trait is one of its."""
        return trait in self.traits
