"""A caller's rights on a document: readers READ, editors and the owner update, the owner and admins share."""

from dataclasses import replace
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.common import Role
from service.auth.callers import Caller
from service.permissions.access import Access
from service.permissions.queries import is_within
from service.platform.errors import Forbidden, NotFound


def role_in(access: Access, caller: Caller) -> Role | None:
    """Return the caller's strongest role, even by group; None without a role, or if limited to collections."""
    if caller.collection_ids is not None:
        return None
    held = frozenset(caller.principals)
    if access.owner_id in held:
        return Role.OWNER
    if not access.editors.isdisjoint(held):
        return Role.EDITOR
    return None if access.viewers.isdisjoint(held) else Role.VIEWER


async def widen(connection: Connection, caller: Caller, *, document_id: UUID) -> Caller:
    """Return the caller without the limit to collections if the document is inside the limit, else raise 404."""
    if caller.collection_ids is None:
        return caller
    if not await is_within(connection, caller, object_id=document_id):
        raise unknown_document()
    return replace(caller, collection_ids=None)


def require_update(access: Access, caller: Caller) -> None:
    """Raise 403 `external_id_taken` unless the caller may update the document's contents."""
    if role_in(access, caller) not in {Role.OWNER, Role.EDITOR}:
        raise external_id_taken()


def external_id_taken() -> Forbidden:
    return Forbidden(
        "This documentExternalId belongs to a document that you may not update. Use another id, or ask the document's "
        "owner for the EDITOR role.",
        code="external_id_taken",
    )


def require_sharing(access: Access, caller: Caller) -> None:
    """Raise 403 `owner_required` unless the caller owns the document or is an admin, and so may change its readers."""
    if role_in(access, caller) is not Role.OWNER and not caller.is_admin:
        message = "Only the document's owner or an admin may change its readers. Leave out the access parts."
        raise Forbidden(message, code="owner_required")


def unknown_document() -> NotFound:
    """Return the error for a document unknown to or hidden from the caller."""
    return NotFound(
        "There is no such document. Check the id with search or catalog/listDocuments, or upload it first.",
        code="document_not_found",
    )
