"""Rules of access: deny by default; resources with equal access share a class; only a new owner ends ownership."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.common import ResourceReference, ResourceType
from carrel.wire.docstore import DocstoreConfig
from carrel.wire.uploads import PlanUploadRequest, UploadFileForm
from service.audit.service import Change
from service.identity.principals import find_group_ids, find_people
from service.permissions import queries
from service.permissions.access import Access, roles_by_id
from service.platform.batches import Answer, Batch
from service.platform.errors import Conflict, FieldError, NotFound, require

_SHARES_AT_ONCE = 1000


async def access_class_for(connection: Connection, organization_id: UUID, access: Access) -> int:
    """Return the access class of an access, created if missing. Two concurrent transactions get equal classes."""
    digest = access.digest()
    return (await access_classes_for(connection, organization_id, {digest: access}))[digest]


async def access_classes_for(
    connection: Connection, organization_id: UUID, accesses: Mapping[bytes, Access]
) -> dict[bytes, int]:
    """Return the access classes of many accesses, by digest, created if missing."""
    found = await queries.find_classes(connection, organization_id, digests=accesses.keys())
    missing = {digest: access for digest, access in accesses.items() if digest not in found}
    if not missing:
        return found
    added = await queries.insert_classes(connection, organization_id, accesses=missing)
    # Concurrent additions are committed by now, so this finds them.
    lost = missing.keys() - added.keys()
    raced = await queries.find_classes(connection, organization_id, digests=lost) if lost else {}
    return {**found, **added, **raced}


async def register_resource(
    connection: Connection,
    organization_id: UUID,
    *,
    object_id: UUID,
    resource_type: ResourceType | str,
    resource_id: str,
    access: Access,
) -> None:
    """Register an object as a resource. Raises Conflict `resource_taken` if the object or identity is registered."""
    batch = Batch()
    registration = ask_registration(
        batch, organization_id, object_id=object_id, resource_type=resource_type, resource_id=resource_id, access=access
    )
    await batch.run(connection)
    await registration.complete(connection)


def ask_registration(
    batch: Batch,
    organization_id: UUID,
    *,
    object_id: UUID,
    resource_type: ResourceType | str,
    resource_id: str,
    access: Access,
    container_id: UUID | None = None,
) -> "Registration":
    """Like `register_resource`, in a batch; then call `complete`. A container's file has the container's access."""
    row = {
        "object_id": object_id,
        "resource_type": str(resource_type),
        "resource_id": resource_id,
        "container_id": container_id,
    }
    answer = queries.ask_new_resource(batch, organization_id, row=row, digest=access.digest())
    return Registration(organization_id, row, access, answer)


@dataclass(frozen=True, slots=True)
class Registration:
    _organization_id: UUID
    _row: Mapping[str, object]
    _access: Access
    _answer: Answer[dict[str, UUID]]

    async def complete(self, connection: Connection) -> None:
        """Create the access class and register again if it was missing. Raises Conflict `resource_taken`."""
        if self._answer.row is not None:
            return
        # Rare, because most documents share the access of others.
        await access_class_for(connection, self._organization_id, self._access)
        again = Batch()
        answer = queries.ask_new_resource(again, self._organization_id, row=self._row, digest=self._access.digest())
        await again.run(connection)
        if answer.row is None:
            raise Conflict(
                "Another resource has this resourceType and resourceId. Update that resource, or use other values.",
                code="resource_taken",
            )


async def set_access(connection: Connection, organization_id: UUID, *, object_id: UUID, access: Access) -> None:
    """Replace the access to a resource and the files inside, at commit. Raises NotFound for an unknown resource."""
    current = require(await queries.lock_resource(connection, organization_id, object_id), unknown_resource())
    access_class = await access_class_for(connection, organization_id, access)
    if access_class != current:
        await move(connection, organization_id, classes={object_id: access_class})


async def move(connection: Connection, organization_id: UUID, *, classes: Mapping[UUID, int]) -> None:
    """Move locked resources, contained files, and the documents' index entries to different access classes."""
    if classes:
        classes = dict(classes)
        inside = await queries.lock_contained(connection, organization_id, container_ids=classes.keys())
        for object_id, container_id in inside.items():
            classes[object_id] = classes[container_id]
        await queries.move_resources(connection, organization_id, classes=classes)
        await queries.move_access_classes(connection, organization_id, classes=classes)


async def access_of(connection: Connection, organization_id: UUID, object_id: UUID) -> Access:
    """Return the direct grants on a resource. Raises NotFound for an unknown resource."""
    resource = await queries.get_resource(connection, organization_id, object_id=object_id)
    resource = require(resource, unknown_resource())
    return (await accesses_of(connection, organization_id, {resource.access_class}))[resource.access_class]


async def change_owner(
    connection: Connection, organization_id: UUID, *, resources: Collection[queries.Resource], owner_id: UUID
) -> dict[int, Access]:
    """Set the owner of locked resources, revoke roles given by earlier owners, and return each class's old access."""

    def hand_over(access: Access, shared: Iterable[tuple[UUID, str]]) -> Access:
        return access.owned_by(owner_id) if access.owner_id == owner_id else access.without(shared).owned_by(owner_id)

    return await _change_accesses(connection, organization_id, resources=resources, change=hand_over)


def share_change(resource: queries.Resource, before: Mapping[UUID, str], after: Mapping[UUID, str]) -> Change:
    """Build the audit log's entry for a change of the roles that an owner gives on a resource."""
    details = {"before": roles_by_id(before.items()), "after": roles_by_id(after.items())}
    return Change("grants.share", resource.resource_type, resource.object_id, details)


async def end_shares(connection: Connection, organization_id: UUID, *, owner_ids: Collection[UUID]) -> list[Change]:
    """End the shares of inactive owners at commit, in a locked organization; return the changes to record."""
    changes: list[Change] = []
    last = None
    # In portions, so that the statement that moves index entries ends before the statement timeout.
    while owner_ids and (
        resources := await queries.lock_shared(
            connection, organization_id, owner_ids=owner_ids, after=last, limit=_SHARES_AT_ONCE
        )
    ):
        before = await _change_accesses(connection, organization_id, resources=resources, change=Access.without)
        changes += ended_shares(resources, before)
        last = resources[-1].object_id
    return changes


def ended_shares(resources: Iterable[queries.Resource], before: Mapping[int, Access]) -> list[Change]:
    """Build the audit log's entries for roles that owners gave and that end; `before` is each class's old access."""
    given = [(resource, resource.shared_in(before[resource.access_class])) for resource in resources]
    return [share_change(item, shared, {}) for item, shared in given if shared]


async def _change_accesses(
    connection: Connection,
    organization_id: UUID,
    *,
    resources: Collection[queries.Resource],
    change: Callable[[Access, Iterable[tuple[UUID, str]]], Access],
) -> dict[int, Access]:
    """Change the access of locked resources, equal access once; return the access of each class before."""
    before = await accesses_of(connection, organization_id, {resource.access_class for resource in resources})
    kinds = {
        item.object_id: (item.access_class, frozenset(item.shared_in(before[item.access_class]).items()))
        for item in resources
    }
    after = {kind: change(before[kind[0]], kind[1]) for kind in set(kinds.values())}
    digests = {kind: access.digest() for kind, access in after.items()}
    of_digest = await access_classes_for(
        connection, organization_id, {digests[kind]: access for kind, access in after.items()}
    )
    moved = {object_id: of_digest[digests[kind]] for object_id, kind in kinds.items()}
    await move(connection, organization_id, classes=moved)
    return before


async def accesses_of(
    connection: Connection, organization_id: UUID, access_classes: Collection[int]
) -> dict[int, Access]:
    """Return the access of each class, by class; empty for an unknown class."""
    grantees: dict[int, list[tuple[UUID, str]]] = {access_class: [] for access_class in access_classes}
    for row in await queries.list_readers(connection, organization_id, access_classes=access_classes):
        grantees[row.access_class].append((row.principal_id, row.role))
    return {access_class: Access.of(held) for access_class, held in grantees.items()}


async def resolve_readers(
    connection: Connection, organization_id: UUID, named: UploadFileForm | PlanUploadRequest | DocstoreConfig
) -> frozenset[UUID]:
    """Return the principals of the readers' addresses and group ids. BadRequest names unknown values."""
    emails, group_ids = named.allowed_users_email_addresses or (), named.allowed_group_ids or ()
    people = await find_people(connection, organization_id, emails=emails, field="allowedUsersEmailAddresses")
    groups = await find_group_ids(connection, organization_id, group_ids=group_ids, field="allowedGroupIds")
    return people | groups


async def require_resource(
    connection: Connection, organization_id: UUID, reference: ResourceReference
) -> queries.Resource:
    """Return the resource named in a request's member `resource`. Raises NotFound for an unknown resource."""
    return require(await queries.find_resource(connection, organization_id, reference), unknown_resource("resource"))


def identity_of(reference: ResourceReference) -> tuple[str, str]:
    return reference.resource_type.value, reference.resource_id


def refuse_contained(named: Iterable[tuple[str, queries.Resource]]) -> None:
    """Raise Conflict `document_in_container` if a resource is a file in a container; the details name the fields."""
    details = [
        FieldError(field, f"is a file in the document with the documentId {item.container_id}")
        for field, item in named
        if item.container_id is not None
    ]
    if details:
        raise Conflict(
            f"This document {details[0].message}, and has the same owner and readers. Change them there.",
            code="document_in_container",
            details=details,
        )


def unknown_resource(*fields: str) -> NotFound:
    """Return the error for a resource (named in these fields) unknown to or hidden from the caller."""
    message = "There is no such resource. Check its resourceId and resourceType."
    return NotFound(message, code="resource_not_found", details=[FieldError(field, message) for field in fields])
