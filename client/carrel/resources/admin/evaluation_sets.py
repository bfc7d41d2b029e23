"""admin/evaluationSets: questions with judged documents, and the results of runs over them."""

from collections.abc import Iterable
from typing import TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, Members, as_any, as_list
from carrel.resources._choices import AnySearchMode
from carrel.wire import evaluation as wire
from carrel.wire import evaluation_runs as runs_wire
from carrel.wire.search import SearchMode

M = TypeVar("M")


class EvaluationSets(Resource[M]):
    """Evaluation sets: what should be found or cited for which question, and what runs have measured.

    `carrel.evaluation` measures: `run` measures a set now and keeps the results, `compare` says how two runs differ.
    """

    @property
    def with_raw_response(self) -> "EvaluationSets[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return EvaluationSets(self._session.as_raw())

    @Operation
    def create(
        self, name: str, *, document_collection_id: Id | None = None, agent_id: Id | None = None
    ) -> Call[wire.AdminEvaluationSetsCreateResponse]:
        """Create a set of searches in the catalog, of searches in a collection, or of questions to an agent.

        Raises NotFoundError for an unknown collection or agent, ConflictError `evaluation_set_name_taken` and
        `too_many_evaluation_sets`.
        """
        request = wire.AdminEvaluationSetsCreateRequest(
            name=name,
            document_collection_id=as_any(UUID, document_collection_id),
            agent_id=as_any(UUID, agent_id),
        )
        return Call(wire.ADMIN_EVALUATION_SETS_CREATE, request)

    @ListOperation
    def list(
        self,
        *,
        query: str | None = None,
        agent_id: Id | None = None,
        ids: Iterable[Id] | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.EvaluationSet, wire.AdminEvaluationSetsListResponse]:
        """Walk the sets, those of `ids` (at most 1000), with `query` in their name, or that ask an agent, if given."""
        request = wire.AdminEvaluationSetsListRequest(
            query=query,
            agent_id=as_any(UUID, agent_id),
            ids=as_list(UUID, ids),
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(wire.ADMIN_EVALUATION_SETS_LIST, request, lambda page: page.evaluation_sets)

    @Operation
    def update(self, evaluation_set_id: Id, *, name: str) -> Call[wire.AdminEvaluationSetsUpdateResponse]:
        """Rename a set. Raises ConflictError `evaluation_set_name_taken`."""
        request = wire.AdminEvaluationSetsUpdateRequest(evaluation_set_id=as_any(UUID, evaluation_set_id), name=name)
        return Call(wire.ADMIN_EVALUATION_SETS_UPDATE, request)

    @Operation
    def delete(self, evaluation_set_id: Id) -> Call[wire.AdminEvaluationSetsDeleteResponse]:
        """Delete a set with its cases and its runs."""
        request = wire.AdminEvaluationSetsDeleteRequest(evaluation_set_id=as_any(UUID, evaluation_set_id))
        return Call(wire.ADMIN_EVALUATION_SETS_DELETE, request)

    @Operation
    def put_judgements(
        self, evaluation_set_id: Id, cases: Iterable[wire.JudgedQuestion | Members]
    ) -> Call[wire.AdminEvaluationSetsPutJudgementsResponse]:
        """Add at most 100 questions, what is expected and notes to a set; what is there and isn't named stays.

        A case is `{"question": …, "judgements": [{"document_external_id": …, "grade": 2}], "statements": [words that
        the reply must say], "nothing_answers": False, "note": …}`. Sending it again changes nothing.
        `carrel.evaluation.add_judgements` sends more than 100. Raises ConflictError `too_many_cases` (a set has at most
        2000), `too_many_judgements` (a question has at most 200) and `case_contradicts_itself` (nothing answers, and
        yet something should).
        """
        request = wire.AdminEvaluationSetsPutJudgementsRequest(
            evaluation_set_id=as_any(UUID, evaluation_set_id), cases=as_list(wire.JudgedQuestion, cases)
        )
        return Call(wire.ADMIN_EVALUATION_SETS_PUT_JUDGEMENTS, request)

    @Operation
    def remove_judgements(
        self, evaluation_set_id: Id, case_id: Id, *, document_external_ids: Iterable[str] | None = None
    ) -> Call[wire.AdminEvaluationSetsRemoveJudgementsResponse]:
        """Remove the judgements of these documents, or (None) the whole case, from the results of runs too."""
        request = wire.AdminEvaluationSetsRemoveJudgementsRequest(
            evaluation_set_id=as_any(UUID, evaluation_set_id),
            case_id=as_any(UUID, case_id),
            document_external_ids=as_list(str, document_external_ids),
        )
        return Call(wire.ADMIN_EVALUATION_SETS_REMOVE_JUDGEMENTS, request)

    @ListOperation
    def list_cases(
        self, evaluation_set_id: Id, *, query: str | None = None, page_size: int = 100, page_token: str | None = None
    ) -> Listing[wire.EvaluationCase, wire.AdminEvaluationSetsListCasesResponse]:
        """Walk the cases of a set in the order of their addition, or those with `query` in their question."""
        request = wire.AdminEvaluationSetsListCasesRequest(
            evaluation_set_id=as_any(UUID, evaluation_set_id), query=query, page_size=page_size, page_token=page_token
        )
        return Listing(wire.ADMIN_EVALUATION_SETS_LIST_CASES, request, lambda page: page.cases)

    @Operation
    def add_run(
        self,
        evaluation_set_id: Id,
        results: Iterable[runs_wire.CaseResult | Members],
        *,
        mode: AnySearchMode | None = None,
        agent_id: Id | None = None,
        note: str | None = None,
        evaluation_run_id: Id | None = None,
        planned_count: int | None = None,
    ) -> Call[runs_wire.AdminEvaluationSetsAddRunResponse]:
        """Keep what was measured as a run of the caller's; `mode` is None for a set that asks an agent.

        `agent_id` is the agent that was asked, if that isn't the set's. Cases that are gone from the set are left out.
        A long run is kept in parts: the first says how many cases are planned, the others name the run that they
        belong to, as `carrel.evaluation.run` does.
        Raises NotFoundError for an unknown set, agent or run, BadRequestError `unknown_case` and `wrong_mode`,
        ConflictError `too_many_evaluation_runs` (a set has at most 1000).
        """
        request = runs_wire.AdminEvaluationSetsAddRunRequest(
            evaluation_set_id=as_any(UUID, evaluation_set_id),
            mode=as_any(SearchMode, mode),
            agent_id=as_any(UUID, agent_id),
            note=note,
            evaluation_run_id=as_any(UUID, evaluation_run_id),
            planned_count=planned_count,
            results=as_list(runs_wire.CaseResult, results),
        )
        return Call(runs_wire.ADMIN_EVALUATION_SETS_ADD_RUN, request)

    @ListOperation
    def list_runs(
        self,
        evaluation_set_id: Id,
        *,
        ids: Iterable[Id] | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[runs_wire.EvaluationRun, runs_wire.AdminEvaluationSetsListRunsResponse]:
        """Walk the runs of a set, newest first, or those of `ids` (at most 1000)."""
        request = runs_wire.AdminEvaluationSetsListRunsRequest(
            evaluation_set_id=as_any(UUID, evaluation_set_id),
            ids=as_list(UUID, ids),
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(runs_wire.ADMIN_EVALUATION_SETS_LIST_RUNS, request, lambda page: page.runs)

    @ListOperation
    def list_results(
        self, evaluation_set_id: Id, evaluation_run_id: Id, *, page_size: int = 100, page_token: str | None = None
    ) -> Listing[runs_wire.KeptResult, runs_wire.AdminEvaluationSetsListResultsResponse]:
        """Walk what a run measured, case by case."""
        request = runs_wire.AdminEvaluationSetsListResultsRequest(
            evaluation_set_id=as_any(UUID, evaluation_set_id),
            evaluation_run_id=as_any(UUID, evaluation_run_id),
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(runs_wire.ADMIN_EVALUATION_SETS_LIST_RESULTS, request, lambda page: page.results)

    @Operation
    def delete_run(
        self, evaluation_set_id: Id, evaluation_run_id: Id
    ) -> Call[runs_wire.AdminEvaluationSetsDeleteRunResponse]:
        """Delete a run with its results."""
        request = runs_wire.AdminEvaluationSetsDeleteRunRequest(
            evaluation_set_id=as_any(UUID, evaluation_set_id), evaluation_run_id=as_any(UUID, evaluation_run_id)
        )
        return Call(runs_wire.ADMIN_EVALUATION_SETS_DELETE_RUN, request)
