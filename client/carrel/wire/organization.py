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
    """Change the organization's settings; what is left out stays."""

    service_accounts_enabled: StrictFlag | None = None
    """Whether service accounts may be used; absent: unchanged."""
    name: Label | None = None
    """New name of the organization; absent: unchanged."""
    domain: Label | None = None
    """New domain for addresses of service accounts; absent: unchanged."""
    second_factor: SecondFactorPolicy | None = None
    """Who must give a second factor after a password that is kept here; absent: unchanged."""
    passwords_enabled: StrictFlag | None = None
    """Whether people may sign in with a password or passkey that is kept here; absent: unchanged."""
    client_document_hosts: ClientDocumentHosts | None = None
    """Hosts whose documents describe clients for /mcp; absent: unchanged. One taken away takes its clients along."""
    added_client_document_hosts: ClientDocumentHosts | None = None
    """Hosts that are added to these, whatever others change at the same time; absent: none."""
    removed_client_document_hosts: ClientDocumentHosts | None = None
    """Hosts that are taken away from these, likewise; absent: none."""
    enable_reranking: StrictFlag | None = None
    """Whether searches without `enableReranking`, and agents, are reranked; absent: unchanged."""
    enable_query_model: StrictFlag | None = None
    """Whether smart filtering and query extraction of searches ask the language model; absent: unchanged."""


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
    )

    organization_id: UUID
    name: str
    """Name of the organization."""
    domain: str
    """Domain of the organization; addresses of service accounts are on it."""
    service_accounts_enabled: bool
    """Whether service accounts may be used."""
    second_factor: SecondFactorPolicy = SecondFactorPolicy.NOBODY
    """Who must give a second factor after a password that is kept here; who has none sets one up at the next one."""
    passwords_enabled: bool = True
    """Whether people may sign in with a password or passkey that is kept here, beside the sign-in providers."""
    client_document_hosts: list[str] = Field(default_factory=list)
    """Hosts whose documents describe OAuth clients for /mcp that people may allow."""
    enable_reranking: bool = False
    """Whether searches without `enableReranking`, and agents, are reranked, where the service has an endpoint."""
    enable_query_model: bool = False
    """Whether smart filtering and query extraction of searches ask the language model, where the service has one."""


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
"""Change the organization's settings; what is left out stays. Service accounts have addresses on `domain`.

`second_factor` says who must give one after a password that is kept here: `"NOBODY"`, `"ADMINS"` or
`"EVERYBODY"`. `passwords_enabled=False` lets people sign in at the organization's provider alone, and raises
ConflictError `no_sign_in_provider` without one. `client_document_hosts` are hosts, such as `claude.ai`, whose
documents describe OAuth clients for /mcp that people may allow; one that is taken away takes its clients with
it. `added_client_document_hosts` and `removed_client_document_hosts` change this list by some, whatever others
change. `enable_reranking` has searches reranked that don't choose it, and what agents look up;
`enable_query_model` has the language model read the queries of smart filtering and query extraction."""
