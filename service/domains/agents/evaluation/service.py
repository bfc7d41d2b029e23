"""Rules of evaluation sets and cases, for admins. Each change locks the set first."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import evaluation
from service.audit.service import Change, record, record_all
from service.audit.versions import change_between, differences, refuse_stale, to_text
from service.auth.callers import Caller
from service.domains.agents.definitions.service import require_agent
from service.domains.agents.evaluation import queries
from service.domains.documents.collections.service import unknown_collection
from service.identity.queries import lock_organization
from service.platform.errors import Conflict, NotFound, require
from service.platform.identifiers import uuid7
from service.web.pagination import Cursor

TARGET = "evaluationSet"
MOST_SETS = 1000
# Changed questions of which an entry of the audit log has the values.
MOST_TOLD = 20


async def create_set(
    connection: Connection, caller: Caller, *, request: evaluation.AdminEvaluationSetsCreateRequest
) -> evaluation.AdminEvaluationSetsCreateResponse:
    """Create an evaluation set: questions with judged documents, to measure searches or an agent by."""
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
    await record_change(connection, caller, "create", set_id, details=details)
    return evaluation.AdminEvaluationSetsCreateResponse(**dict(await require_set(connection, caller, set_id)))


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
    """Rename an evaluation set; 409 `evaluation_set_name_taken`."""
    set_id, name = request.evaluation_set_id, request.name
    await lock_organization(connection, caller.organization_id)
    await lock_set(connection, caller, set_id)
    before = await require_set(connection, caller, set_id)
    await refuse_stale(connection, caller, request.version, before, target_id=set_id)
    if name != before.name:
        if not await queries.rename_set(connection, caller.organization_id, set_id=set_id, name=name):
            raise _name_taken()
        before_name = {"before": before.name}
        after = await require_set(connection, caller, set_id)
        change = change_between(f"{TARGET}.update", TARGET, set_id, before, after, details=before_name)
        await record_all(connection, caller, changes=[change])
    return evaluation.AdminEvaluationSetsUpdateResponse(**dict(await require_set(connection, caller, set_id)))


async def delete_set(
    connection: Connection, caller: Caller, *, request: evaluation.AdminEvaluationSetsDeleteRequest
) -> evaluation.AdminEvaluationSetsDeleteResponse:
    """Delete an evaluation set with its cases and its runs."""
    set_id = request.evaluation_set_id
    await lock_set(connection, caller, set_id)
    await record_change(connection, caller, "delete", set_id)
    await queries.delete_set(connection, caller.organization_id, set_id=set_id)
    return evaluation.AdminEvaluationSetsDeleteResponse(evaluation_set_id=request.evaluation_set_id)


async def put_judgements(
    connection: Connection, caller: Caller, *, request: evaluation.AdminEvaluationSetsPutJudgementsRequest
) -> evaluation.AdminEvaluationSetsPutJudgementsResponse:
    """Add questions and judgements to an evaluation set; existing entries stay unless named.

    An error saves nothing: NotFound, Conflict `too_many_cases`, `too_many_judgements`, `case_contradicts_itself`."""
    set_id = request.evaluation_set_id
    await lock_set(connection, caller, set_id)
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
    for case_id, one in zip(ids, request.cases, strict=True):
        await refuse_stale(connection, caller, one.version, before.get(case_id), target_id=set_id)
    changed = await queries.save_cases(connection, caller.organization_id, set_id=set_id, rows=rows)
    if changed:
        await _refuse_wrong_cases(connection, caller, set_id, changed)
        count = sum(len(one.judgements) for one in request.cases)
        details: dict[str, Any] = {"caseCount": len(changed), "judgementCount": count}
        after = await _find_cases(connection, caller, set_id, sorted(changed & before.keys())[:MOST_TOLD])
        told = {str(case_id): differences(before[case_id], one) for case_id, one in after.items()}
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
    return {one.case_id: one for one in found}


async def remove_judgements(
    connection: Connection, caller: Caller, *, request: evaluation.AdminEvaluationSetsRemoveJudgementsRequest
) -> evaluation.AdminEvaluationSetsRemoveJudgementsResponse:
    """Remove judgements of a question, or the question with its results. 404 only for an unknown set."""
    organization_id, set_id, case_id = caller.organization_id, request.evaluation_set_id, request.case_id
    await lock_set(connection, caller, set_id)
    external_ids = request.document_external_ids
    if external_ids is None:
        changed = await queries.delete_case(connection, organization_id, set_id=set_id, case_id=case_id)
    else:
        changed = await queries.remove_judgements(
            connection, organization_id, set_id=set_id, case_id=case_id, external_ids=external_ids
        )
    if changed:
        details = {"caseId": str(case_id), "documentExternalIds": external_ids}
        await record_change(connection, caller, "remove_judgements", set_id, details=details)
    return evaluation.AdminEvaluationSetsRemoveJudgementsResponse(evaluation_set_id=request.evaluation_set_id)


async def list_cases(
    connection: Connection, caller: Caller, *, request: evaluation.AdminEvaluationSetsListCasesRequest
) -> evaluation.AdminEvaluationSetsListCasesResponse:
    """List the cases of an evaluation set, in the order of their addition."""
    cursor = Cursor.read(caller, operation=evaluation.ADMIN_EVALUATION_SETS_LIST_CASES.path, request=request)
    await require_set(connection, caller, request.evaluation_set_id)
    rows = await queries.list_cases(
        connection,
        caller.organization_id,
        set_id=request.evaluation_set_id,
        question_contains=request.query,
        after=int(cursor.after[0]) if cursor.after else 0,
        limit=cursor.limit,
    )
    return cursor.answer(evaluation.AdminEvaluationSetsListCasesResponse, rows, "case_no")


async def lock_set(connection: Connection, caller: Caller, set_id: UUID) -> None:
    """Lock a set until the transaction ends; raises NotFound."""
    if not await queries.lock_set(connection, caller.organization_id, set_id=set_id):
        raise _unknown_set()


async def require_set(connection: Connection, caller: Caller, set_id: UUID) -> evaluation.EvaluationSet:
    """Return a set of the organization; raises NotFound."""
    return require(await queries.find_set(connection, caller.organization_id, set_id=set_id), _unknown_set())


async def record_change(
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
