"""Fuse two legs' rankings of documents or chunks by the weighted mean of exact scores, standardised within each leg."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from service.domains.search.search_query import WORDS, Hit

SMALLEST_DEVIATION = 1e-6

# The lowest score in meaning, in deviations below the dense hits. Similar texts lie close together in large spaces:
# without this limit, hits of a rare word alone would score too low.
FURTHEST_IN_MEANING = -4.0

# A nearly empty passage loses this many deviations, or this share in a search by words.
BARE_DEVIATIONS = 1.5
BARE_SHARE = 0.5


Key = TypeVar("Key", Hit, int)  # a hit, or its number


class Scores(NamedTuple):
    """A hit's BM25 score (0: no term in common) and its cosine with the query."""

    lexical: float
    dense: float


@dataclass(frozen=True, slots=True)
class Scale:
    mean: float
    deviation: float

    def standardise(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return (scores - self.mean) / self.deviation


@dataclass(frozen=True, slots=True)
class Fusion:
    """The scales of a search's scores, based only on documents readable by the caller, and the weight of words."""

    lexical: Scale
    dense: Scale
    words: float = WORDS

    def score(self, scores: Iterable[Scores]) -> list[float]:
        lexical, dense = map(np.array, zip(*scores, strict=True))
        far = np.maximum(self.dense.standardise(dense), FURTHEST_IN_MEANING)
        return (self.words * self.lexical.standardise(lexical) + (1 - self.words) * far).tolist()


@dataclass(frozen=True, slots=True)
class Legs(Generic[Key]):
    lexical: Sequence[Key]
    dense: Sequence[Key]


def scale_of(scores: Collection[float], *, at_least: int = 0) -> Scale:
    """Return the mean and deviation of scores, padded with zeros to `at_least` scores."""
    size = max(len(scores), at_least, 1)
    padded = np.array([*scores, *[0.0] * (size - len(scores))])
    # Equals mean() and std(), which take three times as long for so few values.
    mean = float(np.add.reduce(padded)) / size
    away = padded - mean
    return Scale(mean, deviation=max(sqrt(float(np.add.reduce(away * away)) / size), SMALLEST_DEVIATION))


def fusion_of(legs: Legs[Key], scores: Mapping[Key, Scores], *, words: float = WORDS) -> Fusion:
    """Return a search's scales. Zeros fill the lexical leg up to the dense leg, so that rare words count more."""
    lexical = [scores[hit].lexical for hit in legs.lexical if scores[hit].lexical > 0]
    dense = [scores[hit].dense for hit in legs.dense]
    return Fusion(lexical=scale_of(lexical, at_least=len(dense)), dense=scale_of(dense), words=words)


def fuse(scores: Mapping[Key, Scores], fusion: Fusion, *, bare: Collection[Key] = ()) -> list[Key]:
    """Return the hits best first, equal hits by their key, `bare` hits behind hits of similar quality."""
    fused = zip(fusion.score(scores.values()), scores, strict=True)
    return [hit for _, hit in sorted((BARE_DEVIATIONS * (hit in bare) - score, hit) for score, hit in fused)]


def smooth_scores(similarities: Sequence[float]) -> list[float]:
    """Return scores cut to 0 to 1, never rising with the rank: isotonic regression (pooling adjacent violators)."""
    pools: list[tuple[float, int]] = []
    for similarity in similarities:
        mean, size = 0.0 if similarity < 0.0 else min(similarity, 1.0), 1
        while pools and pools[-1][0] < mean:
            above, count = pools.pop()
            mean, size = (above * count + mean * size) / (count + size), count + size
        pools.append((mean, size))
    return [mean for mean, size in pools for _ in range(size)]
