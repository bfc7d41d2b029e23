"""Words of a query weighed by how rare they are among what its reader may read: for agents, whose replies must not
depend on documents that the reader can't know of."""

from collections.abc import Mapping
from dataclasses import replace

from service.auth.callers import Caller
from service.domains.search import queries
from service.domains.search.search_query import Scope, SearchQuery, compute
from service.domains.search.snapshot import Snapshot
from service.index.terms import weigh_query
from service.platform.batches import Batch

LOOKED_AT = 1000
"""Chunks, at most, in which words are counted: those of the first documents by their ids, which are in no order. A word
is as common among these as among all."""


async def weigh_among_readable(read: Snapshot, caller: Caller) -> Snapshot:
    """Return the snapshot with the words of its queries weighed by the chunks that the caller may read. On several
    servers all words weigh alike, as the queries come."""
    if read.is_distributed:
        return read
    scope = Scope(caller, read.space, by_chunk=True)
    groups = [sorted({each.terms for each in query.sought}) for query in read.search_queries]
    batch = Batch()
    answers = [queries.ask_counts(batch, scope, groups=each, most=LOOKED_AT) for each in groups]
    await batch.run(read.connection)
    weighed: list[SearchQuery] = []
    for query, terms, answer in zip(read.search_queries, groups, answers, strict=True):
        counted = dict(answer.rows)
        # The terms of a word are counted together, by the first of them.
        frequencies = {its[0]: counted.get(number, 0) for number, its in enumerate(terms, 1)}
        weighed.append(await compute([query.text], _weigh, query, frequencies, counted.get(0, 0)))
    return replace(read, search_queries=weighed)


def _weigh(query: SearchQuery, frequencies: Mapping[int, int], total: int) -> SearchQuery:
    stemmings, has_old_forms = query.stemmings, query.has_old_forms
    return query.with_weights(
        weigh_query(query.text, stemmings=stemmings, frequencies=frequencies, total=total, has_old_forms=has_old_forms)
    )
