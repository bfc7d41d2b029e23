"""admin/organization: the organization and its settings; extensions, for admins."""

from uuid import UUID

from pydantic import Field

from carrel.wire.common import RequestModel, SecondFactorPolicy, Versioned, VersionedRequest
from carrel.wire.fields import Label, StrictFlag
from carrel.wire.oauth_clients import ClientDocumentHosts
from carrel.wire.operations import ADMIN, CONFIRMED, CONFLICT, ApiOperation


class AdminOrganizationGetRequest(RequestModel):
    """Ask for the organization's settings."""


class AdminOrganizationUpdateRequest(VersionedRequest):
    """Change the organization's settings; omitted settings stay."""

    service_accounts_enabled: StrictFlag | None = None
    """Whether service accounts may be used; absent: unchanged."""
    name: Label | None = None
    """New name of the organization; absent: unchanged."""
    domain: Label | None = None
    """New domain for addresses of service accounts; absent: unchanged."""
    second_factor: SecondFactorPolicy | None = None
    """Who must give a second factor after a Carrel password; absent: unchanged."""
    passwords_enabled: StrictFlag | None = None
    """Whether people may sign in with a Carrel password or passkey; absent: unchanged."""
    client_document_hosts: ClientDocumentHosts | None = None
    """Hosts whose documents describe clients for /mcp; absent: unchanged. Removing a host deletes its clients."""
    added_client_document_hosts: ClientDocumentHosts | None = None
    """Hosts to add to the list, safe with concurrent changes; default: none."""
    removed_client_document_hosts: ClientDocumentHosts | None = None
    """Hosts to remove from the list, safe with concurrent changes; default: none."""
    enable_reranking: StrictFlag | None = None
    """Whether searches without `enableReranking`, and agents, are reranked; absent: unchanged."""
    enable_query_model: StrictFlag | None = None
    """Whether smart filtering and query extraction of searches ask the language model; absent: unchanged."""
    owner_sharing_enabled: StrictFlag | None = None
    """Whether owners may share their documents and collections; absent: unchanged."""


class Organization(Versioned):
    """An organization."""

    edited = (
        "name",
        "domain",
        "service_accounts_enabled",
        "second_factor",
        "passwords_enabled",
        "client_document_hosts",
        "enable_reranking",
        "enable_query_model",
        "owner_sharing_enabled",
    )

    organization_id: UUID
    name: str
    domain: str
    """Domain of the organization, used in addresses of service accounts."""
    service_accounts_enabled: bool
    """Whether service accounts may be used."""
    second_factor: SecondFactorPolicy = SecondFactorPolicy.NOBODY
    """Who must give a second factor after a Carrel password; people without a factor set it up at the next sign-in."""
    passwords_enabled: bool = True
    """Whether people may sign in with a Carrel password or passkey, in addition to the sign-in providers."""
    client_document_hosts: list[str] = Field(default_factory=list)
    """Hosts whose documents describe OAuth clients for /mcp; people may allow these clients."""
    enable_reranking: bool = False
    """Whether searches without `enableReranking`, and agents, are reranked, where the service has an endpoint."""
    enable_query_model: bool = False
    """Whether smart filtering and query extraction use the language model, if the service has a model."""
    owner_sharing_enabled: bool = False
    """Whether owners may share their documents and collections (`permissions/setShares`)."""


class AdminOrganizationGetResponse(Organization):
    """The organization's settings."""


class AdminOrganizationUpdateResponse(Organization):
    """The organization's settings after the change."""


ADMIN_ORGANIZATION_GET = ApiOperation(
    "admin/organization/get", AdminOrganizationGetRequest, AdminOrganizationGetResponse, ADMIN
)
"""Return the organization's settings."""
ADMIN_ORGANIZATION_UPDATE = ApiOperation(
    "admin/organization/update",
    AdminOrganizationUpdateRequest,
    AdminOrganizationUpdateResponse,
    ADMIN,
    CONFLICT | CONFIRMED,
)
"""Change the organization's settings; omitted settings stay. Service accounts have addresses on `domain`.
`second_factor`: people who need a second factor after a Carrel password: `"NOBODY"`, `"ADMINS"`,
`"EVERYBODY"`. `passwords_enabled=False` limits sign-in to the organization's provider, and raises
ConflictError `no_sign_in_provider` without a provider. `client_document_hosts` are hosts, such as `claude.ai`,
whose documents describe OAuth clients that people may allow for /mcp; removing a host deletes its clients.
`added_client_document_hosts` and `removed_client_document_hosts` change part of the list, safe with concurrent
changes. `enable_reranking` is the default for searches and agents' look-ups. `enable_query_model` lets the
language model read queries for smart filtering and query extraction. `owner_sharing_enabled` lets owners
share. Without it, existing shares stay until the owner or an admin removes them."""
