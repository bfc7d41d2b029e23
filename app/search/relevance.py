"""Telling strong results from weak ones by their scores.

A search by meaning always finds something, however far it is. The two shares were chosen on judged questions: among the
first ten results of SciFact's 300 questions and the sample organization's 25, no document that answers is folded.
"""

from collections.abc import Sequence
from itertools import takewhile

from carrel.wire.search import CatalogSearchResult, CollectionSearchResult, SearchMode

STRONG = 0.6
"""A result is strong whose score is at least this share of the best one's."""

FIRST, STRONG_FIRST = 3, 0.5
"""The first results are strong with a smaller share: what answers a question is mostly one of them."""

Result = CatalogSearchResult | CollectionSearchResult


def score_of(result: Result) -> float:
    """Return a result's score: of a collection's, its best chunk's."""
    if isinstance(result, CatalogSearchResult):
        return result.score
    return max((chunk.score for chunk in result.chunks), default=0.0)


def shares_of(results: Sequence[Result]) -> list[float]:
    """Return the relevance of each result as a share of the best one's, between 0 and 1."""
    scores = [max(score_of(result), 0.0) for result in results]
    best = max(scores, default=0.0)
    return [score / best if best else 1.0 for score in scores]


def count_strong(shares: Sequence[float], mode: SearchMode) -> int:
    """Return how many results, of the first ones, are strong; the others are less relevant.

    All results of a search by keywords have a word of the query, however far their meaning is, and count as strong.
    """
    if mode is SearchMode.LEXICAL:
        return len(shares)
    wanted = (STRONG_FIRST if number < FIRST else STRONG for number in range(len(shares)))
    return sum(1 for _ in takewhile(lambda pair: pair[0] >= pair[1], zip(shares, wanted, strict=True)))
