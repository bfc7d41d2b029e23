"""The search log. A search is logged in its own transaction if possible, else afterwards on the primary: for a search
on a standby, with an index on several servers, or with reranking."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import oversight as wire
from carrel.wire.search import SearchMode
from service.auth.callers import Caller
from service.domains.search import queries
from service.domains.search.search_query import Hit
from service.domains.search.snapshot import Snapshot
from service.platform.batches import Batch
from service.platform.database import DONT_WAIT_FOR_DISK, leave_out_when_full
from service.platform.identifiers import uuid7
from service.platform.logs import request_id
from service.runtime import Runtime
from service.web.pagination import Cursor, bucket_starts


@dataclass(slots=True)
class SearchLog:
    """Logs one search; `is_late` means the results are unknown within the search's transaction."""

    runtime: Runtime
    caller: Caller
    query: str
    mode: SearchMode
    collection_id: UUID | None
    is_late: bool
    search_id: UUID = field(default_factory=uuid7)
    _has_words: bool | None = None
    _is_kept: bool = False

    async def finish(self, read: Snapshot, last: Batch, hits: Sequence[Hit], *, has_words: bool | None) -> None:
        """Run the last statements of a search's transaction, and log the search there if possible."""
        self._has_words = has_words
        self._is_kept = not (self.is_late or read.source.standby is not None or read.is_distributed)
        is_full = self.runtime.disk.is_full
        if self._is_kept and not is_full:
            self._add_entry(last, hits).tell("COMMIT")
        await last.run(read.connection)
        if self._is_kept and is_full:
            async with leave_out_when_full(read.connection):
                await self._add_entry(Batch(), hits).run(read.connection)

    async def keep(self, hits: Sequence[Hit]) -> None:
        """Log the search with the results shown, in a separate transaction, unless `finish` has logged it."""
        if self._is_kept:
            return
        database, organization_id, batch = self.runtime.database, self.caller.organization_id, Batch()
        self._add_entry(batch, hits)
        if self.runtime.disk.is_full:
            async with database.transaction(organization_id) as connection, leave_out_when_full(connection):
                await batch.run(connection)
        else:
            async with database.transaction(organization_id, first=batch):
                pass

    def _add_entry(self, batch: Batch, hits: Sequence[Hit]) -> Batch:
        document_ids = [hit.document_id for hit in hits]
        batch.tell(DONT_WAIT_FOR_DISK)
        entry = {
            "organization_id": self.caller.organization_id,
            "query": self.query,
            "search_id": self.search_id,
            "principal_id": self.caller.principal_id,
            "origin": self.caller.origin,
            "collection_id": self.collection_id,
            "mode": str(self.mode),
            "has_words": self._has_words,
            "request_id": request_id() or None,
            "result_count": len(document_ids),
            "document_ids": list(dict.fromkeys(document_ids)),
        }
        batch.ask(queries.log_search(), dict, entry)
        return batch


async def query_log(
    connection: Connection, caller: Caller, *, request: wire.AdminSearchLogQueryRequest
) -> wire.AdminSearchLogQueryResponse:
    """Read the search log, newest first; filter with `withoutResults` and `feedback`. Erasing words keeps the rest."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_SEARCH_LOG_QUERY.path, request=request)
    before = (datetime.fromisoformat(cursor.after[0]), UUID(cursor.after[1])) if cursor.after else None
    rows = await queries.list_searches(
        connection, caller.organization_id, request=request, before=before, limit=cursor.limit
    )
    return cursor.answer(wire.AdminSearchLogQueryResponse, rows, "at", "search_id")


async def summarize(
    connection: Connection, caller: Caller, *, request: wire.AdminSearchLogSummarizeRequest
) -> wire.AdminSearchLogSummarizeResponse:
    """Count searches by day or week: all, searches without results, and searches with thumbs up or down."""
    starts = bucket_starts(request.from_, request.to, request.bucket, request.time_zone)
    rows = await queries.count_searches(connection, caller.organization_id, request)
    found = {row.from_: row for row in rows}
    none = wire.SearchesInBucket(from_=request.from_, searches=0, without_results=0, thumbs_up=0, thumbs_down=0)
    buckets = [found.get(start) or none.model_copy(update={"from_": start}) for start in starts]
    return wire.AdminSearchLogSummarizeResponse(buckets=buckets)
