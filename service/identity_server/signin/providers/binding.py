"""Find a subject's account by subject, provisioned id or address. Subjects bind for good, because addresses pass to
other people; an address binds once, within the provider's domains. Groups in a token set memberships."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.fields import guest_address, normal_email
from carrel.wire.sign_in_providers import GroupsClaim
from service.audit.service import Change, record_for
from service.identity import queries as identity
from service.identity.queries import Membership, Principal, lock_organization, put_principals
from service.identity.queries import find_person as find_account
from service.identity_server.signin import id_tokens
from service.identity_server.signin import queries as signin
from service.identity_server.signin.providers import queries
from service.identity_server.signin.providers.queries import StoredProvider
from service.identity_server.signin.queries import Person
from service.platform.identifiers import uuid7

LONGEST_NAME = 200
# Anyone can open an account with these issuers. Entra's tenant of personal accounts has this id.
ENTRA_CONSUMERS = "9188040d-6c67-4c5b-b112-36a304b66dad"
OPEN_TO_ALL = frozenset({id_tokens.GOOGLE_HOST, "appleid.apple.com"})


@dataclass(frozen=True)
class _Known:
    issuer: str
    subject: str
    external_id: str | None


def is_of_one_tenant(issuer: str) -> bool:
    """Return whether all accounts of an issuer can belong to one organization, judged by the issuer's address."""
    parts = urlsplit(issuer)
    if parts.hostname in OPEN_TO_ALL:
        return False
    if parts.hostname not in id_tokens.ENTRA_HOSTS:
        return True
    tenant = parts.path.strip("/").split("/")[0].lower()
    try:
        return str(UUID(tenant)) == tenant and tenant != ENTRA_CONSUMERS
    except ValueError:  # common, organizations, consumers, or a name: no token contains these
        return False


async def find_or_bind(
    connection: Connection,
    organization_id: UUID,
    *,
    provider: StoredProvider | None,
    subject: id_tokens.Subject,
    now: datetime,
) -> Person:
    """Return the active person bound to a subject, binding if needed; `provider` None means the settings' provider.
    Raises NotVouched `unverified`, `personal`, `domain`, `unknown`, `taken` or `inactive`."""
    known = _identify(provider, subject)
    bound = await signin.find_identity(connection, organization_id, issuer=known.issuer, subject=known.subject)
    if bound is None:
        person = await _find_person(connection, organization_id, provider=provider, subject=subject, known=known)
    else:
        person = await signin.get_person(connection, organization_id, principal_id=bound)
    if person is None:
        raise id_tokens.NotVouched("unknown")
    if not person.active:
        raise id_tokens.NotVouched("inactive", principal_id=person.principal_id)
    if bound is None:
        await _bind(connection, organization_id, person=person, known=known, now=now)
    return person


def _identify(provider: StoredProvider | None, subject: id_tokens.Subject) -> _Known:
    """Return the identifier of a subject; at Entra `oid`, because its `sub` differs for each application."""
    if provider is None:
        return _Known(subject.issuer, subject.subject, None)
    oid = (
        id_tokens.text_of(subject.claims, "oid") if urlsplit(subject.issuer).hostname in id_tokens.ENTRA_HOSTS else None
    )
    return _Known(subject.issuer, oid or subject.subject, oid or subject.subject)


async def _find_person(
    connection: Connection,
    organization_id: UUID,
    *,
    provider: StoredProvider | None,
    subject: id_tokens.Subject,
    known: _Known,
) -> Person | None:
    """Find the person of an unbound subject by provisioned id or address, or create the account where allowed. Raises
    NotVouched `unverified`, `personal` or `domain`."""
    brought: Person | None = None
    if known.external_id is not None and provider is not None:
        brought = await signin.find_person(connection, organization_id, external_id=known.external_id)
        if brought is not None and _is_believed_about(provider, brought, subject):
            return brought
    email = vouched_address(provider, subject)
    domain = email.rpartition("@")[2]
    decides = (
        not await queries.has_domain(connection, organization_id, domain=domain)
        if provider is None
        else domain in provider.confirmed_domains
    )
    if not decides:
        raise id_tokens.NotVouched("domain")
    person = await signin.find_person(connection, organization_id, email=email)
    # Only Microsoft issues an `oid`. Entra may have provisioned an address of the tenant for guests and others.
    is_of_entra = urlsplit(subject.issuer).hostname in id_tokens.ENTRA_HOSTS and known.subject == known.external_id
    if person is None and brought is not None and is_of_entra and not brought.is_admin:
        domain = brought.email.rpartition("@")[2]
        if not await queries.has_domain(connection, organization_id, domain=domain):
            return await _move(connection, organization_id, person=brought, email=email)
    if person is None and provider is not None and provider.create_accounts:
        return await _create(connection, organization_id, provider=provider, email=email, claims=subject.claims)
    return person


def _is_believed_about(provider: StoredProvider, person: Person, subject: id_tokens.Subject) -> bool:
    """Return whether a provider's id suffices to identify a person. It does only within the provider's domains. For
    admins the address must match too, verified or not, because a provisioning token sets ids."""
    if person.email.rpartition("@")[2] not in provider.confirmed_domains:
        return False
    named = (subject.email, id_tokens.text_of(subject.claims, "preferred_username"))
    return not person.is_admin or person.email in {normal_email(item) for item in named if item}


def _refuse_personal(provider: StoredProvider | None, subject: id_tokens.Subject) -> None:
    """Raise NotVouched `personal` for a Google account without `hd`, still verified after the address is lost."""
    if urlsplit(subject.issuer).hostname != id_tokens.GOOGLE_HOST:
        return
    given_by = id_tokens.text_of(subject.claims, "hd")
    if given_by is None or (provider is not None and given_by.lower() not in provider.confirmed_domains):
        raise id_tokens.NotVouched("personal")


def vouched_address(provider: StoredProvider | None, subject: id_tokens.Subject) -> str:
    """Return an address verified by the token or trusted by an admin. Raises NotVouched `unverified` or `personal`."""
    _refuse_personal(provider, subject)
    given = subject.email
    if not subject.is_verified:
        if provider is None or not provider.trust_addresses:
            raise id_tokens.NotVouched("unverified")
        if given is None and (named := id_tokens.text_of(subject.claims, "preferred_username")):
            is_of_entra = urlsplit(subject.issuer).hostname in id_tokens.ENTRA_HOSTS
            given = (guest_address(named) if is_of_entra else None) or named
    email = normal_email(given or "")
    local, _, domain = email.rpartition("@")
    # Some letters beyond ASCII become other letters in lower case: the address would be another person's.
    if given is None or not (given.isascii() or given == email) or not local or not domain or "@" in local:
        raise id_tokens.NotVouched("unverified")
    return email


async def _move(connection: Connection, organization_id: UUID, *, person: Person, email: str) -> Person | None:
    """Give a provisioned person another address. If an account has it, return its person; None if changed meanwhile."""
    await lock_organization(connection, organization_id)
    if await find_account(connection, organization_id, email=email):
        return await signin.find_person(connection, organization_id, email=email)
    now = await signin.get_person(connection, organization_id, principal_id=person.principal_id)
    if now is None or now.is_admin or now.email != person.email:
        return None
    await identity.change_user(connection, organization_id, user_id=person.principal_id, values={"email": email})
    change = Change("user.update", "user", person.principal_id, {"email": email, "emailBefore": person.email})
    await record_for(connection, organization_id, actor_id=person.principal_id, change=change)
    return replace(person, email=email)


async def _create(
    connection: Connection, organization_id: UUID, *, provider: StoredProvider, email: str, claims: Mapping[str, Any]
) -> Person | None:
    """Return the account with an address, created if missing; None if the address is a service account's."""
    await lock_organization(connection, organization_id)
    if found := await signin.find_person(connection, organization_id, email=email):
        return found
    if await find_account(connection, organization_id, email=email):
        return None
    name: object = claims.get("name")
    usable = isinstance(name, str) and name.strip() and name.isprintable()
    person_id = uuid7()
    named = str(name).strip()[:LONGEST_NAME] if usable else email.partition("@")[0]
    await put_principals(
        connection, organization_id, rows=[Principal(principal_id=person_id, kind="user", name=named, email=email)]
    )
    details = {"isAdmin": False, "active": True, "providerId": str(provider.provider_id)}
    change = Change("user.create", "user", person_id, details)
    await record_for(connection, organization_id, actor_id=person_id, change=change)
    return await signin.get_person(connection, organization_id, principal_id=person_id)


async def _bind(connection: Connection, organization_id: UUID, *, person: Person, known: _Known, now: datetime) -> None:
    """Bind a subject to a person, unless just bound. Raises NotVouched `inactive`, or `taken` for another binding."""
    # With the lock, the person's access can't end at the same time: the address could later be another person's.
    await lock_organization(connection, organization_id)
    current = await signin.get_person(connection, organization_id, principal_id=person.principal_id)
    if current is None or not current.active:
        raise id_tokens.NotVouched("inactive", principal_id=person.principal_id)
    issuer, subject = known.issuer, known.subject
    row = {"issuer": issuer, "subject": subject, "principal_id": person.principal_id, "bound_at": now}
    if not await signin.bind_identity(connection, organization_id, row=row):
        # The account belongs to another person, or a concurrent sign-in of this person has bound it.
        bound = await signin.find_identity(connection, organization_id, issuer=issuer, subject=subject)
        if bound != person.principal_id:
            raise id_tokens.NotVouched("taken", principal_id=person.principal_id)
        return
    change = Change("identity.bind", "user", person.principal_id, {"issuer": issuer})
    await record_for(connection, organization_id, actor_id=person.principal_id, change=change)


LONGEST_GROUP = 1024


async def update_memberships(
    connection: Connection,
    organization_id: UUID,
    *,
    provider: StoredProvider,
    person_id: UUID,
    claims: Mapping[str, Any],
) -> dict[str, str]:
    """Bring the memberships managed by a provider in line with a token; return details for the audit log."""
    if provider.groups_claim is GroupsClaim.NONE:
        return {}
    named = named_groups(claims, provider.groups_claim.value.lower())
    if isinstance(named, str):
        return {"groups": named}
    await lock_organization(connection, organization_id)
    wanted = await queries.list_group_ids(connection, organization_id, external_ids=named)
    brought = await queries.list_provider_groups(
        connection, organization_id, provider_id=provider.provider_id, member_id=person_id
    )
    added = await identity.bring_members(
        connection, organization_id, memberships=[Membership(one, person_id, False) for one in sorted(wanted - brought)]
    )
    new = [group_id for group_id, _ in added]
    await queries.add_provider_memberships(
        connection, organization_id, provider_id=provider.provider_id, member_id=person_id, group_ids=new
    )
    ended = sorted(brought - wanted)
    for group_id in ended:
        await identity.remove_members(connection, organization_id, group_id=group_id, member_ids=[person_id])
    for group_id, verb in [*((item, "added") for item in new), *((item, "removed") for item in ended)]:
        details = {verb: [str(person_id)], "providerId": str(provider.provider_id)}
        change = Change("group.members", "group", group_id, details)
        await record_for(connection, organization_id, actor_id=person_id, change=change)
    return {}


def named_groups(claims: Mapping[str, Any], claim: str) -> set[str] | str:
    """Return a claim's groups; or `leftOut` (Entra's `_claim_names` or `hasgroups`), `absent` or `notAList`."""
    value: object = claims.get(claim)
    if id_tokens.is_named_elsewhere(claims, claim):
        return "leftOut"
    if value is None:
        return "leftOut" if claim == "groups" and claims.get("hasgroups") in {True, "true"} else "absent"
    given = cast("list[object]", value) if isinstance(value, list) else [value]
    texts = [item for item in given if isinstance(item, str) and item]
    if len(texts) < len(given):
        return "notAList"
    return {text for text in texts if len(text) <= LONGEST_GROUP and "\0" not in text}
