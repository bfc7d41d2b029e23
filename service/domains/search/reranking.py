"""Reranking the best hits also by a model's scores, if in time. The model gets the texts after the snapshot."""

from collections.abc import Callable, Mapping
from typing import TypeVar
from uuid import UUID

from carrel.wire.reranking import AppliedReranking, WhyNotReranked
from service.domains.search.ranking import RECIPROCAL_OFFSET
from service.identity.queries import ask_organization
from service.platform.batches import Batch
from service.text.reranking import NotReranked, Outcome, Reranker

CANDIDATES = 50  # best hits to score, whatever number is requested, so longer lists begin like short lists

# The model's share in the sum of reciprocal ranks. See docs/decisions.
_MODEL_SHARE = 0.5

_NOTES = {
    WhyNotReranked.NOT_CONFIGURED: "Not reranked: the service has no reranking endpoint (CARREL_RERANKING_URL).",
    WhyNotReranked.TIMED_OUT: "Not reranked: the reranking endpoint did not answer in time.",
    WhyNotReranked.FAILED: "Not reranked: the reranking endpoint failed. The service's log says why.",
}
_REASONS = {Outcome.TIMED_OUT: WhyNotReranked.TIMED_OUT}

Item = TypeVar("Item")


def text_of(name: str, text: str) -> str:
    """Return the model's input for a hit. The document's name gives a passage context, as in embedding."""
    return f"{name}\n{text}"


def ask_whether(
    batch: Batch, reranker: Reranker | None, organization_id: UUID, *, option: bool | None = None
) -> Callable[[], bool]:
    """Decide in a batch whether to rerank: by the request, else the organization's default if an endpoint exists."""
    if option is not None or reranker is None:
        return lambda: bool(option)
    default = ask_organization(batch, organization_id)
    return lambda: default.row is not None and default.row.enable_reranking


async def rerank(
    reranker: Reranker | None, query: str, candidates: Mapping[Item, str]
) -> tuple[list[Item], AppliedReranking]:
    """Return candidates (texts by item, best first) in a new order, or unchanged if the result says why not."""
    items = list(candidates)
    if reranker is None:
        return items, _not_applied(WhyNotReranked.NOT_CONFIGURED)
    if len(items) < 2:
        return items, AppliedReranking(applied=True, candidate_count=len(items))
    try:
        scores = await reranker.score(query, list(candidates.values()))
    except NotReranked as error:
        return items, _not_applied(_REASONS.get(error.outcome, WhyNotReranked.FAILED))
    order = blend(len(items), scores)
    return [items[place] for place in order], AppliedReranking(applied=True, candidate_count=len(items))


def blend(count: int, scores: Mapping[int, float]) -> list[int]:
    """Return places from 0 in the blended order; items without a score come last, equal scores share a rank."""
    ranks = {score: rank for rank, score in reversed(list(enumerate(sorted(scores.values(), reverse=True))))}
    by_model = [ranks[scores[place]] if place in scores else len(scores) for place in range(count)]
    blended = [
        (1 - _MODEL_SHARE) / (RECIPROCAL_OFFSET + place) + _MODEL_SHARE / (RECIPROCAL_OFFSET + rank)
        for place, rank in enumerate(by_model)
    ]
    return sorted(range(count), key=lambda place: (-blended[place], place))


def _not_applied(reason: WhyNotReranked) -> AppliedReranking:
    return AppliedReranking(applied=False, reason=reason, note=_NOTES[reason])
