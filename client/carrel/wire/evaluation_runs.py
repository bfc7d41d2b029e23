"""admin/evaluationSets/*: results of runs over a set, measured by the caller; extensions, for admins."""

from typing import Annotated, Self
from uuid import UUID

from pydantic import Field, model_validator

from carrel.wire.agents import AgentRetrieval
from carrel.wire.common import NarrowedRequest, PagedRequest, PagedResponse, RequestModel, ResponseModel, UserPrincipal
from carrel.wire.evaluation import MOST_CASES, Note
from carrel.wire.fields import Identifier, Instant, once_each
from carrel.wire.operations import ADDS_DATA, ADMIN, KEYED, NOT_FOUND, ApiOperation
from carrel.wire.search import SearchMode

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""A score, from 0 to 1."""


class CaseResult(RequestModel):
    """Scores of a case in a run. A search has the first three scores; a reply has `recall` and the remaining scores.
    The service measures how well the cited passages support a reply, because it has the passages."""

    case_id: UUID
    ndcg: Share | None = None
    recall: Share | None = None
    reciprocal_rank: Share | None = None
    precision: Share | None = None
    answered: bool | None = None
    statements_said: Share | None = None
    refused: bool | None = None
    message_id: UUID | None = None
    """Id of the message to the agent; its text is stored only in the conversation."""
    found: Annotated[list[Identifier], Field(max_length=10)] = Field(default_factory=list[Identifier])
    error: Note | None = None
    """Reason for a failed search or message; a failed case has no score."""

    @model_validator(mode="after")
    def refuse_scores_of_failed(self) -> Self:
        """Refuse scores of a failed case."""
        told = self.model_dump(exclude={"case_id", "message_id", "found", "error"}, exclude_none=True)
        if self.error is not None and told:
            raise ValueError(f"{next(iter(told))}: a failed case has no score; leave out the score or the error")
        return self


class AdminEvaluationSetsAddRunRequest(RequestModel):
    """Save the results of a run over a set, in one or several requests; the service adds the agent's settings."""

    evaluation_set_id: UUID
    mode: SearchMode | None = None
    """How the questions were searched for; absent: an agent was asked."""
    agent_id: UUID | None = None
    """Id of the agent asked; default: the set's."""
    note: Note | None = None
    """A comment on the run, for example recent changes."""
    evaluation_run_id: UUID | None = None
    """Id of the caller's run to extend; absent: the results begin a new run."""
    planned_count: Annotated[int, Field(strict=True, ge=1, le=MOST_CASES)] | None = None
    """Number of cases planned for a new run; default: the number of results."""
    results: Annotated[list[CaseResult], Field(min_length=1, max_length=MOST_CASES)]
    """Results, once per case; cases no longer in the set are left out."""

    _cases_once = once_each("results", "results must name each case once", key="case_id")


class AskedSettings(ResponseModel):
    """Instructions and retrieval settings of an agent at the beginning of a run."""

    instructions: str
    collection_ids: list[UUID]
    """Collections searched by the agent."""
    retrieval: AgentRetrieval
    """How the agent looked passages up."""


class EvaluationRun(ResponseModel):
    """A run over a set: person, time and mode, and mean scores."""

    evaluation_run_id: UUID
    evaluation_set_id: UUID
    at: Instant
    """When the run ended."""
    ran_by: UserPrincipal
    """The person who ran it; searches and replies cover only documents readable by this person."""
    mode: SearchMode | None = None
    """How the questions were searched for; absent: an agent was asked."""
    agent_id: UUID | None = None
    """Id of the agent asked: the set's, or another agent."""
    agent_name: str | None = None
    """Name of the agent asked; absent after deletion."""
    model: str | None = None
    """Language model of the agent asked."""
    instructions_digest: str | None = None
    """SHA-256 of the agent's instructions, in hexadecimal digits; changes with the instructions."""
    settings: AskedSettings | None = None
    """Instructions and retrieval settings of the agent during the run; absent for runs older than this field."""
    note: str | None = None
    """A comment on the run."""
    case_count: int
    """Number of cases measured; the scores are over these."""
    failed_count: int = 0
    """Number of cases with a failed search or message."""
    planned_count: int | None = None
    """Number of planned cases. With fewer results (measured and failed), the run is in progress or ended early."""
    ndcg: float | None = None
    """Mean over the cases with this score."""
    recall: float | None = None
    """Mean over the cases with this score."""
    reciprocal_rank: float | None = None
    """Mean over the cases with this score."""
    precision: float | None = None
    """Mean over the cases with this score."""
    answered: float | None = None
    """The share of the answerable questions that were answered; for agents only."""
    statements_said: float | None = None
    """Mean over the cases with this score."""
    refused: float | None = None
    """The share of the unanswerable questions whose reply cites nothing."""
    groundedness: float | None = None
    """Mean over the cases with this score."""


class AdminEvaluationSetsAddRunResponse(EvaluationRun):
    """The saved run."""


class AdminEvaluationSetsListRunsRequest(NarrowedRequest):
    """List the runs of a set, newest first."""

    evaluation_set_id: UUID


class AdminEvaluationSetsListRunsResponse(PagedResponse):
    """A page of runs."""

    runs: list[EvaluationRun]
    """The runs, newest first."""


class AdminEvaluationSetsListResultsRequest(PagedRequest):
    """List the results of a run in the order of the cases, without cases removed since."""

    evaluation_set_id: UUID
    evaluation_run_id: UUID


class KeptResult(ResponseModel):
    """Saved scores of a case in a run."""

    case_id: UUID
    question: str
    ndcg: float | None = None
    recall: float | None = None
    reciprocal_rank: float | None = None
    precision: float | None = None
    answered: bool | None = None
    statements_said: float | None = None
    refused: bool | None = None
    groundedness: float | None = None
    """The share of the reply's sentences that the cited passages support; absent for searches and no sentences."""
    message_id: UUID | None = None
    """Id of the message to the agent."""
    error: str | None = None
    """Reason for a failed search or message; a failed case has no score."""
    found: list[str]


class AdminEvaluationSetsListResultsResponse(PagedResponse):
    """A page of results."""

    results: list[KeptResult]


class AdminEvaluationSetsDeleteRunRequest(RequestModel):
    """Delete a run with all results."""

    evaluation_set_id: UUID
    evaluation_run_id: UUID


class AdminEvaluationSetsDeleteRunResponse(ResponseModel):
    """The deleted run."""

    evaluation_run_id: UUID


ADMIN_EVALUATION_SETS_ADD_RUN = ApiOperation(
    "admin/evaluationSets/addRun",
    AdminEvaluationSetsAddRunRequest,
    AdminEvaluationSetsAddRunResponse,
    ADMIN,
    KEYED | ADDS_DATA | NOT_FOUND,
)
"""Save results as a run of the caller; `mode` is None if a set asks an agent. `agent_id` is the agent asked, if
different from the set's. Removed cases are left out. A long run is saved in parts, like
`carrel.evaluation.run`: the first says how many cases are planned, and later parts name the run. Raises
NotFoundError, BadRequestError `unknown_case` and `wrong_mode`, ConflictError `too_many_evaluation_runs` (a set
has at most 1000)."""
ADMIN_EVALUATION_SETS_LIST_RUNS = ApiOperation(
    "admin/evaluationSets/listRuns",
    AdminEvaluationSetsListRunsRequest,
    AdminEvaluationSetsListRunsResponse,
    ADMIN,
    NOT_FOUND,
)
"""List the runs of a set, newest first; filter by `ids` (at most 1000)."""
ADMIN_EVALUATION_SETS_LIST_RESULTS = ApiOperation(
    "admin/evaluationSets/listResults",
    AdminEvaluationSetsListResultsRequest,
    AdminEvaluationSetsListResultsResponse,
    ADMIN,
    NOT_FOUND,
)
"""List the results of a run, case by case."""
ADMIN_EVALUATION_SETS_DELETE_RUN = ApiOperation(
    "admin/evaluationSets/deleteRun",
    AdminEvaluationSetsDeleteRunRequest,
    AdminEvaluationSetsDeleteRunResponse,
    ADMIN,
    KEYED | NOT_FOUND,
)
"""Delete a run with all results."""
