"""Keys of terms, and the choice of a query's terms to look up. A key is a space, a term and its weight's tier
(`term_keys` in the database). Unused keys bound other chunks' scores: once enough chunks score above the bound, the
rest need not be read (Turtle & Flood, "Query Evaluation: Strategies and Optimizations", 1995)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from service.index.terms import round_frequency

MOST_READ = 20_000  # chunks to find by a query's keys, about; reading a chunk takes a microsecond
FEW_READ = 2_000  # to find first: enough for five of six questions by a reader of most of 100,000 chunks

# A tier contains the weights from one of these numbers to below the next.
_WEIGHTS = (0.0, 0.5, 0.6, 0.7, 1.0)
# Of the chunks with a term, the estimated share in a tier or above. The estimate affects cost alone, not the answer.
_SHARES = (1.0, 0.4, 0.15, 0.05, 0.0)
_NONE = len(_SHARES) - 1


@dataclass(frozen=True, slots=True)
class Lookup:
    """Keys to look up, and the highest possible score of a chunk without any of the keys."""

    keys: tuple[int, ...] = ()
    bound: float = 0.0


NO_LOOKUP = Lookup()


def choose_keys(
    weights: Mapping[int, float], *, space_id: int, frequencies: Mapping[int, int], most: int = MOST_READ
) -> Lookup:
    """Choose a query's keys to look up: at each step the tier that lowers the bound most for the chunks read."""
    counts = {term: round_frequency(frequencies.get(term, 0)) for term in weights}
    lowest = dict.fromkeys(weights, _NONE)

    def count_added(term: int) -> float:
        tier = lowest[term]
        return counts[term] * (_SHARES[tier - 1] - _SHARES[tier])

    def price(term: int) -> tuple[float, int]:
        tier = lowest[term]
        return -weights[term] * (_WEIGHTS[tier] - _WEIGHTS[tier - 1]) / count_added(term), term

    steps = [price(term) for term in weights]
    heapify(steps)
    left = float(most)
    while steps:
        term = steps[0][1]
        added = count_added(term)
        if added > left:
            heappop(steps)
            continue
        left -= added
        lowest[term] -= 1
        if lowest[term]:
            heapreplace(steps, price(term))
        else:
            heappop(steps)
    keys = tuple(_key(space_id, term, tier) for term, low in lowest.items() for tier in range(low, _NONE))
    return Lookup(keys, sum(weight * _WEIGHTS[lowest[term]] for term, weight in weights.items()))


def every_key(terms: Iterable[int], *, space_id: int) -> tuple[int, ...]:
    """Return the keys of all chunks of a space with any of these terms, regardless of weight."""
    return tuple(_key(space_id, term, tier) for term in terms for tier in range(_NONE))


def _key(space_id: int, term: int, tier: int) -> int:
    return (space_id << 31) + (term - 1 << 2) + tier
