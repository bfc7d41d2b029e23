"""admin/signInProviders: OpenID Connect providers for an organization's sign-in; extensions."""

import re
from collections import Counter
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import AfterValidator, Field, SecretStr

from carrel.wire.common import PagedRequest, PagedResponse, RequestModel, ResponseModel, Versioned, VersionedRequest
from carrel.wire.fields import NO_NUL, WRITTEN_OUT, Instant, Label, StrictFlag, must
from carrel.wire.operations import ADDS_DATA, ADMIN, CONFIRMED, CONFLICT, KEYED, NOT_FOUND, ApiOperation

MOST_DOMAINS = 100
"""Most domains of a provider."""

_SHOWN = 100  # the most characters shown of an invalid domain

_DOMAIN = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))+")


class GroupsClaim(StrEnum):
    """Claim of a provider's tokens with the person's groups."""

    NONE = "NONE"
    """None: memberships are kept here alone."""
    GROUPS = "GROUPS"
    """`groups`."""
    ROLES = "ROLES"
    """`roles`."""


def _to_domain(text: str) -> str:
    domain = text.strip().lower()
    if len(domain) > 253 or not _DOMAIN.fullmatch(domain):
        raise ValueError(f"must be a domain, such as example.com: {domain[:_SHOWN]!r} is none")
    return domain


def _refuse_repetition(domains: list[str]) -> list[str]:
    if repeated := sorted(domain for domain, count in Counter(domains).items() if count > 1):
        raise ValueError(f"must be given once each: {', '.join(repeated)}")
    return domains


Domain = Annotated[
    str, Field(min_length=1, max_length=300, examples=["example.com"]), NO_NUL, AfterValidator(_to_domain)
]
Domains = Annotated[list[Domain], Field(min_length=1, max_length=MOST_DOMAINS), AfterValidator(_refuse_repetition)]
IssuerAddress = Annotated[
    str, Field(min_length=1, max_length=2048, examples=["https://login.example.com/realms/people"]), NO_NUL
]
ClientId = Annotated[str, Field(min_length=1, max_length=255), NO_NUL]
Audiences = Annotated[list[ClientId], Field(max_length=20)]
ProviderSecret = Annotated[
    SecretStr,
    Field(min_length=1, max_length=1024),
    must(lambda secret: secret.get_secret_value().isprintable(), "must not contain control characters"),
    WRITTEN_OUT,
]
"""A client secret: hidden from `repr` and logs; written only to the request's JSON."""


class SignInProvider(Versioned):
    """A sign-in provider of the organization; the client secret is never returned."""

    edited = (
        "name",
        "client_id",
        "domains",
        "trust_addresses",
        "groups_claim",
        "create_accounts",
        "sign_out_there",
        "accepted_audiences",
    )

    provider_id: UUID
    name: str
    """Name on the button of the sign-in page."""
    issuer: str
    """URL of the issuer, as written in its tokens."""
    client_id: str
    """Client id of the service at the provider."""
    has_client_secret: bool
    """Whether the client secret is usable; false after the service's secret key was lost."""
    domains: list[str]
    """Domains of email addresses managed by the provider, once confirmed."""
    unconfirmed_domains: list[str] | None = None
    """Domains not confirmed as the organization's; with several organizations, an operator confirms domains."""
    trust_addresses: bool
    groups_claim: GroupsClaim
    """Claim with the person's groups."""
    create_accounts: bool
    sign_out_there: bool
    accepted_audiences: list[str] = Field(default_factory=list[str])
    """Audiences accepted in tokens in addition to the client id."""
    redirect_uri: str
    """Address to register at the provider for signing in."""
    logout_redirect_uri: str
    """URL to register at the provider, for the return after signing out."""
    backchannel_logout_uri: str
    """URL to register at the provider, for messages about sign-outs (Back-Channel Logout)."""
    created_at: Instant
    """When the provider was added."""


class AdminSignInProvidersCreateRequest(RequestModel):
    """Add a sign-in provider to the organization."""

    name: Label
    """Name on the button of the sign-in page."""
    issuer: IssuerAddress
    """URL of the issuer, with https, as written in its tokens and metadata."""
    client_id: ClientId
    """Client id of the service at the provider."""
    client_secret: ProviderSecret
    domains: Domains
    """Domains of addresses managed by the provider, at most 100; providers of an organization share no domain."""
    trust_addresses: StrictFlag = False
    """Whether the provider's addresses count as verified even if its tokens don't say so, as with Microsoft Entra ID.
    Use only for an issuer whose accounts all belong to the organization."""
    groups_claim: GroupsClaim = GroupsClaim.NONE
    create_accounts: StrictFlag = False
    """Whether an unknown person gets an account at the first sign-in, with no rights except the groups' rights."""
    sign_out_there: StrictFlag = False
    """Whether signing out here also signs people out at the provider."""
    accepted_audiences: Audiences = Field(default_factory=list[str])
    """Audiences accepted in tokens in addition to the client id, at most 20; `azp` must then be the client id."""


class AdminSignInProvidersCreateResponse(SignInProvider):
    """The provider as saved."""


class AdminSignInProvidersListRequest(PagedRequest):
    """List the providers."""


class AdminSignInProvidersListResponse(PagedResponse):
    """A page of providers."""

    sign_in_providers: list[SignInProvider]
    """The providers, oldest first."""


class AdminSignInProvidersGetRequest(RequestModel):
    """Get a provider."""

    provider_id: UUID


class AdminSignInProvidersGetResponse(SignInProvider):
    """The provider."""


class AdminSignInProvidersUpdateRequest(VersionedRequest):
    """Change a provider; omitted values stay. The issuer can't change, because it identifies people."""

    provider_id: UUID
    name: Label | None = None
    """Name on the button of the sign-in page."""
    client_id: ClientId | None = None
    """Client id of the service at the provider."""
    client_secret: ProviderSecret | None = None
    domains: Domains | None = None
    """All domains managed by the provider, at most 100."""
    trust_addresses: StrictFlag | None = None
    groups_claim: GroupsClaim | None = None
    create_accounts: StrictFlag | None = None
    sign_out_there: StrictFlag | None = None
    accepted_audiences: Audiences | None = None
    """All audiences accepted in tokens in addition to the client id, at most 20."""


class AdminSignInProvidersUpdateResponse(SignInProvider):
    """The provider after the change."""


class AdminSignInProvidersDeleteRequest(RequestModel):
    """Delete a provider and end sign-in with it. Accounts and memberships created by it stay."""

    provider_id: UUID


class AdminSignInProvidersDeleteResponse(ResponseModel):
    """The deleted provider."""

    provider_id: UUID


class AdminSignInProvidersTestRequest(RequestModel):
    """Read a provider's metadata and keys, and report mistakes; no person is signed in."""

    provider_id: UUID


class AdminSignInProvidersTestResponse(ResponseModel):
    """Mistakes in a provider's configuration, as far as known without signing in."""

    problems: list[str]
    """The mistakes, for people; empty: none found."""


ADMIN_SIGN_IN_PROVIDERS_CREATE = ApiOperation(
    "admin/signInProviders/create",
    AdminSignInProvidersCreateRequest,
    AdminSignInProvidersCreateResponse,
    ADMIN,
    KEYED | ADDS_DATA | CONFLICT | CONFIRMED,
    by_position=("name",),
)
"""Add a provider; its name is on the button of the sign-in page. `trust_addresses` treats its email addresses
as verified even if its tokens don't say so, as with Microsoft Entra ID. Raises InvalidRequestError
`issuer_not_allowed` and `addresses_not_trustable`, ConflictError `issuer_taken`, `domain_taken` and
`too_many_sign_in_providers`."""
ADMIN_SIGN_IN_PROVIDERS_LIST = ApiOperation(
    "admin/signInProviders/list", AdminSignInProvidersListRequest, AdminSignInProvidersListResponse, ADMIN
)
"""Walk the providers, oldest first."""
ADMIN_SIGN_IN_PROVIDERS_GET = ApiOperation(
    "admin/signInProviders/get", AdminSignInProvidersGetRequest, AdminSignInProvidersGetResponse, ADMIN, NOT_FOUND
)
"""Get a provider. Raises NotFoundError `sign_in_provider_not_found`."""
ADMIN_SIGN_IN_PROVIDERS_UPDATE = ApiOperation(
    "admin/signInProviders/update",
    AdminSignInProvidersUpdateRequest,
    AdminSignInProvidersUpdateResponse,
    ADMIN,
    NOT_FOUND | CONFLICT | CONFIRMED,
)
"""Change a provider; omitted values stay, and the issuer never changes."""
ADMIN_SIGN_IN_PROVIDERS_DELETE = ApiOperation(
    "admin/signInProviders/delete",
    AdminSignInProvidersDeleteRequest,
    AdminSignInProvidersDeleteResponse,
    ADMIN,
    KEYED | NOT_FOUND | CONFIRMED,
)
"""Delete a provider and end sign-in with it. Accounts and memberships created by it stay."""
ADMIN_SIGN_IN_PROVIDERS_TEST = ApiOperation(
    "admin/signInProviders/test", AdminSignInProvidersTestRequest, AdminSignInProvidersTestResponse, ADMIN, NOT_FOUND
)
"""Read a provider's metadata and keys; `problems` lists configuration mistakes, as far as known."""
