"""An organization's sign-in providers: adding, changing, deleting and testing them, for admins."""

from collections.abc import Collection
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import sign_in_providers as wire
from service.audit.service import Change, record, record_all, record_unattended
from service.audit.versions import change_between, refuse_stale
from service.auth.callers import Caller
from service.identity.queries import get_organization, is_only_organization, lock_organization
from service.identity_server.signin.provider import CALLBACK, open_provider
from service.identity_server.signin.providers import queries
from service.identity_server.signin.providers.binding import is_of_one_tenant
from service.identity_server.signin.providers.queries import ChosenProvider, StoredProvider
from service.identity_server.signin.providers.registrations import open_registration, require_provider
from service.identity_server.signin.queries import delete_identities_of
from service.platform.database import Database
from service.platform.errors import BadRequest, Conflict, FieldError
from service.platform.identifiers import uuid7
from service.platform.networks import AllowedHosts, is_confidential
from service.platform.secrets import seal
from service.platform.settings import Settings
from service.platform.sql import Clock
from service.runtime import Runtime
from service.web.pagination import Cursor

TARGET = "signInProvider"
MOST_PROVIDERS = 100
# The columns that admins edit; domains have their own table.
_KEPT = [name for name in wire.SignInProvider.edited if name != "domains"]


async def create_provider(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminSignInProvidersCreateRequest
) -> wire.AdminSignInProvidersCreateResponse:
    """Add an OpenID Connect provider for sign-in to the organization.

    Raises BadRequest `issuer_not_allowed` and `addresses_not_trustable`, Conflict `too_many_sign_in_providers`,
    `issuer_taken` and `domain_taken`."""
    _check_issuer(request.issuer, AllowedHosts.of(runtime.settings.webhook_allowed_hosts))
    _check_trust(request.issuer, trusted=request.trust_addresses)
    organization_id, provider_id = caller.organization_id, uuid7()
    await lock_organization(connection, organization_id)
    if await queries.count_providers(connection, organization_id) >= MOST_PROVIDERS:
        message = f"The organization has {MOST_PROVIDERS} sign-in providers, the limit. Delete unused providers."
        raise Conflict(message, code="too_many_sign_in_providers")
    key = runtime.keys.provider_key(organization_id)
    values: dict[str, Any] = {name: getattr(request, name) for name in _KEPT}
    values |= {
        "provider_id": provider_id,
        "issuer": request.issuer,
        "sealed_secret": seal(key, row_id=provider_id, secret=request.client_secret),
    }
    if not await queries.insert_provider(connection, organization_id, values=values):
        message = "The organization already has a provider with this issuer. Change that provider instead."
        raise Conflict(message, code="issuer_taken", details=[FieldError("issuer", message)])
    await _claim(runtime.clock, connection, caller, provider_id=provider_id, domains=request.domains)
    provider = await require_provider(connection, organization_id, provider_id=provider_id)
    await _record(connection, caller, "create", provider)
    return wire.AdminSignInProvidersCreateResponse(**dict(_describe(provider, runtime.settings)))


async def list_providers(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminSignInProvidersListRequest
) -> wire.AdminSignInProvidersListResponse:
    """List the organization's sign-in providers."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_SIGN_IN_PROVIDERS_LIST.path, request=request)
    rows = await queries.list_providers(connection, caller.organization_id, cursor.window)
    described = [_describe(row, runtime.settings) for row in rows]
    return cursor.answer(wire.AdminSignInProvidersListResponse, described, "provider_id")


async def get_provider(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminSignInProvidersGetRequest
) -> wire.AdminSignInProvidersGetResponse:
    """Get a sign-in provider."""
    found = await require_provider(connection, caller.organization_id, provider_id=request.provider_id)
    return wire.AdminSignInProvidersGetResponse(**dict(_describe(found, runtime.settings)))


async def update_provider(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminSignInProvidersUpdateRequest
) -> wire.AdminSignInProvidersUpdateResponse:
    """Change a sign-in provider; its issuer can't change.

    Raises NotFound, BadRequest `addresses_not_trustable` and Conflict `domain_taken`."""
    organization_id, provider_id = caller.organization_id, request.provider_id
    provider = await require_provider(connection, organization_id, provider_id=provider_id, lock=True)
    before = _describe(provider, runtime.settings)
    await refuse_stale(connection, caller, request.version, before, target_id=provider_id)
    _check_trust(provider.issuer, trusted=request.trust_addresses is True)
    values = {name: value for name in _KEPT if (value := getattr(request, name)) is not None}
    if request.client_secret is not None:
        key = runtime.keys.provider_key(organization_id)
        values["sealed_secret"] = seal(key, row_id=provider_id, secret=request.client_secret)
    if not values and request.domains is None:
        return wire.AdminSignInProvidersUpdateResponse(**dict(before))
    if request.domains is not None:
        await _claim(runtime.clock, connection, caller, provider_id=provider_id, domains=request.domains)
        await _require_a_way_in(runtime, connection, organization_id)
    if values:
        await queries.update_provider(connection, organization_id, provider_id=provider_id, values=values)
    provider = await require_provider(connection, organization_id, provider_id=provider_id)
    after = _describe(provider, runtime.settings)
    details = _details(provider) | ({"clientSecretChanged": True} if request.client_secret is not None else {})
    change = change_between("signInProvider.update", TARGET, provider_id, before, after, details=details)
    await record_all(connection, caller, changes=[change])
    return wire.AdminSignInProvidersUpdateResponse(**dict(after))


async def delete_provider(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminSignInProvidersDeleteRequest
) -> wire.AdminSignInProvidersDeleteResponse:
    """Delete a sign-in provider: people can no longer sign in with it.

    Raises NotFound. Bound identities stay if the provider of the settings has the same issuer."""
    provider_id = request.provider_id
    organization_id = caller.organization_id
    provider = await require_provider(connection, organization_id, provider_id=provider_id, lock=True)
    await _record(connection, caller, "delete", provider)
    if provider.issuer != runtime.settings.oidc_issuer:
        await delete_identities_of(connection, organization_id, issuer=provider.issuer)
    await queries.delete_provider(connection, organization_id, provider_id=provider_id)
    await _require_a_way_in(runtime, connection, organization_id)
    return wire.AdminSignInProvidersDeleteResponse(provider_id=request.provider_id)


async def _require_a_way_in(runtime: Runtime, connection: Connection, organization_id: UUID) -> None:
    if runtime.settings.oidc_issuer is not None:
        return
    await lock_organization(connection, organization_id)
    organization = await get_organization(connection, organization_id)
    if not organization.passwords_enabled and not await queries.has_domain(connection, organization_id):
        message = "Nobody could sign in: passwords are switched off. Switch passwords on, or add a provider first."
        raise Conflict(message, code="no_sign_in_provider")


async def find_problems(
    runtime: Runtime, caller: Caller, *, request: wire.AdminSignInProvidersTestRequest
) -> wire.AdminSignInProvidersTestResponse:
    """Read a provider's metadata and keys, and return the problems found; no sign-in takes place."""
    registered = await open_registration(runtime, ChosenProvider(caller.organization_id, request.provider_id))
    async with open_provider(registered.registration, runtime) as provider:
        stored = registered.stored
        problems = await provider.problems(needs_sign_out=stored is not None and stored.sign_out_there)
    return wire.AdminSignInProvidersTestResponse(
        problems=[
            *problems,
            *([] if stored is None else [*_describe_unconfirmed(stored), *await _groups_of(runtime, stored)]),
        ]
    )


_UNREAD = {
    "leftOut": "left out the groups, because there were too many. Let the provider send fewer groups",
    "absent": "had no groups claim, or it was null. Let the provider add the claim to its tokens",
    "notAList": "had a groups claim that is not a list of texts. Let the provider send ids or names of groups",
}


async def _groups_of(runtime: Runtime, provider: StoredProvider) -> list[str]:
    """Return the reason why the newest sign-in at a provider changed no memberships, if any."""
    if provider.groups_claim is wire.GroupsClaim.NONE:
        return []
    organization_id, provider_id = provider.organization_id, provider.provider_id
    async with runtime.database.transaction(organization_id, read_only=True) as connection:
        said = await queries.find_groups_of_newest(connection, organization_id, provider_id=provider_id)
    claim = provider.groups_claim.value.lower()
    return (
        [f"The token of the newest sign-in {_UNREAD[said]}. The claim is {claim}; memberships did not change."]
        if said in _UNREAD
        else []
    )


def _describe_unconfirmed(provider: StoredProvider) -> list[str]:
    waiting = ", ".join(sorted({*provider.domains} - {*provider.confirmed_domains}))
    said = (
        f"These domains are not confirmed as your organization's: {waiting}. Until then, people with such addresses "
        "can't sign in for the first time. Ask the operators of the service to confirm them."
    )
    return [said] if waiting else []


async def confirm_domain(database: Database, organization_id: UUID, *, domain: str, confirmed: bool) -> bool:
    """Confirm or withdraw a domain; False if unchanged. Raises IntegrityError if confirmed for another organization."""
    async with database.transaction(organization_id) as connection:
        now = await Clock().now(connection)
        provider_id = await queries.confirm_domain(
            connection, organization_id, domain=domain, confirmed_at=now if confirmed else None
        )
        if provider_id is not None:
            details = {"domain": domain, "confirmed": confirmed}
            change = Change("signInProvider.update", TARGET, provider_id, details)
            await record_unattended(connection, organization_id, change=change)
    return provider_id is not None


async def _claim(
    clock: Clock, connection: Connection, caller: Caller, *, provider_id: UUID, domains: Collection[str]
) -> None:
    """Give domains to a provider. Raises Conflict `domain_taken` for another provider's domain. A single organization's
    domains count at once, since its admins control all accounts; with several, an operator confirms each owner."""
    organization_id = caller.organization_id
    is_alone = await is_only_organization(connection, organization_id)
    confirmed_at = await clock.now(connection) if is_alone else None
    if taken := await queries.replace_domains(
        connection, organization_id, provider_id=provider_id, domains=domains, confirmed_at=confirmed_at
    ):
        raise _taken(taken)


def _taken(domains: Collection[str]) -> Conflict:
    message = (
        f"Another provider of the organization already has {', '.join(sorted(domains))}. Remove these domains from "
        "that provider first."
    )
    return Conflict(message, code="domain_taken", details=[FieldError("domains", message)])


def _check_issuer(issuer: str, allowed: AllowedHosts) -> None:
    parts = urlsplit(issuer) if is_confidential(issuer) else None
    if parts is None or "?" in issuer or parts.hostname is None:
        message = "must be the issuer's https address, without a query or fragment, such as https://login.example.com"
    elif not allowed.may_allow(parts.hostname):
        message = "Its host is not public. An operator can allow it with CARREL_WEBHOOK_ALLOWED_HOSTS."
    else:
        return
    raise BadRequest(f"issuer: {message}", code="issuer_not_allowed", details=[FieldError("issuer", message)])


def _check_trust(issuer: str, *, trusted: bool) -> None:
    if trusted and not is_of_one_tenant(issuer):
        message = (
            "Anyone can have an account at this issuer, so its addresses can't be trusted. For Microsoft Entra ID, use "
            "the issuer of your own tenant: https://login.microsoftonline.com/<tenant id>/v2.0"
        )
        raise BadRequest(message, code="addresses_not_trustable", details=[FieldError("trustAddresses", message)])


def _describe(row: StoredProvider, settings: Settings) -> wire.SignInProvider:
    more = {
        "has_client_secret": row.sealed_secret is not None,
        "unconfirmed_domains": sorted({*row.domains} - {*row.confirmed_domains}),
        "redirect_uri": f"{settings.issuer}{CALLBACK}",
        "logout_redirect_uri": f"{settings.issuer}/account/sign-in",
        "backchannel_logout_uri": f"{settings.issuer}/api/oauth/upstream/{row.provider_id}/logout",
    }
    return wire.SignInProvider.model_validate(asdict(row) | more)


async def _record(connection: Connection, caller: Caller, what: str, provider: StoredProvider) -> None:
    details = _details(provider)
    await record(connection, caller, f"signInProvider.{what}", TARGET, provider.provider_id, details=details)


def _details(provider: StoredProvider) -> dict[str, Any]:
    return {
        "issuer": provider.issuer,
        "domains": provider.domains,
        "trustAddresses": provider.trust_addresses,
        "groupsClaim": provider.groups_claim,
        "createAccounts": provider.create_accounts,
        "signOutThere": provider.sign_out_there,
        "acceptedAudiences": provider.accepted_audiences,
    }
