"""Giving documents, collections and syncs another owner, in batches of a transaction each; for admins."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.access import ResourceCount
from carrel.wire.common import PrincipalReference, ResourceReference, ResourceType, Role
from carrel.wire.owners import AdminOwnersTransferRequest, AdminOwnersTransferResponse, Handover
from service.audit.service import Change, record, record_all
from service.auth.callers import Caller
from service.domains.documents.docstore.queries import StoredSync
from service.domains.documents.docstore.service import hand_over_syncs
from service.domains.oversight.owners import queries
from service.identity.principals import MOST_DETAILS
from service.identity.queries import PrincipalSummary
from service.permissions.access import Access
from service.permissions.queries import Resource, lock_contained, lock_owned_resources, lock_resources
from service.permissions.readers import find_referenced_principal
from service.permissions.service import change_owner, identity_of, refuse_contained, unknown_resource
from service.platform.errors import BadRequest, FieldError
from service.platform.identifiers import to_uuid
from service.runtime import Runtime

BATCH = 1000
# A request begins no further batch after this time: proxies and clients wait for an answer for a minute or less.
MOST_SECONDS = 10.0
_SYNC = ResourceType.DOCSTORE_SYNC


@dataclass(frozen=True, slots=True)
class Estate:
    """What a principal owns, of these types if any are given, and who is to own it."""

    owner_id: UUID
    new_owner: PrincipalReference
    resource_types: Collection[str] | None = None

    def includes(self, resource_type: ResourceType) -> bool:
        return self.resource_types is None or resource_type in self.resource_types


@dataclass(frozen=True, slots=True)
class _Batch:
    new_owner_id: UUID
    owner_id: UUID | None = None
    resources: Sequence[Resource] = ()
    syncs: Sequence[StoredSync] = field(default=())

    @property
    def counts(self) -> Counter[str]:
        counts = Counter(one.resource_type for one in self.resources)
        return counts + Counter({_SYNC.value: len(self.syncs)})


async def transfer(
    runtime: Runtime, caller: Caller, *, request: AdminOwnersTransferRequest
) -> AdminOwnersTransferResponse:
    """Give what somebody owns, or up to 1000 named resources, another owner; send again while some remain.

    It takes effect with each batch's commit."""
    if request.owner is None:
        transferred = await _transfer_named(runtime, caller, request.resources or (), new_owner=request.new_owner)
        return AdminOwnersTransferResponse(transferred=_to_counts(transferred), remaining=[])
    async with runtime.database.transaction(caller.organization_id) as connection:
        owner = await find_referenced_principal(connection, caller.organization_id, request.owner, field="owner")
        await find_new_owner(connection, caller, request.new_owner, owner_id=owner.principal_id)
    estate = Estate(owner.principal_id, request.new_owner, request.resource_types)
    done = await hand_over(runtime, caller, estate)
    return AdminOwnersTransferResponse(**dict(done))


async def hand_over(runtime: Runtime, caller: Caller, estate: Estate) -> Handover:
    """Hand over a principal's estate in batches for some seconds; raises what `find_new_owner` raises."""
    began, transferred = monotonic(), Counter[str]()
    if estate.includes(_SYNC):
        transferred += await _transfer_syncs(runtime, caller, estate)
    while True:
        batch = await _transfer_batch(runtime, caller, estate)
        transferred += batch
        if batch.total() < BATCH or monotonic() - began > MOST_SECONDS:
            break
    async with runtime.database.transaction(caller.organization_id, read_only=True) as connection:
        remaining = await queries.count_owned(
            connection, caller.organization_id, owner_id=estate.owner_id, resource_types=estate.resource_types
        )
    return Handover(transferred=_to_counts(transferred), remaining=remaining)


async def find_new_owner(
    connection: Connection, caller: Caller, reference: PrincipalReference, *, owner_id: UUID | None
) -> PrincipalSummary:
    """Find a new owner; raises BadRequest `unknown_principal` or `invalid_new_owner` (no active other principal)."""
    found = await find_referenced_principal(connection, caller.organization_id, reference, field="newOwner")
    if found.kind == "group":
        raise _invalid_new_owner("A group can't own anything. Name a user or a service account.")
    if not found.active:
        raise _invalid_new_owner("The new owner is not active. Name somebody who is.")
    if found.principal_id == owner_id:
        raise _invalid_new_owner("This is the owner already. Name somebody else.")
    return found


async def _transfer_syncs(runtime: Runtime, caller: Caller, estate: Estate) -> Counter[str]:
    organization_id = caller.organization_id
    async with runtime.database.transaction(organization_id) as connection:
        new_owner = await find_new_owner(connection, caller, estate.new_owner, owner_id=estate.owner_id)
        syncs = await queries.lock_syncs(connection, organization_id, owner_id=estate.owner_id)
        batch = _Batch(new_owner.principal_id, estate.owner_id, syncs=syncs)
        return await _change_owners(runtime, connection, caller, batch)


async def _transfer_batch(runtime: Runtime, caller: Caller, estate: Estate) -> Counter[str]:
    organization_id = caller.organization_id
    async with runtime.database.transaction(organization_id) as connection:
        new_owner = await find_new_owner(connection, caller, estate.new_owner, owner_id=estate.owner_id)
        resources = await lock_owned_resources(
            connection, organization_id, owner_id=estate.owner_id, resource_types=estate.resource_types, limit=BATCH
        )
        batch = _Batch(new_owner.principal_id, estate.owner_id, resources)
        return await _change_owners(runtime, connection, caller, batch)


async def _transfer_named(
    runtime: Runtime, caller: Caller, named: Sequence[ResourceReference], *, new_owner: PrincipalReference
) -> Counter[str]:
    _refuse_unusable(named)
    organization_id = caller.organization_id
    async with runtime.database.transaction(organization_id) as connection:
        found = await find_new_owner(connection, caller, new_owner, owner_id=None)
        ids = [to_uuid(one.resource_id) for one in named if one.resource_type is _SYNC]
        sync_ids = [one for one in ids if one is not None]
        locked = await queries.lock_syncs(connection, organization_id, sync_ids=sync_ids) if sync_ids else ()
        known = {str(one.sync_id): one for one in locked}
        identities = [identity_of(one) for one in named if one.resource_type is not _SYNC]
        resources = await lock_resources(connection, organization_id, identities=identities) if identities else []
        there = {(one.resource_type, one.resource_id) for one in resources} | {(_SYNC.value, one) for one in known}
        missing = [place for place, one in enumerate(named) if identity_of(one) not in there]
        if missing:
            raise unknown_resource(*(f"resources.{place}" for place in missing[:MOST_DETAILS]))
        places = {identity_of(one): place for place, one in enumerate(named)}
        refuse_contained((f"resources.{places[one.resource_type, one.resource_id]}", one) for one in resources)
        syncs = [one for one in known.values() if one.principal_id != found.principal_id]
        return await _change_owners(runtime, connection, caller, _Batch(found.principal_id, None, resources, syncs))


async def _change_owners(runtime: Runtime, connection: Connection, caller: Caller, batch: _Batch) -> Counter[str]:
    organization_id, owner_id = caller.organization_id, batch.new_owner_id
    changes: list[Change] = []
    if batch.syncs:
        await hand_over_syncs(runtime, connection, caller, syncs=batch.syncs, owner_id=owner_id)
        changes += [
            _change("docstoreSync", one.sync_id, before={one.principal_id: Role.OWNER}, owner_id=owner_id)
            for one in batch.syncs
        ]
    resources = batch.resources
    if resources:
        before = await change_owner(connection, organization_id, resources=resources, owner_id=owner_id)
        resources = [one for one in resources if before[one.access_class].owner_id != owner_id]
        own = [one.object_id for one in resources]
        inside = await lock_contained(connection, organization_id, container_ids=own)
        await queries.set_document_owner(connection, organization_id, document_ids=[*own, *inside], owner_id=owner_id)
        roles = {access_class: _roles(access, owner_id) for access_class, access in before.items()}
        changes += [
            _change(one.resource_type, one.object_id, before=roles[one.access_class], owner_id=owner_id)
            for one in resources
        ]
    counts = _Batch(owner_id, resources=resources, syncs=batch.syncs).counts
    if changes:
        details = {"newOwnerId": str(owner_id), "counts": dict(sorted(counts.items()))}
        details |= {} if batch.owner_id is None else {"ownerId": str(batch.owner_id)}
        await record(connection, caller, "owners.transfer", "user", owner_id, details=details)
        await record_all(connection, caller, changes=changes)
    return counts


def _roles(access: Access, new_owner_id: UUID) -> dict[UUID, Role]:
    held = {who: role for who, role in access.grants() if who == new_owner_id}
    return held if access.owner_id is None else {access.owner_id: Role.OWNER, **held}


def _change(target_type: str, target_id: UUID, *, before: Mapping[UUID, Role], owner_id: UUID) -> Change:
    details = {
        "before": {str(who): role.value for who, role in before.items()},
        "after": {str(owner_id): Role.OWNER.value},
    }
    return Change("owner.set", target_type, target_id, details)


def _refuse_unusable(named: Sequence[ResourceReference]) -> None:
    counts = Counter((one.resource_type, one.resource_id) for one in named)
    again = [
        FieldError(f"resources.{place}", "given more than once")
        for place, one in enumerate(named)
        if counts[one.resource_type, one.resource_id] > 1
    ]
    if again:
        raise BadRequest(
            "A resource is given twice. Send each once.", code="duplicate_resource", details=again[:MOST_DETAILS]
        )
    message = "An agent has no owner; any admin changes it. Leave it out."
    agents = [
        FieldError(f"resources.{place}", message)
        for place, one in enumerate(named)
        if one.resource_type is ResourceType.AGENT
    ]
    if agents:
        raise BadRequest(message, code="resource_without_owner", details=agents[:MOST_DETAILS])


def _invalid_new_owner(message: str) -> BadRequest:
    return BadRequest(message, code="invalid_new_owner", details=[FieldError("newOwner", message)])


def _to_counts(counts: Mapping[str, int]) -> list[ResourceCount]:
    return [ResourceCount(resource_type=ResourceType(kind), count=counts[kind]) for kind in sorted(counts)]
