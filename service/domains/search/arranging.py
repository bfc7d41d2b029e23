"""Results in display order: similar documents grouped, and sorting by time."""

from dataclasses import replace

from carrel.wire.search import ResultOrder
from service.domains.search.pipeline import Found
from service.domains.search.queries import FoundDocument
from service.domains.search.search_query import Hit
from service.domains.search.understanding.folding import WORDS
from service.index.tokenization import fold, split_words

ARRANGED = 100  # the most results that are grouped or ordered by time; further results are left out
LEAST_BY_TIME = 0.4  # the share of the best relevance that a result needs to be ordered by time

# Texts are nearly equal if they share this part of their runs of words, or if one contains nearly all of the other.
_RUN, _EQUAL, _WITHIN, _FEWEST = 3, 0.8, 0.9, 4
_NUMBERS = {*WORDS["others"]["numbers"].split(), "first", "second", "third", "half", "quarter"}


def arrange(found: Found[FoundDocument], *, groups: bool, order: ResultOrder) -> Found[FoundDocument]:
    """Return the best `ARRANGED` results, grouped or ordered; an order by time leaves out hits of little relevance."""
    hits, similar = found.best(ARRANGED), dict[Hit, list[Hit]]()
    if groups:
        similar = group_similar({hit: found.rows[hit].text.removeprefix(found.rows[hit].name) for hit in hits})
        hits = list(similar)
    ranking = found.ranking.with_hits(hits)
    if order is not ResultOrder.RELEVANCE:
        least = LEAST_BY_TIME * max((ranking.relevance.get(hit, 0.0) for hit in hits), default=0.0)
        hits = [hit for hit in hits if ranking.relevance.get(hit, 0.0) >= least]
        newest_first = sorted(hits, key=lambda hit: found.rows[hit].changed_at, reverse=order is ResultOrder.NEWEST)
        ranking = replace(ranking.with_hits(newest_first), is_by_time=True)
    return replace(found, ranking=ranking, similar=similar)


def group_similar(texts: dict[Hit, str]) -> dict[Hit, list[Hit]]:
    """Return the first hit of each group of nearly equal texts, in order, with the group's other hits."""
    groups: dict[Hit, list[Hit]] = {}
    firsts: dict[Hit, tuple[frozenset[str], frozenset[int]]] = {}
    for hit, text in texts.items():
        own = _read(text)
        first = next((each for each, other in firsts.items() if _are_similar(own, other)), None)
        if first is None:
            groups[hit], firsts[hit] = [], own
        else:
            groups[first].append(hit)
    return groups


def _read(text: str) -> tuple[frozenset[str], frozenset[int]]:
    """Return the numbers and names of a text, and its runs of words as hashes."""
    written = split_words(text)
    words = [fold(word) for word in written]
    telling = (word for text, word in zip(written, words, strict=True) if word in _NUMBERS or not text.islower())
    return frozenset(telling), frozenset(hash(tuple(words[at : at + _RUN])) for at in range(len(words) - _RUN + 1))


def _are_similar(text: tuple[frozenset[str], frozenset[int]], other: tuple[frozenset[str], frozenset[int]]) -> bool:
    (telling, runs), (others_telling, others_runs) = text, other
    # Texts with the same words but different numbers, days or names differ in meaning.
    if telling - others_telling and others_telling - telling:
        return False
    fewer = min(len(runs), len(others_runs))
    if fewer < _FEWEST:
        return runs == others_runs and bool(runs)
    shared = len(runs & others_runs)
    return shared >= _EQUAL * (len(runs) + len(others_runs) - shared) or shared >= _WITHIN * fewer
