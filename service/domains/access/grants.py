"""Grants on resources, set and read by admins. Setting grants never changes a resource's owner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import admin as wire
from carrel.wire.common import GrantRole, ResourceIdentifier, ResourceType
from service.audit.service import Change, record_all
from service.audit.versions import refuse_stale
from service.auth.callers import Caller
from service.identity.principals import MOST_DETAILS, resolve, to_named_principal
from service.identity.queries import list_principals
from service.permissions import queries, service
from service.permissions.access import Access, roles_by_id
from service.platform.errors import BadRequest, FieldError
from service.web.pagination import Cursor

Identity = tuple[str, str]


@dataclass(frozen=True)
class _DesiredGrants:
    field: str
    grants: wire.AdminGrantsSetRequest

    @property
    def identity(self) -> Identity:
        return service.identity_of(self.grants.resource)


async def set_grants(
    connection: Connection, caller: Caller, *, request: wire.AdminGrantsSetRequest
) -> wire.AdminGrantsSetResponse:
    """Replace the grants on a resource when the transaction commits; the owner stays. 404 for an unknown resource."""
    await _replace_grants(connection, caller, desired=[_DesiredGrants(field="", grants=request)])
    resource = await service.require_resource(connection, caller.organization_id, request.resource)
    saved = await _show_grants(connection, caller, resource)
    return wire.AdminGrantsSetResponse(**dict(saved))


async def set_many_grants(
    connection: Connection, caller: Caller, *, request: wire.AdminGrantsSetManyRequest
) -> wire.AdminGrantsSetManyResponse:
    """Replace the grants on up to 1000 resources: all of them or none."""
    desired = [_DesiredGrants(field=f"resources.{place}.", grants=item) for place, item in enumerate(request.resources)]
    _refuse_duplicates(desired)
    await _replace_grants(connection, caller, desired=desired)
    return wire.AdminGrantsSetManyResponse(resource_count=len(desired))


async def list_grants(
    connection: Connection, caller: Caller, *, request: wire.AdminGrantsListRequest
) -> wire.AdminGrantsListResponse:
    """List the grants on a resource."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_GRANTS_LIST.path, request=request)
    resource = await service.require_resource(connection, caller.organization_id, request.resource)
    grants = await queries.list_grants(
        connection,
        caller.organization_id,
        access_class=resource.access_class,
        after=(UUID(cursor.after[0]), cursor.after[1]) if cursor.after else None,
        limit=cursor.limit,
    )
    page = cursor.page(grants, position=lambda row: [str(row.principal_id), row.role])
    listed = await _show_grants(connection, caller, resource, page.items)
    return wire.AdminGrantsListResponse(**dict(listed), next_page_token=page.next_page_token)


async def _replace_grants(connection: Connection, caller: Caller, *, desired: Sequence[_DesiredGrants]) -> None:
    resources = await _lock_resources(connection, caller, desired=desired)
    for item in desired:
        if item.grants.version is not None:
            shown_before = await _show_grants(connection, caller, resources[item.identity])
            object_id = resources[item.identity].object_id
            await refuse_stale(connection, caller, item.grants.version, shown_before, target_id=object_id)
    current = {row.access_class for row in resources.values()}
    before = await service.accesses_of(connection, caller.organization_id, current)
    accesses = await _build_accesses(connection, caller, desired=desired, resources=resources, before=before)
    digests = {object_id: access.digest() for object_id, access in accesses.items()}
    distinct = {digests[object_id]: access for object_id, access in accesses.items()}
    of_digest = await service.access_classes_for(connection, caller.organization_id, distinct)
    moved = {
        row.object_id: of_digest[digests[row.object_id]]
        for row in resources.values()
        if row.access_class != of_digest[digests[row.object_id]]
    }
    await service.move(connection, caller.organization_id, classes=moved)
    changes = [
        Change("grants.set", row.resource_type, row.object_id, {"before": roles_by_id(old), "after": roles_by_id(new)})
        for row in resources.values()
        for old, new in [(before[row.access_class].grants(), accesses[row.object_id].grants())]
        if row.object_id in moved
    ]
    await record_all(connection, caller, changes=changes)


async def _lock_resources(
    connection: Connection, caller: Caller, *, desired: Sequence[_DesiredGrants]
) -> dict[Identity, queries.Resource]:
    rows = await queries.lock_resources(
        connection, caller.organization_id, identities=[item.identity for item in desired]
    )
    by_identity = {(row.resource_type, row.resource_id): row for row in rows}
    missing = [item for item in desired if item.identity not in by_identity]
    if missing:
        raise service.unknown_resource(*(f"{item.field}resource" for item in missing[:MOST_DETAILS]))
    service.refuse_contained((f"{item.field}resource", by_identity[item.identity]) for item in desired)
    return by_identity


async def _build_accesses(
    connection: Connection,
    caller: Caller,
    *,
    desired: Sequence[_DesiredGrants],
    resources: Mapping[Identity, queries.Resource],
    before: Mapping[int, Access],
) -> dict[UUID, Access]:
    references = [
        (f"{item.field}grants.{place}.principal", grant.principal)
        for item in desired
        for place, grant in enumerate(item.grants.grants)
    ]
    resolved = iter(await resolve(connection, caller.organization_id, references=references))
    accesses: dict[UUID, Access] = {}
    for item in desired:
        grantees = [(grant.role, next(resolved).principal_id) for grant in item.grants.grants]
        everyone = [caller.organization_id] if item.grants.organization_wide else []
        resource = resources[item.identity]
        accesses[resource.object_id] = Access(
            owner_id=before[resource.access_class].owner_id,
            viewers=frozenset([*(reader for role, reader in grantees if role is GrantRole.VIEWER), *everyone]),
            editors=frozenset(reader for role, reader in grantees if role is GrantRole.EDITOR),
        )
    return accesses


def _refuse_duplicates(desired: Sequence[_DesiredGrants]) -> None:
    first: dict[Identity, _DesiredGrants] = {}
    again = [
        FieldError(f"{item.field}resource", "given more than once")
        for item in desired
        if first.setdefault(item.identity, item) is not item
    ]
    if again:
        raise BadRequest("A resource is given twice. Send each once.", code="duplicate_resource", details=again)


async def _show_grants(
    connection: Connection, caller: Caller, resource: queries.Resource, grants: Sequence[queries.Grant] | None = None
) -> wire.ResourceGrants:
    organization_id = caller.organization_id
    if grants is None:
        grants = await queries.list_grants(connection, organization_id, access_class=resource.access_class)
    access = await service.access_of(connection, organization_id, resource.object_id)
    owner, shared = None, resource.shared_in(access)
    if shared and access.owner_id is not None:
        [row] = await list_principals(connection, organization_id, principal_ids=[access.owner_id])
        owner = to_named_principal(row)
    resource_type = ResourceType(resource.resource_type)
    return wire.ResourceGrants(
        resource=ResourceIdentifier(resource_id=resource.resource_id, resource_type=resource_type),
        grants=[
            wire.GrantInfo(
                principal=to_named_principal(row),
                role=GrantRole(row.role),
                given_by=owner if shared.get(row.principal_id) == row.role else None,
            )
            for row in grants
        ],
        organization_wide=organization_id in access.viewers,
        version=access.version,
    )
