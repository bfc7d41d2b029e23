"""Groups as managed by a provider: name, external id, direct people and groups. Service accounts stay members."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from scim2_models import InvalidValueException, UniquenessException
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.audit.service import Change
from service.domains.people.directory import queries as removal
from service.domains.people.directory.groups import move_to_trash
from service.domains.people.scim import queries
from service.domains.people.scim.models import Group, refuse_long
from service.domains.people.scim.queries import ScimCaller, StoredGroup
from service.domains.people.scim.tokens import change_of, record_changes
from service.identity import queries as identity
from service.identity.queries import Membership, Principal
from service.platform.errors import BadRequest, FieldError
from service.platform.identifiers import uuid7

MOST_NAMED = 20


async def create_group(connection: Connection, caller: ScimCaller, given: Group) -> UUID:
    """Create a group with members, in a locked organization; return its id. Raises InvalidValueException, and
    UniquenessException for a taken external id, or, without an external id, for a taken name."""
    refuse_long(given)
    await _refuse_taken(connection, caller, given, group_id=None)
    group_id = uuid7()
    await _save_and_record_group(connection, caller, given, group_id=group_id)
    await change_members(connection, caller, group_id=group_id, added=members_of(given), is_new=True)
    return group_id


async def change_group(connection: Connection, caller: ScimCaller, before: StoredGroup, given: Group) -> None:
    """Make a group equal to the provider's, in a locked organization. Raises the errors of `create_group`."""
    refuse_long(given)
    if (before.name, before.external_id) != (given.display_name, given.external_id):
        if before.external_id != given.external_id:
            await _refuse_taken(connection, caller, given, group_id=before.principal_id)
        await _save_and_record_group(connection, caller, given, group_id=before.principal_id, before=before)
    await change_members(connection, caller, group_id=before.principal_id, added=members_of(given), replaces=True)


async def delete_group(connection: Connection, caller: ScimCaller, group: StoredGroup, *, trash_days: int) -> None:
    """Delete a group with its memberships and grants. The caller has locked the organization."""
    organization_id = caller.organization_id
    changes = await move_to_trash(connection, organization_id, group, deleted_by=None, days=trash_days)
    await record_changes(connection, caller, changes=changes)  # before the delete, while the group has a name
    await removal.delete_group(connection, organization_id, group_id=group.principal_id)


async def change_members(
    connection: Connection,
    caller: ScimCaller,
    *,
    group_id: UUID,
    added: Collection[UUID] = (),
    removed: Collection[UUID] = (),
    replaces: bool = False,
    is_new: bool = False,
) -> None:
    """Add and remove members of a group; with `replaces`, remove all members but the added. Unknown ids to add are
    recorded as refused. BadRequest `unknown_members` if all ids are unknown, unless the group is new."""
    organization_id = caller.organization_id
    kinds = await queries.find_kinds(connection, organization_id, principal_ids=added)
    if unknown := sorted(str(item) for item in set(added) - kinds.keys()):
        if not kinds and not is_new:
            message = f"{len(unknown)} members are unknown here. Create them first: {', '.join(unknown[:MOST_NAMED])}"
            named = [FieldError("members", item) for item in unknown[:MOST_NAMED]]
            raise BadRequest(message, code="unknown_members", details=named)
        refused = {"code": "unknown_members", "count": len(unknown), "unknown": unknown[:MOST_NAMED]}
        await record_changes(connection, caller, changes=[Change("scim.refuse", "group", group_id, refused)])
    memberships = [Membership(group_id, key, kind == "group") for key, kind in kinds.items()]
    came = await identity.add_members(connection, organization_id, memberships=memberships)
    gone: list[UUID] = []
    if removed or replaces:
        named = added if replaces else removed
        gone = await queries.remove_members(
            connection, organization_id, group_id=group_id, member_ids=named, others=replaces
        )
    details: dict[str, Any] = {
        "added": sorted(str(member_id) for _, member_id in came),
        "removed": sorted(map(str, gone)),
    }
    if came or gone:
        changed = {name: ids for name, ids in details.items() if ids}
        await record_changes(connection, caller, changes=[Change("group.members", "group", group_id, changed)])


def members_of(given: Group) -> set[UUID]:
    return {parse_member_id(member.value) for member in given.members or ()}


def parse_member_id(value: str | None) -> UUID:
    try:
        return UUID(value or "")
    except ValueError:
        raise InvalidValueException(detail="The value of a member must be the id of a User or a Group.") from None


async def _save_and_record_group(
    connection: Connection, caller: ScimCaller, given: Group, *, group_id: UUID, before: StoredGroup | None = None
) -> None:
    row = Principal(group_id, "group", given.display_name or "", external_id=given.external_id)
    await identity.put_principals(connection, caller.organization_id, rows=[row])
    change = change_of("group", before, row) if before else Change("group.create", "group", group_id)
    await record_changes(connection, caller, changes=[change])


async def _refuse_taken(connection: Connection, caller: ScimCaller, given: Group, *, group_id: UUID | None) -> None:
    found = await queries.find_groups_by(
        connection, caller.organization_id, name=given.display_name or "", external_id=given.external_id
    )
    if set(found) - {group_id}:
        message = "A group with this externalId, or with this name and no externalId, exists. Find it by filter."
        raise UniquenessException(detail=message)
