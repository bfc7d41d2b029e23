"""The chunks of a large space that are nearest in meaning, by the codes that the worker holds of it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from carrel.wire.search import SearchMode
from service.domains.search import sql
from service.domains.search.search_query import Nearest, Scope, SearchQuery
from service.domains.search.snapshot import Snapshot
from service.index.held.codes import HeldCodes
from service.index.held.queries import ask_changes
from service.index.held.service import MOST_CHANGES
from service.permissions.queries import ask_readable_classes
from service.platform.batches import Batch
from service.runtime import Runtime
from service.schema.indexing import CHUNKS_PER_PAGE, TOTAL_TERM

# So many chunks are scored exactly in the database, which leaves out those that the reader may not read any more. Of
# fewer than the half, the nearest may be missing, and the database looks for all by itself.
MOST = 1500
# Of fewer chunks that may be read, the database scores all.
MUCH = sql.FEW_PAGES * CHUNKS_PER_PAGE


async def with_nearest(runtime: Runtime, read: Snapshot, scope: Scope) -> Sequence[SearchQuery]:
    """Return the queries, with the chunks nearest to each where that is faster than to look for them in the database:
    of a reader of much in a large space, without filters, on the primary."""
    asked, codes = read.search_queries, read.codes
    if asked[0].mode is SearchMode.LEXICAL or not _is_whole(scope) or read.source.standby is not None:
        return asked
    if codes is not None and codes.timeline == read.source.primary.primary.timeline:
        nearest = await _find_nearest(runtime, read, scope, codes)
        if nearest is not None:
            return nearest
    organization_id, chunks = scope.caller.organization_id, asked[0].frequencies.get(TOTAL_TERM, 0)
    database = runtime.beside_requests().database
    runtime.held.want(runtime.background, database, organization_id, read.space, chunks=chunks)
    return asked


def _is_whole(scope: Scope) -> bool:
    """Tell whether everything that the caller may read is in scope."""
    whole = Scope(scope.caller, scope.space, scope.by_chunk, pattern=scope.pattern)
    return scope == whole and scope.caller.collection_ids is None


async def _find_nearest(
    runtime: Runtime, read: Snapshot, scope: Scope, codes: HeldCodes
) -> Sequence[SearchQuery] | None:
    """Return the queries with the nearest chunks; None where the codes have to be loaded again."""
    batch = Batch()
    readable = ask_readable_classes(batch, scope.caller)
    organization_id = scope.caller.organization_id
    changes = ask_changes(batch, organization_id, read.space, since=codes.snapshot, most=MOST_CHANGES)
    await batch.run(read.connection)
    if changes.rows:
        codes = codes.with_changes(changes.rows)
        if codes.changed_pages >= MOST_CHANGES:
            runtime.held.drop(codes.space_id)
            return None
        runtime.held.update(codes)
    classes = np.frombuffer(b"".join(row["classes"] for row in readable.rows), ">i8").astype(np.int64)
    give_up = partial(runtime.held.drop, codes.space_id)
    found = list[SearchQuery]()
    for each in read.search_queries:
        vector = np.array(each.vector[1:-1].split(","), np.float32)
        proposed = await asyncio.to_thread(codes.find_nearest, classes, each.code, vector, most=MOST, much=MUCH)
        if proposed is None:
            return read.search_queries
        ids = ",".join(document_id.hex() for document_id, _ in proposed.chunks)
        numbers = ",".join(str(number) for _, number in proposed.chunks)
        least = 0 if proposed.is_all else MOST // 2
        nearest = Nearest(f"{{{ids}}}", f"{{{numbers}}}", least=least, give_up=give_up)
        found.append(replace(each, nearest=nearest))
    return found
