"""People as managed by an identity provider: address, name, external id, and whether active. Never makes admins."""

from dataclasses import asdict, replace
from typing import Any, cast
from uuid import UUID

from pydantic import TypeAdapter, ValidationError
from scim2_models import InvalidValueException, UniquenessException
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.fields import EmailAddress, guest_address, normal_email
from service.audit.service import Change
from service.domains.people.directory.users import require_active_admin
from service.domains.people.scim import queries
from service.domains.people.scim.models import User, refuse_long
from service.domains.people.scim.queries import GUEST_MARK, ScimCaller, StoredUser
from service.domains.people.scim.tokens import change_of, record_changes
from service.identity import queries as identity
from service.identity.queries import Principal, leave_groups
from service.identity_server.interface import end_access, end_sign_ins
from service.permissions.service import end_shares
from service.platform.identifiers import uuid7

_ADDRESS = TypeAdapter[str](EmailAddress)


async def create_user(connection: Connection, caller: ScimCaller, given: User) -> UUID:
    """Create a person, or restore a deleted person; return the id. A person already signed in with the same external id
    is changed instead. The organization is locked. Raises InvalidValueException, and UniquenessException if taken."""
    refuse_long(given)
    organization_id, email = caller.organization_id, _address_of(given)
    found = await identity.find_principals(connection, organization_id, emails=[email], deleted=True)
    existing = await queries.find_users_by(connection, organization_id, email=email, external_id=given.external_id)
    bound = await queries.find_user_bound_to(connection, organization_id, subject=given.external_id or "")
    # The same subject at another provider may be another person: the address, or Entra's name for a guest, decides.
    is_same = bound is not None and (bound.email == email or GUEST_MARK in bound.email)
    if bound is not None and is_same and {user.principal_id for user in existing} <= {bound.principal_id}:
        await change_user(connection, caller, bound, given)
        return bound.principal_id
    before = next(iter(found), None)
    if existing or (before is not None and before.kind != "user"):
        raise _taken(email)
    person = Principal(
        principal_id=uuid7() if before is None else before.principal_id,
        kind="user",
        name=_name_of(given) or default_name(email),
        email=email,
        external_id=given.external_id,
        active=given.active is not False,
        password_hash=None if before is None else before.password_hash,
    )
    await identity.put_principals(connection, organization_id, rows=[person])
    await identity.change_user(connection, organization_id, user_id=person.principal_id, values={"released_at": None})
    created = Change("user.create", "user", person.principal_id, {"isAdmin": False, "active": person.active})
    change = created if before is None else change_of("user", before, person)
    await record_changes(connection, caller, changes=[change])
    return person.principal_id


async def change_user(connection: Connection, caller: ScimCaller, before: StoredUser, given: User) -> None:
    """Update a person in a locked organization, signing out if inactive. With another address or id, or if reactivated,
    an admin loses the rights. Raises Conflict `last_admin`, UniquenessException and InvalidValueException."""
    refuse_long(given)
    organization_id, user_id = caller.organization_id, before.principal_id
    active = given.active is not False if "active" in given.model_fields_set else before.active
    email = _address_of(given, before=before)
    # Otherwise the holder of the token could pass an admin's account to another person.
    stays = email == before.email and before.external_id in {None, given.external_id}
    is_admin = before.is_admin and stays and (before.active or not active)
    name, external_id = _name_of(given) or default_name(email), given.external_id
    after = replace(before, email=email, name=name, external_id=external_id, active=active, is_admin=is_admin)
    if after == before:
        return
    await _refuse_taken(connection, caller, user_id=user_id, email=email, external_id=given.external_id)
    # Lock in the order of an upload by this person: resources before the person.
    unshared = await end_shares(connection, organization_id, owner_ids=[] if active else [user_id])
    if not active:
        await end_sign_ins(connection, organization_id, principal_ids=[user_id])
    await identity.change_user(connection, organization_id, user_id=user_id, values=asdict(after))
    await require_active_admin(connection, organization_id)
    await record_changes(connection, caller, changes=[change_of("user", before, after), *unshared])


async def delete_user(connection: Connection, caller: ScimCaller, person: StoredUser) -> None:
    """End a person's access for good, in a locked organization; property stays. Raises `change_user`'s errors."""
    organization_id, user_id = caller.organization_id, person.principal_id
    unshared = await end_shares(connection, organization_id, owner_ids=[user_id])
    keys = (await end_access(connection, organization_id, principal_id=user_id)).api_key_ids
    await queries.release_user(connection, organization_id, user_id=user_id)
    await require_active_admin(connection, organization_id)
    groups = await leave_groups(connection, organization_id, member_id=user_id)
    details = {"apiKeyCount": len(keys), "groupIds": [str(group) for group in sorted(groups)]}
    changes = [
        Change("user.offboard", "user", user_id, details),
        *(Change("apiKey.revoke", "apiKey", key) for key in keys),
        *(Change("group.members", "group", item, {"removed": [str(user_id)]}) for item in sorted(groups)),
        *unshared,
    ]
    await record_changes(connection, caller, changes=changes)


def default_name(email: str) -> str:
    return email.partition("@")[0]


def _address_of(given: User, *, before: StoredUser | None = None) -> str:
    """Return userName, or the work address if userName is a guest's or no address. Raises InvalidValueException."""
    name = given.user_name or ""
    is_guest = GUEST_MARK in name.lower()
    if is_guest or "@" not in name:
        name = _work_address_of(given) or guest_address(name) or (before.email if before and is_guest else name)
    try:
        return normal_email(_ADDRESS.validate_python(name))
    except ValidationError:
        message = "userName must be an email address: Carrel knows people by it. Map userName to the person's address."
        raise InvalidValueException(detail=message) from None


def _work_address_of(given: User) -> str | None:
    """Return the work address among the emails, else the primary address, else the first."""
    emails: Any = given.unknown_attributes.get("emails")
    given_emails = cast("list[object]", emails if isinstance(emails, list) else [])
    listed = [cast("dict[str, object]", email) for email in given_emails if isinstance(email, dict)]
    ranked = sorted(listed, key=lambda row: (row.get("type") != "work", row.get("primary") is not True))
    return next((str(row["value"]) for row in ranked if row.get("value")), None)


def _name_of(given: User) -> str | None:
    """Return the given name: the display name, else the formatted name, else the name's parts."""
    if given.display_name:
        return given.display_name
    name: Any = given.unknown_attributes.get("name")
    if not isinstance(name, dict):
        return None
    given_parts = cast("dict[object, object]", name)
    parts = {str(key).lower(): str(value).strip() for key, value in given_parts.items() if value}
    full = parts.get("formatted") or " ".join(filter(None, (parts.get("givenname"), parts.get("familyname"))))
    return full[:1000] or None


async def _refuse_taken(
    connection: Connection, caller: ScimCaller, *, user_id: UUID, email: str, external_id: str | None
) -> None:
    organization_id = caller.organization_id
    same = await identity.find_principals(connection, organization_id, emails=[email], deleted=True)
    existing = await queries.find_users_by(connection, organization_id, email=email, external_id=external_id)
    if {principal.principal_id for principal in (*same, *existing)} - {user_id}:
        raise _taken(email)


def _taken(email: str) -> UniquenessException:
    message = f"Another account here has {email} or this externalId. Find it with a filter, and change that account."
    return UniquenessException(detail=message)
