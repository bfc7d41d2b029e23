"""The codes that a worker holds: loaded when a large space is searched, and given back some minutes after."""

import asyncio
from collections import OrderedDict
from uuid import UUID

from service.index.held.codes import CodeTable, HeldCodes
from service.index.held.queries import notes_changes, read_pages
from service.index.spaces.queries import Space
from service.platform.background import Background
from service.platform.database import Database

# With fewer chunks, the database is about as fast for each reader.
LARGE = 50_000
KEPT_SECONDS = 600.0
# The codes of a space are loaded no sooner than so long after the last attempt.
PAUSE_SECONDS = 30.0
# So many pages that changed later are compared beside the others. With more, all codes are loaded again.
MOST_CHANGES = 5000


class HeldSpaces:
    """Codes by space, in the order in which they were used last; of at most so many bytes."""

    def __init__(self, most_bytes: int = 0) -> None:
        self.most_bytes = most_bytes
        self._held: OrderedDict[int, tuple[HeldCodes, asyncio.TimerHandle]] = OrderedDict()
        self._tried_at: dict[int, float] = {}
        self._loading = asyncio.Lock()

    def find(self, space_id: int) -> HeldCodes | None:
        """Return the codes of a space, for a search whose snapshot is opened after this."""
        if space_id not in self._held:
            return None
        codes, _ = self._held[space_id]
        self._keep(codes)
        return codes

    def update(self, codes: HeldCodes) -> None:
        """Keep these codes of a space in place of others, unless it has been given back."""
        if codes.space_id in self._held:
            self._keep(codes)

    def drop(self, space_id: int) -> None:
        """Give back the memory of a space."""
        if space_id in self._held:
            _, leaving = self._held.pop(space_id)
            leaving.cancel()

    def want(
        self, background: Background, database: Database, organization_id: UUID, space: Space, *, chunks: int
    ) -> None:
        """Load the codes of a space in the background if they are worth it and fit in."""
        fits = chunks * space.dimensions // 8 <= self.most_bytes
        now = asyncio.get_running_loop().time()
        if chunks >= LARGE and fits and now - self._tried_at.get(space.space_id, -PAUSE_SECONDS) >= PAUSE_SECONDS:
            self._tried_at[space.space_id] = now
            background.spawn(self.load(database, organization_id, space))

    async def load(self, database: Database, organization_id: UUID, space: Space) -> None:
        """Load the codes of a space; of several spaces, after each other."""
        async with self._loading:
            timeline = database.primary.timeline
            async with database.transaction(organization_id, isolation="REPEATABLE READ", read_only=True) as connection:
                if not await notes_changes(connection, dimensions=space.dimensions):
                    return
                pages = await read_pages(connection, organization_id, space=space)
            if not pages:
                return
            table = await asyncio.to_thread(CodeTable.of, pages, dimensions=space.dimensions)
            self._keep(HeldCodes(space.space_id, space.dimensions, timeline, pages[0].snapshot, table))
            self._tried_at[space.space_id] = asyncio.get_running_loop().time()

    def _keep(self, codes: HeldCodes) -> None:
        self.drop(codes.space_id)
        leaving = asyncio.get_running_loop().call_later(KEPT_SECONDS, self.drop, codes.space_id)
        self._held[codes.space_id] = codes, leaving
        while sum(each.size for each, _ in self._held.values()) > self.most_bytes:
            self.drop(next(iter(self._held)))
