"""Why a principal may act on a resource: every shortest chain of groups and grants, or the missing part."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import permissions as wire
from carrel.wire.common import Role
from service.auth.callers import Caller
from service.domains.access.lookups import queries
from service.domains.access.resources.queries import find_name
from service.identity.queries import PrincipalSummary, list_principals
from service.permissions.access import RANKED
from service.permissions.queries import ClassReader, Resource, list_readers
from service.permissions.readers import find_referenced_principal
from service.permissions.service import require_resource


async def _find_levels_above(connection: Connection, organization_id: UUID, principal_id: UUID) -> dict[UUID, int]:
    """Return the principal and every group around, with the number of steps to each."""
    levels = {principal_id: 0}
    newest: Collection[UUID] = [principal_id]
    while newest:
        level = levels[next(iter(newest))] + 1
        around = await queries.list_groups_around(connection, organization_id, members=newest)
        newest = [group_id for group_id in around if group_id not in levels]
        levels.update(dict.fromkeys(newest, level))
    return levels


def chains_to(top: UUID, below: Mapping[UUID, Sequence[UUID]]) -> Iterator[tuple[UUID, ...]]:
    """Yield every chain from the bottom up to `top`. No step leads to a dead end, so the first few chains are cheap."""
    # Each entry: the lowest principal of a chain so far, and the entry above it.
    pending: list[_Link] = [(top, None)]
    while pending:
        link = pending.pop()
        lower = below.get(link[0], ())
        if lower:
            pending.extend((item, link) for item in reversed(lower))
        else:
            yield tuple(_unroll(link))


_Link = tuple[UUID, "_Link | None"]


def _unroll(link: "_Link | None") -> Iterator[UUID]:
    while link is not None:
        yield link[0]
        link = link[1]


MOST_PATHS = 100


@dataclass(frozen=True)
class _Path:
    """A chain from the principal to the holder of a role: the principal, then groups or the organization."""

    chain: Sequence[UUID]
    role: Role


async def explain(
    connection: Connection, caller: Caller, *, request: wire.ExplainAuthorizationRequest
) -> wire.ExplainAuthorizationResponse:
    """Explain a principal's access to a resource: the groups and grants behind it, or the missing part. Admins only.

    Shortest paths come first; `complete` is False beyond `MOST_PATHS`. The connection must read a single snapshot.
    Raises NotFound `resource_not_found`, and BadRequest `unknown_principal`."""
    organization_id = caller.organization_id
    resource = await require_resource(connection, organization_id, request.resource)
    principal = await find_referenced_principal(connection, organization_id, request.principal, field="principal")
    readers = await list_readers(connection, organization_id, access_classes=[resource.access_class])
    paths = await _paths(connection, organization_id, principal=principal, readers=readers)
    first = list(islice(paths, MOST_PATHS + 1))
    first_paths = first[:MOST_PATHS]
    missing = None
    if not first_paths:
        is_wide = any(reader.principal_id == organization_id for reader in readers)
        missing = _describe_missing(principal, organization_wide=is_wide)
    return wire.ExplainAuthorizationResponse(
        authorized=bool(first_paths),
        paths=await _describe_paths(connection, organization_id, paths=first_paths, resource=resource),
        complete=len(first) == len(first_paths),
        missing=missing,
    )


async def _paths(
    connection: Connection, organization_id: UUID, *, principal: PrincipalSummary, readers: Sequence[ClassReader]
) -> Iterator[_Path]:
    """Return every shortest path from a principal to each role, shortest first; none if the principal is inactive."""
    if not principal.active:
        return iter(())
    levels = await _find_levels_above(connection, organization_id, principal.principal_id)
    below = await queries.list_steps_down(connection, organization_id, levels=levels, most=MOST_PATHS + 1)
    if principal.kind == "user":
        # Everyone in the organization is like a group of which each user is a direct member.
        levels[organization_id] = 1
        below[organization_id] = [principal.principal_id]
    roles = [
        (levels[reader.principal_id], RANKED.index(Role(reader.role)), reader.principal_id)
        for reader in readers
        if reader.principal_id in levels
    ]
    return (_Path(chain, RANKED[rank]) for _, rank, holder_id in sorted(roles) for chain in chains_to(holder_id, below))


async def _describe_paths(
    connection: Connection, organization_id: UUID, *, paths: Sequence[_Path], resource: Resource
) -> list[list[wire.AuthorizationStep]]:
    ids = {node for path in paths for node in path.chain}
    rows = await list_principals(connection, organization_id, principal_ids=ids)
    steps = {row.principal_id: _step(row) for row in rows}
    name = await find_name(connection, organization_id, object_id=resource.object_id) if paths else None
    end = wire.AuthorizationStep(type=wire.StepType.RESOURCE, id=resource.resource_id, name=name)
    return [
        [*(steps[node] for node in path.chain), wire.AuthorizationStep(type=wire.StepType.GRANT, role=path.role), end]
        for path in paths
    ]


def _step(row: PrincipalSummary) -> wire.AuthorizationStep:
    kind = wire.StepType.ORGANIZATION if row.kind == "everyone" else wire.StepType(row.kind)
    return wire.AuthorizationStep(type=kind, id=str(row.principal_id), name=row.name, email=row.email)


def _describe_missing(principal: PrincipalSummary, *, organization_wide: bool) -> str:
    if principal.deleted_at is not None:
        return "This service account was deleted, so no grant counts for it."
    if not principal.active:
        return "This user is not active, so no grant counts for this user. Activate the user first."
    subject = {
        "user": "this user, or a group they are in",
        "group": "this group, or a group it is in",
        "serviceAccount": "this service account, or a group it is in",
    }[principal.kind]
    text = f"No grant gives access to {subject}, directly or through other groups."
    if organization_wide:
        text += " Everyone in the organization may read it. That means its users, and not service accounts or groups."
    if principal.is_admin:
        text += " An admin may change the readers, but can read it only as one of the readers."
    return text
