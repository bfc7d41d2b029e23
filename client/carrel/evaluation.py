"""How good a ranking is, against judgements of what answers a question: nDCG, recall, reciprocal rank.

>>> from carrel import evaluation
>>> evaluation.ndcg(["travel", "canteen"], {"canteen": 1})
0.6309297535714575

A ranking is the ids that were found, best first. Judgements map the ids of what is relevant to how much it is: 1 where
that is all there is to say, more for what answers better; 0 or less, or no judgement, is irrelevant. All three are
between 0 and 1, and raise ValueError for a question that nothing is relevant to, which no ranking could answer. An id
that is found twice counts where it is found first, and takes up no further place.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

__all__ = ["ndcg", "recall", "reciprocal_rank"]

CUTOFF = 10
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
