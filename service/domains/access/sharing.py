"""Sharing by owners, where the organization allows it: with active users by exact address, and with groups of the
owner. Shares end with the ownership, and when the owner is deactivated."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import permissions as wire
from carrel.wire.admin import Grant, GrantInfo
from carrel.wire.common import GrantRole, ResourceIdentifier, ResourceReference, ResourceType, Role
from service.audit.service import record_all
from service.audit.versions import refuse_stale
from service.auth.callers import Caller
from service.auth.queries import get_acting_principal
from service.identity.principals import resolve, to_named_principal
from service.identity.queries import Principal, get_organization, list_principals, lock_organization
from service.permissions import queries
from service.permissions import service as permissions
from service.permissions.access import RANKED, Access, best_roles, roles_by_id
from service.permissions.rights import role_in
from service.platform.errors import Forbidden, require


async def get_shares(connection: Connection, caller: Caller, *, request: wire.GetSharesRequest) -> wire.ResourceShares:
    """Return the roles that the caller has given on a resource that the caller owns. 403 `owner_required`."""
    found_resource = await queries.find_resource(connection, caller.organization_id, request.resource)
    resource, access = await _require_owned(connection, caller, found_resource)
    return await _show_shares(connection, caller, resource, resource.shared_in(access))


async def set_shares(connection: Connection, caller: Caller, *, request: wire.SetSharesRequest) -> wire.ResourceShares:
    """Replace the roles that the caller has given on a resource of theirs, at commit. 403 `owner_sharing_disabled`, 400
    `unknown_principal`; raises as `_require_owned`."""
    organization_id = caller.organization_id
    # Wait for a concurrent request that deactivates the caller or changes the setting; later requests wait for this.
    if not request.validate_only:
        await lock_organization(connection, organization_id)
    resource, access = await _lock_owned(connection, caller, request.resource)
    before = resource.shared_in(access)
    if request.version is not None:
        shown_before = await _show_shares(connection, caller, resource, before)
        await refuse_stale(connection, caller, request.version, shown_before, target_id=resource.object_id)
    others = access.without(before.items())
    other_roles = best_roles(others.grants())
    requested = await _resolve(connection, caller, request.grants, before=before)
    # A role that the person already has, or a lower role, is no share, so it stays when the shares end.
    after = {
        principal_id: role for principal_id, role in requested.items() if _is_gain(other_roles.get(principal_id), role)
    }
    gives = any(_is_gain(before.get(principal_id), role) for principal_id, role in after.items())
    if gives and not (await get_organization(connection, organization_id)).owner_sharing_enabled:
        message = "Owners cannot share here: ask an admin, or choose who can read a document when you upload it."
        raise Forbidden(message, code="owner_sharing_disabled")
    # A share with a group in the trash is not shown, and must not return with the group.
    is_left_out = len(resource.shares or {}) > len(before)
    if (after != before or is_left_out) and not request.validate_only:
        shared = Access.of([*others.grants(), *after.items()])
        await permissions.set_access(connection, organization_id, object_id=resource.object_id, access=shared)
        changes = [permissions.share_change(resource, before, after)] if after != before else []
        await record_all(connection, caller, changes=changes)
        await queries.set_shares(connection, organization_id, replace(resource, shares=roles_by_id(after.items())))
    return await _show_shares(connection, caller, resource, after)


async def _lock_owned(
    connection: Connection, caller: Caller, reference: ResourceReference
) -> tuple[queries.Resource, Access]:
    """Lock a resource that the caller owns, if the caller is still active. Raises like `_require_owned`."""
    person = await get_acting_principal(connection, caller.organization_id, principal_id=caller.principal_id)
    locked = await queries.lock_resources(
        connection, caller.organization_id, identities=[permissions.identity_of(reference)]
    )
    own_resource = locked[0] if locked and person is not None and person.active else None
    return await _require_owned(connection, caller, own_resource)


async def _require_owned(
    connection: Connection, caller: Caller, resource: queries.Resource | None
) -> tuple[queries.Resource, Access]:
    """Return a resource that the caller owns, with its access. Raises 404 if the caller may not read the resource, 403
    `owner_required` if another principal owns it, 409 `document_in_container` for a file in a container."""
    if resource is None:
        raise permissions.unknown_resource("resource")
    access = await permissions.access_of(connection, caller.organization_id, resource.object_id)
    role = require(role_in(access, caller), permissions.unknown_resource("resource"))
    if role is not Role.OWNER:
        raise Forbidden("Only the owner may share this resource. Ask the owner or an admin.", code="owner_required")
    permissions.refuse_contained([("resource", resource)])
    return resource, access


async def _resolve(
    connection: Connection, caller: Caller, grants: Sequence[Grant], *, before: Mapping[UUID, str]
) -> dict[UUID, Role]:
    """Find the principals of new roles; BadRequest `unknown_principal` for inactive or unknown people, and for groups
    without the owner. A role given by the owner before may stay or be lowered."""

    def may_be_named(principal: Principal, place: int) -> bool:
        is_member = principal.kind == "group" and principal.principal_id in caller.principals
        is_known = is_member or (principal.kind == "user" and principal.active)
        return is_known or not _is_gain(before.get(principal.principal_id), Role(grants[place].role))

    references = [(f"grants.{place}.principal", grant.principal) for place, grant in enumerate(grants)]
    resolved = await resolve(connection, caller.organization_id, references=references, may_be_named=may_be_named)
    return best_roles((item.principal_id, Role(grant.role)) for item, grant in zip(resolved, grants, strict=True))


def _is_gain(before: str | None, role: Role) -> bool:
    return before is None or RANKED.index(role) < RANKED.index(Role(before))


async def _show_shares(
    connection: Connection, caller: Caller, resource: queries.Resource, roles: Mapping[UUID, str]
) -> wire.ResourceShares:
    rows = await list_principals(connection, caller.organization_id, principal_ids=roles) if roles else []
    resource_type = ResourceType(resource.resource_type)
    return wire.ResourceShares(
        resource=ResourceIdentifier(resource_id=resource.resource_id, resource_type=resource_type),
        grants=[
            GrantInfo(principal=to_named_principal(row), role=GrantRole(roles[row.principal_id]))
            for row in sorted(rows, key=lambda row: row.principal_id)
        ],
    )
