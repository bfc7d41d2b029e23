"""The readers of a resource, the resources of a caller, and single checks (seed, "permissions/…")."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import permissions as wire
from carrel.wire.access import AccessThrough
from carrel.wire.common import ResourceIdentifier, ResourceReference
from carrel.wire.fields import normal_email
from service.auth.callers import Caller, acting_for, credential_gone
from service.auth.queries import get_acting_principal
from service.domains.access.lookups import queries
from service.identity.queries import get_organization
from service.permissions.service import identity_of, require_resource
from service.platform.errors import BadRequest, FieldError, require
from service.web.pagination import Cursor

MOST_THROUGH = 10


async def list_authorized_principals(
    connection: Connection, caller: Caller, *, request: wire.ListAuthorizedPrincipalsForResourceRequest
) -> wire.ListAuthorizedPrincipalsForResourceResponse:
    """List the users and groups that may act on a resource, each once. Admins only."""
    cursor = Cursor.read(caller, operation=wire.LIST_AUTHORIZED_PRINCIPALS_FOR_RESOURCE.path, request=request)
    resource = await require_resource(connection, caller.organization_id, request.resource)
    rows = await queries.list_effective_principals(
        connection, caller.organization_id, cursor.window, access_class=resource.access_class
    )
    page = cursor.page(rows, position=lambda row: [row.id])
    through: dict[str, list[AccessThrough]] | None = None
    if request.with_through:
        through = {row.id: [] for row in page.items}
        for reader_id, way in await queries.list_ways(
            connection,
            caller.organization_id,
            access_class=resource.access_class,
            readers=[UUID(row.id) for row in page.items],
            most=MOST_THROUGH,
        ):
            through[str(reader_id)].append(way)
    return wire.ListAuthorizedPrincipalsForResourceResponse(
        principals=page.items, next_page_token=page.next_page_token, through=through
    )


async def list_authorized_resources(
    connection: Connection, caller: Caller, *, request: wire.ListAuthorizedResourcesRequest
) -> wire.ListAuthorizedResourcesResponse:
    """List the resources that the acting principal may act on. Only access counts, also for an admin."""
    cursor = Cursor.read(caller, operation=wire.LIST_AUTHORIZED_RESOURCES.path, request=request)
    rows = await queries.list_readable_resources(connection, caller, cursor.window, resource_type=request.resource_type)
    page = cursor.page(rows, position=lambda row: [str(row[0])])
    return wire.ListAuthorizedResourcesResponse(
        resources=[resource for _, resource in page.items], next_page_token=page.next_page_token
    )


async def who_am_i(connection: Connection, caller: Caller, *, request: wire.WhoAmIRequest) -> wire.WhoAmIResponse:
    """Describe the caller's credential and name the owner, without the credential's value."""
    del request
    organization = await get_organization(connection, caller.organization_id)
    name, expires_at = require(await queries.get_credential(connection, caller), credential_gone())
    return wire.WhoAmIResponse(
        kind=caller.credential,
        credential_name=name,
        name=caller.name,
        email=caller.email,
        is_admin=caller.is_admin,
        organization_id=caller.organization_id,
        organization_name=organization.name,
        scopes=None if caller.scopes is None else sorted(caller.scopes),
        expires_at=expires_at,
    )


async def check_resource(
    connection: Connection, caller: Caller, *, request: wire.CheckResourceAuthorizationForUserRequest
) -> wire.CheckResourceAuthorizationForUserResponse:
    """Return whether the caller (for admins, anyone) may act on a resource; an unknown resource is not authorized."""
    readable = await _list_readable(connection, caller, user_email=request.user_email, resources=[request.resource])
    return wire.CheckResourceAuthorizationForUserResponse(authorized=bool(readable))


async def check_resources(
    connection: Connection, caller: Caller, *, request: wire.CheckBulkResourcesAuthorizationForUserRequest
) -> wire.CheckBulkResourcesAuthorizationForUserResponse:
    """Return whether the caller, or anyone for an admin, may act on up to 1000 resources, in the requested order."""
    readable = await _list_readable(connection, caller, user_email=request.user_email, resources=request.resources)
    return wire.CheckBulkResourcesAuthorizationForUserResponse(
        results=[
            wire.ResourceAuthorization(
                resource=ResourceIdentifier(resource_id=resource.resource_id, resource_type=resource.resource_type),
                authorized=identity_of(resource) in readable,
            )
            for resource in request.resources
        ]
    )


async def _list_readable(
    connection: Connection, caller: Caller, *, user_email: str | None, resources: Sequence[ResourceReference]
) -> Collection[tuple[str, str]]:
    subject = await _find_subject(connection, caller, user_email)
    if subject is None:
        return ()
    identities = {identity_of(resource) for resource in resources}
    return await queries.list_readable_among(connection, subject, identities=identities)


async def _find_subject(connection: Connection, caller: Caller, user_email: str | None) -> Caller | None:
    """Find a check's principal, None if inactive. Keys may name active users, admins known addresses, or BadRequest."""
    if user_email is None or (caller.kind == "user" and normal_email(user_email) == caller.email):
        return caller
    if not caller.is_admin:
        return await acting_for(connection, caller, user_email)
    principal_id = await queries.find_subject(connection, caller.organization_id, email=normal_email(user_email))
    if principal_id is None:
        message = f"There is no user or service account with the address {user_email!r} in this organization."
        raise BadRequest(message, code="unknown_user", details=[FieldError("userEmail", message)])
    row = await get_acting_principal(connection, caller.organization_id, principal_id=principal_id)
    if row is None or not row.active:
        return None
    return replace(caller, principal_id=row.principal_id, principals=row.principals, kind=row.kind)
