"""Users, created and changed by admins in bulk. An organization always keeps an active admin."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import admin as wire
from carrel.wire.fields import normal_email
from carrel.wire.people import AdminUsersCountRequest, AdminUsersCountResponse
from service.audit.service import Change, record_all, record_unattended
from service.audit.versions import change_between, refuse_stale
from service.auth.callers import Caller
from service.domains.people.directory import queries as listing
from service.identity import queries
from service.identity.passwords import hash_passwords
from service.identity.queries import Principal
from service.identity_server.interface import delete_invitations, end_sign_ins
from service.permissions.service import end_shares
from service.platform.errors import BadRequest, Conflict, FieldError
from service.platform.identifiers import uuid7
from service.runtime import Runtime
from service.web.pagination import Cursor


async def upsert_users(
    runtime: Runtime, caller: Caller, *, request: wire.AdminUsersUpsertRequest
) -> wire.AdminUsersUpsertResponse:
    """Create or change up to 1000 users by address; all or none.

    Passwords are hashed before the transaction begins, because hashing a thousand takes seconds."""
    users = request.users
    _refuse_duplicates([normal_email(user.email) for user in users])
    passwords = {normal_email(user.email): user.password for user in users if user.password is not None}
    hashes = dict(zip(passwords, await hash_passwords(list(passwords.values())), strict=True))
    async with runtime.database.transaction(caller.organization_id) as connection:
        return wire.AdminUsersUpsertResponse(users=await _put_users(connection, caller, users=users, hashes=hashes))


async def set_password(connection: Connection, organization_id: UUID, *, email: str, password_hash: str) -> bool:
    """Replace the password hash of the user with this address (lower case), for an operator; False if unknown."""
    await queries.lock_organization(connection, organization_id)
    found = await queries.find_principals(connection, organization_id, emails=[email])
    users = [principal for principal in found if principal.kind == "user"]
    for user in users:
        changed = replace(user, password_hash=password_hash)
        await queries.put_principals(connection, organization_id, rows=[changed])
        await _end_invitations_if_password_changed(connection, organization_id, changed=[(user, changed)])
        await record_unattended(connection, organization_id, change=_build_change(user, changed))
    return bool(users)


async def list_users(
    connection: Connection, caller: Caller, *, request: wire.AdminUsersListRequest
) -> wire.AdminUsersListResponse:
    """List users: all, or by filters; `query` is part of a name or an address."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_USERS_LIST.path, request=request)
    rows = await listing.list_users(connection, caller.organization_id, cursor.window, filters=request, ids=request.ids)
    page = cursor.page(rows, position=lambda row: [str(row.id)])
    ids = [row.id for row in page.items]
    factors = await listing.list_second_factors(connection, caller.organization_id, principal_ids=ids)
    users = [
        row.model_copy(update={"has_second_factor": row.id in factors, "second_factors": factors.get(row.id, [])})
        for row in page.items
    ]
    return wire.AdminUsersListResponse(users=users, next_page_token=page.next_page_token)


async def count_users(
    connection: Connection, caller: Caller, *, request: AdminUsersCountRequest
) -> AdminUsersCountResponse:
    """Count the users listed with the same filters."""
    return AdminUsersCountResponse(count=await listing.count_users(connection, caller.organization_id, filters=request))


async def _put_users(
    connection: Connection, caller: Caller, *, users: Sequence[wire.UserUpsert], hashes: Mapping[str, str]
) -> list[wire.User]:
    """Create or change users in a locked organization, end access of the deactivated, and record the changes."""
    await queries.lock_organization(connection, caller.organization_id)
    emails = [normal_email(user.email) for user in users]
    found = await queries.find_principals(connection, caller.organization_id, emails=emails, deleted=True)
    _refuse_service_accounts(found, emails=emails)
    existing = {row.email: row for row in found}
    before = [existing.get(email) for email in emails]
    for old, user in zip(before, users, strict=True):
        shown, target_id = (None, caller.organization_id) if old is None else (to_user(old), old.principal_id)
        await refuse_stale(connection, caller, user.version, shown, target_id=target_id)
    after = [
        _merge(old or Principal(uuid7(), "user", name=email.partition("@")[0], email=email), user, hashes.get(email))
        for old, email, user in zip(before, emails, users, strict=True)
    ]
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    ended = [old.principal_id for old, new in changed if old is not None and old.active and not new.active]
    # Lock in the order of an upload by this person: resources before the person.
    unshared = await end_shares(connection, caller.organization_id, owner_ids=ended)
    await end_sign_ins(connection, caller.organization_id, principal_ids=ended)
    await queries.put_principals(connection, caller.organization_id, rows=[new for _, new in changed])
    await require_active_admin(connection, caller.organization_id)
    await _end_invitations_if_password_changed(connection, caller.organization_id, changed=changed)
    await record_all(connection, caller, changes=[*(_build_change(old, new) for old, new in changed), *unshared])
    return [to_user(row) for row in after]


async def require_active_admin(connection: Connection, organization_id: UUID) -> None:
    """Refuse (409 `last_admin`) changes without any active admin left."""
    if not await queries.has_active_admin(connection, organization_id):
        message = "This would leave the organization without an active admin. Make another user an admin first."
        raise Conflict(message, code="last_admin")


async def _end_invitations_if_password_changed(
    connection: Connection, organization_id: UUID, *, changed: Collection[tuple[Principal | None, Principal]]
) -> None:
    ended = [new.principal_id for old, new in changed if old is not None and new.password_hash != old.password_hash]
    if ended:
        await delete_invitations(connection, organization_id, principal_ids=ended)


def _merge(base: Principal, user: wire.UserUpsert, password_hash: str | None) -> Principal:
    return replace(
        base,
        name=base.name if user.name is None else user.name,
        is_admin=base.is_admin if user.is_admin is None else user.is_admin,
        active=base.active if user.active is None else user.active,
        password_hash=password_hash or base.password_hash,
    )


def _build_change(before: Principal | None, after: Principal) -> Change:
    details = {"isAdmin": after.is_admin, "active": after.active}
    if before is not None and before.password_hash != after.password_hash:
        details["passwordChanged"] = True
    if before is None:
        return Change("user.create", "user", after.principal_id, details)
    return change_between("user.update", "user", after.principal_id, to_user(before), to_user(after), details=details)


def to_user(row: Principal) -> wire.User:
    return wire.User(
        id=row.principal_id, email=row.email or "", name=row.name, is_admin=row.is_admin, active=row.active
    )


def _refuse_duplicates(emails: Sequence[str]) -> None:
    first: dict[str, int] = {}
    again = [
        FieldError(f"users.{place}.email", f"the same address as users.{first[email]}")
        for place, email in enumerate(emails)
        if first.setdefault(email, place) != place
    ]
    if again:
        raise BadRequest("An address is given twice. Send each user once.", code="duplicate_user", details=again)


def _refuse_service_accounts(found: Collection[Principal], *, emails: Sequence[str]) -> None:
    taken = {row.email for row in found if row.kind != "user"}
    details = [
        FieldError(f"users.{place}.email", "a service account's address")
        for place, email in enumerate(emails)
        if email in taken
    ]
    if details:
        raise Conflict("A service account has this address. Choose another.", code="email_taken", details=details)
