"""A container document for the uploads of its files, and the request to add the files to the catalog."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.auth.callers import Caller
from service.domains.documents.stored.queries import StoredDocument, forget_left_out
from service.platform.errors import Conflict
from service.runtime import Runtime
from service.runtime.jobs.models import TaskName

# Unpacking has its own queue: an archive may take long, and no reply may wait for it.
UNPACK_FILES = TaskName("unpack_files", "containers")


class ContainerChangedError(Exception):
    """The container was deleted, or has new contents now; another job adds the new files."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container's contents (SHA-256), as the origin of a file."""

    document_id: UUID
    sha256: bytes

    def check(self, found: StoredDocument | None) -> StoredDocument:
        """Return the found document; ContainerChangedError if deleted or changed."""
        if found is None or found.file.sha256 != self.sha256:
            raise ContainerChangedError
        return found


def refuse_contained(container_id: UUID) -> Conflict:
    """Build the error for changing a contained file where only the container can be changed."""
    return Conflict(
        f"This document is a file in the document {container_id}, which holds its contents and readers. Change that "
        "document instead.",
        code="document_in_container",
    )


async def enqueue_unpacking(runtime: Runtime, connection: Connection, caller: Caller, document_id: UUID) -> None:
    """Forget the files left out of a document's file, and enqueue adding its files to the catalog for the caller."""
    await forget_left_out(connection, caller.organization_id, document_id=document_id)
    await runtime.jobs.enqueue(
        connection,
        UNPACK_FILES,
        organization_id=caller.organization_id,
        lock=f"container-{document_id}",
        document_id=document_id,
        principal_id=caller.principal_id,
        credential_id=caller.credential_id,
        actor_id=caller.acting_through or caller.principal_id,
    )
