"""The question log in numbers: by day or week, for each agent, and for each group of those who asked."""

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import question_log as wire
from service.auth.callers import Caller
from service.domains.agents.conversations.question_log import queries
from service.domains.agents.conversations.question_log.queries import QuestionFilter
from service.web.pagination import bucket_starts, require_span


async def summarize(
    connection: Connection, caller: Caller, *, request: wire.AdminQuestionLogSummarizeRequest
) -> wire.AdminQuestionLogSummarizeResponse:
    """Count questions by day or week: all, those that nothing answered or that failed, thumbs, and who asked."""
    starts = bucket_starts(request.from_, request.to, request.bucket, request.time_zone)
    filters, organization_id = _filters(request), caller.organization_id
    by = request.bucket.value, request.time_zone
    rows = await queries.count_by_bucket(connection, organization_id, filters=filters, by=by)
    none = wire.QuestionsInBucket(
        from_=starts[0], questions=0, unanswered=0, failed=0, thumbs_up=0, thumbs_down=0, askers=0
    )
    counted = {row.from_: row for row in rows}
    return wire.AdminQuestionLogSummarizeResponse(
        buckets=[counted.get(start) or none.model_copy(update={"from_": start}) for start in starts],
        askers=await queries.count_askers(connection, organization_id, filters=filters),
    )


async def rank(
    connection: Connection, caller: Caller, *, request: wire.AdminQuestionLogRankRequest
) -> wire.AdminQuestionLogRankResponse:
    """Count the questions of a time for each agent, or for each group of those who asked, most first."""
    require_span(request.from_, request.to)
    rank_all = queries.rank_agents if request.by is wire.RankedBy.AGENT else queries.rank_groups
    return wire.AdminQuestionLogRankResponse(
        ranking=await rank_all(connection, caller.organization_id, filters=_filters(request))
    )


def _filters(request: wire.AdminQuestionLogSummarizeRequest | wire.AdminQuestionLogRankRequest) -> QuestionFilter:
    return QuestionFilter(agent_id=request.agent_id, group_id=request.group_id, since=request.from_, until=request.to)
