"""For admins: transfer property in batches, a transaction each; offboarding first ends access. Both are repeatable."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, TypeAlias
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import owners as wire
from carrel.wire.access import ResourceCount
from carrel.wire.admin import NamedGroup
from carrel.wire.common import PrincipalReference, ResourceReference, ResourceType, Role
from carrel.wire.fields import normal_email
from carrel.wire.owners import AdminOwnersTransferRequest, AdminOwnersTransferResponse, Handover
from service.audit.service import Change, record, record_all
from service.auth.callers import Caller, unknown_user
from service.auth.queries import get_grantee
from service.domains.documents.catalog.trash.queries import hand_over_kept
from service.domains.documents.docstore.queries import StoredSync
from service.domains.documents.docstore.service import hand_over_syncs
from service.domains.oversight.owners import queries
from service.domains.people.directory.users import require_active_admin, to_user
from service.domains.people.service_accounts.queries import list_tokens_made_by
from service.identity import queries as identity
from service.identity.principals import MOST_DETAILS, to_named_principal
from service.identity.queries import Principal, PrincipalSummary, leave_groups
from service.identity_server.interface import end_access
from service.permissions import service as permissions
from service.permissions.access import Access
from service.permissions.queries import Resource, lock_contained, lock_owned_resources, lock_resources
from service.permissions.readers import find_referenced_principal
from service.platform.errors import BadRequest, Conflict, FieldError, require
from service.platform.identifiers import to_uuid
from service.runtime import Runtime

BATCH = 1000
# A request begins no further batch after this time: proxies and clients wait a minute or less for an answer.
MOST_SECONDS = 10.0
_SYNC = ResourceType.DOCSTORE_SYNC


@dataclass(frozen=True, slots=True)
class Estate:
    """The resources to transfer: all that a principal owns, or only these types. Also the new owner."""

    owner_id: UUID
    new_owner: PrincipalReference
    resource_types: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class _Batch:
    new_owner_id: UUID
    owner_id: UUID | None = None
    resources: Sequence[Resource] = ()
    syncs: Sequence[StoredSync] = ()
    trashed: Mapping[UUID, str] = field(default_factory=dict[UUID, str])


async def transfer(
    runtime: Runtime, caller: Caller, *, request: AdminOwnersTransferRequest
) -> AdminOwnersTransferResponse:
    """Give a principal's property, or up to 1000 named resources, another owner; send again while some remain."""
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
    """Hand over a principal's estate in batches for some seconds; raises the errors of `find_new_owner`."""
    began, transferred = monotonic(), Counter[str]()
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
    """Find a new owner. BadRequest `unknown_principal`, `invalid_new_owner` (a group, inactive, or already owner)."""
    found = await find_referenced_principal(connection, caller.organization_id, reference, field="newOwner")
    if found.kind == "group":
        raise _invalid_new_owner("A group can't own anything. Choose a user or a service account.")
    if not found.active:
        raise _invalid_new_owner("The new owner is not active. Choose an active owner.")
    if found.principal_id == owner_id:
        raise _invalid_new_owner("This is already the owner. Choose another owner.")
    return found


async def _transfer_batch(runtime: Runtime, caller: Caller, estate: Estate) -> Counter[str]:
    """Give the new owner all syncs, and up to BATCH each of other resources and of trashed documents; return counts."""
    organization_id, types = caller.organization_id, estate.resource_types
    async with runtime.database.transaction(organization_id) as connection:
        new_owner = await find_new_owner(connection, caller, estate.new_owner, owner_id=estate.owner_id)
        which: dict[str, Any] = {"owner_id": estate.owner_id, "resource_types": types, "limit": BATCH}
        has_syncs = types is None or _SYNC in types
        syncs = await queries.lock_syncs(connection, organization_id, owner_id=estate.owner_id) if has_syncs else ()
        resources = await lock_owned_resources(connection, organization_id, **which)
        trashed = await hand_over_kept(connection, organization_id, **which, new_owner_id=new_owner.principal_id)
        batch = _Batch(new_owner.principal_id, estate.owner_id, resources, syncs, trashed)
        return await _change_owners(runtime, connection, caller, batch)


async def _transfer_named(
    runtime: Runtime, caller: Caller, named: Sequence[ResourceReference], *, new_owner: PrincipalReference
) -> Counter[str]:
    """Give named resources a new owner, all or none; errors name those unknown, contained, repeated or ownerless."""
    _refuse_repeated_or_ownerless(named)
    organization_id = caller.organization_id
    async with runtime.database.transaction(organization_id) as connection:
        found = await find_new_owner(connection, caller, new_owner, owner_id=None)
        ids = [to_uuid(reference.resource_id) for reference in named if reference.resource_type is _SYNC]
        sync_ids = [item for item in ids if item is not None]
        locked = await queries.lock_syncs(connection, organization_id, sync_ids=sync_ids) if sync_ids else ()
        known = {str(sync.sync_id): sync for sync in locked}
        identities = [permissions.identity_of(reference) for reference in named if reference.resource_type is not _SYNC]
        resources = await lock_resources(connection, organization_id, identities=identities) if identities else []
        there = {(item.resource_type, item.resource_id) for item in resources} | {(_SYNC.value, item) for item in known}
        missing = [place for place, each in enumerate(named) if permissions.identity_of(each) not in there]
        if missing:
            raise permissions.unknown_resource(*(f"resources.{place}" for place in missing[:MOST_DETAILS]))
        places = {permissions.identity_of(each): place for place, each in enumerate(named)}
        permissions.refuse_contained(
            (f"resources.{places[resource.resource_type, resource.resource_id]}", resource) for resource in resources
        )
        syncs = [sync for sync in known.values() if sync.principal_id != found.principal_id]
        return await _change_owners(runtime, connection, caller, _Batch(found.principal_id, None, resources, syncs))


async def _change_owners(runtime: Runtime, connection: Connection, caller: Caller, batch: _Batch) -> Counter[str]:
    """Give a locked batch its new owner, with audit; count by type what changed, and all of the trash."""
    organization_id, owner_id = caller.organization_id, batch.new_owner_id
    changes: list[Change] = []
    if batch.syncs:
        await hand_over_syncs(runtime, connection, caller, syncs=batch.syncs, owner_id=owner_id)
        changes += [
            _change("docstoreSync", sync.sync_id, before={sync.principal_id: Role.OWNER}, owner_id=owner_id)
            for sync in batch.syncs
        ]
    resources = batch.resources
    if resources:
        resources, given = await give_documents(connection, organization_id, resources, owner_id=owner_id)
        changes += given
    if batch.owner_id is not None:
        roles_before = {batch.owner_id: Role.OWNER}
        changes += [_change("document", item, before=roles_before, owner_id=owner_id) for item in batch.trashed]
    counts = Counter([*(resource.resource_type for resource in resources), *batch.trashed.values()])
    counts += Counter({_SYNC.value: len(batch.syncs)})
    if changes:
        details = {"newOwnerId": str(owner_id), "counts": dict(sorted(counts.items()))}
        details |= {} if batch.owner_id is None else {"ownerId": str(batch.owner_id)}
        await record(connection, caller, "owners.transfer", "user", owner_id, details=details)
        await record_all(connection, caller, changes=changes)
    return counts


async def give_documents(
    connection: Connection, organization_id: UUID, resources: Sequence[Resource], *, owner_id: UUID
) -> tuple[Sequence[Resource], list[Change]]:
    """Set the owner of locked resources and of the files in them. Return the resources whose owner changed, and the
    audit log's entries."""
    before = await permissions.change_owner(connection, organization_id, resources=resources, owner_id=owner_id)
    resources = [resource for resource in resources if before[resource.access_class].owner_id != owner_id]
    own = [item.object_id for item in resources]
    inside = await lock_contained(connection, organization_id, container_ids=own)
    await queries.set_document_owner(connection, organization_id, document_ids=[*own, *inside], owner_id=owner_id)
    roles = {access_class: _roles_before(access, owner_id) for access_class, access in before.items()}
    changes = [
        _change(item.resource_type, item.object_id, before=roles[item.access_class], owner_id=owner_id)
        for item in resources
    ]
    return resources, changes + permissions.ended_shares(resources, before)


def _roles_before(access: Access, new_owner_id: UUID) -> dict[UUID, Role]:
    held = {principal_id: role for principal_id, role in access.grants() if principal_id == new_owner_id}
    return held if access.owner_id is None else {access.owner_id: Role.OWNER, **held}


def _change(target_type: str, target_id: UUID, *, before: Mapping[UUID, Role], owner_id: UUID) -> Change:
    details = {
        "before": {str(principal_id): role.value for principal_id, role in before.items()},
        "after": {str(owner_id): Role.OWNER.value},
    }
    return Change("owner.set", target_type, target_id, details)


def _refuse_repeated_or_ownerless(named: Sequence[ResourceReference]) -> None:
    counts = Counter((reference.resource_type, reference.resource_id) for reference in named)
    again = [
        FieldError(f"resources.{place}", "given more than once")
        for place, item in enumerate(named)
        if counts[item.resource_type, item.resource_id] > 1
    ]
    if again:
        raise BadRequest(
            "A resource is given twice. Send each once.", code="duplicate_resource", details=again[:MOST_DETAILS]
        )
    message = "Agents have no owner; any admin can change them. Leave out the agent."
    agents = [
        FieldError(f"resources.{place}", message)
        for place, item in enumerate(named)
        if item.resource_type is ResourceType.AGENT
    ]
    if agents:
        raise BadRequest(message, code="resource_without_owner", details=agents[:MOST_DETAILS])


def _invalid_new_owner(message: str) -> BadRequest:
    return BadRequest(message, code="invalid_new_owner", details=[FieldError("newOwner", message)])


def _to_counts(counts: Mapping[str, int]) -> list[ResourceCount]:
    return [ResourceCount(resource_type=ResourceType(kind), count=counts[kind]) for kind in sorted(counts)]


_Request: TypeAlias = wire.AdminUsersPlanOffboardingRequest | wire.AdminUsersOffboardRequest


async def plan_offboarding(
    runtime: Runtime, caller: Caller, *, request: wire.AdminUsersPlanOffboardingRequest
) -> wire.AdminUsersPlanOffboardingResponse:
    """Return the effects of offboarding, at one moment: access ended, property, and resources without other readers."""
    organization_id = caller.organization_id
    async with runtime.database.transaction(organization_id, isolation="REPEATABLE READ", read_only=True) as connection:
        person, new_owner = await _find_both(connection, caller, request)
        person_id = person.principal_id
        now = await runtime.clock.now(connection)
        held = await queries.read_held_access(connection, organization_id, principal_id=person_id, now=now)
        keys = await identity.list_working_keys_of(connection, organization_id, owner_id=person_id)
        groups = await queries.list_groups_of(connection, organization_id, member_id=person_id)
        grantee = await get_grantee(connection, organization_id, principal_id=person_id)
        # Treat the person as active, to count documents without another reader even after the access ended.
        only_reader = (
            []
            if grantee is None
            else await queries.count_read_alone(
                connection, organization_id, person=replace(grantee, active=True), person_id=person_id
            )
        )
        return wire.AdminUsersPlanOffboardingResponse(
            user=to_user(person),
            new_owner=None if new_owner is None else to_named_principal(new_owner),
            api_keys=keys,
            **held,
            groups=[NamedGroup(id=group.principal_id, name=group.name) for group in groups],
            owned=await queries.count_owned(connection, organization_id, owner_id=person_id),
            only_reader=only_reader,
            made_tokens=await list_tokens_made_by(connection, organization_id, person_id=person_id),
        )


async def offboard(
    runtime: Runtime, caller: Caller, *, request: wire.AdminUsersOffboardRequest
) -> wire.AdminUsersOffboardResponse:
    """End all access of a user, then hand over property for some seconds; send again while some remains. 400, 409."""
    organization_id = caller.organization_id
    async with runtime.database.transaction(organization_id) as connection:
        await identity.lock_organization(connection, organization_id)
        person, new_owner = await _find_both(connection, caller, request)
        person_id = person.principal_id
        owned = await queries.count_owned(connection, organization_id, owner_id=person_id)
        if owned and new_owner is None:
            message = "This user owns resources. Set newOwner; admin/users/planOffboarding lists the resources."
            raise BadRequest(message, code="new_owner_required", details=[FieldError("newOwner", message)])
        ended = await _end_access(connection, caller, person)
    handover = wire.Handover(transferred=[], remaining=owned)
    if request.new_owner is not None:
        handover = await hand_over(runtime, caller, Estate(person_id, request.new_owner))
    user = to_user(replace(person, active=False, is_admin=False))
    return wire.AdminUsersOffboardResponse(user=user, ended=ended, **dict(handover))


async def _find_both(
    connection: Connection, caller: Caller, request: _Request
) -> tuple[Principal, PrincipalSummary | None]:
    """Find the person to offboard, never the caller, and the new owner, if given; raises for unusable people."""
    found = await identity.find_principals(connection, caller.organization_id, emails=[normal_email(request.email)])
    person = require(next((item for item in found if item.kind == "user"), None), unknown_user("email", active=False))
    if person.principal_id == caller.principal_id:
        raise Conflict("You can't offboard yourself. Ask another admin.", code="own_account")
    if request.new_owner is None:
        return person, None
    return person, await find_new_owner(connection, caller, request.new_owner, owner_id=person.principal_id)


async def _end_access(connection: Connection, caller: Caller, person: Principal) -> wire.EndedAccess:
    """Deactivate a user, and end all memberships and all ways to sign in or act as the user."""
    organization_id, person_id = caller.organization_id, person.principal_id
    inactive = replace(person, active=False, is_admin=False, password_hash=None)
    # Lock in the order of an upload by this person: resources before the person.
    unshared = await permissions.end_shares(connection, organization_id, owner_ids=[person_id])
    left = await end_access(connection, organization_id, principal_id=person_id)
    await identity.put_principals(connection, organization_id, rows=[inactive])
    await require_active_admin(connection, organization_id)
    ended = wire.EndedAccess(
        api_key_count=len(left.api_key_ids),
        browser_session_count=left.browser_sessions,
        application_count=left.consents,
        application_token_count=left.token_families,
        group_ids=sorted(await leave_groups(connection, organization_id, member_id=person_id)),
    )
    if inactive != person or ended != _NOTHING or unshared or left.identities or left.factors:
        details = ended.model_dump(mode="json", by_alias=True)
        changes = [
            Change("user.offboard", "user", person_id, details),
            *(Change("apiKey.revoke", "apiKey", key_id) for key_id in left.api_key_ids),
            *(Change("group.members", "group", item, {"removed": [str(person_id)]}) for item in ended.group_ids),
            *unshared,
        ]
        await record_all(connection, caller, changes=changes)
    return ended


_NOTHING = wire.EndedAccess(
    api_key_count=0, browser_session_count=0, application_count=0, application_token_count=0, group_ids=[]
)
