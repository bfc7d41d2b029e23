"""The documents that a query's words and phrases choose: found by the index of terms, and compared with the texts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.domains.search import queries
from service.domains.search.ranking import Ranking
from service.domains.search.search_query import WHOLE, Hit, Scope, SearchQuery
from service.domains.search.syntax.parsing import Clause, ParsedQuery, is_phrase
from service.index.statistics.queries import ask_frequencies
from service.index.term_keys import every_key
from service.index.terms import read_query, terms_of
from service.index.tokenization import split_query
from service.platform.batches import Batch

MOST_FOUND = 20_000
"""How many passages with a word are read at most: about a tenth of a second."""

_REACHED = f"More than {MOST_FOUND:,} passages have these words; the others were left out."
_REACHED_BY_EXCLUSION = f"More than {MOST_FOUND:,} passages have these words; documents with the others may be found."


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Documents that a search is narrowed to (None: all), documents that it leaves out, and the passages that contain
    a required text (WHOLE: every passage of the document). `notes`: clauses that reached a limit, by their numbers."""

    only: frozenset[UUID] | None = None
    without: frozenset[UUID] = frozenset()
    passages: frozenset[Hit] | None = None
    notes: Mapping[int, str] = field(default_factory=dict[int, str])

    def keep(self, ranking: Ranking) -> Ranking:
        """Return a ranking of passages without those that contain no required text."""
        passages = self.passages
        if passages is None:
            return ranking
        kept = [
            (hit, similarity)
            for hit, similarity in zip(ranking.hits, ranking.similarities, strict=True)
            if hit in passages or Hit(hit.document_id, WHOLE) in passages
        ]
        return replace(ranking, hits=[hit for hit, _ in kept], similarities=[similarity for _, similarity in kept])


NO_NARROWING = Narrowing()


async def find_narrowing(
    connection: Connection, scope: Scope, search_query: SearchQuery, parsed: ParsedQuery
) -> Narrowing:
    """Find the documents that the clauses of a query choose among those in scope, in two statements for each text."""
    texts = sorted({text for clause in parsed.clauses for text in clause.texts})
    if not texts:
        return NO_NARROWING
    terms = {text: _terms_of_words(text, search_query.stemmings) for text in texts}
    counted, found = Batch(), Batch()
    every = {term for words in terms.values() for word in words for term in word}
    frequencies = ask_frequencies(
        counted, scope.caller.organization_id, space_id=scope.space.space_id, terms=sorted(every)
    )
    await counted.run(connection)
    known = dict(frequencies.rows)
    answers = {
        text: queries.ask_containing(
            found, scope, phrase=text if is_phrase(text) else None, terms=rarest, keys=keys, most=MOST_FOUND + 1
        )
        for text in texts
        for rarest in [_rarest(terms[text], known)]
        for keys in [every_key(rarest, space_id=scope.space.space_id)]
    }
    await found.run(connection)
    return _narrow(parsed.clauses, {text: set(answer.rows) for text, answer in answers.items()})


def _terms_of_words(text: str, stemmings: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the terms of each part of a text that is indexed; of a word in any form, of a phrase as it is written."""
    if not is_phrase(text):
        return [tuple(part) for part in read_query(text, tuple(stemmings)).alternatives()]
    return [part for word in split_query(text) for part in terms_of(word.text, stemmings) if part]


def _rarest(words: Iterable[tuple[int, ...]], frequencies: Mapping[int, int]) -> tuple[int, ...]:
    return min(words, key=lambda terms: sum(frequencies.get(term, 0) for term in terms), default=())


def _narrow(clauses: Sequence[Clause], found: Mapping[str, Collection[Hit]]) -> Narrowing:
    only: frozenset[UUID] | None = None
    without, passages, notes = frozenset[UUID](), None, dict[int, str]()
    for number, clause in enumerate(clauses):
        hits = frozenset(hit for text in clause.texts for hit in found[text])
        documents = frozenset(hit.document_id for hit in hits)
        if any(len(found[text]) > MOST_FOUND for text in clause.texts):
            notes[number] = _REACHED_BY_EXCLUSION if clause.excludes else _REACHED
        if clause.excludes:
            without |= documents
            continue
        only = documents if only is None else only & documents
        passages = hits if passages is None else passages | hits
    return Narrowing(only, without, passages, notes)
