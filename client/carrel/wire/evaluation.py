"""admin/evaluationSets/*: questions with judged documents; extensions. Runs are in `carrel.wire.evaluation_runs`."""

from typing import Annotated
from uuid import UUID

from pydantic import Field, StringConstraints

from carrel.wire import common
from carrel.wire.fields import NO_NUL, Identifier, Instant, Label, must_fit, once_each
from carrel.wire.operations import ADDS_DATA, ADMIN, CONFLICT, KEYED, NOT_FOUND, ApiOperation

MOST_CASES = 2000
MOST_JUDGEMENTS = 200
MOST_GRADE = 10
MOST_STATEMENTS = 20
LONGEST_STATEMENT = 1000

EvaluatedQuestion = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=8192),
    Field(examples=["may dogs travel free"]),
    NO_NUL,
]
"""A question of a set, without surrounding white space."""

Statement = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_STATEMENT), NO_NUL]
"""Words required in a reply, without surrounding white space."""

Note = Annotated[str, Field(max_length=1000), NO_NUL]
"""A comment on a case or a run."""


class AdminEvaluationSetsCreateRequest(common.RequestModel):
    """Create an evaluation set of searches in the catalog, of searches in a collection, or of questions to an agent."""

    name: Label
    """Name of the set, unique in the organization."""
    document_collection_id: UUID | None = None
    """Id of the collection to search; absent, without an agent: the catalog."""
    agent_id: UUID | None = None
    """Id of the agent to ask; absent: the questions are searched."""

    _searches_or_asks = must_fit(
        lambda item: item.document_collection_id is None or item.agent_id is None,
        "documentCollectionId and agentId exclude each other: an agent searches its own collections",
    )


class EvaluationSet(common.Versioned):
    """An evaluation set."""

    edited = ("name",)

    evaluation_set_id: UUID
    name: str
    document_collection_id: UUID | None = None
    """Id of the collection searched; absent, without an agent: the catalog."""
    agent_id: UUID | None = None
    """Id of the agent asked; absent: the questions are searched."""
    target_name: str | None = None
    """Name of the collection or agent; absent for the catalog, and after deletion."""
    case_count: int
    """Number of cases."""
    run_count: int
    """Number of saved runs."""
    last_run_at: Instant | None = None
    """When the newest run ended; absent: no run yet."""
    created_at: Instant
    """When the set was created."""


class AdminEvaluationSetsCreateResponse(EvaluationSet):
    """The new set."""


class AdminEvaluationSetsListRequest(common.NarrowedRequest):
    """List evaluation sets in order of creation."""

    query: Annotated[str, Field(max_length=200), NO_NUL] | None = None
    agent_id: UUID | None = None
    """Only sets for this agent."""


class AdminEvaluationSetsListResponse(common.PagedResponse):
    """A page of evaluation sets."""

    evaluation_sets: list[EvaluationSet]


class AdminEvaluationSetsUpdateRequest(common.VersionedRequest):
    """Rename an evaluation set."""

    evaluation_set_id: UUID
    name: Label
    """New name of the set."""


class AdminEvaluationSetsUpdateResponse(EvaluationSet):
    """The set after the change."""


class AdminEvaluationSetsDeleteRequest(common.RequestModel):
    """Delete an evaluation set with cases and runs."""

    evaluation_set_id: UUID


class AdminEvaluationSetsDeleteResponse(common.ResponseModel):
    """The deleted set."""

    evaluation_set_id: UUID


class Judgement(common.RequestModel):
    """How well a document answers a question."""

    document_external_id: Identifier
    """The document's identifier in the caller's own system; the document may be missing."""
    grade: Annotated[int, Field(strict=True, ge=0, le=MOST_GRADE)]
    """Grade from 0 (doesn't answer the question) to 10; higher is better."""


class KeptJudgement(common.ResponseModel):
    """A saved judgement: how well a document answers a question."""

    document_external_id: str
    """The document's identifier in the caller's own system."""
    grade: int
    """0 for a document that doesn't answer the question; higher is better."""


class JudgedQuestion(common.VersionedRequest):
    """A question, with judgements to add."""

    question: EvaluatedQuestion
    """The question, identified by its text without surrounding white space."""
    judgements: Annotated[list[Judgement], Field(max_length=MOST_JUDGEMENTS)] = Field(default_factory=list[Judgement])
    """Judgements to add; each replaces the document's former judgement. Default: none. At most 200 per question."""
    statements: Annotated[list[Statement], Field(max_length=MOST_STATEMENTS)] | None = None
    """Texts that an agent's reply must say, at most 20; they replace the former texts. Absent: unchanged."""
    nothing_answers: bool | None = None
    """Whether the question has no answer in the documents, so that a reply without a source is right; absent:
    unchanged. An unanswerable question has neither relevant documents nor statements."""
    note: Note | None = None
    """A note to the question; absent: unchanged."""

    _documents_once = once_each("judgements", "judgements must name each document once", key="document_external_id")
    _statements_once = once_each("statements", "statements must have each text once")


class AdminEvaluationSetsPutJudgementsRequest(common.RequestModel):
    """Add questions and judgements to a set. Omitted values stay; repeating has no effect."""

    evaluation_set_id: UUID
    cases: Annotated[list[JudgedQuestion], Field(min_length=1, max_length=100)]
    """Questions with judgements, at most 100; a set has at most 2000."""

    _questions_once = once_each("cases", "cases must name each question once", key="question")


class AdminEvaluationSetsPutJudgementsResponse(common.ResponseModel):
    """The cases of the questions."""

    case_ids: list[UUID]
    """Ids of the cases, in the order of the request."""


class AdminEvaluationSetsRemoveJudgementsRequest(common.RequestModel):
    """Remove judgements of a question, or the whole question; unknown ids are ignored."""

    evaluation_set_id: UUID
    case_id: UUID
    document_external_ids: Annotated[list[Identifier] | None, Field(min_length=1, max_length=MOST_JUDGEMENTS)] = None
    """External ids of documents whose judgements to remove; absent: the whole case, also from the runs."""


class AdminEvaluationSetsRemoveJudgementsResponse(common.ResponseModel):
    """The changed set."""

    evaluation_set_id: UUID


class AdminEvaluationSetsListCasesRequest(common.PagedRequest):
    """List the cases of a set in order of addition."""

    evaluation_set_id: UUID
    query: Annotated[str, Field(max_length=200), NO_NUL] | None = None
    """Part of a question, in any case."""
    page_size: Annotated[int, Field(strict=True, ge=1, le=100)] = 10
    """Most items of a page, 1 to 100; 10 unless given."""


class EvaluationCase(common.Versioned):
    """A question with judged documents."""

    edited = ("judgements", "statements", "nothing_answers", "note")

    case_id: UUID
    """Id of the case; a removed question added again keeps its id."""
    question: str
    judgements: list[KeptJudgement]
    """The judged documents, the best grade first."""
    statements: list[str] = Field(default_factory=list[str])
    """Texts that an agent's reply must say."""
    nothing_answers: bool = False
    """Whether the question has no answer in the documents, so that a reply without a source is right."""
    note: str | None = None
    """A note to the question."""

    @property
    def grades(self) -> dict[str, int]:
        """The grades by external id, for `carrel.evaluation`."""
        return {judgement.document_external_id: judgement.grade for judgement in self.judgements}


class AdminEvaluationSetsListCasesResponse(common.PagedResponse):
    """A page of cases."""

    cases: list[EvaluationCase]


ADMIN_EVALUATION_SETS_CREATE = ApiOperation(
    "admin/evaluationSets/create",
    AdminEvaluationSetsCreateRequest,
    AdminEvaluationSetsCreateResponse,
    ADMIN,
    KEYED | ADDS_DATA | NOT_FOUND,
)
"""Create a set of searches in the catalog or in a collection, or of questions to an agent. Raises NotFoundError
for an unknown collection or agent, ConflictError `evaluation_set_name_taken` and `too_many_evaluation_sets`."""
ADMIN_EVALUATION_SETS_LIST = ApiOperation(
    "admin/evaluationSets/list", AdminEvaluationSetsListRequest, AdminEvaluationSetsListResponse, ADMIN
)
"""List the sets; `ids` (at most 1000), `query` (part of the name) and agent are optional filters."""
ADMIN_EVALUATION_SETS_UPDATE = ApiOperation(
    "admin/evaluationSets/update",
    AdminEvaluationSetsUpdateRequest,
    AdminEvaluationSetsUpdateResponse,
    ADMIN,
    NOT_FOUND | CONFLICT,
    by_position=("evaluation_set_id",),
)
"""Rename a set. Raises ConflictError `evaluation_set_name_taken`."""
ADMIN_EVALUATION_SETS_DELETE = ApiOperation(
    "admin/evaluationSets/delete",
    AdminEvaluationSetsDeleteRequest,
    AdminEvaluationSetsDeleteResponse,
    ADMIN,
    KEYED | NOT_FOUND,
)
"""Delete a set with cases and runs."""
ADMIN_EVALUATION_SETS_PUT_JUDGEMENTS = ApiOperation(
    "admin/evaluationSets/putJudgements",
    AdminEvaluationSetsPutJudgementsRequest,
    AdminEvaluationSetsPutJudgementsResponse,
    ADMIN,
    ADDS_DATA | NOT_FOUND | CONFLICT,
)
"""Add at most 100 questions, expectations and notes to a set (`carrel.evaluation.add_judgements` sends more);
omitted values stay, and repeating has no effect. A case is `{"question": …, "judgements":
[{"document_external_id": …, "grade": 2}], "statements": [words that the reply must say], "nothing_answers":
False, "note": …}`. Raises ConflictError `too_many_cases` (a set has at most 2000), `too_many_judgements` (a
question has at most 200) and `case_contradicts_itself` (an unanswerable question with expectations)."""
ADMIN_EVALUATION_SETS_REMOVE_JUDGEMENTS = ApiOperation(
    "admin/evaluationSets/removeJudgements",
    AdminEvaluationSetsRemoveJudgementsRequest,
    AdminEvaluationSetsRemoveJudgementsResponse,
    ADMIN,
    NOT_FOUND,
)
"""Remove the judgements of these documents, or (None) the whole case, also from the results of runs."""
ADMIN_EVALUATION_SETS_LIST_CASES = ApiOperation(
    "admin/evaluationSets/listCases",
    AdminEvaluationSetsListCasesRequest,
    AdminEvaluationSetsListCasesResponse,
    ADMIN,
    NOT_FOUND,
)
"""List the cases of a set in order of addition; `query` is part of the question."""
