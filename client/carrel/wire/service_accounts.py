"""admin/serviceAccounts, admin/serviceAccountTokens: accounts for programs, and their tokens."""

from operator import attrgetter
from typing import Annotated, Self
from uuid import UUID

from pydantic import Field, model_validator

from carrel.wire.api_keys import CredentialStatus
from carrel.wire.common import NarrowedRequest, PagedResponse, RequestModel, ResponseModel, Role
from carrel.wire.fields import Description, Instant, Label, RequestInstant
from carrel.wire.operations import ADMIN, CONFIRMED, KEYED, NOT_FOUND, SECRET, SERVICE_ACCOUNTS, ApiOperation
from carrel.wire.scopes import Scope

Scopes = Annotated[list[Scope], Field(max_length=len(Scope))]


class AdminServiceAccountsCreateRequest(RequestModel):
    """Create a service account; its address is made from its name, on the organization's domain."""

    display_name: Label


class ServiceAccount(ResponseModel):
    """An account for a program, limited to its grants."""

    service_account_id: UUID
    display_name: str
    name = property(attrgetter("display_name"))
    email: str
    """Address of the account, on the organization's domain."""
    created_at: Instant


class AdminServiceAccountsCreateResponse(ServiceAccount):
    """The new service account."""


class AdminServiceAccountsListRequest(NarrowedRequest):
    """List service accounts."""

    query: Label | None = None
    """Part of a name or an address, in any case."""


class AdminServiceAccountsListResponse(PagedResponse):
    """A page of service accounts."""

    service_accounts: list[ServiceAccount]


class AdminServiceAccountsDeleteRequest(RequestModel):
    """Delete a service account: its tokens stop at once, it leaves its groups, and its address is never reused."""

    service_account_id: UUID


class AdminServiceAccountsDeleteResponse(ResponseModel):
    """The deleted account, and the number of revoked tokens."""

    service_account_id: UUID
    revoked_token_count: int
    """Number of working tokens revoked with the account."""


class ServiceAccountToken(ResponseModel):
    """A token without value."""

    token_id: UUID
    service_account_id: UUID
    hint: str
    name: str
    """Name of the token, for people."""
    description: str | None = None
    """Purpose of the token."""
    scopes: list[str]
    status: CredentialStatus
    """Whether the token works."""
    created_at: Instant
    expires_at: Instant
    """When the token stops."""
    last_used_at: Instant | None = None


class AdminServiceAccountTokensMintRequest(RequestModel):
    """Create a token."""

    service_account_id: UUID
    name: Label
    """Name of the token, for people."""
    description: Description | None = None
    """Purpose of the token, at most 10,000 characters."""
    scopes: Scopes
    """Scopes of the token; without any, the token can't call scoped endpoints."""
    expires_at: RequestInstant | None = None
    """When the token expires; default: in one year."""


class AdminServiceAccountTokensMintResponse(ServiceAccountToken):
    """The new token with its value."""

    token: str = Field(repr=False)


class AdminServiceAccountTokensListRequest(NarrowedRequest):
    """List tokens, including revoked and expired tokens; optionally of one account."""

    service_account_id: UUID | None = None
    """Only tokens of this account."""


class AdminServiceAccountTokensListResponse(PagedResponse):
    """A page of tokens."""

    tokens: list[ServiceAccountToken]


class AdminServiceAccountTokensRevokeRequest(RequestModel):
    """Stop a token at once."""

    token_id: UUID


class AdminServiceAccountTokensRevokeResponse(ServiceAccountToken):
    """The token after the change."""


class AdminServiceAccountTokensPreviewReachRequest(RequestModel):
    """Preview the access of a token: planned (an account and scopes) or existing."""

    service_account_id: UUID | None = None
    """Id of the account for a planned token; needs `scopes`."""
    scopes: Scopes | None = None
    """Scopes of the new token; given with `serviceAccountId`."""
    token_id: UUID | None = None
    """Id of an existing token; given alone."""

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        planned = (self.service_account_id is not None, self.scopes is not None)
        if planned not in {(True, True), (False, False)} or any(planned) == (self.token_id is not None):
            raise ValueError("Give serviceAccountId and scopes, or else tokenId")
        return self


class ReachedCollection(ResponseModel):
    """A collection available to the token, and the token's role."""

    document_collection_id: UUID
    collection_name: str
    role: Role
    """The token's role in the collection."""


class ReachedAgent(ResponseModel):
    """An agent deployed to the service account; without API access, messages to the agent are refused."""

    agent_id: UUID
    agent_name: str
    api_access_enabled: bool


class AdminServiceAccountTokensPreviewReachResponse(ResponseModel):
    """Current access of the token."""

    endpoints: list[str]
    """Operations available to the token."""
    document_count: int
    """Number of documents available to the token for READ."""
    editable_document_count: int
    """Number of documents available to the token for updates."""
    collections: list[ReachedCollection]
    """Collections available to the token, at most 1000."""
    collection_count: int
    """Number of all collections available to the token."""
    agents: list[ReachedAgent]
    """Agents available to the token, at most 1000."""
    agent_count: int
    """Number of all agents deployed to the service account."""
    agent_document_count: int
    """Number of documents whose text the token could get by messaging agents."""
    warnings: list[str]
    """Surprises for an admin."""


ADMIN_SERVICE_ACCOUNTS_CREATE = ApiOperation(
    "admin/serviceAccounts/create",
    AdminServiceAccountsCreateRequest,
    AdminServiceAccountsCreateResponse,
    SERVICE_ACCOUNTS,
    KEYED | CONFIRMED,
)
"""Create a service account, without any access: grant access, or add it to groups. Its address is made from its
name, on the organization's domain."""
ADMIN_SERVICE_ACCOUNTS_LIST = ApiOperation(
    "admin/serviceAccounts/list", AdminServiceAccountsListRequest, AdminServiceAccountsListResponse, ADMIN
)
"""List the service accounts, filtered by `ids` (at most 1000) or `query` (part of a name or address)."""
ADMIN_SERVICE_ACCOUNTS_DELETE = ApiOperation(
    "admin/serviceAccounts/delete",
    AdminServiceAccountsDeleteRequest,
    AdminServiceAccountsDeleteResponse,
    ADMIN,
    KEYED | NOT_FOUND | CONFIRMED,
)
"""Delete a service account: its tokens stop at once, and it leaves its groups; its documents stay."""
ADMIN_SERVICE_ACCOUNT_TOKENS_MINT = ApiOperation(
    "admin/serviceAccountTokens/mint",
    AdminServiceAccountTokensMintRequest,
    AdminServiceAccountTokensMintResponse,
    SERVICE_ACCOUNTS,
    KEYED | SECRET | NOT_FOUND | CONFIRMED,
    by_position=("service_account_id", "name"),
)
"""Create a token, valid for one year unless `expires_at` is given; `token` is its value, shown only once. If
the answer was lost, the retry raises ConflictError `already_done`: revoke the lost token and create another."""
ADMIN_SERVICE_ACCOUNT_TOKENS_LIST = ApiOperation(
    "admin/serviceAccountTokens/list",
    AdminServiceAccountTokensListRequest,
    AdminServiceAccountTokensListResponse,
    ADMIN,
    NOT_FOUND,
    by_position=("service_account_id",),
)
"""List the tokens without values, also revoked or expired; optionally of an account, or `ids` (up to 1000)."""
ADMIN_SERVICE_ACCOUNT_TOKENS_REVOKE = ApiOperation(
    "admin/serviceAccountTokens/revoke",
    AdminServiceAccountTokensRevokeRequest,
    AdminServiceAccountTokensRevokeResponse,
    ADMIN,
    NOT_FOUND | CONFIRMED,
)
"""Stop a token at once."""
ADMIN_SERVICE_ACCOUNT_TOKENS_PREVIEW_REACH = ApiOperation(
    "admin/serviceAccountTokens/previewReach",
    AdminServiceAccountTokensPreviewReachRequest,
    AdminServiceAccountTokensPreviewReachResponse,
    ADMIN,
    NOT_FOUND,
    by_position=("service_account_id", "scopes"),
)
"""Return the current access of a token with these scopes. For a planned token, pass an account and scopes; for
an existing token, only `token_id`. Other combinations raise InvalidArgumentError."""
