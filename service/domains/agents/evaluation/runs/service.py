"""Rules of runs over evaluation sets, for admins. Measurements are stored as the caller's, with means."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import evaluation_runs
from carrel.wire.evaluation import EvaluationSet
from service.auth.callers import Caller
from service.domains.agents.answering.grounding import measure_groundedness
from service.domains.agents.conversations.reading.queries import list_sources, list_turns_of_everybody
from service.domains.agents.definitions.service import require_agent
from service.domains.agents.evaluation import queries
from service.domains.agents.evaluation.service import lock_set, record_change, require_set
from service.platform.database import Database
from service.platform.errors import BadRequest, Conflict, FieldError, NotFound, require
from service.platform.identifiers import uuid7
from service.web.pagination import Cursor

MOST_RUNS = 1000


async def add_run(
    connection: Connection,
    caller: Caller,
    *,
    request: evaluation_runs.AdminEvaluationSetsAddRunRequest,
    grounded: Mapping[UUID | None, float | None],
    default_model: str,
) -> evaluation_runs.EvaluationRun:
    """Save a run's results so far, except of deleted cases; existing results stay. `grounded` is by message."""
    set_id = request.evaluation_set_id
    await lock_set(connection, caller, set_id)
    stored = await require_set(connection, caller, set_id)
    agent_id = await _require_agent(connection, caller, stored, request)
    results = await _existing_results(connection, caller, request)
    gone = len(request.results) - len(results)
    rows = [
        {
            **dict(result),
            "ranks": {name: rank for rank, name in enumerate(dict.fromkeys(result.found), 1)},
            "groundedness": grounded.get(result.message_id),
        }
        for result in results
    ]
    if request.evaluation_run_id is None:
        run_id = await _begin_run(connection, caller, stored, request, agent_id=agent_id, default_model=default_model)
    else:
        run_id = request.evaluation_run_id
        run = await _require_run(connection, caller, set_id, run_id)
        if run.ran_by.id != str(caller.principal_id):
            raise _unknown_run()
        if (run.mode, run.agent_id) != (request.mode, agent_id):
            message = "This run was measured in another mode or with another agent. Start a new run."
            raise _wrong_mode("evaluationRunId", message)
    if gone:
        await queries.lower_planned_count(connection, caller.organization_id, run_id=run_id, by=gone)
    if rows:
        await queries.insert_results(connection, caller.organization_id, run_id=run_id, results=rows)
        await queries.update_means(connection, caller.organization_id, run_id=run_id)
    return await _require_run(connection, caller, set_id, run_id)


async def _begin_run(
    connection: Connection,
    caller: Caller,
    stored: EvaluationSet,
    request: evaluation_runs.AdminEvaluationSetsAddRunRequest,
    *,
    agent_id: UUID | None,
    default_model: str,
) -> UUID:
    if stored.run_count >= MOST_RUNS:
        message = f"The evaluation set has {MOST_RUNS:,} runs, which is the limit. Delete old runs."
        raise Conflict(message, code="too_many_evaluation_runs")
    run_id, set_id = uuid7(), request.evaluation_set_id
    run = {
        "evaluation_run_id": run_id,
        "evaluation_set_id": set_id,
        "mode": request.mode,
        "note": request.note,
        "planned_count": request.planned_count,
        **await _describe_agent(connection, caller, agent_id, default_model),
    }
    await queries.insert_run(connection, caller, run=run)
    count = request.planned_count or len(request.results)
    details = {"evaluationRunId": str(run_id), "mode": request.mode, "caseCount": count}
    await record_change(connection, caller, "add_run", set_id, details=details)
    return run_id


async def list_runs(
    connection: Connection, caller: Caller, *, request: evaluation_runs.AdminEvaluationSetsListRunsRequest
) -> evaluation_runs.AdminEvaluationSetsListRunsResponse:
    """List the runs of an evaluation set with their means, newest first."""
    cursor = Cursor.read(caller, operation=evaluation_runs.ADMIN_EVALUATION_SETS_LIST_RUNS.path, request=request)
    await require_set(connection, caller, request.evaluation_set_id)
    rows = await queries.list_runs(
        connection,
        caller.organization_id,
        set_id=request.evaluation_set_id,
        ids=request.ids,
        before=UUID(cursor.after[0]) if cursor.after else None,
        limit=cursor.limit,
    )
    return cursor.answer(evaluation_runs.AdminEvaluationSetsListRunsResponse, rows, "evaluation_run_id")


async def list_results(
    connection: Connection, caller: Caller, *, request: evaluation_runs.AdminEvaluationSetsListResultsRequest
) -> evaluation_runs.AdminEvaluationSetsListResultsResponse:
    """List a run's measurements, case by case."""
    cursor = Cursor.read(caller, operation=evaluation_runs.ADMIN_EVALUATION_SETS_LIST_RESULTS.path, request=request)
    await _require_run(connection, caller, request.evaluation_set_id, request.evaluation_run_id)
    rows = await queries.list_results(
        connection,
        caller.organization_id,
        run_id=request.evaluation_run_id,
        after=int(cursor.after[0]) if cursor.after else 0,
        limit=cursor.limit,
    )
    return cursor.answer(evaluation_runs.AdminEvaluationSetsListResultsResponse, rows, "case_no")


async def delete_run(
    connection: Connection, caller: Caller, *, request: evaluation_runs.AdminEvaluationSetsDeleteRunRequest
) -> evaluation_runs.AdminEvaluationSetsDeleteRunResponse:
    """Delete a run with its results."""
    set_id, run_id = request.evaluation_set_id, request.evaluation_run_id
    await lock_set(connection, caller, set_id)
    if not await queries.delete_run(connection, caller.organization_id, set_id=set_id, run_id=run_id):
        raise _unknown_run()
    await record_change(connection, caller, "delete_run", set_id, details={"evaluationRunId": str(run_id)})
    return evaluation_runs.AdminEvaluationSetsDeleteRunResponse(evaluation_run_id=request.evaluation_run_id)


async def _require_agent(
    connection: Connection,
    caller: Caller,
    stored: EvaluationSet,
    request: evaluation_runs.AdminEvaluationSetsAddRunRequest,
) -> UUID | None:
    """Return the agent asked, if any; refuse a mode or an agent that doesn't suit the set."""
    if stored.agent_id is not None and request.mode is not None:
        raise _wrong_mode("mode", "The set asks an agent, so the run has no mode. Leave out mode.")
    if stored.agent_id is None and request.mode is None:
        raise _wrong_mode("mode", "The set searches documents, so the run needs a mode. Send mode.")
    if request.agent_id is None or request.agent_id == stored.agent_id:
        return stored.agent_id
    if stored.agent_id is None:
        raise _wrong_mode("agentId", "The set searches documents, so the run has no agent. Leave out agentId.")
    await require_agent(connection, caller.organization_id, agent_id=request.agent_id)
    return request.agent_id


def _wrong_mode(field: str, message: str) -> BadRequest:
    return BadRequest(message, code="wrong_mode", details=[FieldError(field, message)])


async def _existing_results(
    connection: Connection, caller: Caller, request: evaluation_runs.AdminEvaluationSetsAddRunRequest
) -> list[evaluation_runs.CaseResult]:
    ids, set_id = [one.case_id for one in request.results], request.evaluation_set_id
    found = await queries.list_cases(connection, caller.organization_id, set_id=set_id, ids=ids)
    known = {one.case_id for one in found}
    results = [result for result in request.results if result.case_id in known]
    if not results and request.evaluation_run_id is None:
        message = "The evaluation set has none of these cases. List its cases, and run again."
        raise BadRequest(message, code="unknown_case", details=[FieldError("results", message)])
    return results


async def _describe_agent(
    connection: Connection, caller: Caller, agent_id: UUID | None, default_model: str
) -> dict[str, Any]:
    if agent_id is None:
        return {}
    agent = await queries.read_agent_settings(connection, caller.organization_id, agent_id=agent_id)
    return {
        "agent_id": agent_id,
        "model": agent.model or default_model,
        "instructions_digest": hashlib.sha256(agent.instructions.encode()).hexdigest(),
        "settings": agent.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


async def _require_run(
    connection: Connection, caller: Caller, set_id: UUID, run_id: UUID
) -> evaluation_runs.EvaluationRun:
    await require_set(connection, caller, set_id)
    found = await queries.list_runs(connection, caller.organization_id, set_id=set_id, ids=[run_id])
    return require(next(iter(found), None), _unknown_run())


def _unknown_run() -> NotFound:
    message = "This evaluation set has no such run. To list its runs, call admin/evaluationSets/listRuns."
    return NotFound(message, code="evaluation_run_not_found")


REPLIES_AT_ONCE = 50

_Reply = tuple[UUID, str, Mapping[int, str]]
"""A message's id, the reply's text, and the cited passages' texts by citation number."""


async def measure_replies(
    database: Database, caller: Caller, results: Sequence[evaluation_runs.CaseResult]
) -> dict[UUID | None, float | None]:
    """Return each reply's groundedness, by message, if the admin may read the reply now. No transaction is open."""
    message_ids = [result.message_id for result in results if result.message_id is not None]
    measured: dict[UUID | None, float | None] = {}
    for begin in range(0, len(message_ids), REPLIES_AT_ONCE):
        replies = await _read_replies(database, caller, message_ids[begin : begin + REPLIES_AT_ONCE])
        for message_id, text, passages in replies:
            measured[message_id] = await asyncio.to_thread(measure_groundedness, text, passages)
    return measured


async def _read_replies(database: Database, caller: Caller, message_ids: Sequence[UUID]) -> list[_Reply]:
    async with database.transaction(caller.organization_id, read_only=True) as connection:
        turns = await list_turns_of_everybody(connection, caller, turn_ids=message_ids)
        shown = [turn for turn in turns if turn.reply and turn.citations and not turn.withheld]
        turn_ids = [turn.turn_id for turn in shown]
        sources = await list_sources(connection, caller, turn_ids=turn_ids, with_text=True) if shown else []
    texts = {(source.turn_id, source.passage_no): source.text or "" for source in sources}
    replies: list[_Reply] = []
    for turn in shown:
        cited = {number: (turn.turn_id, one["passageNo"]) for number, one in enumerate(turn.citations, 1)}
        passages = {number: texts[key] for number, key in cited.items() if key in texts}
        replies.append((turn.turn_id, turn.reply or "", passages))
    return replies
