"""Documents selected by a query's words and phrases: found by the index of terms, then checked against texts."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.domains.search import queries
from service.domains.search.search_query import Hit, Scope, SearchQuery, compute
from service.domains.search.syntax.parsing import WITH_ASTERISK, Clause, FieldClause, ParsedQuery, is_part, is_phrase
from service.index.statistics.queries import read_frequencies
from service.index.stemming import ENGLISH
from service.index.stop_words import is_left_out
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
    (WHOLE: every passage of the document). `notes` says, by a clause's number, why it was not followed in full.
    `needs_meaning`: the index may have no word of the query, so a search by words ranks by meaning, too."""

    only: frozenset[UUID] | None = None
    without: frozenset[UUID] = frozenset()
    passages: frozenset[Hit] | None = None
    notes: Mapping[int, str] = field(default_factory=dict[int, str])
    needs_meaning: bool = False


async def find_narrowing(
    connection: Connection, scope: Scope, search_queries: Sequence[SearchQuery], parsed: ParsedQuery
) -> Narrowing:
    """Compare the signs' texts with readable passages. A single query of stop words, which the index leaves out, is a
    phrase ("to be or not to be") if a passage has it."""
    search_query, *others = search_queries
    says_little = not others and ENGLISH in search_query.stemmings and is_left_out(search_query.text)
    clauses = parsed.clauses or ((Clause((f'"{search_query.text}',)),) if says_little else ())
    texts = sorted({text for clause in clauses for text in clause.texts})
    if not texts:
        return Narrowing()
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
    narrowing = _narrow(clauses, {text: set(answer.rows) for text, answer in answers.items()}, common)
    if not narrowing.only:
        return narrowing if parsed.clauses else Narrowing()
    return replace(narrowing, needs_meaning=says_little or any(map(WITH_ASTERISK.search, parsed.phrases)))


async def find_unmet(connection: Connection, scope: Scope, fields: Sequence[FieldClause]) -> list[int]:
    """Return the numbers of required fields that no readable document fits."""
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
    words = [word for word in split_query(text) if not is_part(text, word)]
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
