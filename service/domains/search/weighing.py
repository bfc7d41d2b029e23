"""For agents: word weights by rarity among the reader's documents, because hidden documents must not affect replies."""

from collections.abc import Mapping
from dataclasses import replace

from service.auth.callers import Caller
from service.domains.search import queries
from service.domains.search.search_query import Scope, SearchQuery, compute
from service.domains.search.snapshot import Snapshot
from service.index.terms import weigh_query
from service.platform.batches import Batch

LOOKED_AT = 1000  # chunks to count words in: of the first documents by id, a random order, and so a fair sample


async def weigh_among_readable(read: Snapshot, caller: Caller) -> Snapshot:
    """Return the snapshot with words weighed by readable chunks; on several servers, all words weigh the same."""
    if read.is_distributed:
        return read
    scope = Scope(caller, read.space, by_chunk=True)
    groups = [sorted({each.terms for each in query.reading.sought}) for query in read.search_queries]
    batch = Batch()
    answers = [queries.ask_counts(batch, scope, groups=each, most=LOOKED_AT) for each in groups]
    await batch.run(read.connection)
    weighed: list[SearchQuery] = []
    for query, terms, answer in zip(read.search_queries, groups, answers, strict=True):
        counted = dict(answer.rows)
        # All terms of a word are counted together, under the first.
        frequencies = {its[0]: counted.get(number, 0) for number, its in enumerate(terms, 1)}
        weighed.append(await compute([query.text], _weigh, query, frequencies, counted.get(0, 0)))
    return replace(read, search_queries=weighed)


def _weigh(query: SearchQuery, frequencies: Mapping[int, int], total: int) -> SearchQuery:
    return query.with_weights(weigh_query(query.reading, frequencies=frequencies, total=total))
