"""Writing the index: documents that are ready at the same moment share a transaction."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from service.index.queries import ROWS_AT_ONCE
from service.index.service import DocumentToIndex, Space, write_index
from service.platform import traces
from service.platform.database import Database
from service.platform.logs import logger

Place = tuple[UUID, Space]
"""Where entries are written: an organization, and a space of it."""


@dataclass(eq=False, slots=True)
class Group:
    """Documents to write in one transaction; `written` will be the ids of those that were."""

    documents: list[DocumentToIndex]
    written: "asyncio.Future[set[UUID]]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def has_room(self, chunks: Sequence[object]) -> bool:
        """Return whether one statement could write these chunks too."""
        return sum(len(each.chunks) for each in self.documents) + len(chunks) <= ROWS_AT_ONCE


@dataclass(slots=True)
class Writer:
    """Writes documents' index entries, together with those that are ready before their transaction has begun.

    Nobody waits for a group to grow, or for another's write: the first one opens a transaction, and whoever comes
    while it does, as when all connections are in use, goes with it. Whatever a group could not write, because it
    failed, was cancelled, or another transaction held the document, is written alone afterwards.
    """

    database: Database
    _gathering: dict[Place, Group] = field(default_factory=dict[Place, Group])

    async def write(self, organization_id: UUID, *, space: Space, document: DocumentToIndex) -> bool:
        """Write a document's entry in a space; return False when that version is no longer desired there."""
        place = organization_id, space
        group = self._gathering.get(place)
        if group is not None and group.has_room(document.chunks):
            group.documents.append(document)
            written = await asyncio.shield(group.written)
        else:
            group = Group([document])
            written = await self._write_group(place, group)
        if document.document_id in written:
            return True
        return len(group.documents) > 1 and bool(await self._write_group(place, Group([document]), is_open=False))

    async def _write_group(self, place: Place, group: Group, *, is_open: bool = True) -> set[UUID]:
        """Write a group, which others may join until its transaction has begun; raise only what a single one raises."""
        written = set[UUID]()
        if is_open:
            self._gathering[place] = group
        try:
            # Those that are ready now join: a server that answers at once leaves nobody a turn before it has begun.
            await asyncio.sleep(0)
            with traces.span("write index"):
                written = await self._write_open(place, group)
        except Exception:
            if len(group.documents) == 1:
                raise
            logger.warning("indexing_group_failed", documents=len(group.documents), exc_info=True)
        finally:
            self._close(place, group)
            group.written.set_result(written)
        return written

    async def _write_open(self, place: Place, group: Group) -> set[UUID]:
        organization_id, space = place
        async with self.database.transaction(organization_id) as connection:
            self._close(place, group)
            return await write_index(connection, organization_id, space=space, documents=group.documents)

    def _close(self, place: Place, group: Group) -> None:
        if self._gathering.get(place) is group:
            del self._gathering[place]
