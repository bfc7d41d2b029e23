"""Groups and their members. Groups may contain groups, and a cycle of groups is allowed and harmless."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import admin as wire
from carrel.wire import people
from carrel.wire.common import PrincipalReference, digest_of
from service.audit.service import Change, record_all
from service.audit.versions import change_between, refuse_stale
from service.auth.callers import Caller
from service.domains.people.directory import queries as listing
from service.identity import queries
from service.identity.principals import resolve, to_named_principal
from service.identity.queries import Membership, Principal, list_principals, lock_organization
from service.permissions.readers import find_referenced_principal
from service.platform.errors import BadRequest, Conflict, FieldError, NotFound, require
from service.platform.identifiers import uuid7
from service.runtime import Runtime
from service.web.pagination import Cursor

NO_MEMBERS = (0, "")


async def upsert_groups(
    connection: Connection, caller: Caller, *, request: wire.AdminGroupsUpsertRequest
) -> wire.AdminGroupsUpsertResponse:
    """Create or change up to 1000 groups; all or none.

    A group is found by id, external id, or name if without external id; else created. Given members replace all. Raises
    NotFound, BadRequest `duplicate_group` or `unknown_principal`, Conflict `external_id_taken` or `name_ambiguous`."""
    groups = request.groups
    await queries.lock_organization(connection, caller.organization_id)
    found = await queries.find_groups(
        connection,
        caller.organization_id,
        ids=[group.id for group in groups if group.id is not None],
        external_ids=[group.external_id for group in groups if group.external_id is not None],
        names=[group.name for group in groups if group.id is None and group.external_id is None],
    )
    before = _find_targets(groups, found)
    shown = await _with_counts(connection, caller, rows=[principal for principal in before if principal is not None])
    shown_by_id = {item.id: item for item in shown}
    for group, old in zip(groups, before, strict=True):
        target_id = caller.organization_id if old is None else old.principal_id
        await refuse_stale(connection, caller, group.version, shown_by_id.get(target_id), target_id=target_id)
    after = [_merge(target, group) for target, group in zip(before, groups, strict=True)]
    _refuse_duplicates(after, groups=groups)
    _refuse_taken(after, found=found)
    pairs = list(zip(before, after, strict=True))
    changed = [(old, new) for old, new in pairs if old != new]
    await queries.put_principals(connection, caller.organization_id, rows=[new for _, new in changed])
    await record_all(connection, caller, changes=[_build_change(old, new) for old, new in changed])
    await _replace_members(connection, caller, ids=[row.principal_id for row in after], groups=groups)
    return wire.AdminGroupsUpsertResponse(groups=await _with_counts(connection, caller, rows=after))


async def list_groups(
    connection: Connection, caller: Caller, *, request: wire.AdminGroupsListRequest
) -> wire.AdminGroupsListResponse:
    """List groups; `query` is part of a name."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_GROUPS_LIST.path, request=request)
    rows = await queries.list_groups(
        connection, caller.organization_id, cursor.window, query=request.query, ids=request.ids
    )
    groups = await _with_counts(connection, caller, rows=rows)
    return cursor.answer(wire.AdminGroupsListResponse, groups, "id")


async def list_members(
    connection: Connection, caller: Caller, *, request: wire.AdminGroupsListMembersRequest
) -> wire.AdminGroupsListMembersResponse:
    """List the direct members of a group."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_GROUPS_LIST_MEMBERS.path, request=request)
    await require_group(connection, caller, request.group_id)
    rows = await queries.list_members(connection, caller.organization_id, cursor.window, group_id=request.group_id)
    return cursor.answer(wire.AdminGroupsListMembersResponse, [to_named_principal(row) for row in rows], "id")


async def require_group(connection: Connection, caller: Caller, group_id: UUID) -> Principal:
    found = await queries.find_groups(connection, caller.organization_id, ids=[group_id])
    if not found:
        raise _unknown_group("groupId", group_id)
    return found[0]


async def list_memberships(
    connection: Connection, caller: Caller, *, request: people.AdminGroupsListMembershipsRequest
) -> people.AdminGroupsListMembershipsResponse:
    """List a principal's groups, direct or through other groups. Raises BadRequest `unknown_principal`."""
    cursor = Cursor.read(caller, operation=people.ADMIN_GROUPS_LIST_MEMBERSHIPS.path, request=request)
    organization_id = caller.organization_id
    member = await find_referenced_principal(connection, organization_id, request.member, field="member")
    rows = await listing.list_memberships(connection, organization_id, cursor.window, member_id=member.principal_id)
    return cursor.answer(people.AdminGroupsListMembershipsResponse, rows, "id")


async def add_members(
    connection: Connection, caller: Caller, *, request: wire.AdminGroupsAddMembersRequest
) -> wire.AdminGroupsAddMembersResponse:
    """Add members to a group; existing members stay."""
    group_id = request.group_id
    memberships = await _resolve_members(connection, caller, group_id=group_id, members=request.members)
    added = await queries.add_members(connection, caller.organization_id, memberships=memberships)
    await record_all(connection, caller, changes=_member_changes(added=added, removed=[]))
    return wire.AdminGroupsAddMembersResponse(member_count=await _member_count(connection, caller, group_id))


async def remove_members(
    connection: Connection, caller: Caller, *, request: wire.AdminGroupsRemoveMembersRequest
) -> wire.AdminGroupsRemoveMembersResponse:
    """Remove members from a group when the transaction commits; non-members are ignored."""
    group_id = request.group_id
    memberships = await _resolve_members(connection, caller, group_id=group_id, members=request.members)
    removed = await queries.remove_members(
        connection, caller.organization_id, group_id=group_id, member_ids=[item.member_id for item in memberships]
    )
    changes = _member_changes(added=[], removed=[(group_id, member_id) for member_id in removed])
    await record_all(connection, caller, changes=changes)
    return wire.AdminGroupsRemoveMembersResponse(member_count=await _member_count(connection, caller, group_id))


async def leave_all_groups(connection: Connection, caller: Caller, *, member_id: UUID) -> None:
    """Remove a principal from every group with direct membership. The caller has locked the organization."""
    groups = await queries.leave_groups(connection, caller.organization_id, member_id=member_id)
    removed = [(group_id, member_id) for group_id in groups]
    await record_all(connection, caller, changes=_member_changes(added=[], removed=removed))


async def preview_losses(
    connection: Connection, caller: Caller, *, request: people.AdminGroupsPreviewLossesRequest
) -> people.AdminGroupsPreviewLossesResponse:
    """Return the people who would lose access if a group, or only these members of the group, were removed now."""
    group_id, members = request.group_id, request.members
    organization_id = caller.organization_id
    await require_group(connection, caller, group_id)
    member_ids = await listing.list_member_ids(connection, organization_id, group_id=group_id)
    if members is not None:
        references = [(f"members.{number}", member) for number, member in enumerate(members)]
        named = {item.principal_id for item in await resolve(connection, organization_id, references=references)}
        member_ids = [member_id for member_id in member_ids if member_id in named]
    count = await listing.count_people(connection, organization_id, member_ids=member_ids)
    lost = await listing.list_losses(connection, organization_id, group_id=group_id, member_ids=member_ids)
    losers = await list_principals(connection, organization_id, principal_ids=lost)
    losses = [
        people.Loss(principal=to_named_principal(loser), counts=lost[loser.principal_id])
        for loser in sorted(losers, key=lambda principal: principal.principal_id)
    ]
    return people.AdminGroupsPreviewLossesResponse(
        person_count=count, losses=losses, complete=count <= listing.MOST_PEOPLE
    )


async def delete_group(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: people.AdminGroupsDeleteRequest
) -> people.AdminGroupsDeleteResponse:
    """Delete a group; members immediately lose access granted only through the group."""
    group_id, organization_id = request.group_id, caller.organization_id
    await lock_organization(connection, organization_id)
    if request.for_good and (kept := await listing.erase_group(connection, organization_id, group_id=group_id)):
        changes = [Change("group.erase", "group", group_id, {"name": kept["name"]})]
    else:
        group, days = await require_group(connection, caller, group_id), runtime.settings.trash_days
        days = 0 if request.for_good else days
        changes = await move_to_trash(connection, organization_id, group, deleted_by=caller.principal_id, days=days)
        kept = changes[-1].details
    await record_all(connection, caller, changes=changes)  # before the delete, while the group has a name
    await listing.delete_group(connection, organization_id, group_id=group_id)
    member_count, resource_count = len(kept["removed"]), kept["resourceCount"]
    return people.AdminGroupsDeleteResponse(group_id=group_id, member_count=member_count, resource_count=resource_count)


async def move_to_trash(
    connection: Connection, organization_id: UUID, group: Any, *, deleted_by: UUID | None, days: int
) -> list[Change]:
    """Copy a group into the trash for `days` (0: no copy), remove it from its parent groups, and return entries for the
    audit log. The calling function locks the organization first, and deletes the group's row."""
    which = {"group_id": group.principal_id}
    # Unlocked, a concurrent grant would be deleted but not kept: its class would never name the restored group.
    await listing.lock_group(connection, organization_id, **which)
    members = await listing.list_member_ids(connection, organization_id, **which)
    details = {
        "name": group.name,
        "externalId": group.external_id,
        "removed": [str(member) for member in members],
        "resourceCount": await listing.count_granted(connection, organization_id, **which),
    }
    if days:
        await listing.keep_group(connection, organization_id, **which, deleted_by=deleted_by, kept=details)
    around = await queries.leave_groups(connection, organization_id, member_id=group.principal_id)
    left = _member_changes(added=[], removed=[(parent, group.principal_id) for parent in sorted(around)])
    return [*left, Change("group.delete", "group", group.principal_id, details)]


async def list_trashed(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: people.AdminGroupsListTrashedRequest
) -> people.AdminGroupsListTrashedResponse:
    """List the deleted groups that can be restored."""
    cursor = Cursor.read(caller, operation=people.ADMIN_GROUPS_LIST_TRASHED.path, request=request)
    days = runtime.settings.trash_days
    rows = await listing.list_trashed(connection, caller.organization_id, cursor.window, days=days)
    return cursor.answer(people.AdminGroupsListTrashedResponse, rows, "group_id")


async def restore_group(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: people.AdminGroupsRestoreRequest
) -> people.AdminGroupsRestoreResponse:
    """Restore a deleted group with its former members, parent groups and grants, or fewer.

    Raises NotFound for a group that is not in the trash (any more), and Conflict `group_name_taken`."""
    group_id, organization_id = request.group_id, caller.organization_id
    await lock_organization(connection, organization_id)
    days = runtime.settings.trash_days
    taken = await listing.has_namesake(connection, organization_id, group_id=group_id, days=days)
    if require(taken, _unknown_group("groupId", group_id)):
        message = (
            "Another group has this group's external id, or its name without an external id. Change that group first."
        )
        raise Conflict(message, code="group_name_taken", details=[FieldError("groupId", message)])
    added = await listing.restore_group(connection, organization_id, group_id=group_id)
    granted = await listing.count_granted(connection, organization_id, group_id=group_id)
    restored = Change("group.restore", "group", group_id, {"resourceCount": granted})
    await record_all(connection, caller, changes=[restored, *_member_changes(added=added, removed=[])])
    member_count = sum(key == group_id for key, _ in added)
    return people.AdminGroupsRestoreResponse(group_id=group_id, member_count=member_count, resource_count=granted)


def _find_targets(groups: Sequence[wire.GroupUpsert], found: Collection[Principal]) -> list[Principal | None]:
    by_id = {row.principal_id: row for row in found}
    by_external_id = {row.external_id: row for row in found if row.external_id is not None}
    by_name: dict[str, list[Principal]] = {}
    for row in found:
        if row.external_id is None:
            by_name.setdefault(row.name, []).append(row)
    targets: list[Principal | None] = []
    for place, group in enumerate(groups):
        if group.id is not None:
            if group.id not in by_id:
                raise _unknown_group(f"groups.{place}.id", group.id)
            target = by_id[group.id]
        elif group.external_id is not None:
            target = by_external_id.get(group.external_id)
        else:
            target = _require_unambiguous(by_name.get(group.name, ()), field=f"groups.{place}.name")
        targets.append(target)
    return targets


def _require_unambiguous(named: Sequence[Principal], *, field: str) -> Principal | None:
    if len(named) > 1:
        detail = FieldError(field, "several groups have this name")
        raise Conflict("Several groups have this name. Send the group's id.", code="name_ambiguous", details=[detail])
    return next(iter(named), None)


def _merge(before: Principal | None, group: wire.GroupUpsert) -> Principal:
    base = before or Principal(principal_id=uuid7(), kind="group", name=group.name)
    return replace(base, name=group.name, external_id=group.external_id or base.external_id)


def _refuse_duplicates(rows: Sequence[Principal], *, groups: Sequence[wire.GroupUpsert]) -> None:
    targets = Counter[str](str(row.principal_id) for row in rows)
    external_ids = Counter[str | None](row.external_id for row in rows)
    names = Counter[str](group.name for group in groups if group.id is None and group.external_id is None)
    for place, (row, group) in enumerate(zip(rows, groups, strict=True)):
        by_name = group.id is None and group.external_id is None
        twice = targets[str(row.principal_id)] > 1 or (by_name and names[group.name] > 1)
        if twice or (row.external_id is not None and external_ids[row.external_id] > 1):
            detail = FieldError(f"groups.{place}", "given more than once")
            raise BadRequest("A group is listed twice. Send each group once.", code="duplicate_group", details=[detail])


def _refuse_taken(rows: Sequence[Principal], *, found: Collection[Principal]) -> None:
    owners: dict[str | None, UUID] = {row.external_id: row.principal_id for row in found if row.external_id}
    for place, row in enumerate(rows):
        if owners.get(row.external_id, row.principal_id) != row.principal_id:
            detail = FieldError(f"groups.{place}.externalId", "another group's")
            message = "An external id belongs to another group. Use that group, or another external id."
            raise Conflict(message, code="external_id_taken", details=[detail])


def _build_change(before: Principal | None, after: Principal) -> Change:
    if before is None:
        return Change("group.create", "group", after.principal_id)
    old, new = (_show(principal, NO_MEMBERS) for principal in (before, after))
    return change_between("group.update", "group", after.principal_id, old, new)


async def _replace_members(
    connection: Connection, caller: Caller, *, ids: Sequence[UUID], groups: Sequence[wire.GroupUpsert]
) -> None:
    """Replace the members of groups for which the request names members, and record the changes."""
    given = [
        (group_id, f"groups.{place}.members.{number}", member)
        for place, (group_id, group) in enumerate(zip(ids, groups, strict=True))
        for number, member in enumerate(group.members or ())
    ]
    references = [(field, member) for _, field, member in given]
    named = await resolve(connection, caller.organization_id, references=references)
    memberships = [
        Membership(group_id=group_id, member_id=item.principal_id, member_is_group=item.is_group)
        for (group_id, _, _), item in zip(given, named, strict=True)
    ]
    replaced = [group_id for group_id, group in zip(ids, groups, strict=True) if group.members is not None]
    organization_id = caller.organization_id
    removed = await queries.keep_only(connection, organization_id, group_ids=replaced, memberships=memberships)
    added = await queries.add_members(connection, organization_id, memberships=memberships)
    await record_all(connection, caller, changes=_member_changes(added=added, removed=removed))


async def _resolve_members(
    connection: Connection, caller: Caller, *, group_id: UUID, members: Sequence[PrincipalReference]
) -> list[Membership]:
    """Lock the organization, and build a membership in the group for each of these members. Nothing is saved. Raises
    NotFound for an unknown group."""
    await queries.lock_organization(connection, caller.organization_id)
    await require_group(connection, caller, group_id)
    references = [(f"members.{number}", member) for number, member in enumerate(members)]
    named = await resolve(connection, caller.organization_id, references=references)
    return [Membership(group_id=group_id, member_id=item.principal_id, member_is_group=item.is_group) for item in named]


def _member_changes(*, added: Collection[tuple[UUID, UUID]], removed: Collection[tuple[UUID, UUID]]) -> list[Change]:
    details: dict[UUID, dict[str, list[str]]] = {}
    for kind, pairs in (("added", added), ("removed", removed)):
        for group_id, member_id in pairs:
            details.setdefault(group_id, {}).setdefault(kind, []).append(str(member_id))
    return [Change("group.members", "group", group_id, members) for group_id, members in details.items()]


async def _member_count(connection: Connection, caller: Caller, group_id: UUID) -> int:
    members = await queries.mark_members(connection, caller.organization_id, group_ids=[group_id])
    return members.get(group_id, NO_MEMBERS)[0]


async def _with_counts(connection: Connection, caller: Caller, *, rows: Sequence[Principal]) -> list[wire.Group]:
    ids = [row.principal_id for row in rows]
    members = await queries.mark_members(connection, caller.organization_id, group_ids=ids)
    return [_show(row, members.get(row.principal_id, NO_MEMBERS)) for row in rows]


def _show(row: Principal, members: tuple[int, str]) -> wire.Group:
    count, mark = members
    version = digest_of([row.name, row.external_id, mark])
    return wire.Group(
        id=row.principal_id, name=row.name, external_id=row.external_id, member_count=count, version=version
    )


def _unknown_group(field: str, group_id: UUID | str) -> NotFound:
    message = f"There is no group {group_id} in this organization. List the ids with admin/groups/list."
    return NotFound(message, code="group_not_found", details=[FieldError(field, message)])
