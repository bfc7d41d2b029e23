"""admin/agents, admin/questionLog and admin/evaluationSets: extensions, for admins."""

from fastapi import Request, Response

from carrel.wire import agents, question_log
from carrel.wire import evaluation as wire
from carrel.wire import evaluation_runs as run_wire
from service.domains.agents.conversations.question_log import service as questions
from service.domains.agents.definitions import service as definitions
from service.domains.agents.evaluation import service
from service.web.dependencies import CallerDep, RuntimeDep
from service.web.idempotency import REPLAYED, attempt_of
from service.web.routing import Router

router = Router()

router.serve(agents.ADMIN_AGENTS_CREATE, definitions.create_agent)
router.serve(agents.ADMIN_AGENTS_UPDATE, definitions.update_agent)
router.read(agents.ADMIN_AGENTS_LIST, definitions.list_agents)
router.read(agents.ADMIN_AGENTS_LIST_VERSIONS, definitions.list_versions, name="list_agent_versions")
router.serve(agents.ADMIN_AGENTS_DELETE, definitions.delete_agent)
router.serve(agents.ADMIN_AGENTS_DEPLOY, definitions.deploy_agent)
router.read(question_log.ADMIN_QUESTION_LOG_QUERY, questions.query_log, name="query_question_log")
router.read(question_log.ADMIN_QUESTION_LOG_SUMMARIZE, questions.summarize, name="summarize_question_log")
router.read(question_log.ADMIN_QUESTION_LOG_RANK, questions.rank, name="rank_question_log")
router.serve(wire.ADMIN_EVALUATION_SETS_CREATE, service.create_set, name="create_evaluation_set")
router.read(wire.ADMIN_EVALUATION_SETS_LIST, service.list_sets, name="list_evaluation_sets")
router.serve(wire.ADMIN_EVALUATION_SETS_UPDATE, service.rename_set, name="update_evaluation_set")
router.serve(wire.ADMIN_EVALUATION_SETS_DELETE, service.delete_set, name="delete_evaluation_set")
router.serve(wire.ADMIN_EVALUATION_SETS_PUT_JUDGEMENTS, service.put_judgements)
router.serve(wire.ADMIN_EVALUATION_SETS_REMOVE_JUDGEMENTS, service.remove_judgements)
router.read(wire.ADMIN_EVALUATION_SETS_LIST_CASES, service.list_cases)


@router.operation(run_wire.ADMIN_EVALUATION_SETS_ADD_RUN, own_key=True)
async def add_run(
    request: run_wire.AdminEvaluationSetsAddRunRequest,
    http: Request,
    response: Response,
    runtime: RuntimeDep,
    caller: CallerDep,
) -> run_wire.AdminEvaluationSetsAddRunResponse:
    """Save the measurements of a run over an evaluation set, as the caller's."""
    grounded = await service.measure_replies(runtime.database, caller, request.results)
    default_model = runtime.settings.agent_models[0]
    async with runtime.database.transaction(caller.organization_id) as connection:
        attempt = await attempt_of(http, response, caller=caller, connection=connection)
        if (kept := await attempt.claim()) is not None:
            response.headers[REPLAYED] = "true"
            return run_wire.AdminEvaluationSetsAddRunResponse.model_validate_json(kept.body or b"")
        run = await service.add_run(connection, caller, request=request, grounded=grounded, default_model=default_model)
        answer = run_wire.AdminEvaluationSetsAddRunResponse(**dict(run))
        await attempt.keep(answer.model_dump_json(by_alias=True, exclude_none=True).encode())
    return answer


router.read(run_wire.ADMIN_EVALUATION_SETS_LIST_RUNS, service.list_runs)
router.read(run_wire.ADMIN_EVALUATION_SETS_LIST_RESULTS, service.list_results)
router.serve(run_wire.ADMIN_EVALUATION_SETS_DELETE_RUN, service.delete_run)
