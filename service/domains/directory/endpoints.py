"""admin/organization, admin/users, admin/groups and admin/apiKeys: extensions, for admins only."""

from carrel.wire.admin import (
    AdminApiKeysCreateRequest,
    AdminApiKeysCreateResponse,
    AdminApiKeysListRequest,
    AdminApiKeysListResponse,
    AdminApiKeysRevokeRequest,
    AdminApiKeysRevokeResponse,
    AdminGroupsAddMembersRequest,
    AdminGroupsAddMembersResponse,
    AdminGroupsListMembersRequest,
    AdminGroupsListMembersResponse,
    AdminGroupsListRequest,
    AdminGroupsListResponse,
    AdminGroupsRemoveMembersRequest,
    AdminGroupsRemoveMembersResponse,
    AdminGroupsUpsertRequest,
    AdminGroupsUpsertResponse,
    AdminOrganizationGetRequest,
    AdminOrganizationGetResponse,
    AdminOrganizationUpdateRequest,
    AdminOrganizationUpdateResponse,
    AdminUsersListRequest,
    AdminUsersListResponse,
    AdminUsersUpsertRequest,
    AdminUsersUpsertResponse,
)
from service.domains.directory import api_keys, groups, organizations, users
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep
from service.web.idempotency import idempotent, idempotent_secret
from service.web.routing import Router

router = Router(prefix="/admin", tags=["extension"])


@router.post("/organization/get")
async def get_organization(
    _: AdminOrganizationGetRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminOrganizationGetResponse:
    """Show the organization's settings."""
    organization = await organizations.get_organization(connection, caller)
    return AdminOrganizationGetResponse(**dict(organization))


@router.post("/organization/update")
async def update_organization(
    request: AdminOrganizationUpdateRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminOrganizationUpdateResponse:
    """Change the organization's settings; what is left out stays."""
    organization = await organizations.update_organization(connection, caller, changes=request)
    return AdminOrganizationUpdateResponse(**dict(organization))


@router.post("/users/upsert")
async def upsert_users(
    request: AdminUsersUpsertRequest, runtime: RuntimeDep, caller: CallerDep
) -> AdminUsersUpsertResponse:
    """Create or change up to 1000 users by address; all or none."""
    return AdminUsersUpsertResponse(users=await users.upsert_users(runtime.database, caller, users=request.users))


@router.post("/users/list")
async def list_users(
    request: AdminUsersListRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminUsersListResponse:
    """List users; `query` is part of a name or an address."""
    return await users.list_users(connection, caller, request=request)


@router.post("/groups/upsert")
@idempotent
async def upsert_groups(
    request: AdminGroupsUpsertRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminGroupsUpsertResponse:
    """Create or change up to 1000 groups; all or none. Members given replace those a group has."""
    return AdminGroupsUpsertResponse(groups=await groups.upsert_groups(connection, caller, groups=request.groups))


@router.post("/groups/list")
async def list_groups(
    request: AdminGroupsListRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminGroupsListResponse:
    """List groups; `query` is part of a name."""
    return await groups.list_groups(connection, caller, request=request)


@router.post("/groups/listMembers")
async def list_members(
    request: AdminGroupsListMembersRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminGroupsListMembersResponse:
    """List the direct members of a group."""
    return await groups.list_members(connection, caller, request=request)


@router.post("/groups/addMembers")
async def add_members(
    request: AdminGroupsAddMembersRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminGroupsAddMembersResponse:
    """Add members to a group; those in it already stay."""
    count = await groups.add_members(connection, caller, group_id=request.group_id, members=request.members)
    return AdminGroupsAddMembersResponse(member_count=count)


@router.post("/groups/removeMembers")
async def remove_members(
    request: AdminGroupsRemoveMembersRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminGroupsRemoveMembersResponse:
    """Remove members from a group; those not in it are passed over."""
    count = await groups.remove_members(connection, caller, group_id=request.group_id, members=request.members)
    return AdminGroupsRemoveMembersResponse(member_count=count)


@router.post("/apiKeys/create")
@idempotent_secret
async def create_api_key(
    request: AdminApiKeysCreateRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminApiKeysCreateResponse:
    """Make an API key; its value is shown this once."""
    return await api_keys.create_api_key(connection, caller, request=request)


@router.post("/apiKeys/list")
async def list_api_keys(
    request: AdminApiKeysListRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminApiKeysListResponse:
    """List API keys, without their values."""
    return await api_keys.list_api_keys(connection, caller, request=request)


@router.post("/apiKeys/revoke")
async def revoke_api_key(
    request: AdminApiKeysRevokeRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminApiKeysRevokeResponse:
    """Stop an API key at once."""
    key = await api_keys.revoke_api_key(connection, caller, api_key_id=request.api_key_id)
    return AdminApiKeysRevokeResponse(**dict(key))
