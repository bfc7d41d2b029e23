"""admin/evaluationSets/*: what runs over a set have measured; extensions, for admins. The service keeps results. The
caller searches, asks and measures (`carrel.evaluation`), as itself."""

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
    """What a run measured on a case. A search has the first three scores, a reply the others and `recall`.

    How well the cited passages support a reply is measured by the service, which has them."""

    case_id: UUID
    ndcg: Share | None = None
    """The nDCG of the first ten documents found."""
    recall: Share | None = None
    """The share of the relevant documents that was found or cited."""
    reciprocal_rank: Share | None = None
    """1 over the rank of the first relevant document."""
    precision: Share | None = None
    """The share of the cited documents that is relevant; absent when none was cited."""
    answered: bool | None = None
    """Whether the reply rested on any document; of an agent alone."""
    statements_said: Share | None = None
    """The share of the case's statements that the reply says; absent without any."""
    refused: bool | None = None
    """Of a question that nothing answers: whether the reply cites nothing, as is right."""
    message_id: UUID | None = None
    """Id of the message that the agent was sent; its words are kept only with the conversation."""
    found: Annotated[list[Identifier], Field(max_length=10)] = Field(default_factory=list[Identifier])
    """External ids of the first ten documents that were found or cited, the best first."""
    error: Note | None = None
    """Why the search or the message failed; such a case has no score."""

    @model_validator(mode="after")
    def refuse_scores_of_failed(self) -> Self:
        """Refuse a score of a case that failed."""
        told = self.model_dump(exclude={"case_id", "message_id", "found", "error"}, exclude_none=True)
        if self.error is not None and told:
            raise ValueError(f"{next(iter(told))}: a case that failed has no score; leave it or error out")
        return self


class AdminEvaluationSetsAddRunRequest(RequestModel):
    """Keep what a run over a set measured, in one request or in several during the run.

    The service says of an agent what it is told, as it is when the run begins."""

    evaluation_set_id: UUID
    mode: SearchMode | None = None
    """How the questions were searched for; absent: an agent was asked."""
    agent_id: UUID | None = None
    """Id of the agent that was asked; absent: the set's."""
    note: Note | None = None
    """What to remember of the run, such as what has changed before it."""
    evaluation_run_id: UUID | None = None
    """Id of a run of the caller's that these results belong to, too; absent: they begin one."""
    planned_count: Annotated[int, Field(strict=True, ge=1, le=MOST_CASES)] | None = None
    """Number of cases that a run is to have in the end, of one that begins; absent: these."""
    results: Annotated[list[CaseResult], Field(min_length=1, max_length=MOST_CASES)]
    """What was measured, once for a case; cases that are gone from the set are left out."""

    _cases_once = once_each("results", "results must name each case once", key="case_id")


class AskedSettings(ResponseModel):
    """What an agent was told, and how it looked things up, when a run began."""

    instructions: str
    """What the language model is told before every conversation."""
    collection_ids: list[UUID]
    """Collections that the agent retrieved from."""
    retrieval: AgentRetrieval
    """How the agent looked passages up."""


class EvaluationRun(ResponseModel):
    """A run over a set: who ran it how and when, and the means of what was measured."""

    evaluation_run_id: UUID
    evaluation_set_id: UUID
    at: Instant
    """When it ended."""
    ran_by: UserPrincipal
    """Who ran it; searches and replies are of what this person may read."""
    mode: SearchMode | None = None
    """How the questions were searched for; absent: an agent was asked."""
    agent_id: UUID | None = None
    """Id of the agent that was asked: the set's, or another one."""
    agent_name: str | None = None
    """Name of that agent; absent when it is deleted."""
    model: str | None = None
    """Language model of the agent that was asked."""
    instructions_digest: str | None = None
    """SHA-256 of the agent's instructions, in hexadecimal digits; other instructions have another one."""
    settings: AskedSettings | None = None
    """What that agent was told then, and how it looked things up; absent: a run of before this was kept."""
    note: str | None = None
    """What to remember of the run."""
    case_count: int
    """Number of cases that were measured; the scores are over these."""
    failed_count: int = 0
    """Number of cases whose search or message failed."""
    planned_count: int | None = None
    """Number of cases that it was to have. With fewer, measured and failed, it runs still, or ended half-way."""
    ndcg: float | None = None
    """Mean of the cases that have it."""
    recall: float | None = None
    """Mean of the cases that have it."""
    reciprocal_rank: float | None = None
    """Mean of the cases that have it."""
    precision: float | None = None
    """Mean of the cases that have it."""
    answered: float | None = None
    """Of the questions that something answers, the share that was answered; of an agent alone."""
    statements_said: float | None = None
    """Mean of the cases that have it."""
    refused: float | None = None
    """Of the questions that nothing answers, the share whose reply cites nothing."""
    groundedness: float | None = None
    """Mean of the cases that have it."""


class AdminEvaluationSetsAddRunResponse(EvaluationRun):
    """The run, as it is kept."""


class AdminEvaluationSetsListRunsRequest(NarrowedRequest):
    """List the runs of a set, newest first."""

    evaluation_set_id: UUID


class AdminEvaluationSetsListRunsResponse(PagedResponse):
    """One page of runs."""

    runs: list[EvaluationRun]
    """The runs, newest first."""


class AdminEvaluationSetsListResultsRequest(PagedRequest):
    """List what a run measured, in the order of the cases; cases that were removed since are gone here too."""

    evaluation_set_id: UUID
    evaluation_run_id: UUID


class KeptResult(ResponseModel):
    """What a run measured on a case, as it is kept."""

    case_id: UUID
    question: str
    """The question."""
    ndcg: float | None = None
    """The nDCG of the first ten documents found."""
    recall: float | None = None
    """The share of the relevant documents that was found or cited."""
    reciprocal_rank: float | None = None
    """1 over the rank of the first relevant document."""
    precision: float | None = None
    """The share of the cited documents that is relevant; absent when none was cited."""
    answered: bool | None = None
    """Whether the reply rested on any document; of an agent alone."""
    statements_said: float | None = None
    """The share of the case's statements that the reply says; absent without any."""
    refused: bool | None = None
    """Of a question that nothing answers: whether the reply cites nothing, as is right."""
    groundedness: float | None = None
    """The share of the reply's sentences that its cited passages support; absent without any, and of a search."""
    message_id: UUID | None = None
    """Id of the message that the agent was sent."""
    error: str | None = None
    """Why the search or the message failed; such a case has no score."""
    found: list[str]
    """External ids of the first ten documents that were found or cited, the best first."""


class AdminEvaluationSetsListResultsResponse(PagedResponse):
    """One page of results."""

    results: list[KeptResult]
    """The results."""


class AdminEvaluationSetsDeleteRunRequest(RequestModel):
    """Delete a run with its results."""

    evaluation_set_id: UUID
    evaluation_run_id: UUID


class AdminEvaluationSetsDeleteRunResponse(ResponseModel):
    """The run that is gone."""

    evaluation_run_id: UUID


ADMIN_EVALUATION_SETS_ADD_RUN = ApiOperation(
    "admin/evaluationSets/addRun",
    AdminEvaluationSetsAddRunRequest,
    AdminEvaluationSetsAddRunResponse,
    ADMIN,
    KEYED | ADDS_DATA | NOT_FOUND,
)
"""Keep what was measured as a run of the caller's; `mode` is None for a set that asks an agent.

`agent_id` is the agent that was asked, if that isn't the set's. Cases that are gone from the set are left out.
A long run is kept in parts: the first says how many cases are planned, the others name the run that they
belong to, as `carrel.evaluation.run` does.
Raises NotFoundError for an unknown set, agent or run, BadRequestError `unknown_case` and `wrong_mode`,
ConflictError `too_many_evaluation_runs` (a set has at most 1000)."""
ADMIN_EVALUATION_SETS_LIST_RUNS = ApiOperation(
    "admin/evaluationSets/listRuns",
    AdminEvaluationSetsListRunsRequest,
    AdminEvaluationSetsListRunsResponse,
    ADMIN,
    NOT_FOUND,
)
"""Walk the runs of a set, newest first, or those of `ids` (at most 1000)."""
ADMIN_EVALUATION_SETS_LIST_RESULTS = ApiOperation(
    "admin/evaluationSets/listResults",
    AdminEvaluationSetsListResultsRequest,
    AdminEvaluationSetsListResultsResponse,
    ADMIN,
    NOT_FOUND,
)
"""Walk what a run measured, case by case."""
ADMIN_EVALUATION_SETS_DELETE_RUN = ApiOperation(
    "admin/evaluationSets/deleteRun",
    AdminEvaluationSetsDeleteRunRequest,
    AdminEvaluationSetsDeleteRunResponse,
    ADMIN,
    KEYED | NOT_FOUND,
)
"""Delete a run with its results."""
