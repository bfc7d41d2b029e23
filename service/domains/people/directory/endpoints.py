"""admin/organization, admin/users, admin/groups and admin/apiKeys: extensions, for admins only."""

from carrel.wire import admin as wire
from carrel.wire import people
from carrel.wire.api_keys import (
    ADMIN_API_KEYS_CREATE,
    ADMIN_API_KEYS_LIST,
    ADMIN_API_KEYS_REVOKE,
    AdminApiKeysCreateRequest,
    AdminApiKeysCreateResponse,
    AdminApiKeysListRequest,
    AdminApiKeysListResponse,
    AdminApiKeysRevokeRequest,
    AdminApiKeysRevokeResponse,
)
from carrel.wire.organization import (
    ADMIN_ORGANIZATION_GET,
    ADMIN_ORGANIZATION_UPDATE,
    AdminOrganizationGetRequest,
    AdminOrganizationGetResponse,
    AdminOrganizationUpdateRequest,
    AdminOrganizationUpdateResponse,
)
from service.domains.people.directory import api_keys, groups, organizations, users
from service.domains.people.directory.removal import service as removal
from service.identity_server import interface as identity_server
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep, SnapshotDep
from service.web.routing import Router

router = Router()


@router.operation(ADMIN_ORGANIZATION_GET)
async def get_organization(
    _: AdminOrganizationGetRequest, connection: SnapshotDep, caller: CallerDep
) -> AdminOrganizationGetResponse:
    """Show the organization's settings."""
    organization = await organizations.get_organization(connection, caller)
    return AdminOrganizationGetResponse(**dict(organization))


@router.operation(ADMIN_ORGANIZATION_UPDATE)
async def update_organization(
    request: AdminOrganizationUpdateRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminOrganizationUpdateResponse:
    """Change the organization's settings; what is left out stays."""
    organization = await organizations.update_organization(connection, caller, changes=request)
    return AdminOrganizationUpdateResponse(**dict(organization))


@router.operation(wire.ADMIN_USERS_UPSERT)
async def upsert_users(
    request: wire.AdminUsersUpsertRequest, runtime: RuntimeDep, caller: CallerDep
) -> wire.AdminUsersUpsertResponse:
    """Create or change up to 1000 users by address; all or none."""
    return wire.AdminUsersUpsertResponse(users=await users.upsert_users(runtime.database, caller, users=request.users))


@router.operation(wire.ADMIN_USERS_LIST)
async def list_users(
    request: wire.AdminUsersListRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminUsersListResponse:
    """List users: all, or those that filters leave; `query` is part of a name or an address."""
    return await users.list_users(connection, caller, request=request)


@router.operation(people.ADMIN_USERS_COUNT)
async def count_users(
    request: people.AdminUsersCountRequest, connection: SnapshotDep, caller: CallerDep
) -> people.AdminUsersCountResponse:
    """Count what listing users with the same filters lists."""
    return people.AdminUsersCountResponse(count=await users.count_users(connection, caller, filters=request))


@router.operation(people.ADMIN_USERS_INVITE)
async def invite_user(
    request: people.AdminUsersInviteRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> people.AdminUsersInviteResponse:
    """Make an address at which a user sets a password, once; shown this once."""
    return await identity_server.invite_user(connection, caller, email=request.email, runtime=runtime)


@router.operation(people.ADMIN_USERS_RESET_SECOND_FACTOR)
async def reset_second_factor(
    request: people.AdminUsersResetSecondFactorRequest, connection: ConnectionDep, caller: CallerDep
) -> people.AdminUsersResetSecondFactorResponse:
    """Take all second factors and recovery codes of a user away, who has lost them."""
    return await identity_server.reset_second_factor(connection, caller, email=request.email)


@router.operation(wire.ADMIN_GROUPS_UPSERT)
async def upsert_groups(
    request: wire.AdminGroupsUpsertRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminGroupsUpsertResponse:
    """Create or change up to 1000 groups; all or none. Members given replace those a group has."""
    return wire.AdminGroupsUpsertResponse(groups=await groups.upsert_groups(connection, caller, groups=request.groups))


@router.operation(wire.ADMIN_GROUPS_LIST)
async def list_groups(
    request: wire.AdminGroupsListRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminGroupsListResponse:
    """List groups; `query` is part of a name."""
    return await groups.list_groups(connection, caller, request=request)


@router.operation(wire.ADMIN_GROUPS_LIST_MEMBERS)
async def list_members(
    request: wire.AdminGroupsListMembersRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminGroupsListMembersResponse:
    """List the direct members of a group."""
    return await groups.list_members(connection, caller, request=request)


@router.operation(people.ADMIN_GROUPS_LIST_MEMBERSHIPS)
async def list_memberships(
    request: people.AdminGroupsListMembershipsRequest, connection: SnapshotDep, caller: CallerDep
) -> people.AdminGroupsListMembershipsResponse:
    """List the groups that somebody is in, directly or through other groups."""
    return await groups.list_memberships(connection, caller, request=request)


@router.operation(wire.ADMIN_GROUPS_ADD_MEMBERS)
async def add_members(
    request: wire.AdminGroupsAddMembersRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminGroupsAddMembersResponse:
    """Add members to a group; those in it already stay."""
    count = await groups.add_members(connection, caller, group_id=request.group_id, members=request.members)
    return wire.AdminGroupsAddMembersResponse(member_count=count)


@router.operation(wire.ADMIN_GROUPS_REMOVE_MEMBERS)
async def remove_members(
    request: wire.AdminGroupsRemoveMembersRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminGroupsRemoveMembersResponse:
    """Remove members from a group; those not in it are passed over."""
    count = await groups.remove_members(connection, caller, group_id=request.group_id, members=request.members)
    return wire.AdminGroupsRemoveMembersResponse(member_count=count)


@router.operation(people.ADMIN_GROUPS_PREVIEW_LOSSES)
async def preview_losses(
    request: people.AdminGroupsPreviewLossesRequest, connection: SnapshotDep, caller: CallerDep
) -> people.AdminGroupsPreviewLossesResponse:
    """Say who would read less without a group, or without some of its members in it, as things are now."""
    return await removal.preview_losses(connection, caller, group_id=request.group_id, members=request.members)


@router.operation(people.ADMIN_GROUPS_DELETE)
async def delete_group(
    request: people.AdminGroupsDeleteRequest, connection: ConnectionDep, caller: CallerDep
) -> people.AdminGroupsDeleteResponse:
    """Delete a group; its members stop reading at once what only it opened to them."""
    return await removal.delete_group(connection, caller, group_id=request.group_id)


@router.operation(ADMIN_API_KEYS_CREATE)
async def create_api_key(
    request: AdminApiKeysCreateRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminApiKeysCreateResponse:
    """Make an API key; its value is shown this once."""
    return await api_keys.create_api_key(connection, caller, request=request)


@router.operation(ADMIN_API_KEYS_LIST)
async def list_api_keys(
    request: AdminApiKeysListRequest, connection: SnapshotDep, caller: CallerDep
) -> AdminApiKeysListResponse:
    """List API keys, without their values."""
    return await api_keys.list_api_keys(connection, caller, request=request)


@router.operation(ADMIN_API_KEYS_REVOKE)
async def revoke_api_key(
    request: AdminApiKeysRevokeRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminApiKeysRevokeResponse:
    """Stop an API key at once."""
    key = await api_keys.revoke_api_key(connection, caller, api_key_id=request.api_key_id)
    return AdminApiKeysRevokeResponse(**dict(key))
