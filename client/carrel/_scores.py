"""Scores of one ranking, and of what one reply says; `carrel.evaluation` says what they mean."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

CUTOFF = 10
_UNSPOKEN = re.compile(r"\s{0,4}\[\d{1,4}\]|(?m:^[ \t]{0,8}>)|[*_`]")  # bounded: linear in any text
_QUOTATION_MARKS = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})
Id = TypeVar("Id")


def ndcg(found: Sequence[Id], relevant: Mapping[Id, int], *, cutoff: int = CUTOFF) -> float:
    """Return the normalised discounted cumulative gain of the first `cutoff` results, as trec_eval and BEIR define it.

    A relevant result gains its judgement over the logarithm of its rank, and the sum is divided by that of the best
    possible ranking.
    """
    judged = _relevant(relevant)
    won = _discount([judged.get(one, 0) for one in _first(found, cutoff)])
    return won / _discount(sorted(judged.values(), reverse=True)[:cutoff])


def recall(found: Sequence[Id], relevant: Mapping[Id, int], *, cutoff: int = CUTOFF) -> float:
    """Return the share of the relevant results that is among the first `cutoff`."""
    judged = _relevant(relevant)
    return sum(one in judged for one in _first(found, cutoff)) / len(judged)


def reciprocal_rank(found: Sequence[Id], relevant: Mapping[Id, int], *, cutoff: int = CUTOFF) -> float:
    """Return 1 over the rank of the first relevant result, 0 without one among the first `cutoff`.

    Its mean over questions is the MRR.
    """
    judged = _relevant(relevant)
    ranks = (rank for rank, one in enumerate(_first(found, cutoff), 1) if one in judged)
    return 1 / next(ranks, math.inf)


def _relevant(judgements: Mapping[Id, int]) -> dict[Id, int]:
    judged = {one: judgement for one, judgement in judgements.items() if judgement > 0}
    if not judged:
        msg = "Nothing is relevant to this question: leave it out, since every ranking of it is as good."
        raise ValueError(msg)
    return judged


def _first(found: Sequence[Id], cutoff: int) -> list[Id]:
    if cutoff < 1:
        msg = f"cutoff: {cutoff} is no number of results; it must be 1 or more"
        raise ValueError(msg)
    return list(dict.fromkeys(found))[:cutoff]


def _discount(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def find_unsaid(text: str, statements: Sequence[str]) -> list[str]:
    """Return those of these statements that a reply doesn't say.

    It says one that stands in it as whole words, whatever the case, the white space, the kind of quotation marks, the
    marks of Markdown and the numbers of citations.

    >>> find_unsaid("Lunch is served\\n> from **noon** [1].", ["served from noon", "closed"])
    ['closed']
    """
    said = _normalize(text)
    return [one for one in statements if not re.search(rf"(?<!\w){re.escape(_normalize(one))}(?!\w)", said)]


def _normalize(text: str) -> str:
    return " ".join(_UNSPOKEN.sub("", text.translate(_QUOTATION_MARKS)).casefold().split())
