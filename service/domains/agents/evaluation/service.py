"""Rules of evaluation sets, their cases and runs, for admins. Each change locks the set first. A run's measurements are
stored as the caller's, with means."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import evaluation, evaluation_runs
from service.audit.service import Change, record, record_all
from service.audit.versions import change_between, differences, refuse_stale, to_text
from service.auth.callers import Caller
from service.domains.agents.answering.grounding import measure_groundedness
from service.domains.agents.conversations.reading.queries import list_sources, list_turns_of_all
from service.domains.agents.definitions.service import require_agent
from service.domains.agents.evaluation import queries
from service.domains.documents.collections.service import unknown_collection
from service.identity.queries import lock_organization
from service.platform.database import Database
from service.platform.errors import BadRequest, Conflict, FieldError, NotFound, require
from service.platform.identifiers import uuid7
from service.web.pagination import Cursor

TARGET = "evaluationSet"
MOST_SETS = 1000
MOST_RUNS = 1000
# The most changed questions whose values an audit entry contains.
MOST_TOLD = 20


async def create_set(
    connection: Connection, caller: Caller, *, request: evaluation.AdminEvaluationSetsCreateRequest
) -> evaluation.AdminEvaluationSetsCreateResponse:
    """Create an evaluation set of questions with judged documents, for a collection or an agent. 404, 409."""
    organization_id = caller.organization_id
    await lock_organization(connection, organization_id)
    await _require_target(connection, caller, request)
    if await queries.count_sets(connection, organization_id) >= MOST_SETS:
        message = f"The organization has {MOST_SETS:,} evaluation sets, which is the limit. Delete unused sets."
        raise Conflict(message, code="too_many_evaluation_sets")
    set_id = uuid7()
    row = {
        "evaluation_set_id": set_id,
        "name": request.name,
        "collection_id": request.document_collection_id,
        "agent_id": request.agent_id,
    }
    if not await queries.insert_set(connection, caller, row=row):
        raise _name_taken()
    about = {"collectionId": request.document_collection_id, "agentId": request.agent_id}
    details = {name: str(value) for name, value in about.items() if value is not None}
    await _record_change(connection, caller, "create", set_id, details=details)
    return evaluation.AdminEvaluationSetsCreateResponse(**dict(await _require_set(connection, caller, set_id)))


async def list_sets(
    connection: Connection, caller: Caller, *, request: evaluation.AdminEvaluationSetsListRequest
) -> evaluation.AdminEvaluationSetsListResponse:
    """List evaluation sets, with the numbers of cases and runs."""
    cursor = Cursor.read(caller, operation=evaluation.ADMIN_EVALUATION_SETS_LIST.path, request=request)
    rows = await queries.list_sets(connection, caller.organization_id, cursor.window, request=request)
    return cursor.answer(evaluation.AdminEvaluationSetsListResponse, rows, "evaluation_set_id")


async def rename_set(
    connection: Connection, caller: Caller, *, request: evaluation.AdminEvaluationSetsUpdateRequest
) -> evaluation.AdminEvaluationSetsUpdateResponse:
    """Rename an evaluation set; 404, 409 `evaluation_set_name_taken` or for a stale version."""
    set_id, name = request.evaluation_set_id, request.name
    await lock_organization(connection, caller.organization_id)
    await _lock_set(connection, caller, set_id)
    before = await _require_set(connection, caller, set_id)
    await refuse_stale(connection, caller, request.version, before, target_id=set_id)
    if name != before.name:
        if not await queries.rename_set(connection, caller.organization_id, set_id=set_id, name=name):
            raise _name_taken()
        before_name = {"before": before.name}
        after = await _require_set(connection, caller, set_id)
        change = change_between(f"{TARGET}.update", TARGET, set_id, before, after, details=before_name)
        await record_all(connection, caller, changes=[change])
    return evaluation.AdminEvaluationSetsUpdateResponse(**dict(await _require_set(connection, caller, set_id)))


async def delete_set(
    connection: Connection, caller: Caller, *, request: evaluation.AdminEvaluationSetsDeleteRequest
) -> evaluation.AdminEvaluationSetsDeleteResponse:
    """Delete an evaluation set with its cases and its runs; 404 if unknown."""
    set_id = request.evaluation_set_id
    await _lock_set(connection, caller, set_id)
    await _record_change(connection, caller, "delete", set_id)
    await queries.delete_set(connection, caller.organization_id, set_id=set_id)
    return evaluation.AdminEvaluationSetsDeleteResponse(evaluation_set_id=request.evaluation_set_id)


async def put_judgements(
    connection: Connection, caller: Caller, *, request: evaluation.AdminEvaluationSetsPutJudgementsRequest
) -> evaluation.AdminEvaluationSetsPutJudgementsResponse:
    """Add questions and judgements to an evaluation set; existing entries stay unless named.
    An error saves nothing: NotFound, Conflict `too_many_cases`, `too_many_judgements`, `case_contradicts_itself`."""
    set_id = request.evaluation_set_id
    await _lock_set(connection, caller, set_id)
    rows: list[dict[str, Any]] = [
        {
            **dict(case),
            "case_id": uuid5(set_id, case.question),
            "judgements": {judgement.document_external_id: judgement.grade for judgement in case.judgements},
        }
        for case in request.cases
    ]
    ids = [row["case_id"] for row in rows]
    before = await _find_cases(connection, caller, set_id, ids)
    for case_id, case in zip(ids, request.cases, strict=True):
        await refuse_stale(connection, caller, case.version, before.get(case_id), target_id=set_id)
    changed = await queries.save_cases(connection, caller.organization_id, set_id=set_id, rows=rows)
    if changed:
        await _refuse_wrong_cases(connection, caller, set_id, changed)
        count = sum(len(question.judgements) for question in request.cases)
        details: dict[str, Any] = {"caseCount": len(changed), "judgementCount": count}
        after = await _find_cases(connection, caller, set_id, sorted(changed & before.keys())[:MOST_TOLD])
        told = {str(case_id): differences(before[case_id], case) for case_id, case in after.items()}
        words = {
            case_id: {side: {member: pair[side] for member, pair in pairs.items()} for side in ("from", "to")}
            for case_id, pairs in told.items()
        }
        details |= {"changes": dict.fromkeys(words)} if words else {}
        change = Change(f"{TARGET}.judge", TARGET, set_id, details, to_text(words))
        await record_all(connection, caller, changes=[change])
    return evaluation.AdminEvaluationSetsPutJudgementsResponse(case_ids=ids)


async def _find_cases(
    connection: Connection, caller: Caller, set_id: UUID, case_ids: Sequence[UUID]
) -> Mapping[UUID, evaluation.EvaluationCase]:
    found = await queries.list_cases(connection, caller.organization_id, set_id=set_id, ids=case_ids)
    return {item.case_id: item for item in found}


async def remove_judgements(
    connection: Connection, caller: Caller, *, request: evaluation.AdminEvaluationSetsRemoveJudgementsRequest
) -> evaluation.AdminEvaluationSetsRemoveJudgementsResponse:
    """Remove judgements of a question, or the question with its results, if there. 404 only for an unknown set."""
    organization_id, set_id, case_id = caller.organization_id, request.evaluation_set_id, request.case_id
    await _lock_set(connection, caller, set_id)
    external_ids = request.document_external_ids
    if external_ids is None:
        changed = await queries.delete_case(connection, organization_id, set_id=set_id, case_id=case_id)
    else:
        changed = await queries.remove_judgements(
            connection, organization_id, set_id=set_id, case_id=case_id, external_ids=external_ids
        )
    if changed:
        details = {"caseId": str(case_id), "documentExternalIds": external_ids}
        await _record_change(connection, caller, "remove_judgements", set_id, details=details)
    return evaluation.AdminEvaluationSetsRemoveJudgementsResponse(evaluation_set_id=request.evaluation_set_id)


async def list_cases(
    connection: Connection, caller: Caller, *, request: evaluation.AdminEvaluationSetsListCasesRequest
) -> evaluation.AdminEvaluationSetsListCasesResponse:
    """List the cases of an evaluation set, in the order of their addition; 404 for an unknown set."""
    cursor = Cursor.read(caller, operation=evaluation.ADMIN_EVALUATION_SETS_LIST_CASES.path, request=request)
    await _require_set(connection, caller, request.evaluation_set_id)
    rows = await queries.list_cases(
        connection,
        caller.organization_id,
        set_id=request.evaluation_set_id,
        question_contains=request.query,
        after=int(cursor.after[0]) if cursor.after else 0,
        limit=cursor.limit,
    )
    return cursor.answer(evaluation.AdminEvaluationSetsListCasesResponse, rows, "case_no")


async def _lock_set(connection: Connection, caller: Caller, set_id: UUID) -> None:
    """Lock a set until the transaction ends; raises NotFound."""
    if not await queries.lock_set(connection, caller.organization_id, set_id=set_id):
        raise _unknown_set()


async def _require_set(connection: Connection, caller: Caller, set_id: UUID) -> evaluation.EvaluationSet:
    """Return a set of the organization; raises NotFound."""
    return require(await queries.find_set(connection, caller.organization_id, set_id=set_id), _unknown_set())


async def _record_change(
    connection: Connection, caller: Caller, action: str, set_id: UUID, *, details: Mapping[str, Any] | None = None
) -> None:
    await record(connection, caller, action=f"{TARGET}.{action}", target_type=TARGET, target_id=set_id, details=details)


async def _require_target(
    connection: Connection, caller: Caller, request: evaluation.AdminEvaluationSetsCreateRequest
) -> None:
    """Refuse a collection or agent unknown in this organization, without checking the caller's right to use it."""
    if request.agent_id is not None:
        await require_agent(connection, caller.organization_id, agent_id=request.agent_id)
    elif request.document_collection_id is not None and not await queries.collection_exists(
        connection, caller.organization_id, collection_id=request.document_collection_id
    ):
        raise unknown_collection()


async def _refuse_wrong_cases(connection: Connection, caller: Caller, set_id: UUID, case_ids: set[UUID]) -> None:
    organization_id = caller.organization_id
    if await queries.count_cases(connection, organization_id, set_id=set_id) > evaluation.MOST_CASES:
        message = (
            f"An evaluation set has at most {evaluation.MOST_CASES:,} questions. Put further questions into a new set."
        )
        raise Conflict(message, code="too_many_cases")
    overfull = await queries.find_overfull_case(
        connection, organization_id, case_ids=case_ids, most=evaluation.MOST_JUDGEMENTS
    )
    if overfull is not None:
        message = (
            f"A question has at most {evaluation.MOST_JUDGEMENTS} judged documents; “{overfull[:100]}” would have more."
        )
        raise Conflict(message, code="too_many_judgements")
    question = await queries.find_contradiction(connection, organization_id, case_ids=case_ids)
    if question is not None:
        message = (
            f"“{question[:100]}” is marked as a question without an answer, but has relevant documents or statements. "
            "Remove these, or mark that it has an answer."
        )
        raise Conflict(message, code="case_contradicts_itself")


def _unknown_set() -> NotFound:
    message = "There is no such evaluation set. Check the id, or list the sets with admin/evaluationSets/list."
    return NotFound(message, code="evaluation_set_not_found")


def _name_taken() -> Conflict:
    return Conflict("Another evaluation set has this name. Choose another name.", code="evaluation_set_name_taken")


async def add_run(
    connection: Connection,
    caller: Caller,
    *,
    request: evaluation_runs.AdminEvaluationSetsAddRunRequest,
    grounded: Mapping[UUID | None, float | None],
    default_model: str,
) -> evaluation_runs.EvaluationRun:
    """Save a run's results so far, except of deleted cases; existing results stay. `grounded` is by message. NotFound
    for the set, an agent or another person's run, BadRequest `wrong_mode` or `unknown_case`, Conflict at the limit."""
    set_id = request.evaluation_set_id
    await _lock_set(connection, caller, set_id)
    stored = await _require_set(connection, caller, set_id)
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
    stored: evaluation.EvaluationSet,
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
    await _record_change(connection, caller, "add_run", set_id, details=details)
    return run_id


async def list_runs(
    connection: Connection, caller: Caller, *, request: evaluation_runs.AdminEvaluationSetsListRunsRequest
) -> evaluation_runs.AdminEvaluationSetsListRunsResponse:
    """List the runs of an evaluation set with their means, newest first; 404 for an unknown set."""
    cursor = Cursor.read(caller, operation=evaluation_runs.ADMIN_EVALUATION_SETS_LIST_RUNS.path, request=request)
    await _require_set(connection, caller, request.evaluation_set_id)
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
    """List a run's measurements, in the order of the cases; 404 for an unknown set or run."""
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
    """Delete a run with its results; 404 for an unknown set or run."""
    set_id, run_id = request.evaluation_set_id, request.evaluation_run_id
    await _lock_set(connection, caller, set_id)
    if not await queries.delete_run(connection, caller.organization_id, set_id=set_id, run_id=run_id):
        raise _unknown_run()
    await _record_change(connection, caller, "delete_run", set_id, details={"evaluationRunId": str(run_id)})
    return evaluation_runs.AdminEvaluationSetsDeleteRunResponse(evaluation_run_id=request.evaluation_run_id)


async def _require_agent(
    connection: Connection,
    caller: Caller,
    stored: evaluation.EvaluationSet,
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
    """Return the results of cases still in the set; BadRequest `unknown_case` if a new run has none."""
    ids, set_id = [item.case_id for item in request.results], request.evaluation_set_id
    found = await queries.list_cases(connection, caller.organization_id, set_id=set_id, ids=ids)
    known = {item.case_id for item in found}
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
    await _require_set(connection, caller, set_id)
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
    """Return each cited reply's groundedness, by message, if the admin may read it now. Opens its own transactions."""
    message_ids = [result.message_id for result in results if result.message_id is not None]
    measured: dict[UUID | None, float | None] = {}
    for begin in range(0, len(message_ids), REPLIES_AT_ONCE):
        replies = await _read_cited_replies(database, caller, message_ids[begin : begin + REPLIES_AT_ONCE])
        for message_id, text, passages in replies:
            measured[message_id] = await asyncio.to_thread(measure_groundedness, text, passages)
    return measured


async def _read_cited_replies(database: Database, caller: Caller, message_ids: Sequence[UUID]) -> list[_Reply]:
    async with database.transaction(caller.organization_id, read_only=True) as connection:
        turns = await list_turns_of_all(connection, caller, turn_ids=message_ids)
        shown = [turn for turn in turns if turn.reply and turn.citations and not turn.withheld]
        turn_ids = [turn.turn_id for turn in shown]
        sources = await list_sources(connection, caller, turn_ids=turn_ids, with_text=True) if shown else []
    texts = {(source.turn_id, source.passage_no): source.text or "" for source in sources}
    replies: list[_Reply] = []
    for turn in shown:
        cited = {number: (turn.turn_id, citation["passageNo"]) for number, citation in enumerate(turn.citations, 1)}
        passages = {number: texts[key] for number, key in cited.items() if key in texts}
        replies.append((turn.turn_id, turn.reply or "", passages))
    return replies
