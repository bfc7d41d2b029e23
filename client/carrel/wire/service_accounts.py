"""admin/serviceAccounts, admin/serviceAccountTokens: identities that aren't people, and what they are called with."""

from typing import Annotated, ClassVar, Self
from uuid import UUID

from pydantic import Field, model_validator

from carrel.wire.admin import CredentialStatus
from carrel.wire.common import (
    Description,
    Instant,
    Label,
    NarrowedRequest,
    PagedResponse,
    RequestInstant,
    RequestModel,
    ResponseModel,
    Role,
    Scope,
)

Scopes = Annotated[list[Scope], Field(max_length=len(Scope))]


class AdminServiceAccountsCreateRequest(RequestModel):
    """Create a service account; its address is made from its name, on the organization's domain."""

    display_name: Label


class ServiceAccount(ResponseModel):
    """A non-human identity, which has the access it is granted and no other (seed, "Service account")."""

    service_account_id: UUID
    display_name: str
    email: str
    created_at: Instant


class AdminServiceAccountsCreateResponse(ServiceAccount):
    """The new service account."""


class AdminServiceAccountsListRequest(NarrowedRequest):
    """List service accounts; `query` is part of a name or an address."""

    query: Label | None = None


class AdminServiceAccountsListResponse(PagedResponse):
    """One page of service accounts."""

    rows_in: ClassVar[str] = "service_accounts"
    service_accounts: list[ServiceAccount]


class AdminServiceAccountsDeleteRequest(RequestModel):
    """Delete a service account: its tokens stop at once, it leaves its groups, and its address is never used again."""

    service_account_id: UUID


class AdminServiceAccountsDeleteResponse(ResponseModel):
    """The account that is gone, and how many working tokens stopped with it."""

    service_account_id: UUID
    revoked_token_count: int


class ServiceAccountToken(ResponseModel):
    """A token without its value; `hint` is the value's last four characters."""

    token_id: UUID
    service_account_id: UUID
    hint: str
    name: str
    description: str | None = None
    scopes: list[str]
    status: CredentialStatus
    created_at: Instant
    expires_at: Instant
    last_used_at: Instant | None = None


class AdminServiceAccountTokensMintRequest(RequestModel):
    """Mint a token; without `expires_at` it expires in one year. Without scopes it can call no scoped endpoint."""

    service_account_id: UUID
    name: Label
    description: Description | None = None
    scopes: Scopes
    expires_at: RequestInstant | None = None


class AdminServiceAccountTokensMintResponse(ServiceAccountToken):
    """The new token; `token` is its value, shown this once."""

    token: str = Field(repr=False)


class AdminServiceAccountTokensListRequest(NarrowedRequest):
    """List tokens, of every account unless one is named; those that stopped too."""

    service_account_id: UUID | None = None


class AdminServiceAccountTokensListResponse(PagedResponse):
    """One page of tokens."""

    rows_in: ClassVar[str] = "tokens"
    tokens: list[ServiceAccountToken]


class AdminServiceAccountTokensRevokeRequest(RequestModel):
    """Stop a token at once."""

    token_id: UUID


class AdminServiceAccountTokensRevokeResponse(ServiceAccountToken):
    """The token as it is now."""


class AdminServiceAccountTokensPreviewReachRequest(RequestModel):
    """Ask what a token could do: one of these scopes for an account, before it exists, or one that does."""

    service_account_id: UUID | None = None
    scopes: Scopes | None = None
    token_id: UUID | None = None

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        planned = (self.service_account_id is not None, self.scopes is not None)
        if planned not in {(True, True), (False, False)} or any(planned) == (self.token_id is not None):
            msg = "Give serviceAccountId and scopes, or else tokenId"
            raise ValueError(msg)
        return self


class ReachedCollection(ResponseModel):
    """A collection a token could use, and the role it would have there."""

    document_collection_id: UUID
    collection_name: str
    role: Role


class ReachedAgent(ResponseModel):
    """An agent that is deployed to the service account; without API access, no message to it is taken."""

    agent_id: UUID
    agent_name: str
    api_access_enabled: bool


class AdminServiceAccountTokensPreviewReachResponse(ResponseModel):
    """What the token could do as things are now.

    `document_count` is of documents it could READ, `editable_document_count` of those it could update, and
    `agent_document_count` of those whose words it could get by messaging agents. At most 1000 collections and as many
    agents are named; their counts are of all. `warnings` say what an admin might not expect.
    """

    endpoints: list[str]
    document_count: int
    editable_document_count: int
    collections: list[ReachedCollection]
    collection_count: int
    agents: list[ReachedAgent]
    agent_count: int
    agent_document_count: int
    warnings: list[str]
