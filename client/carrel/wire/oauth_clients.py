"""admin/oauthClients: applications that act for people; extensions. Redirect URIs match exactly (RFC 9700, 2.1)."""

import re
from enum import StrEnum
from ipaddress import IPv6Address
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

from pydantic import AfterValidator, Field

from carrel.wire import common
from carrel.wire.fields import NO_NUL, EmailAddress, Instant, Label, StrictFlag, must, must_fit
from carrel.wire.operations import ADMIN, CONFIRMED, CONFLICT, KEYED, MEMBER, NOT_FOUND, SECRET, ApiOperation
from carrel.wire.scopes import ApiScope

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# An IPv6 address as a host, alone or with a port.
IN_BRACKETS = re.compile(r"\[[^\[\]]+\](?::[0-9]*)?")
# Parameters that an answer adds to a redirect URI, once each (RFC 6749, section 3.1; RFC 9207).
ANSWERED = frozenset({"code", "error", "error_description", "error_uri", "iss", "state"})
_DOCUMENT_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[0-9]{1,5})?", re.ASCII)
_MESSAGE_ONE = re.compile(r"api:agent:message:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SCOPES = f"must be one of {', '.join(ApiScope)}, or api:agent:message: and an agent's id in lower case"
_HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?\.?")


def _to_host(text: str) -> str:
    host = text.strip().lower()
    if not _DOCUMENT_HOST.fullmatch(host):
        raise ValueError("must be a host, such as claude.ai, without https:// and without a path")
    return host


def is_api_scope(text: str) -> bool:
    """Whether the scope exists on v1."""
    return text in set(ApiScope) or _MESSAGE_ONE.fullmatch(text) is not None


def _check_redirect_uri(text: str) -> str:
    if not text.isascii() or not text.isprintable() or any(char in text for char in ' "<>\\^`{|}*#'):
        raise ValueError("must be a URL in ASCII, such as https://app.example.com/callback, without spaces, # or *")
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname or "", parts.port
        literal = IN_BRACKETS.fullmatch(parts.netloc) is not None and bool(IPv6Address(host))
    except ValueError:
        raise ValueError("must be an absolute address, such as https://app.example.com/callback") from None
    if "@" in parts.netloc or not (literal or _HOST_NAME.fullmatch(host)):
        raise ValueError("must name a host, and neither a user nor a password")
    if ANSWERED.intersection(name for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        raise ValueError(f"must have none of {', '.join(sorted(ANSWERED))} in its query: the answer is added there")
    if parts.scheme != "https" and not (parts.scheme == "http" and host in LOOPBACK):
        raise ValueError("must be https, or http for localhost, 127.0.0.1 or [::1]")
    return text


RedirectUri = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_check_redirect_uri)]
RedirectUris = Annotated[list[RedirectUri], Field(min_length=1, max_length=20)]
ClientDocumentHosts = Annotated[
    list[Annotated[str, Field(max_length=300), NO_NUL, AfterValidator(_to_host)]], Field(max_length=100)
]
ApiScopes = Annotated[
    list[Annotated[str, Field(max_length=100), must(is_api_scope, _SCOPES)]], Field(min_length=1, max_length=100)
]


class OAuthClientStatus(StrEnum):
    """Whether a client may be used; a pending client is unusable."""

    PENDING = "pending"
    APPROVED = "approved"


class OAuthAudience(StrEnum):
    """The API for a client's tokens. Tokens for one API are refused by the other."""

    API = "api"
    MCP = "mcp"


class _OAuthClientFields(common.RequestModel):
    name: Label
    """Name of the client, shown to people on the consent page."""
    redirect_uris: RedirectUris
    """Allowed redirect addresses, 1 to 20; compared character by character."""
    scopes: ApiScopes
    """Scopes that the client may request, 1 to 100."""
    audience: OAuthAudience | None = None
    """The API for the client's tokens, permanently: `api` (v1) or `mcp` (the endpoint /mcp); default: `api`."""
    is_public: StrictFlag | None = None
    """Whether the client has no secret, such as a program on people's own machines; only for `mcp`. Default: false."""

    _public_for_mcp = must_fit(
        lambda client: not client.is_public or client.audience is OAuthAudience.MCP,
        "isPublic is for the audience mcp: a client of v1 has a secret",
    )


class AdminOAuthClientsCreateRequest(_OAuthClientFields):
    """Create a client, approved at once, limited to the given scopes."""


class AdminOAuthClientsRequestRequest(_OAuthClientFields):
    """Request a client, as any member may; unusable until an admin approves it."""


class OAuthClient(common.Versioned):
    """A client without secret."""

    edited = ("name", "redirect_uris", "scopes", "status")

    client_id: UUID
    name: str
    """Name of the client, shown to people on the consent page."""
    redirect_uris: list[str]
    """Allowed redirect addresses."""
    scopes: list[str]
    """Scopes that the client may request."""
    status: OAuthClientStatus
    """Whether the client may be used."""
    audience: OAuthAudience = OAuthAudience.API
    is_public: bool = False
    """Whether the client has no secret."""
    document_url: str | None = None
    """URL of the client ID metadata document that describes the client; null for a registered client."""
    hint: str
    """The last four characters of the secret value, to recognize it; empty for a public client."""
    requested_by: str
    """Address of the member who registered or requested the client; empty for a client described by a document."""
    created_at: Instant


class OAuthClientWithSecret(OAuthClient):
    """A client with secret."""

    client_secret: str = Field(repr=False)
    """Secret of the client; shown only once. Empty for a public client."""


class AdminOAuthClientsCreateResponse(OAuthClientWithSecret):
    """The new client with its secret."""


class AdminOAuthClientsRequestResponse(OAuthClientWithSecret):
    """The client, waiting for approval, with its secret."""


class AdminOAuthClientsListRequest(common.NarrowedRequest):
    """List clients, optionally by status."""

    status: OAuthClientStatus | None = None
    """Only clients of this status."""


class AdminOAuthClientsListResponse(common.PagedResponse):
    """A page of clients."""

    oauth_clients: list[OAuthClient]


class AdminOAuthClientsUpdateRequest(common.VersionedRequest):
    """Change a client; omitted values stay. Removed scopes stop at once, also in existing tokens."""

    client_id: UUID
    name: Label | None = None
    """New name; absent: unchanged."""
    redirect_uris: RedirectUris | None = None
    """New redirect addresses, 1 to 20; absent: unchanged."""
    scopes: ApiScopes | None = None
    """New scopes that the client may request, 1 to 100; absent: unchanged."""


class AdminOAuthClientsUpdateResponse(OAuthClient):
    """The client after the change."""


class AdminOAuthClientsApproveRequest(common.VersionedRequest):
    """Approve a client requested by a member."""

    client_id: UUID


class AdminOAuthClientsApproveResponse(OAuthClient):
    """The client after the change."""


class AdminOAuthClientsRotateSecretRequest(common.RequestModel):
    """Give a client a new secret; the old secret stops at once."""

    client_id: UUID


class AdminOAuthClientsRotateSecretResponse(OAuthClientWithSecret):
    """The client with the new secret, shown only once."""


class AdminOAuthClientsDeleteRequest(common.RequestModel):
    """Delete a client: its codes and tokens stop at once, and people's consents are deleted."""

    client_id: UUID


class AdminOAuthClientsDeleteResponse(common.ResponseModel):
    """The deleted client."""

    client_id: UUID


class OAuthConsent(common.ResponseModel):
    """A person's consent to a client."""

    client_id: UUID
    application_name: str
    """Name of the client."""
    audience: OAuthAudience
    person_id: UUID
    email: str
    """Email address of the person."""
    person_name: str
    scopes: list[str]
    """Scopes allowed by the person; the client may request only the currently registered ones."""
    collection_ids: list[UUID] | None = None
    """Ids of the collections that the client may read; absent: all of the person's documents."""
    collection_names: list[str] | None = None
    """Names of the existing collections among them, sorted."""
    granted_at: Instant
    """When the person last gave or changed the consent."""
    last_used_at: Instant | None = None
    """When the consent was last used, to the minute; absent: never, or before the oldest retained token."""


class AdminOAuthClientsListConsentsRequest(common.PagedRequest):
    """List people's consents: all of the organization, of one client, or of one person."""

    client_id: UUID | None = None
    """Only consents to this client."""
    email: EmailAddress | None = None
    """Only consents of the person with this address."""


class AdminOAuthClientsListConsentsResponse(common.PagedResponse):
    """A page of consents."""

    consents: list[OAuthConsent]
    """The consents, grouped by client."""


class AdminOAuthClientsWithdrawConsentsRequest(common.RequestModel):
    """Withdraw consents to a client: its codes and tokens for these people stop at once. People may consent again."""

    client_id: UUID
    email: EmailAddress | None = None
    """Email address of the person whose consent to withdraw; default: all people."""


class AdminOAuthClientsWithdrawConsentsResponse(common.ResponseModel):
    """How many consents were withdrawn."""

    withdrawn_count: int
    """Number of people with a withdrawn consent."""


ADMIN_OAUTH_CLIENTS_CREATE = ApiOperation(
    "admin/oauthClients/create",
    AdminOAuthClientsCreateRequest,
    AdminOAuthClientsCreateResponse,
    ADMIN,
    KEYED | SECRET | CONFIRMED,
    by_position=("name",),
)
"""Create a client, approved at once; `client_secret` is shown only once. `audience` is the API for its tokens:
`"api"` (v1), or `"mcp"` (the endpoint /mcp). Only `"mcp"` allows a public client (`is_public`), which has no
secret. If the answer was lost, the retry raises ConflictError `already_done`: rotate the secret."""
ADMIN_OAUTH_CLIENTS_REQUEST = ApiOperation(
    "admin/oauthClients/request",
    AdminOAuthClientsRequestRequest,
    AdminOAuthClientsRequestResponse,
    MEMBER,
    KEYED | SECRET,
    by_position=("name",),
)
"""Request a client, unusable until an admin approves it; `client_secret` is shown only once."""
ADMIN_OAUTH_CLIENTS_LIST = ApiOperation(
    "admin/oauthClients/list", AdminOAuthClientsListRequest, AdminOAuthClientsListResponse, ADMIN
)
"""List the clients, without secrets; filter by status, or by `ids` (at most 1000)."""
ADMIN_OAUTH_CLIENTS_UPDATE = ApiOperation(
    "admin/oauthClients/update",
    AdminOAuthClientsUpdateRequest,
    AdminOAuthClientsUpdateResponse,
    ADMIN,
    NOT_FOUND | CONFLICT | CONFIRMED,
)
"""Change a client; omitted values stay. Removed scopes stop at once."""
ADMIN_OAUTH_CLIENTS_APPROVE = ApiOperation(
    "admin/oauthClients/approve",
    AdminOAuthClientsApproveRequest,
    AdminOAuthClientsApproveResponse,
    ADMIN,
    NOT_FOUND | CONFLICT | CONFIRMED,
)
"""Approve a client requested by a member."""
ADMIN_OAUTH_CLIENTS_ROTATE_SECRET = ApiOperation(
    "admin/oauthClients/rotateSecret",
    AdminOAuthClientsRotateSecretRequest,
    AdminOAuthClientsRotateSecretResponse,
    ADMIN,
    KEYED | SECRET | NOT_FOUND | CONFIRMED,
)
"""Give a client a new secret, shown only once; the old secret stops at once."""
ADMIN_OAUTH_CLIENTS_DELETE = ApiOperation(
    "admin/oauthClients/delete",
    AdminOAuthClientsDeleteRequest,
    AdminOAuthClientsDeleteResponse,
    ADMIN,
    KEYED | NOT_FOUND | CONFIRMED,
)
"""Delete a client: its codes and tokens stop at once, and people's consents are deleted."""
ADMIN_OAUTH_CLIENTS_LIST_CONSENTS = ApiOperation(
    "admin/oauthClients/listConsents",
    AdminOAuthClientsListConsentsRequest,
    AdminOAuthClientsListConsentsResponse,
    ADMIN,
)
"""List people's consents to clients; filter by client or person."""
ADMIN_OAUTH_CLIENTS_WITHDRAW_CONSENTS = ApiOperation(
    "admin/oauthClients/withdrawConsents",
    AdminOAuthClientsWithdrawConsentsRequest,
    AdminOAuthClientsWithdrawConsentsResponse,
    ADMIN,
    NOT_FOUND | CONFIRMED,
)
"""Withdraw all consents to a client, or a person's: the client's codes and tokens for them stop at once."""
