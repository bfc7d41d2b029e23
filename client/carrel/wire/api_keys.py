"""admin/apiKeys: keys for programs acting for people; extensions, for admins."""

from enum import StrEnum
from uuid import UUID

from pydantic import Field

from carrel.wire.common import NarrowedRequest, PagedResponse, RequestModel, ResponseModel
from carrel.wire.fields import EmailAddress, Instant, Label, RequestInstant, StrictFlag
from carrel.wire.operations import ADMIN, CONFIRMED, KEYED, NOT_FOUND, SECRET, ApiOperation


class CredentialStatus(StrEnum):
    """Whether a credential works."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


class ApiKey(ResponseModel):
    """An API key without its value."""

    api_key_id: UUID
    hint: str
    """The last four characters of the secret value, to recognize the key."""
    name: str
    """Name of the key, for people."""
    owner_email: str
    """Email address of the user that the key acts as."""
    may_act_for_users: bool
    """Whether the key may name a user to act for."""
    status: CredentialStatus
    """Whether the key works."""
    created_at: Instant
    expires_at: Instant | None = None
    last_used_at: Instant | None = None
    """When the key was last used; absent: never."""


class AdminApiKeysCreateRequest(RequestModel):
    """Create an API key for a user."""

    name: Label
    """Name of the key, for people."""
    owner_email: EmailAddress | None = None
    """Email address of the user that the key acts as; default: the caller."""
    may_act_for_users: StrictFlag = False
    """Whether the key may name a user to act for; false unless given."""
    expires_at: RequestInstant | None = None


class AdminApiKeysCreateResponse(ApiKey):
    """The new key with its value."""

    api_key: str = Field(repr=False)
    """Value of the key; shown only once."""


class AdminApiKeysListRequest(NarrowedRequest):
    """List API keys."""

    owner_email: EmailAddress | None = None
    """Only keys of the user with this email address."""


class AdminApiKeysListResponse(PagedResponse):
    """A page of API keys."""

    api_keys: list[ApiKey]


class AdminApiKeysRevokeRequest(RequestModel):
    """Stop an API key at once."""

    api_key_id: UUID


class AdminApiKeysRevokeResponse(ApiKey):
    """The key after the change."""


ADMIN_API_KEYS_CREATE = ApiOperation(
    "admin/apiKeys/create", AdminApiKeysCreateRequest, AdminApiKeysCreateResponse, ADMIN, KEYED | SECRET | CONFIRMED
)
"""Create a key that acts as its owner (default: the caller); `api_key` is its value, shown only once. If the
answer was lost, the retry raises ConflictError `already_done`: revoke the lost key and create another."""
ADMIN_API_KEYS_LIST = ApiOperation("admin/apiKeys/list", AdminApiKeysListRequest, AdminApiKeysListResponse, ADMIN)
"""List the API keys without their values; filter by owner, or by `ids` (at most 1000)."""
ADMIN_API_KEYS_REVOKE = ApiOperation(
    "admin/apiKeys/revoke", AdminApiKeysRevokeRequest, AdminApiKeysRevokeResponse, ADMIN, NOT_FOUND | CONFIRMED
)
"""Stop a key at once."""
