"""permissions/list… (seed), and explain…, check…, admin/grants and admin/access (extensions)."""

from carrel.wire import access as wire
from carrel.wire.admin import (
    ADMIN_GRANTS_LIST,
    ADMIN_GRANTS_SET,
    ADMIN_GRANTS_SET_MANY,
    AdminGrantsListRequest,
    AdminGrantsListResponse,
    AdminGrantsSetManyRequest,
    AdminGrantsSetManyResponse,
    AdminGrantsSetRequest,
    AdminGrantsSetResponse,
)
from carrel.wire.permissions import (
    CHECK_BULK_RESOURCES_AUTHORIZATION_FOR_USER,
    CHECK_RESOURCE_AUTHORIZATION_FOR_USER,
    EXPLAIN_AUTHORIZATION,
    LIST_AUTHORIZED_PRINCIPALS_FOR_RESOURCE,
    LIST_AUTHORIZED_RESOURCES,
    CheckBulkResourcesAuthorizationForUserRequest,
    CheckBulkResourcesAuthorizationForUserResponse,
    CheckResourceAuthorizationForUserRequest,
    CheckResourceAuthorizationForUserResponse,
    ExplainAuthorizationRequest,
    ExplainAuthorizationResponse,
    ListAuthorizedPrincipalsForResourceRequest,
    ListAuthorizedPrincipalsForResourceResponse,
    ListAuthorizedResourcesRequest,
    ListAuthorizedResourcesResponse,
)
from service.domains.access import grants
from service.domains.access.explanations.service import explain
from service.domains.access.listings import service as listings
from service.domains.access.lookups import checks, lists
from service.domains.access.resources import service as finding
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep, SnapshotDep
from service.web.routing import Router

router = Router()


@router.operation(LIST_AUTHORIZED_PRINCIPALS_FOR_RESOURCE)
async def list_authorized_principals_for_resource(
    request: ListAuthorizedPrincipalsForResourceRequest, connection: SnapshotDep, caller: CallerDep
) -> ListAuthorizedPrincipalsForResourceResponse:
    """List the users and groups that may act on a resource, each once; for admins."""
    return await lists.list_authorized_principals(connection, caller, request=request)


@router.operation(LIST_AUTHORIZED_RESOURCES)
async def list_authorized_resources(
    request: ListAuthorizedResourcesRequest, connection: SnapshotDep, caller: CallerDep
) -> ListAuthorizedResourcesResponse:
    """List the resources the acting principal may act on."""
    return await lists.list_authorized_resources(connection, caller, request=request)


@router.operation(EXPLAIN_AUTHORIZATION)
async def explain_authorization(
    request: ExplainAuthorizationRequest, runtime: RuntimeDep, caller: CallerDep
) -> ExplainAuthorizationResponse:
    """Say by which groups and grants a principal may act on a resource, or what it lacks; for admins."""
    database = runtime.database
    async with database.transaction(caller.organization_id, isolation="REPEATABLE READ", read_only=True) as connection:
        return await explain(connection, caller, request=request)


@router.operation(CHECK_RESOURCE_AUTHORIZATION_FOR_USER)
async def check_resource_authorization_for_user(
    request: CheckResourceAuthorizationForUserRequest, connection: SnapshotDep, caller: CallerDep
) -> CheckResourceAuthorizationForUserResponse:
    """Say whether the caller, or (for admins) anybody, may act on a resource."""
    authorized = await checks.check_resource(connection, caller, request=request)
    return CheckResourceAuthorizationForUserResponse(authorized=authorized)


@router.operation(CHECK_BULK_RESOURCES_AUTHORIZATION_FOR_USER)
async def check_bulk_resources_authorization_for_user(
    request: CheckBulkResourcesAuthorizationForUserRequest, connection: SnapshotDep, caller: CallerDep
) -> CheckBulkResourcesAuthorizationForUserResponse:
    """Say the same of up to 1000 resources, in the order asked."""
    results = await checks.check_resources(connection, caller, request=request)
    return CheckBulkResourcesAuthorizationForUserResponse(results=results)


@router.operation(ADMIN_GRANTS_SET)
async def set_grants(
    request: AdminGrantsSetRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminGrantsSetResponse:
    """Replace the grants on a resource; its owner stays."""
    return AdminGrantsSetResponse(**dict(await grants.set_grants(connection, caller, request=request)))


@router.operation(ADMIN_GRANTS_SET_MANY)
async def set_many_grants(
    request: AdminGrantsSetManyRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminGrantsSetManyResponse:
    """Replace the grants on up to 1000 resources; all or none."""
    count = await grants.set_many_grants(connection, caller, requests=request.resources)
    return AdminGrantsSetManyResponse(resource_count=count)


@router.operation(ADMIN_GRANTS_LIST)
async def list_grants(
    request: AdminGrantsListRequest, connection: SnapshotDep, caller: CallerDep
) -> AdminGrantsListResponse:
    """List the grants on a resource."""
    return await grants.list_grants(connection, caller, request=request)


@router.operation(wire.ADMIN_ACCESS_GET_STATE)
async def get_access_state(
    request: wire.AdminAccessGetStateRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminAccessGetStateResponse:
    """Say what state all access is in, and whether it changed since another one."""
    return await listings.get_state(connection, caller, request=request)


@router.operation(wire.ADMIN_ACCESS_LIST_RESOURCES)
async def list_access_resources(
    request: wire.AdminAccessListResourcesRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminAccessListResourcesResponse:
    """List resources with their access classes: all, or by a part of their name, by type, or by who may read them."""
    return await finding.list_resources(connection, caller, request=request)


@router.operation(wire.ADMIN_ACCESS_COUNT_RESOURCES)
async def count_access_resources(
    request: wire.AdminAccessCountResourcesRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminAccessCountResourcesResponse:
    """Count the same by type."""
    return await finding.count_resources(connection, caller, request=request)


@router.operation(wire.ADMIN_ACCESS_LIST_HOLDERS)
async def list_access_holders(
    request: wire.AdminAccessListHoldersRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminAccessListHoldersResponse:
    """List who holds which role in which access class."""
    return await listings.list_grantees(connection, caller, request=request)


@router.operation(wire.ADMIN_ACCESS_LIST_GROUP_PEOPLE)
async def list_access_group_people(
    request: wire.AdminAccessListGroupPeopleRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminAccessListGroupPeopleResponse:
    """List the people in every group, however deep."""
    return await listings.list_group_people(connection, caller, request=request)
