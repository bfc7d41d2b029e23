"""People's questions to agents: each with the part of the reply readable by the admin, and counts."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import question_log as wire
from service.auth.callers import Caller
from service.domains.agents.conversations.question_log import queries
from service.domains.agents.conversations.question_log.queries import Position
from service.domains.agents.conversations.reading.queries import list_turns_of_all
from service.domains.agents.conversations.reading.turns import SeenTurn, see_turns
from service.schema.conversations import COMPLETED
from service.web.pagination import Cursor, bucket_starts, require_span


async def query_log(
    connection: Connection, caller: Caller, *, request: wire.AdminQuestionLogQueryRequest
) -> wire.AdminQuestionLogQueryResponse:
    """List people's questions to agents, newest first, with the replies readable by the caller.
    Other replies are withheld. With `query`, a page may be short or empty although more pages follow."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_QUESTION_LOG_QUERY.path, request=request)
    organization_id = caller.organization_id
    before = Position(datetime.fromisoformat(cursor.after[0]), UUID(cursor.after[1])) if cursor.after else None
    rows = await queries.list_questions(connection, organization_id, filters=request, before=before, limit=cursor.limit)
    page = cursor.page(rows, position=lambda row: _position(row.at, row.message_id))
    if request.query is not None and page.next_page_token is None:
        last = await queries.find_last_searched(connection, organization_id, filters=request, before=before)
        page = page if last is None else cursor.page_until(rows, after=_position(last.at, last.turn_id))
    turns = await list_turns_of_all(connection, caller, turn_ids=[row.message_id for row in page.items])
    seen = {turn.turn_id: turn for turn in await see_turns(connection, caller, rows=turns)}
    return wire.AdminQuestionLogQueryResponse(
        questions=[_with_reply(row, seen.get(row.message_id)) for row in page.items],
        next_page_token=page.next_page_token,
    )


def _position(at: datetime, turn_id: UUID) -> list[str]:
    return [at.isoformat(), str(turn_id)]


def _with_reply(question: wire.LoggedQuestion, turn: SeenTurn | None) -> wire.LoggedQuestion:
    if turn is None:
        return question
    said: dict[str, Any] = {
        "message": turn.row.message,
        "withheld": turn.status == "WITHHELD",
        "agent_response_text": turn.text if turn.status == COMPLETED else None,
        "referenced_sources": list(turn.cited),
        "warnings": turn.warnings,
        "error_message": turn.row.error_message,
    }
    return question.model_copy(update=said)


async def summarize(
    connection: Connection, caller: Caller, *, request: wire.AdminQuestionLogSummarizeRequest
) -> wire.AdminQuestionLogSummarizeResponse:
    """Count questions by day or week: all, unanswered and failed questions, thumbs, and askers."""
    starts = bucket_starts(request.from_, request.to, request.bucket, request.time_zone)
    organization_id, by = caller.organization_id, (request.bucket.value, request.time_zone)
    rows = await queries.count_by_bucket(connection, organization_id, filters=request, by=by)
    none = wire.QuestionsInBucket(
        from_=starts[0], questions=0, unanswered=0, failed=0, thumbs_up=0, thumbs_down=0, askers=0
    )
    counted = {row.from_: row for row in rows}
    return wire.AdminQuestionLogSummarizeResponse(
        buckets=[counted.get(start) or none.model_copy(update={"from_": start}) for start in starts],
        askers=await queries.count_askers(connection, organization_id, filters=request),
    )


async def rank(
    connection: Connection, caller: Caller, *, request: wire.AdminQuestionLogRankRequest
) -> wire.AdminQuestionLogRankResponse:
    """Count the questions of a period by agent, or by each of the askers' groups: the 100 highest counts, in order."""
    require_span(request.from_, request.to)
    rank_all = queries.rank_agents if request.by is wire.RankedBy.AGENT else queries.rank_groups
    return wire.AdminQuestionLogRankResponse(
        ranking=await rank_all(connection, caller.organization_id, filters=request)
    )
