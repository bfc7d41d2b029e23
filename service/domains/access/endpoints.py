"""permissions/list… (seed), and explain…, check…, admin/grants and admin/access (extensions)."""

from carrel.wire.access import (
    AdminAccessCountResourcesRequest,
    AdminAccessCountResourcesResponse,
    AdminAccessGetStateRequest,
    AdminAccessGetStateResponse,
    AdminAccessListGroupPeopleRequest,
    AdminAccessListGroupPeopleResponse,
    AdminAccessListHoldersRequest,
    AdminAccessListHoldersResponse,
    AdminAccessListResourcesRequest,
    AdminAccessListResourcesResponse,
)
from carrel.wire.admin import (
    AdminGrantsListRequest,
    AdminGrantsListResponse,
    AdminGrantsSetManyRequest,
    AdminGrantsSetManyResponse,
    AdminGrantsSetRequest,
    AdminGrantsSetResponse,
)
from carrel.wire.permissions import (
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
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep
from service.web.routing import Router

router = Router()


@router.post("/permissions/listAuthorizedPrincipalsForResource", tags=["permissions"])
async def list_authorized_principals_for_resource(
    request: ListAuthorizedPrincipalsForResourceRequest, connection: ConnectionDep, caller: CallerDep
) -> ListAuthorizedPrincipalsForResourceResponse:
    """List the users and groups that may act on a resource, each once; for admins."""
    return await lists.list_authorized_principals(connection, caller, request=request)


@router.post("/permissions/listAuthorizedResources", tags=["permissions"])
async def list_authorized_resources(
    request: ListAuthorizedResourcesRequest, connection: ConnectionDep, caller: CallerDep
) -> ListAuthorizedResourcesResponse:
    """List the resources the acting principal may act on."""
    return await lists.list_authorized_resources(connection, caller, request=request)


@router.post("/permissions/explainAuthorization", tags=["extension"])
async def explain_authorization(
    request: ExplainAuthorizationRequest, runtime: RuntimeDep, caller: CallerDep
) -> ExplainAuthorizationResponse:
    """Say by which groups and grants a principal may act on a resource, or what it lacks; for admins."""
    database = runtime.database
    async with database.transaction(caller.organization_id, isolation="REPEATABLE READ", read_only=True) as connection:
        return await explain(connection, caller, request=request)


@router.post("/permissions/checkResourceAuthorizationForUser", tags=["extension"])
async def check_resource_authorization_for_user(
    request: CheckResourceAuthorizationForUserRequest, connection: ConnectionDep, caller: CallerDep
) -> CheckResourceAuthorizationForUserResponse:
    """Say whether the caller, or (for admins) anybody, may act on a resource."""
    authorized = await checks.check_resource(connection, caller, request=request)
    return CheckResourceAuthorizationForUserResponse(authorized=authorized)


@router.post("/permissions/checkBulkResourcesAuthorizationForUser", tags=["extension"])
async def check_bulk_resources_authorization_for_user(
    request: CheckBulkResourcesAuthorizationForUserRequest, connection: ConnectionDep, caller: CallerDep
) -> CheckBulkResourcesAuthorizationForUserResponse:
    """Say the same of up to 1000 resources, in the order asked."""
    results = await checks.check_resources(connection, caller, request=request)
    return CheckBulkResourcesAuthorizationForUserResponse(results=results)


@router.post("/admin/grants/set", tags=["extension"])
async def set_grants(
    request: AdminGrantsSetRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminGrantsSetResponse:
    """Replace the grants on a resource; its owner stays."""
    return AdminGrantsSetResponse(**dict(await grants.set_grants(connection, caller, request=request)))


@router.post("/admin/grants/setMany", tags=["extension"])
async def set_many_grants(
    request: AdminGrantsSetManyRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminGrantsSetManyResponse:
    """Replace the grants on up to 1000 resources; all or none."""
    count = await grants.set_many_grants(connection, caller, requests=request.resources)
    return AdminGrantsSetManyResponse(resource_count=count)


@router.post("/admin/grants/list", tags=["extension"])
async def list_grants(
    request: AdminGrantsListRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminGrantsListResponse:
    """List the grants on a resource."""
    return await grants.list_grants(connection, caller, request=request)


@router.post("/admin/access/getState", tags=["extension"])
async def get_access_state(
    request: AdminAccessGetStateRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminAccessGetStateResponse:
    """Say what state all access is in, and whether it changed since another one."""
    return await listings.get_state(connection, caller, request=request)


@router.post("/admin/access/listResources", tags=["extension"])
async def list_access_resources(
    request: AdminAccessListResourcesRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminAccessListResourcesResponse:
    """List resources with their access classes: all, or by a part of their name, by type, or by who may read them."""
    return await finding.list_resources(connection, caller, request=request)


@router.post("/admin/access/countResources", tags=["extension"])
async def count_access_resources(
    request: AdminAccessCountResourcesRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminAccessCountResourcesResponse:
    """Count the same by type."""
    return await finding.count_resources(connection, caller, request=request)


@router.post("/admin/access/listHolders", tags=["extension"])
async def list_access_holders(
    request: AdminAccessListHoldersRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminAccessListHoldersResponse:
    """List who holds which role in which access class."""
    return await listings.list_grantees(connection, caller, request=request)


@router.post("/admin/access/listGroupPeople", tags=["extension"])
async def list_access_group_people(
    request: AdminAccessListGroupPeopleRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminAccessListGroupPeopleResponse:
    """List the people in every group, however deep."""
    return await listings.list_group_people(connection, caller, request=request)
