"""admin/serviceAccounts, admin/serviceAccountTokens: identities that aren't people, and what they are called with."""

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
    """Name of the service account, as people see it."""


class ServiceAccount(ResponseModel):
    """A non-human identity, which has the access it is granted and no other."""

    service_account_id: UUID
    display_name: str
    """Name of the service account, as people see it."""
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
    """One page of service accounts."""

    service_accounts: list[ServiceAccount]
    """The service accounts."""


class AdminServiceAccountsDeleteRequest(RequestModel):
    """Delete a service account: its tokens stop at once, it leaves its groups, and its address is never used again."""

    service_account_id: UUID


class AdminServiceAccountsDeleteResponse(ResponseModel):
    """The account that is gone, and how many working tokens stopped with it."""

    service_account_id: UUID
    revoked_token_count: int
    """Number of working tokens that stopped with the account."""


class ServiceAccountToken(ResponseModel):
    """A token without its value."""

    token_id: UUID
    service_account_id: UUID
    hint: str
    """The last four characters of the secret value, to tell it from others."""
    name: str
    """Name of the token, for people."""
    description: str | None = None
    """What the token is for."""
    scopes: list[str]
    """What the token may be used for."""
    status: CredentialStatus
    """Whether the token works."""
    created_at: Instant
    expires_at: Instant
    """When the token stops."""
    last_used_at: Instant | None = None
    """When it was last used; absent if never."""


class AdminServiceAccountTokensMintRequest(RequestModel):
    """Create a token."""

    service_account_id: UUID
    name: Label
    """Name of the token, for people."""
    description: Description | None = None
    """What the token is for, at most 10,000 characters."""
    scopes: Scopes
    """What the token may be used for; without any it can call no scoped endpoint."""
    expires_at: RequestInstant | None = None
    """When the token stops; absent: in one year."""


class AdminServiceAccountTokensMintResponse(ServiceAccountToken):
    """The new token with its value."""

    token: str = Field(repr=False)
    """Value of the token; shown this once."""


class AdminServiceAccountTokensListRequest(NarrowedRequest):
    """List tokens, of every account unless one is named; those that stopped too."""

    service_account_id: UUID | None = None
    """Only tokens of the account of this id."""


class AdminServiceAccountTokensListResponse(PagedResponse):
    """One page of tokens."""

    tokens: list[ServiceAccountToken]
    """The tokens."""


class AdminServiceAccountTokensRevokeRequest(RequestModel):
    """Stop a token at once."""

    token_id: UUID


class AdminServiceAccountTokensRevokeResponse(ServiceAccountToken):
    """The token as it is now."""


class AdminServiceAccountTokensPreviewReachRequest(RequestModel):
    """Ask what a token could do: one of these scopes for an account, before it exists, or one that does."""

    service_account_id: UUID | None = None
    """Id of the account whose new token it is about; given with `scopes`."""
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
    """A collection a token could use, and the role it would have there."""

    document_collection_id: UUID
    collection_name: str
    role: Role
    """Role that the token would have in the collection."""


class ReachedAgent(ResponseModel):
    """An agent that is deployed to the service account; without API access, no message to it is taken."""

    agent_id: UUID
    agent_name: str
    api_access_enabled: bool
    """Whether programs may message the agent on v0."""


class AdminServiceAccountTokensPreviewReachResponse(ResponseModel):
    """What the token could do as things are now."""

    endpoints: list[str]
    """Operations that the token could call."""
    document_count: int
    """Number of documents that the token could READ."""
    editable_document_count: int
    """Number of documents that the token could update."""
    collections: list[ReachedCollection]
    """Collections that the token could use, at most 1000."""
    collection_count: int
    """Number of all collections that the token could use."""
    agents: list[ReachedAgent]
    """Agents that the token could message, at most 1000."""
    agent_count: int
    """Number of all agents that are deployed to the service account."""
    agent_document_count: int
    """Number of documents whose words the token could get by messaging agents."""
    warnings: list[str]
    """What an admin might not expect."""


ADMIN_SERVICE_ACCOUNTS_CREATE = ApiOperation(
    "admin/serviceAccounts/create",
    AdminServiceAccountsCreateRequest,
    AdminServiceAccountsCreateResponse,
    SERVICE_ACCOUNTS,
    KEYED | CONFIRMED,
)
"""Create a service account, which may read nothing yet: grant it access, or put it into groups.

Its address is made from its name, on the organization's domain."""
ADMIN_SERVICE_ACCOUNTS_LIST = ApiOperation(
    "admin/serviceAccounts/list", AdminServiceAccountsListRequest, AdminServiceAccountsListResponse, ADMIN
)
"""Walk the service accounts, those of `ids` (at most 1000) if given; `query` is part of a name or address."""
ADMIN_SERVICE_ACCOUNTS_DELETE = ApiOperation(
    "admin/serviceAccounts/delete",
    AdminServiceAccountsDeleteRequest,
    AdminServiceAccountsDeleteResponse,
    ADMIN,
    KEYED | NOT_FOUND | CONFIRMED,
)
"""Delete a service account: its tokens stop at once, it leaves its groups; documents it uploaded stay."""
ADMIN_SERVICE_ACCOUNT_TOKENS_MINT = ApiOperation(
    "admin/serviceAccountTokens/mint",
    AdminServiceAccountTokensMintRequest,
    AdminServiceAccountTokensMintResponse,
    SERVICE_ACCOUNTS,
    KEYED | SECRET | NOT_FOUND | CONFIRMED,
    by_position=("service_account_id", "name"),
)
"""Create a token, for one year unless `expires_at` says otherwise; `token` is its value, shown this once.

When the answer was lost on the way, the retry raises ConflictError `already_done`: revoke that token and create
another."""
ADMIN_SERVICE_ACCOUNT_TOKENS_LIST = ApiOperation(
    "admin/serviceAccountTokens/list",
    AdminServiceAccountTokensListRequest,
    AdminServiceAccountTokensListResponse,
    ADMIN,
    NOT_FOUND,
    by_position=("service_account_id",),
)
"""Walk the tokens without their values, of every account unless one is named; those that stopped too.

`ids` leaves those of these ids, at most 1000."""
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
"""Return what a token with these scopes could read and do now.

Name an account and scopes before there is a token, or else the `token_id` of one that exists; anything between
raises InvalidArgumentError."""
