"""What a caller may do with a document: readers READ, editors and its owner update, its owner and admins share it."""

from dataclasses import replace
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.common import Role
from service.auth.callers import Caller
from service.permissions.access import Access
from service.permissions.queries import is_within
from service.platform.errors import Forbidden, NotFound


def role_in(access: Access, caller: Caller) -> Role | None:
    """Return the best role that an access gives the caller, directly or by group; otherwise None. A caller narrowed to
    collections has none: an access doesn't tell a document's place."""
    if caller.collection_ids is not None:
        return None
    held = frozenset(caller.principals)
    if access.owner_id in held:
        return Role.OWNER
    if not access.editors.isdisjoint(held):
        return Role.EDITOR
    return None if access.viewers.isdisjoint(held) else Role.VIEWER


async def widen(connection: Connection, caller: Caller, *, document_id: UUID) -> Caller:
    """Return the caller as they are without what they are narrowed to, for a document within that; 404 for others."""
    if caller.collection_ids is None:
        return caller
    if not await is_within(connection, caller, object_id=document_id):
        raise unknown_document()
    return replace(caller, collection_ids=None)


def require_update(access: Access, caller: Caller) -> None:
    """Refuse (403 `external_id_taken`) to update the contents of another's document."""
    if role_in(access, caller) not in {Role.OWNER, Role.EDITOR}:
        raise external_id_taken()


def external_id_taken() -> Forbidden:
    return Forbidden(
        "This documentExternalId belongs to a document you may not update. Use another one, "
        "or ask the document's owner for the EDITOR role.",
        code="external_id_taken",
    )


def require_sharing(access: Access, caller: Caller) -> None:
    """Refuse (403 `owner_required`) to change who reads a document, unless the caller owns it or is an admin."""
    if role_in(access, caller) is not Role.OWNER and not caller.is_admin:
        raise Forbidden(
            "Only the document's owner or an admin may change who reads it. Leave out the access parts.",
            code="owner_required",
        )


def unknown_document() -> NotFound:
    """Build the error for a document that is unknown or hidden from the caller."""
    return NotFound(
        "There is no such document. Check the id (catalog/listDocuments has them), or upload it first.",
        code="document_not_found",
    )
