"""What reranking did to a search, as its answer says, and how its endpoint does."""

from enum import StrEnum

from carrel.wire.common import ResponseModel
from carrel.wire.fields import Instant


class WhyNotReranked(StrEnum):
    """Why a search that was to be reranked was not: the order is that of the search alone."""

    NOT_CONFIGURED = "NOT_CONFIGURED"
    TIMED_OUT = "TIMED_OUT"
    FAILED = "FAILED"


class AppliedReranking(ResponseModel):
    """What `enableReranking` did."""

    applied: bool
    """Whether the order follows the reranking model's ranking, too."""
    candidate_count: int = 0
    """Number of results that the model ranked, the search's best ones; those after them keep their order."""
    reason: WhyNotReranked | None = None
    """Why it was not applied; absent when it was."""
    note: str | None = None
    """The reason in a sentence."""


class RerankingState(ResponseModel):
    """How the reranking endpoint answers, since the service was started; searches and agents ask it."""

    answered_at: Instant | None = None
    """When it last gave scores; absent when it never did."""
    failed_at: Instant | None = None
    """When it last was late, refused, or answered something else; absent when it never did."""
