"""Rules of runs over evaluation sets, for admins: what callers have measured is kept as theirs, with its means."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.common import UserPrincipal
from carrel.wire.evaluation_runs import (
    ADMIN_EVALUATION_SETS_LIST_RESULTS,
    ADMIN_EVALUATION_SETS_LIST_RUNS,
    AdminEvaluationSetsAddRunRequest,
    AdminEvaluationSetsListResultsRequest,
    AdminEvaluationSetsListRunsRequest,
    CaseResult,
    EvaluationRun,
    KeptResult,
)
from carrel.wire.search import SearchMode
from service.auth.callers import Caller
from service.domains.agents.service import require_agent
from service.domains.evaluation.queries import StoredSet
from service.domains.evaluation.runs import queries
from service.domains.evaluation.runs.queries import StoredResult, StoredRun
from service.domains.evaluation.service import lock_set, record_change, require_set
from service.platform.errors import BadRequest, Conflict, FieldError, NotFound
from service.platform.identifiers import uuid7
from service.web.pagination import Cursor, Page

MOST_RUNS = 1000
_SCORES = (
    "ndcg", "recall", "reciprocal_rank", "precision", "answered", "statements_said", "refused", "groundedness",
)  # fmt: skip


async def add_run(
    connection: AsyncConnection,
    caller: Caller,
    *,
    request: AdminEvaluationSetsAddRunRequest,
    grounded: Mapping[UUID | None, float | None],
    default_model: str,
) -> EvaluationRun:
    """Keep what a run measured; results of cases that were removed by now are left out, and out of the means.

    `grounded` is how well each reply is supported, by message (`service.domains.evaluation.runs.replies`).
    Raises NotFound of the set or the agent, BadRequest `unknown_case` when no case is left, and `wrong_mode`, Conflict
    `too_many_evaluation_runs`.
    """
    set_id = request.evaluation_set_id
    await lock_set(connection, caller, set_id)
    stored = await require_set(connection, caller, set_id)
    _refuse_wrong_mode(stored, request.mode)
    agent_id = await _require_agent(connection, caller, stored, request)
    if stored.run_count >= MOST_RUNS:
        message = f"The evaluation set has {MOST_RUNS:,} runs already. Delete old ones."
        raise Conflict(message, code="too_many_evaluation_runs")
    results = await _existing_results(connection, caller, request)
    rows = [{**_to_row(one), "groundedness": grounded.get(one.message_id)} for one in results]
    run_id = uuid7()
    run = {
        "evaluation_run_id": run_id,
        "evaluation_set_id": set_id,
        "mode": request.mode,
        "note": request.note,
        "case_count": len(results),
        **{name: _mean(rows, name) for name in _SCORES},
        # A question that nothing answers should not be answered: `refused` says how many were not.
        "answered": _mean([row for row in rows if row["refused"] is None], "answered"),
        **await _describe_agent(connection, caller, agent_id, default_model),
    }
    await queries.insert_run(connection, caller, run=run, results=rows)
    details = {"evaluationRunId": str(run_id), "mode": request.mode, "caseCount": len(results)}
    await record_change(connection, caller, "add_run", set_id, details=details)
    return _to_run(await _require_run(connection, caller, set_id, run_id))


async def list_runs(
    connection: AsyncConnection, caller: Caller, *, request: AdminEvaluationSetsListRunsRequest
) -> Page[EvaluationRun]:
    """Return a page of a set's runs, newest first. Raises NotFound."""
    cursor = Cursor.read(caller, operation=ADMIN_EVALUATION_SETS_LIST_RUNS.path, request=request)
    await require_set(connection, caller, request.evaluation_set_id)
    rows = await queries.list_runs(
        connection,
        caller.organization_id,
        set_id=request.evaluation_set_id,
        ids=request.ids,
        before=UUID(cursor.after[0]) if cursor.after else None,
        limit=cursor.limit,
    )
    page = cursor.page(rows, position=lambda row: [str(row.evaluation_run_id)])
    return Page([_to_run(row) for row in page.items], page.next_page_token)


async def list_results(
    connection: AsyncConnection, caller: Caller, *, request: AdminEvaluationSetsListResultsRequest
) -> Page[KeptResult]:
    """Return a page of what a run measured, in the order of the cases. Raises NotFound of the set or the run."""
    cursor = Cursor.read(caller, operation=ADMIN_EVALUATION_SETS_LIST_RESULTS.path, request=request)
    await _require_run(connection, caller, request.evaluation_set_id, request.evaluation_run_id)
    rows = await queries.list_results(
        connection,
        caller.organization_id,
        run_id=request.evaluation_run_id,
        after=int(cursor.after[0]) if cursor.after else 0,
        limit=cursor.limit,
    )
    page = cursor.page(rows, position=lambda row: [str(row.case_no)])
    return Page([_to_result(row) for row in page.items], page.next_page_token)


async def delete_run(connection: AsyncConnection, caller: Caller, *, set_id: UUID, run_id: UUID) -> None:
    """Delete a run with its results. Raises NotFound of the set or the run."""
    await lock_set(connection, caller, set_id)
    if not await queries.delete_run(connection, caller.organization_id, set_id=set_id, run_id=run_id):
        raise _unknown_run()
    await record_change(connection, caller, "delete_run", set_id, details={"evaluationRunId": str(run_id)})


def _refuse_wrong_mode(stored: StoredSet, mode: SearchMode | None) -> None:
    if (mode is None) != (stored.agent_id is not None):
        message = (
            "A run over a set that asks an agent has no mode. Leave it out."
            if mode is not None
            else "A run over a set that searches needs the mode of the searches."
        )
        raise BadRequest(message, code="wrong_mode", details=[FieldError("mode", message)])


async def _require_agent(
    connection: AsyncConnection, caller: Caller, stored: StoredSet, request: AdminEvaluationSetsAddRunRequest
) -> UUID | None:
    """Return the agent that was asked: the set's, unless the run names another one; raise NotFound of that one."""
    if request.agent_id is None or request.agent_id == stored.agent_id:
        return stored.agent_id
    if stored.agent_id is None:
        message = "A run over a set that searches asks no agent. Leave agentId out."
        raise BadRequest(message, code="wrong_mode", details=[FieldError("agentId", message)])
    await require_agent(connection, caller.organization_id, agent_id=request.agent_id)
    return request.agent_id


async def _existing_results(
    connection: AsyncConnection, caller: Caller, request: AdminEvaluationSetsAddRunRequest
) -> list[CaseResult]:
    known = await queries.existing_cases(
        connection,
        caller.organization_id,
        set_id=request.evaluation_set_id,
        case_ids=[one.case_id for one in request.results],
    )
    results = [one for one in request.results if one.case_id in known]
    if not results:
        message = "None of these cases is in the evaluation set. List its cases, and run again."
        raise BadRequest(message, code="unknown_case", details=[FieldError("results", message)])
    return results


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [float(value) for one in rows if (value := one[name]) is not None]
    return fmean(values) if values else None


async def _describe_agent(
    connection: AsyncConnection, caller: Caller, agent_id: UUID | None, default_model: str
) -> dict[str, Any]:
    """Return the columns that say which agent was asked, and how it is defined; none for searches."""
    if agent_id is None:
        return {}
    agent = await queries.read_agent_settings(connection, caller.organization_id, agent_id=agent_id)
    digest = hashlib.sha256(agent.instructions.encode()).hexdigest()
    return {"agent_id": agent_id, "model": agent.model or default_model, "instructions_digest": digest}


async def _require_run(connection: AsyncConnection, caller: Caller, set_id: UUID, run_id: UUID) -> StoredRun:
    await require_set(connection, caller, set_id)
    found = await queries.list_runs(
        connection, caller.organization_id, set_id=set_id, ids=[run_id], before=None, limit=1
    )
    if not found:
        raise _unknown_run()
    return found[0]


def _unknown_run() -> NotFound:
    message = "There is no such run of this evaluation set. admin/evaluationSets/listRuns has those there are."
    return NotFound(message, code="evaluation_run_not_found")


def _to_row(result: CaseResult) -> dict[str, Any]:
    ranks = {external_id: rank for rank, external_id in enumerate(dict.fromkeys(result.found), 1)}
    return {**dict(result), "ranks": ranks}


def _to_result(row: StoredResult) -> KeptResult:
    found = sorted(row.ranks, key=row.ranks.__getitem__)
    return KeptResult.model_validate({**asdict(row), "found": found})


def _to_run(row: StoredRun) -> EvaluationRun:
    ran_by = UserPrincipal(id=str(row.principal_id), name=row.principal_name, email=row.principal_email)
    return EvaluationRun.model_validate({**asdict(row), "ran_by": ran_by})
