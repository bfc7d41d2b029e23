"""Documents selected by a query's words and phrases: found by the index of terms, then checked against texts."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.domains.search import queries
from service.domains.search.search_query import Hit, Scope, SearchQuery, compute
from service.domains.search.syntax.parsing import Clause, FieldClause, ParsedQuery, is_phrase
from service.index.statistics.queries import read_frequencies
from service.index.terms import terms_of
from service.index.tokenization import split_query
from service.platform.batches import Answer, Batch

MOST_FOUND = 20_000  # passages with a word to read, in about a tenth of a second
_NOT_INDEXED = "The index leaves this word out, so the sign was not followed."
_REACHED = f"Only the first {MOST_FOUND:,} passages that you can read were compared. Other matches were left out."
_REACHED_BY_EXCLUSION = (
    f"Only the first {MOST_FOUND:,} passages that you can read were compared. Other matches may be found."
)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Documents to narrow a search to (None: all), documents to leave out, and the passages with a required text
    (WHOLE: every passage of the document). `notes` has the numbers of clauses that reached a limit."""

    only: frozenset[UUID] | None = None
    without: frozenset[UUID] = frozenset()
    passages: frozenset[Hit] | None = None
    notes: Mapping[int, str] = field(default_factory=dict[int, str])


NOT_NARROWED = Narrowing()


async def find_narrowing(
    connection: Connection, scope: Scope, search_query: SearchQuery, parsed: ParsedQuery
) -> Narrowing:
    texts = sorted({text for clause in parsed.clauses for text in clause.texts})
    if not texts:
        return NOT_NARROWED
    terms = await compute(texts, lambda: {text: _terms_of_words(text, search_query) for text in texts})
    every, space_id = {term for words in terms.values() for word in words for term in word}, scope.space.space_id
    known = await read_frequencies(connection, scope.caller.organization_id, space_id=space_id, terms=sorted(every))
    found, answers, common = Batch(), dict[str, Answer[Hit]](), set[str]()
    for text in texts:
        rarest = min(terms[text], key=lambda word: sum(known.get(term, 0) for term in word), default=())
        if not rarest and not is_phrase(text):
            continue
        is_common = not rarest or sum(known.get(term, 0) for term in rarest) > MOST_FOUND
        if is_common and is_phrase(text):
            common.add(text)
        phrase = text if is_phrase(text) else None
        answers[text] = queries.ask_containing(
            found, scope, terms=rarest, phrase=phrase, is_common=is_common, most=MOST_FOUND + 1
        )
    few = queries.ask_whether_small(found, scope.caller, scope.space, few=MOST_FOUND) if common else None
    await found.run(connection)
    if few is not None and few.rows[0]["is_small"]:  # small enough that all readable passages were compared
        common.clear()
    return _narrow(parsed.clauses, {text: set(answer.rows) for text, answer in answers.items()}, common)


async def find_unmet(connection: Connection, scope: Scope, fields: Sequence[FieldClause]) -> list[int]:
    asked = Batch()
    answers = {
        number: queries.ask_whether_met(asked, scope, each) for number, each in enumerate(fields) if not each.excludes
    }
    await asked.run(connection)
    return [number for number, answer in answers.items() if not answer.rows[0]["is_met"]]


def _terms_of_words(text: str, search_query: SearchQuery) -> list[tuple[int, ...]]:
    """Return the terms of each indexed part of a text: a word in any form, a phrase as written. Words with an asterisk
    are not indexed."""
    if not is_phrase(text):
        return [tuple(part) for part in replace(search_query, text=text).reading.alternatives()]
    words = [word for word in split_query(text) if "*" not in text[word.start - 1] + text[word.end : word.end + 1]]
    return [part for word in words for part in terms_of(word.text, search_query.stemmings) if part]


def _narrow(clauses: Sequence[Clause], found: Mapping[str, Collection[Hit]], common: Collection[str]) -> Narrowing:
    only: frozenset[UUID] | None = None
    without, passages, notes = frozenset[UUID](), None, dict[int, str]()
    for number, clause in enumerate(clauses):
        if not found.keys() >= set(clause.texts):
            notes[number] = _NOT_INDEXED
            continue
        hits = frozenset(hit for text in clause.texts for hit in found[text])
        documents = frozenset(hit.document_id for hit in hits)
        if any(len(found[text]) > MOST_FOUND or text in common for text in clause.texts):
            notes[number] = _REACHED_BY_EXCLUSION if clause.excludes else _REACHED
        if clause.excludes:
            without |= documents
            continue
        only = documents if only is None else only & documents
        passages = hits if passages is None else passages | hits
    return Narrowing(only, without, passages, notes)
