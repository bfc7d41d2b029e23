"""admin/questionLog: extensions, for admins only."""

from carrel.wire.question_log import (
    ADMIN_QUESTION_LOG_QUERY,
    ADMIN_QUESTION_LOG_RANK,
    ADMIN_QUESTION_LOG_SUMMARIZE,
    AdminQuestionLogQueryRequest,
    AdminQuestionLogQueryResponse,
    AdminQuestionLogRankRequest,
    AdminQuestionLogRankResponse,
    AdminQuestionLogSummarizeRequest,
    AdminQuestionLogSummarizeResponse,
)
from service.domains.agents.conversations.question_log import listing, summaries
from service.web.dependencies import CallerDep, SnapshotDep
from service.web.routing import Router

router = Router()


@router.operation(ADMIN_QUESTION_LOG_QUERY)
async def query_question_log(
    request: AdminQuestionLogQueryRequest, connection: SnapshotDep, caller: CallerDep
) -> AdminQuestionLogQueryResponse:
    """Read what people asked agents, newest first, with the replies that the caller may read."""
    return await listing.query_log(connection, caller, request=request)


@router.operation(ADMIN_QUESTION_LOG_SUMMARIZE)
async def summarize_question_log(
    request: AdminQuestionLogSummarizeRequest, connection: SnapshotDep, caller: CallerDep
) -> AdminQuestionLogSummarizeResponse:
    """Count questions by day or week: all, those that nothing answered or that failed, thumbs, and who asked."""
    return await summaries.summarize(connection, caller, request=request)


@router.operation(ADMIN_QUESTION_LOG_RANK)
async def rank_question_log(
    request: AdminQuestionLogRankRequest, connection: SnapshotDep, caller: CallerDep
) -> AdminQuestionLogRankResponse:
    """Count the questions of a time for each agent, or for each group of those who asked, most first."""
    return await summaries.rank(connection, caller, request=request)
