"""Reranking in a search's answer, and the state of the reranking endpoint."""

from enum import StrEnum

from carrel.wire.common import ResponseModel
from carrel.wire.fields import Instant


class WhyNotReranked(StrEnum):
    """Why a search was not reranked; the results have the order of the search."""

    NOT_CONFIGURED = "NOT_CONFIGURED"
    TIMED_OUT = "TIMED_OUT"
    FAILED = "FAILED"


class AppliedReranking(ResponseModel):
    """The effect of `enableReranking`."""

    applied: bool
    """Whether the order follows the reranking model's ranking, too."""
    candidate_count: int = 0
    """Number of results ranked by the model, the best of the search; later results keep their order."""
    reason: WhyNotReranked | None = None
    """Reason for skipping reranking; absent if it was applied."""
    note: str | None = None
    """The reason in a sentence."""


class RerankingState(ResponseModel):
    """State of the reranking endpoint since the start of the service; used by searches and agents."""

    answered_at: Instant | None = None
    """When the endpoint last gave scores; absent: never."""
    failed_at: Instant | None = None
    """When the endpoint last timed out, refused, or gave an invalid answer; absent: never."""
