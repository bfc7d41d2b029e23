"""admin/oauthClients: the applications that people may let act for them on v1, or at /mcp; extensions. A redirect URI
is taken only as it will be sent: it is compared character by character (RFC 9700, section 2.1)."""

import re
from enum import StrEnum
from ipaddress import IPv6Address
from typing import Annotated, Self
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

from pydantic import AfterValidator, Field, model_validator

from carrel.wire import common
from carrel.wire.fields import NO_NUL, EmailAddress, Instant, Label, StrictFlag
from carrel.wire.operations import ADMIN, CONFIRMED, CONFLICT, KEYED, MEMBER, NOT_FOUND, SECRET, ApiOperation
from carrel.wire.scopes import ApiScope

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# An IPv6 address as a host, alone or with a port.
IN_BRACKETS = re.compile(r"\[[^\[\]]+\](?::[0-9]*)?")
# What an answer adds to a redirect URI, once each (RFC 6749, section 3.1; RFC 9207).
ANSWERED = frozenset({"code", "error", "error_description", "error_uri", "iss", "state"})
_DOCUMENT_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[0-9]{1,5})?", re.ASCII)
_MESSAGE_ONE = re.compile(r"api:agent:message:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?\.?")


def _refuse_odd_host(text: str) -> str:
    host = text.strip().lower()
    if not _DOCUMENT_HOST.fullmatch(host):
        raise ValueError("must be a host, such as claude.ai, without https:// and without a path")
    return host


def is_api_scope(text: str) -> bool:
    """Whether there is such a scope of v1."""
    return text in set(ApiScope) or _MESSAGE_ONE.fullmatch(text) is not None


def _refuse_unknown_scope(text: str) -> str:
    if not is_api_scope(text):
        raise ValueError(f"must be one of {', '.join(ApiScope)}, or api:agent:message: and an agent's id in lower case")
    return text


def _refuse_odd_redirect_uri(text: str) -> str:
    if not text.isascii() or not text.isprintable() or any(char in text for char in ' "<>\\^`{|}*#'):
        raise ValueError("must be an address as it is sent: ASCII, without a fragment or a wildcard")
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


RedirectUri = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_refuse_odd_redirect_uri)]
RedirectUris = Annotated[list[RedirectUri], Field(min_length=1, max_length=20)]
ClientDocumentHosts = Annotated[
    list[Annotated[str, Field(max_length=300), NO_NUL, AfterValidator(_refuse_odd_host)]], Field(max_length=100)
]
ApiScopes = Annotated[
    list[Annotated[str, Field(max_length=100), AfterValidator(_refuse_unknown_scope)]],
    Field(min_length=1, max_length=100),
]


class OAuthClientStatus(StrEnum):
    """Whether a client may be used: a pending one can do nothing."""

    PENDING = "pending"
    APPROVED = "approved"


class OAuthAudience(StrEnum):
    """What the tokens of a client are for; what one takes, the other refuses."""

    API = "api"
    MCP = "mcp"


class _OAuthClientFields(common.RequestModel):
    name: Label
    """Name of the client, as people see it when they are asked."""
    redirect_uris: RedirectUris
    """Addresses that people may be sent back to, 1 to 20; compared character by character."""
    scopes: ApiScopes
    """Most that people can be asked for, 1 to 100 scopes."""
    audience: OAuthAudience | None = None
    """What the client's tokens are for, for good: `api` (v1) or `mcp` (the endpoint /mcp); absent: `api`."""
    is_public: StrictFlag | None = None
    """Whether the client keeps no secret, as on people's own machines; only for `mcp`. Absent: it has one."""

    @model_validator(mode="after")
    def _refuse_public_for_api(self) -> Self:
        if self.is_public and self.audience is not OAuthAudience.MCP:
            raise ValueError("isPublic is for the audience mcp: a client of v1 has a secret")
        return self


class AdminOAuthClientsCreateRequest(_OAuthClientFields):
    """Create a client, approved at once. People can be asked for these scopes and no others."""


class AdminOAuthClientsRequestRequest(_OAuthClientFields):
    """Ask for a client, as any member may; it can do nothing until an admin approves it."""


class OAuthClient(common.Versioned):
    """A client without its secret."""

    edited = ("name", "redirect_uris", "scopes", "status")

    client_id: UUID
    name: str
    """Name of the client, as people see it when they are asked."""
    redirect_uris: list[str]
    """Addresses that people may be sent back to."""
    scopes: list[str]
    """Most that people can be asked for."""
    status: OAuthClientStatus
    """Whether the client may be used."""
    audience: OAuthAudience = OAuthAudience.API
    """What the client's tokens are for."""
    is_public: bool = False
    """Whether the client has no secret."""
    document_url: str | None = None
    """Address of the client ID metadata document that the client is described by; null for one registered here."""
    hint: str
    """The last four characters of the secret value, to tell it from others; empty for a public client."""
    requested_by: str
    """Email address of the member who registered or asked for the client; empty for one that a document describes."""
    created_at: Instant


class OAuthClientWithSecret(OAuthClient):
    """A client with its secret."""

    client_secret: str = Field(repr=False)
    """Secret of the client; shown this once. Empty for a public client, which has none."""


class AdminOAuthClientsCreateResponse(OAuthClientWithSecret):
    """The new client with its secret."""


class AdminOAuthClientsRequestResponse(OAuthClientWithSecret):
    """The client as it waits for an admin, with its secret."""


class AdminOAuthClientsListRequest(common.NarrowedRequest):
    """List clients, those of one status if it is named."""

    status: OAuthClientStatus | None = None
    """Only clients of this status."""


class AdminOAuthClientsListResponse(common.PagedResponse):
    """One page of clients."""

    oauth_clients: list[OAuthClient]
    """The clients."""


class AdminOAuthClientsUpdateRequest(common.VersionedRequest):
    """Change a client; what is left out stays. A scope that is taken away stops at once, in tokens given before too."""

    client_id: UUID
    name: Label | None = None
    """New name; absent: unchanged."""
    redirect_uris: RedirectUris | None = None
    """New addresses that people may be sent back to, 1 to 20; absent: unchanged."""
    scopes: ApiScopes | None = None
    """New scopes that people can be asked for, 1 to 100; absent: unchanged."""


class AdminOAuthClientsUpdateResponse(OAuthClient):
    """The client as it is now."""


class AdminOAuthClientsApproveRequest(common.VersionedRequest):
    """Let a client be used that a member asked for."""

    client_id: UUID


class AdminOAuthClientsApproveResponse(OAuthClient):
    """The client as it is now."""


class AdminOAuthClientsRotateSecretRequest(common.RequestModel):
    """Give a client a new secret; the one before stops at once."""

    client_id: UUID


class AdminOAuthClientsRotateSecretResponse(OAuthClientWithSecret):
    """The client with its new secret, shown this once."""


class AdminOAuthClientsDeleteRequest(common.RequestModel):
    """Delete a client: its codes and tokens stop at once, and what people allowed it is forgotten."""

    client_id: UUID


class AdminOAuthClientsDeleteResponse(common.ResponseModel):
    """The client that is gone."""

    client_id: UUID


class OAuthConsent(common.ResponseModel):
    """What a person has allowed a client."""

    client_id: UUID
    application_name: str
    """Name of the client."""
    audience: OAuthAudience
    """What the client's tokens are for."""
    person_id: UUID
    """Id of the person."""
    email: str
    """Email address of the person."""
    person_name: str
    """Name of the person."""
    scopes: list[str]
    """Scopes that the person allows it, of which the client may ask for those that it has by now."""
    collection_ids: list[UUID] | None = None
    """Ids of the collections that it may read in; absent: it may read in the whole of what the person may."""
    collection_names: list[str] | None = None
    """Names of those of these collections that are left, by name."""
    granted_at: Instant
    """When the person allowed it, or last changed that."""
    last_used_at: Instant | None = None
    """When it was last used, to the minute; absent if never, or if that is longer ago than its tokens are kept."""


class AdminOAuthClientsListConsentsRequest(common.PagedRequest):
    """List what people have allowed clients: all of the organization, of one client, of one person."""

    client_id: UUID | None = None
    """Only what people allowed this client."""
    email: EmailAddress | None = None
    """Only what the person of this address allowed."""


class AdminOAuthClientsListConsentsResponse(common.PagedResponse):
    """One page of consents."""

    consents: list[OAuthConsent]
    """The consents, those to a client together."""


class AdminOAuthClientsWithdrawConsentsRequest(common.RequestModel):
    """Withdraw what people have allowed a client: its codes and tokens stop at once. They may allow it again."""

    client_id: UUID
    email: EmailAddress | None = None
    """Email address of the person whose consent is withdrawn; absent: everybody's."""


class AdminOAuthClientsWithdrawConsentsResponse(common.ResponseModel):
    """How many consents were withdrawn."""

    withdrawn_count: int
    """Number of people who had allowed the client something."""


ADMIN_OAUTH_CLIENTS_CREATE = ApiOperation(
    "admin/oauthClients/create",
    AdminOAuthClientsCreateRequest,
    AdminOAuthClientsCreateResponse,
    ADMIN,
    KEYED | SECRET | CONFIRMED,
    by_position=("name",),
)
"""Create a client, approved at once; `client_secret` is shown this once.

`audience` is what its tokens are for: `"api"` (v1), or `"mcp"` (the endpoint /mcp). Only for the latter may it
be public (`is_public`): it has no secret then.

When the answer was lost on the way, the retry raises ConflictError `already_done`: rotate its secret."""
ADMIN_OAUTH_CLIENTS_REQUEST = ApiOperation(
    "admin/oauthClients/request",
    AdminOAuthClientsRequestRequest,
    AdminOAuthClientsRequestResponse,
    MEMBER,
    KEYED | SECRET,
    by_position=("name",),
)
"""Ask for a client, which can do nothing until an admin approves it; `client_secret` is shown this once."""
ADMIN_OAUTH_CLIENTS_LIST = ApiOperation(
    "admin/oauthClients/list", AdminOAuthClientsListRequest, AdminOAuthClientsListResponse, ADMIN
)
"""Walk the clients, without their secrets; those of one status, and of `ids` (at most 1000), if given."""
ADMIN_OAUTH_CLIENTS_UPDATE = ApiOperation(
    "admin/oauthClients/update",
    AdminOAuthClientsUpdateRequest,
    AdminOAuthClientsUpdateResponse,
    ADMIN,
    NOT_FOUND | CONFLICT | CONFIRMED,
)
"""Change a client; what is left out stays. A scope that is taken away stops at once."""
ADMIN_OAUTH_CLIENTS_APPROVE = ApiOperation(
    "admin/oauthClients/approve",
    AdminOAuthClientsApproveRequest,
    AdminOAuthClientsApproveResponse,
    ADMIN,
    NOT_FOUND | CONFLICT | CONFIRMED,
)
"""Let a client be used that a member asked for."""
ADMIN_OAUTH_CLIENTS_ROTATE_SECRET = ApiOperation(
    "admin/oauthClients/rotateSecret",
    AdminOAuthClientsRotateSecretRequest,
    AdminOAuthClientsRotateSecretResponse,
    ADMIN,
    KEYED | SECRET | NOT_FOUND | CONFIRMED,
)
"""Give a client a new secret, shown this once; the one before stops at once."""
ADMIN_OAUTH_CLIENTS_DELETE = ApiOperation(
    "admin/oauthClients/delete",
    AdminOAuthClientsDeleteRequest,
    AdminOAuthClientsDeleteResponse,
    ADMIN,
    KEYED | NOT_FOUND | CONFIRMED,
)
"""Delete a client: its codes and tokens stop at once, and what people allowed it is forgotten."""
ADMIN_OAUTH_CLIENTS_LIST_CONSENTS = ApiOperation(
    "admin/oauthClients/listConsents",
    AdminOAuthClientsListConsentsRequest,
    AdminOAuthClientsListConsentsResponse,
    ADMIN,
)
"""Walk what people have allowed clients; what they allowed this client, or this person allowed, if given."""
ADMIN_OAUTH_CLIENTS_WITHDRAW_CONSENTS = ApiOperation(
    "admin/oauthClients/withdrawConsents",
    AdminOAuthClientsWithdrawConsentsRequest,
    AdminOAuthClientsWithdrawConsentsResponse,
    ADMIN,
    NOT_FOUND | CONFIRMED,
)
"""Withdraw what people have allowed a client, or this person alone: its codes and tokens stop at once."""
