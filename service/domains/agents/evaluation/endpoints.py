"""admin/evaluationSets/*: extensions, for admins."""

from fastapi import Request, Response

from carrel.wire import evaluation as wire
from carrel.wire import evaluation_runs as run_wire
from service.domains.agents.answering.providers import model_names
from service.domains.agents.evaluation import service
from service.domains.agents.evaluation.runs import service as runs
from service.domains.agents.evaluation.runs.replies import measure_replies
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep, SnapshotDep
from service.web.idempotency import REPLAYED, attempt_of
from service.web.routing import Router

router = Router()


@router.operation(wire.ADMIN_EVALUATION_SETS_CREATE)
async def create_evaluation_set(
    request: wire.AdminEvaluationSetsCreateRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminEvaluationSetsCreateResponse:
    """Create an evaluation set: questions with judged documents, to measure searches or an agent by."""
    created = await service.create_set(connection, caller, request=request)
    return wire.AdminEvaluationSetsCreateResponse(**dict(created))


@router.operation(wire.ADMIN_EVALUATION_SETS_LIST)
async def list_evaluation_sets(
    request: wire.AdminEvaluationSetsListRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminEvaluationSetsListResponse:
    """List evaluation sets, with how many cases and runs each has."""
    page = await service.list_sets(connection, caller, request=request)
    return wire.AdminEvaluationSetsListResponse(evaluation_sets=list(page.items), next_page_token=page.next_page_token)


@router.operation(wire.ADMIN_EVALUATION_SETS_UPDATE)
async def update_evaluation_set(
    request: wire.AdminEvaluationSetsUpdateRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminEvaluationSetsUpdateResponse:
    """Rename an evaluation set."""
    renamed = await service.rename_set(connection, caller, set_id=request.evaluation_set_id, name=request.name)
    return wire.AdminEvaluationSetsUpdateResponse(**dict(renamed))


@router.operation(wire.ADMIN_EVALUATION_SETS_DELETE)
async def delete_evaluation_set(
    request: wire.AdminEvaluationSetsDeleteRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminEvaluationSetsDeleteResponse:
    """Delete an evaluation set with its cases and its runs."""
    await service.delete_set(connection, caller, set_id=request.evaluation_set_id)
    return wire.AdminEvaluationSetsDeleteResponse(evaluation_set_id=request.evaluation_set_id)


@router.operation(wire.ADMIN_EVALUATION_SETS_PUT_JUDGEMENTS)
async def put_judgements(
    request: wire.AdminEvaluationSetsPutJudgementsRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminEvaluationSetsPutJudgementsResponse:
    """Add questions and judgements to an evaluation set; what is there and isn't named stays."""
    case_ids = await service.put_judgements(connection, caller, request=request)
    return wire.AdminEvaluationSetsPutJudgementsResponse(case_ids=case_ids)


@router.operation(wire.ADMIN_EVALUATION_SETS_REMOVE_JUDGEMENTS)
async def remove_judgements(
    request: wire.AdminEvaluationSetsRemoveJudgementsRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminEvaluationSetsRemoveJudgementsResponse:
    """Remove judgements of a question, or the question with its results."""
    await service.remove_judgements(connection, caller, request=request)
    return wire.AdminEvaluationSetsRemoveJudgementsResponse(evaluation_set_id=request.evaluation_set_id)


@router.operation(wire.ADMIN_EVALUATION_SETS_LIST_CASES)
async def list_cases(
    request: wire.AdminEvaluationSetsListCasesRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminEvaluationSetsListCasesResponse:
    """List the cases of an evaluation set, in the order of their addition."""
    page = await service.list_cases(connection, caller, request=request)
    return wire.AdminEvaluationSetsListCasesResponse(cases=list(page.items), next_page_token=page.next_page_token)


@router.operation(run_wire.ADMIN_EVALUATION_SETS_ADD_RUN, own_key=True)
async def add_run(
    request: run_wire.AdminEvaluationSetsAddRunRequest,
    http: Request,
    response: Response,
    runtime: RuntimeDep,
    caller: CallerDep,
) -> run_wire.AdminEvaluationSetsAddRunResponse:
    """Keep what a run over an evaluation set measured, as the caller's.

    Replies are measured before the transaction that keeps the run, and the Idempotency-Key, begins.
    """
    grounded = await measure_replies(runtime.database, caller, request.results)
    default_model = model_names(runtime.settings)[0]
    async with runtime.database.transaction(caller.organization_id) as connection:
        attempt = attempt_of(http, response, caller=caller, connection=connection)
        if (kept := await attempt.claim()) is not None:
            response.headers[REPLAYED] = "true"
            return run_wire.AdminEvaluationSetsAddRunResponse.model_validate_json(kept.body or b"")
        run = await runs.add_run(connection, caller, request=request, grounded=grounded, default_model=default_model)
        answer = run_wire.AdminEvaluationSetsAddRunResponse(**dict(run))
        await attempt.keep(answer.model_dump_json(by_alias=True, exclude_none=True).encode())
    return answer


@router.operation(run_wire.ADMIN_EVALUATION_SETS_LIST_RUNS)
async def list_runs(
    request: run_wire.AdminEvaluationSetsListRunsRequest, connection: SnapshotDep, caller: CallerDep
) -> run_wire.AdminEvaluationSetsListRunsResponse:
    """List the runs of an evaluation set with their means, newest first."""
    page = await runs.list_runs(connection, caller, request=request)
    return run_wire.AdminEvaluationSetsListRunsResponse(runs=list(page.items), next_page_token=page.next_page_token)


@router.operation(run_wire.ADMIN_EVALUATION_SETS_LIST_RESULTS)
async def list_results(
    request: run_wire.AdminEvaluationSetsListResultsRequest, connection: SnapshotDep, caller: CallerDep
) -> run_wire.AdminEvaluationSetsListResultsResponse:
    """List what a run measured, case by case."""
    page = await runs.list_results(connection, caller, request=request)
    return run_wire.AdminEvaluationSetsListResultsResponse(
        results=list(page.items), next_page_token=page.next_page_token
    )


@router.operation(run_wire.ADMIN_EVALUATION_SETS_DELETE_RUN)
async def delete_run(
    request: run_wire.AdminEvaluationSetsDeleteRunRequest, connection: ConnectionDep, caller: CallerDep
) -> run_wire.AdminEvaluationSetsDeleteRunResponse:
    """Delete a run with its results."""
    await runs.delete_run(connection, caller, set_id=request.evaluation_set_id, run_id=request.evaluation_run_id)
    return run_wire.AdminEvaluationSetsDeleteRunResponse(evaluation_run_id=request.evaluation_run_id)
