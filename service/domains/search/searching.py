"""A search at work: who searches for what, the embedding of the query, and how the search is kept in the log.

A search of which a standby reads the database is logged by the primary, in a transaction of its own. So is one of an
index on several servers, once it has been checked what may be shown, and one that is reranked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.reranking import AppliedReranking
from carrel.wire.search import SearchMode
from service.auth.callers import Caller
from service.domains.search import queries
from service.domains.search.ranking import Ranking
from service.domains.search.reranking import CANDIDATES, rerank
from service.domains.search.search_query import Hit, SearchQuery, prepare_query
from service.domains.search.snapshot import Snapshot
from service.domains.search.understanding.service import Understood
from service.index.service import Space
from service.platform.batches import Batch
from service.platform.database import DONT_WAIT_FOR_DISK, leave_out_when_full
from service.platform.errors import BadRequest, FieldError
from service.platform.identifiers import uuid7
from service.platform.logs import request_id
from service.runtime import Runtime

LogEntry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Search:
    """Who searches for what, whether that is reranked, and how it is kept in the log."""

    runtime: Runtime
    caller: Caller
    query: str
    mode: SearchMode
    collection_id: UUID | None
    understood: Understood = field(default_factory=Understood)
    reranks: bool = False

    @property
    def questions(self) -> Sequence[str]:
        """What is searched for in place of the query, if anything is."""
        return self.understood.questions

    @property
    def candidates(self) -> int:
        """The number of hits that are reranked, at most: so many are needed, however few are asked for."""
        return CANDIDATES if self.reranks and self.runtime.reranker is not None else 0

    async def prepare(self, space: Space) -> Sequence[SearchQuery]:
        """Embed the query, or the questions in its place, while no transaction is open."""
        embedder = self.runtime.embedders.get(space.model)
        texts = self.questions or [self.query]
        embeddings = await embedder.embed(texts)
        return [
            prepare_query(text, mode=self.mode, language=space.language, embedding=embedding, mean=embedder.model.mean)
            for text, embedding in zip(texts, embeddings, strict=True)
        ]

    async def rerank(self, ranking: Ranking, texts: Mapping[Hit, str]) -> tuple[Ranking, AppliedReranking | None]:
        """Return the ranking with its best hits in a new order, and what was applied, if the search is reranked.

        `texts` are of hits that may be shown; no transaction is open any more.
        """
        if not self.reranks:
            return ranking, None
        best = {hit: texts[hit] for hit in ranking.hits[: self.candidates] if hit in texts}
        order, applied = await rerank(self.runtime.reranker, " ".join(self.questions) or self.query, best)
        return ranking.put_first(order), applied

    def entry(self, hits: Sequence[Hit], *, has_words: bool | None) -> LogEntry:
        """Return what the log says of the search."""
        return {
            "search_id": uuid7(),
            "principal_id": self.caller.principal_id,
            "collection_id": self.collection_id,
            "mode": str(self.mode),
            "has_words": has_words,
            "request_id": request_id() or None,
            **_results_of(hits),
        }

    async def finish(self, read: Snapshot, last: Batch, entry: LogEntry) -> None:
        """Run the last statements of a search's transaction, and keep the search there unless `log_after` does."""
        if self._is_logged_after(read):
            await last.run(read.connection)
        elif self.runtime.disk.is_full:
            await last.run(read.connection)
            await self._log_if_it_fits(read.connection, entry)
        else:
            self._ask_to_log(last, entry)
            last.tell("COMMIT")
            await last.run(read.connection)

    async def log_after(self, read: Snapshot, entry: LogEntry, shown: Sequence[Hit]) -> UUID:
        """Keep a search with what it shows, unless `finish` has kept it; return its id."""
        return await self.log(entry | _results_of(shown)) if self._is_logged_after(read) else entry["search_id"]

    def _is_logged_after(self, read: Snapshot) -> bool:
        """Tell whether a search is kept after its transaction: where that can't write, or doesn't know all results."""
        return bool(self.candidates) or read.source.standby is not None or read.is_distributed

    async def log(self, entry: LogEntry) -> UUID:
        """Keep a search in a transaction of its own, and return its id."""
        database, organization_id = self.runtime.database, self.caller.organization_id
        if self.runtime.disk.is_full:
            async with database.transaction(organization_id) as connection:
                await self._log_if_it_fits(connection, entry)
        else:
            first = Batch()
            self._ask_to_log(first, entry)
            async with database.transaction(organization_id, first=first):
                pass
        return entry["search_id"]

    async def _log_if_it_fits(self, connection: AsyncConnection, entry: LogEntry) -> None:
        """Keep a search; the log may lack it where the disk has no room."""
        batch = Batch()
        self._ask_to_log(batch, entry)
        async with leave_out_when_full(connection):
            await batch.run(connection)

    def _ask_to_log(self, batch: Batch, entry: LogEntry) -> None:
        batch.tell(DONT_WAIT_FOR_DISK)
        queries.log_search(batch, self.caller.organization_id, row=entry, query=self.query)


def _results_of(hits: Sequence[Hit]) -> LogEntry:
    document_ids = [hit.document_id for hit in hits]
    return {"result_count": len(document_ids), "document_ids": list(dict.fromkeys(document_ids))}


def require_text(query: str) -> str:
    """Return the query; raises BadRequest for one without anything in it."""
    if not query.strip():
        message = "The query is empty. Send the words or the question to search for."
        raise BadRequest(message, code="empty_query", details=[FieldError("searchQuery", message)])
    return query
