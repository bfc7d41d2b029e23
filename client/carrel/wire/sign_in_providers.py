"""admin/signInProviders: the OpenID Connect providers that an organization's people sign in with; extensions."""

import re
from collections import Counter
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import AfterValidator, Field, SecretStr

from carrel.wire.common import PagedRequest, PagedResponse, RequestModel, ResponseModel, Versioned, VersionedRequest
from carrel.wire.fields import NO_NUL, WRITTEN_OUT, Instant, Label, StrictFlag
from carrel.wire.operations import ADDS_DATA, ADMIN, CONFIRMED, CONFLICT, KEYED, NOT_FOUND, ApiOperation

MOST_DOMAINS = 100
"""Most domains of one provider."""

_SHOWN = 100  # characters of a text that is no domain

_DOMAIN = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))+")


class GroupsClaim(StrEnum):
    """Which claim of a provider's tokens names the groups that somebody is in."""

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


def _refuse_odd_secret(secret: SecretStr) -> SecretStr:
    if not secret.get_secret_value().isprintable():
        raise ValueError("must not contain control characters")
    return secret


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
    SecretStr, Field(min_length=1, max_length=1024), AfterValidator(_refuse_odd_secret), WRITTEN_OUT
]
"""A client secret: hidden from `repr` and logs; written out only in the request's JSON."""


class SignInProvider(Versioned):
    """A provider that people of the organization sign in with; its client secret is never shown."""

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
    """Address of the issuer, as its tokens name it."""
    client_id: str
    """Id that the provider knows this service by."""
    has_client_secret: bool
    """Whether the client secret can be used; false once the service's secret key was lost."""
    domains: list[str]
    """Domains of the email addresses that it decides about, once they are confirmed."""
    unconfirmed_domains: list[str] | None = None
    """Those of them that nobody has confirmed to be the organization's yet: an operator of the service does, where it
    has several organizations."""
    trust_addresses: bool
    """Whether its addresses count as verified though its tokens don't say so."""
    groups_claim: GroupsClaim
    """Claim that names the groups somebody is in."""
    create_accounts: bool
    """Whether somebody unknown gets an account at their first sign-in."""
    sign_out_there: bool
    """Whether signing out here signs out at the provider, too."""
    accepted_audiences: list[str] = Field(default_factory=list[str])
    """Audiences that its tokens may name beside the client id."""
    redirect_uri: str
    """Address to register at the provider for signing in."""
    logout_redirect_uri: str
    """Address to register at the provider for where people come back to after signing out."""
    backchannel_logout_uri: str
    """Address to register at the provider for its messages that somebody signed out there (Back-Channel Logout)."""
    created_at: Instant
    """When it was added."""


class AdminSignInProvidersCreateRequest(RequestModel):
    """Add a provider that people of the organization sign in with."""

    name: Label
    """Name on the button of the sign-in page."""
    issuer: IssuerAddress
    """Address of the issuer, by https, as its tokens and its metadata name it."""
    client_id: ClientId
    """Id that the provider gave this service."""
    client_secret: ProviderSecret
    """Secret that goes with it."""
    domains: Domains
    """Domains of the email addresses that it decides about, at most 100; each is of one provider of the
    organization."""
    trust_addresses: StrictFlag = False
    """Count its addresses as verified though its tokens don't say so, as those of Microsoft Entra ID; only for an
    issuer whose accounts are all the organization's."""
    groups_claim: GroupsClaim = GroupsClaim.NONE
    """Claim whose values are external ids of the groups somebody is in."""
    create_accounts: StrictFlag = False
    """Make an account for somebody unknown at their first sign-in, without rights but those of its groups."""
    sign_out_there: StrictFlag = False
    """Sign people out at the provider, too, when they sign out here."""
    accepted_audiences: Audiences = Field(default_factory=list[str])
    """Audiences that its tokens may name beside the client id, at most 20; `azp` must then be the client id."""


class AdminSignInProvidersCreateResponse(SignInProvider):
    """The provider, as it is kept."""


class AdminSignInProvidersListRequest(PagedRequest):
    """List the providers."""


class AdminSignInProvidersListResponse(PagedResponse):
    """One page of providers."""

    sign_in_providers: list[SignInProvider]
    """The providers, oldest first."""


class AdminSignInProvidersGetRequest(RequestModel):
    """Get a provider."""

    provider_id: UUID


class AdminSignInProvidersGetResponse(SignInProvider):
    """The provider."""


class AdminSignInProvidersUpdateRequest(VersionedRequest):
    """Change a provider. What isn't given stays; the issuer always does, because people are known by it."""

    provider_id: UUID
    name: Label | None = None
    """Name on the button of the sign-in page."""
    client_id: ClientId | None = None
    """Id that the provider gave this service."""
    client_secret: ProviderSecret | None = None
    """Secret that goes with it."""
    domains: Domains | None = None
    """All domains that it decides about, at most 100."""
    trust_addresses: StrictFlag | None = None
    """Whether its addresses count as verified though its tokens don't say so."""
    groups_claim: GroupsClaim | None = None
    """Claim whose values are external ids of the groups somebody is in."""
    create_accounts: StrictFlag | None = None
    """Whether somebody unknown gets an account at their first sign-in."""
    sign_out_there: StrictFlag | None = None
    """Whether signing out here signs out at the provider, too."""
    accepted_audiences: Audiences | None = None
    """All audiences that its tokens may name beside the client id, at most 20."""


class AdminSignInProvidersUpdateResponse(SignInProvider):
    """The provider, as it is now."""


class AdminSignInProvidersDeleteRequest(RequestModel):
    """Delete a provider: nobody signs in with it any more. Accounts and memberships that came by it stay."""

    provider_id: UUID


class AdminSignInProvidersDeleteResponse(ResponseModel):
    """The provider that is gone."""

    provider_id: UUID


class AdminSignInProvidersTestRequest(RequestModel):
    """Read a provider's metadata and keys, and say what is wrong; nobody is signed in."""

    provider_id: UUID


class AdminSignInProvidersTestResponse(ResponseModel):
    """What is wrong with a provider, as far as can be told without signing in."""

    problems: list[str]
    """What is wrong, for people; empty when nothing is."""


ADMIN_SIGN_IN_PROVIDERS_CREATE = ApiOperation(
    "admin/signInProviders/create",
    AdminSignInProvidersCreateRequest,
    AdminSignInProvidersCreateResponse,
    ADMIN,
    KEYED | ADDS_DATA | CONFLICT | CONFIRMED,
    by_position=("name",),
)
"""Add a provider, whose name is on the button of the sign-in page.

`trust_addresses` counts its addresses as verified though its tokens don't say so, as those of Microsoft Entra
ID. Raises InvalidRequestError `issuer_not_allowed` and `addresses_not_trustable`, ConflictError `issuer_taken`,
`domain_taken` and `too_many_sign_in_providers`."""
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
"""Change a provider; what isn't given stays, and its issuer always does."""
ADMIN_SIGN_IN_PROVIDERS_DELETE = ApiOperation(
    "admin/signInProviders/delete",
    AdminSignInProvidersDeleteRequest,
    AdminSignInProvidersDeleteResponse,
    ADMIN,
    KEYED | NOT_FOUND | CONFIRMED,
)
"""Delete a provider: nobody signs in with it any more. Accounts and memberships that came by it stay."""
ADMIN_SIGN_IN_PROVIDERS_TEST = ApiOperation(
    "admin/signInProviders/test", AdminSignInProvidersTestRequest, AdminSignInProvidersTestResponse, ADMIN, NOT_FOUND
)
"""Read a provider's metadata and keys; `problems` say what is wrong with it, as far as can be told."""
