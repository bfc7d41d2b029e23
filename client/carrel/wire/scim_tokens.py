"""admin/scimTokens: the tokens by which an identity provider keeps people and groups (SCIM); extensions, for admins."""

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
    """The last four characters of the secret value, to tell it from others."""
    name: str
    """Name of the token, for people."""
    status: CredentialStatus
    """Whether the token works."""
    created_at: Instant
    expires_at: Instant | None = None
    """When the token stops; absent: never."""
    last_used_at: Instant | None = None
    """When a request last came with it; absent if never."""


class AdminScimTokensCreateRequest(RequestModel):
    """Create a token for an identity provider."""

    name: Label
    """Name of the token, for people."""
    expires_at: RequestInstant | None = None
    """When the token stops; absent: never."""


class AdminScimTokensCreateResponse(ScimToken):
    """The new token with its value."""

    token: str = Field(repr=False)
    """Value of the token; shown this once."""
    base_url: str
    """Address of SCIM here, to be given to the identity provider beside the token."""


class AdminScimTokensListRequest(NarrowedRequest):
    """List provisioning tokens, those that stopped too."""


class AdminScimTokensListResponse(PagedResponse):
    """One page of tokens."""

    tokens: list[ScimToken]
    """The tokens."""
    base_url: str
    """Address of SCIM here, to be given to the identity provider."""


class AdminScimTokensRevokeRequest(RequestModel):
    """Stop a token at once."""

    token_id: UUID


class AdminScimTokensRevokeResponse(ScimToken):
    """The token as it is now."""


ADMIN_SCIM_TOKENS_CREATE = ApiOperation(
    "admin/scimTokens/create",
    AdminScimTokensCreateRequest,
    AdminScimTokensCreateResponse,
    ADMIN,
    KEYED | SECRET | CONFIRMED,
)
"""Create a token; `token` is its value, shown this once, and `base_url` the address to give with it.

When the answer was lost on the way, the retry raises ConflictError `already_done`: revoke that token and
create another."""
ADMIN_SCIM_TOKENS_LIST = ApiOperation(
    "admin/scimTokens/list", AdminScimTokensListRequest, AdminScimTokensListResponse, ADMIN
)
"""Walk the tokens without their values; those of `ids` (at most 1000), if given."""
ADMIN_SCIM_TOKENS_REVOKE = ApiOperation(
    "admin/scimTokens/revoke", AdminScimTokensRevokeRequest, AdminScimTokensRevokeResponse, ADMIN, NOT_FOUND | CONFIRMED
)
"""Stop a token at once."""
