"""Who would read less without a group or some of its members, as things are now; and deleting a group, for admins."""

from itertools import groupby

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire import people as wire
from carrel.wire.access import ResourceCount
from carrel.wire.common import ResourceType
from service.audit.service import Change, record_all
from service.auth.callers import Caller
from service.domains.people.directory.groups import get_group, leave_all_groups
from service.domains.people.directory.removal import queries
from service.identity.principals import resolve, to_named_principal
from service.identity.queries import list_principals, lock_organization


async def preview_losses(
    connection: AsyncConnection, caller: Caller, *, request: wire.AdminGroupsPreviewLossesRequest
) -> wire.AdminGroupsPreviewLossesResponse:
    """Say who would read less without a group, or without some of its members in it, as things are now.

    Raises NotFound for an unknown group, BadRequest `unknown_principal`.
    """
    group_id = request.group_id
    members = request.members
    organization_id = caller.organization_id
    await get_group(connection, caller, group_id)
    member_ids = await queries.list_member_ids(connection, organization_id, group_id=group_id)
    if members is not None:
        references = [(f"members.{number}", member) for number, member in enumerate(members)]
        named = {one.principal_id for one in await resolve(connection, organization_id, references=references)}
        member_ids = [one for one in member_ids if one in named]
    people = await queries.count_people(connection, organization_id, member_ids=member_ids)
    rows = await queries.list_losses(connection, organization_id, group_id=group_id, member_ids=member_ids)
    ids = {row.principal_id for row in rows}
    principals = {
        one.principal_id: one for one in await list_principals(connection, organization_id, principal_ids=ids)
    }
    losses = [
        wire.Loss(
            principal=to_named_principal(principals[principal_id]),
            counts=[ResourceCount(resource_type=ResourceType(one.resource_type), count=one.count) for one in lost],
        )
        for principal_id, lost in groupby(rows, key=lambda row: row.principal_id)
    ]
    return wire.AdminGroupsPreviewLossesResponse(
        person_count=people, losses=losses, complete=people <= queries.MOST_PEOPLE
    )


async def delete_group(
    connection: AsyncConnection, caller: Caller, *, request: wire.AdminGroupsDeleteRequest
) -> wire.AdminGroupsDeleteResponse:
    """Delete a group; its members stop reading at once what only it opened to them.

    NotFound for an unknown one.

    The audit log has its name and members, and an entry for each group that it was in.
    """
    group_id = request.group_id
    organization_id = caller.organization_id
    await lock_organization(connection, organization_id)
    group = await get_group(connection, caller, group_id)
    members = await queries.list_member_ids(connection, organization_id, group_id=group_id)
    granted = await queries.count_granted(connection, organization_id, group_id=group_id)
    await leave_all_groups(connection, caller, member_id=group_id)
    details = {
        "name": group.name,
        "externalId": group.external_id,
        "removed": [str(one) for one in members],
        "resourceCount": granted,
    }
    change = Change(action="group.delete", target_type="group", target_id=group_id, details=details)
    await record_all(connection, caller, changes=[change])  # with the name that it has until now
    await queries.delete_group(connection, organization_id, group_id=group_id)
    return wire.AdminGroupsDeleteResponse(group_id=group_id, member_count=len(members), resource_count=granted)
