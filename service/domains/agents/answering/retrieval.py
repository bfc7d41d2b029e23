"""The passages that may answer a query, by the ranking of search; the search log has no entry of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from uuid import UUID

from carrel.wire.agents import AgentRetrieval
from carrel.wire.search import SearchMode
from service.auth.callers import Caller
from service.domains.agents.answering.models import Passage
from service.domains.agents.answering.sections import REACH, Chunks, complete
from service.domains.documents.collections.queries import StoredCollection, list_searchable
from service.domains.search.pipeline import Found, Plan, search
from service.domains.search.queries import FoundChunk, ask_found_chunks
from service.domains.search.reranking import CANDIDATES, ask_whether, rerank, text_of
from service.domains.search.understanding.extraction import extract_questions
from service.domains.search.understanding.following import complete_question
from service.domains.search.understanding.service import Filtering
from service.index.spaces.queries import Space
from service.platform import traces
from service.platform.batches import Batch
from service.runtime import Runtime
from service.text.sentences import Span, cut_windows

MOST_PASSAGES = 20
LONGEST_PASSAGE = 4000
"""Characters shown to a model. Only chunks cut by callers are longer."""

LONGEST_QUERY = 2000
"""Characters of a query to use; a model may write any length."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A look-up of the best passages. `messages`, the newest last, come from the person and state the filters."""

    query: str
    limit: int
    messages: Sequence[str] = ()
    options: AgentRetrieval = field(default_factory=AgentRetrieval)
    longest: int = LONGEST_PASSAGE

    @property
    def question(self) -> str:
        """Return the person's question, completed with earlier words if needed."""
        return complete_question(self.messages) or self.query

    def queries(self) -> list[str]:
        """Return the query, or its questions; a whole message's questions are completed with earlier words."""
        if not self.options.enable_query_extraction:
            return [self.query]
        if self.messages and self.query == self.question.strip()[:LONGEST_QUERY]:
            *before, newest = self.messages
            return [complete_question([*before, each])[:LONGEST_QUERY] for each in extract_questions(newest)]
        return extract_questions(self.query)


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Passages, best first; `narrowed` maps the message's filter words to whether a search was narrowed."""

    passages: Sequence[Passage]
    narrowed: Mapping[str, frozenset[bool]] = field(default_factory=dict[str, frozenset[bool]])
    note: str | None = None


async def retrieve(runtime: Runtime, caller: Caller, *, collection_ids: Sequence[UUID], lookup: Lookup) -> Retrieved:
    """Return the best passages of the caller's searchable, readable documents, each once. May raise Unavailable."""
    query = lookup.query.strip()[:LONGEST_QUERY]
    if not query or not collection_ids:
        return Retrieved(())
    lookup = replace(lookup, query=query, limit=min(lookup.limit, MOST_PASSAGES))
    with traces.span("retrieve passages", {"carrel.collections": len(collection_ids)}) as span:
        found = await _retrieve(runtime, caller, collection_ids=collection_ids, lookup=lookup)
        span.set_attribute("carrel.passages", len(found.passages))
    return found


async def _retrieve(runtime: Runtime, caller: Caller, *, collection_ids: Sequence[UUID], lookup: Lookup) -> Retrieved:
    first, options = Batch(), lookup.options
    position = runtime.standbys.ask(first)
    reranks = ask_whether(first, runtime.reranker, caller.organization_id, option=options.enable_reranking)
    async with runtime.database.transaction(caller.organization_id, read_only=True, first=first) as connection:
        collections = await list_searchable(connection, caller, collection_ids=collection_ids)
    most = max(lookup.limit, CANDIDATES) if reranks() and runtime.reranker else lookup.limit
    texts = lookup.queries()
    found: list[Found[FoundChunk]] = []
    for collection in collections:
        plan = Plan(
            runtime,
            caller,
            texts=texts,
            mode=SearchMode.HYBRID,
            space=Space(collection.space_id, collection.model, collection.dimensions),
            ask_contents=ask_found_chunks,
            limit=most,
            position=position,
            by_chunk=True,
            filtering=Filtering(lookup.question, collection.fields) if options.enable_smart_filtering else None,
            # Weigh words by the chunks that the sender may read, not by the whole space's counts.
            by_frequency=False,
            passages=REACH,
        )
        found.append(await search(plan))
    read = [_to_passages(*each, longest=lookup.longest) for each in zip(collections, found, strict=True)]
    passages = _merge_best_first(list(chain.from_iterable(read)))[:most]
    near: Chunks = {
        (collection.collection_id, passage.document_id, passage.chunk_no): passage
        for collection, each in zip(collections, found, strict=True)
        for passage in each.passages
    }
    note = None
    if reranks():
        named = {place: text_of(each.document_name, each.text) for place, each in enumerate(passages)}
        order, applied = await rerank(runtime.reranker, lookup.query, named)
        passages, note = [passages[place] for place in order], applied.note
    stated = [(", ".join(f"“{one.words}” ({one.field})" for one in each.drawn or ()), each.dropped) for each in found]
    narrowed = {
        words: frozenset(others == words and not dropped for others, dropped in stated) for words, _ in stated if words
    }
    return Retrieved(complete(passages[: lookup.limit], near, longest=lookup.longest), narrowed, note)


def _to_passages(collection: StoredCollection, found: Found[FoundChunk], *, longest: int) -> list[Passage]:
    scores = found.ranking.scores_of(found.ranking.hits)
    return [
        Passage(
            hit.document_id,
            found.rows[hit].name,
            next(cut_windows(Span("", found.rows[hit].text), longest)).text,
            scores[hit],
            hit.chunk_no,
            place=found.rows[hit].place,
            collection_id=collection.collection_id,
            version=found.rows[hit].version,
        )
        for hit in found.best(len(found.rows))
    ]


def describe_narrowing(words: str, narrowed: frozenset[bool]) -> str:
    """Describe the words used to narrow look-ups, without any document text: the reader's rights can change."""
    if True not in narrowed:
        return f"No document fits {words}, so all were looked through."
    where = ", where there were any" if False in narrowed else ""
    return f"Only documents that fit {words} were looked through{where}."


def _merge_best_first(passages: Sequence[Passage]) -> list[Passage]:
    once: dict[tuple[UUID, str], Passage] = {}
    for passage in sorted(passages, key=lambda passage: -passage.score):
        once.setdefault((passage.document_id, passage.text), passage)
    return list(once.values())
