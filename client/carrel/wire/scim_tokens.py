"""admin/scimTokens: tokens for an identity provider to manage people and groups (SCIM); extensions, for admins."""

from uuid import UUID

from pydantic import Field

from carrel.wire.api_keys import CredentialStatus
from carrel.wire.common import NarrowedRequest, PagedResponse, RequestModel, ResponseModel
from carrel.wire.fields import Instant, Label, RequestInstant
from carrel.wire.operations import ADMIN, CONFIRMED, KEYED, NOT_FOUND, SECRET, ApiOperation


class ScimToken(ResponseModel):
    """A provisioning token without its value."""

    token_id: UUID
    hint: str
    name: str
    """Name of the token, for people."""
    status: CredentialStatus
    """Whether the token works."""
    created_at: Instant
    expires_at: Instant | None = None
    """When the token stops; absent: never."""
    last_used_at: Instant | None = None


class AdminScimTokensCreateRequest(RequestModel):
    """Create a token for an identity provider."""

    name: Label
    """Name of the token, for people."""
    expires_at: RequestInstant | None = None
    """When the token stops; absent: never."""


class AdminScimTokensCreateResponse(ScimToken):
    """The new token with its value."""

    token: str = Field(repr=False)
    base_url: str
    """SCIM address of the service, to enter at the identity provider with the token."""


class AdminScimTokensListRequest(NarrowedRequest):
    """List provisioning tokens, including revoked and expired tokens."""


class AdminScimTokensListResponse(PagedResponse):
    """A page of tokens."""

    tokens: list[ScimToken]
    base_url: str
    """Address of SCIM here, to be given to the identity provider."""


class AdminScimTokensRevokeRequest(RequestModel):
    """Stop a token at once."""

    token_id: UUID


class AdminScimTokensRevokeResponse(ScimToken):
    """The token after the change."""


ADMIN_SCIM_TOKENS_CREATE = ApiOperation(
    "admin/scimTokens/create",
    AdminScimTokensCreateRequest,
    AdminScimTokensCreateResponse,
    ADMIN,
    KEYED | SECRET | CONFIRMED,
)
"""Create a token; `token` is its value, shown only once, and `base_url` the address to enter with it. If the
answer was lost, the retry raises ConflictError `already_done`: revoke the lost token and create another."""
ADMIN_SCIM_TOKENS_LIST = ApiOperation(
    "admin/scimTokens/list", AdminScimTokensListRequest, AdminScimTokensListResponse, ADMIN
)
"""List the tokens without their values; filter by `ids` (at most 1000)."""
ADMIN_SCIM_TOKENS_REVOKE = ApiOperation(
    "admin/scimTokens/revoke", AdminScimTokensRevokeRequest, AdminScimTokensRevokeResponse, ADMIN, NOT_FOUND | CONFIRMED
)
"""Stop a token at once."""
