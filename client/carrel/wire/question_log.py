"""admin/questionLog: people's questions to agents, and the outcomes; extensions, for admins."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire.common import NarrowedRequest, PagedResponse, Principal, RequestModel, ResponseModel, Tabular
from carrel.wire.fields import Instant, Label, RequestInstant
from carrel.wire.messages import Verdict
from carrel.wire.operations import ADMIN, ApiOperation
from carrel.wire.oversight import Bucket
from carrel.wire.replies import ReferencedSource

MOST_LOOKED_THROUGH = 20_000
"""Questions searched by words for one page; the next page continues after them."""


class Outcome(StrEnum):
    """Outcome of a question. UNANSWERED: the reply cites no document; FAILED: no reply."""

    RUNNING = "RUNNING"
    ANSWERED = "ANSWERED"
    UNANSWERED = "UNANSWERED"
    FAILED = "FAILED"


class QuestionFilters(RequestModel):
    """Filters for questions. All filters must match; no filter: all questions of the organization."""

    agent_id: UUID | None = None
    """Only questions to this agent, even if deleted."""
    group_id: UUID | None = None
    """Only questions of the group's current members, direct or nested."""


class AdminQuestionLogQueryRequest(QuestionFilters, NarrowedRequest):
    """List people's questions to agents, newest first."""

    from_: Annotated[RequestInstant | None, Field(alias="from")] = None
    to: RequestInstant | None = None
    conversation_id: UUID | None = None
    """Only questions of this conversation."""
    outcome: Outcome | None = None
    """Only questions with this outcome."""
    feedback: Verdict | None = None
    """Only questions whose reply last got this feedback."""
    query: Label | None = None
    """Only questions with this text, in any case, unless erased. A page may be short despite a `nextPageToken`."""


class LoggedQuestion(ResponseModel):
    """A question to an agent, with the part of the reply readable by the caller."""

    message_id: UUID
    conversation_id: UUID
    at: Instant
    """Time of the question."""
    agent_id: UUID
    agent_name: str
    actor: Principal
    """The asking user or service account."""
    message: str | None = None
    """Text of the question; absent: erased, together with the reply."""
    outcome: Outcome
    withheld: bool
    """Whether the reply is withheld: it is based on documents deleted, or not readable by the caller."""
    agent_response_text: str | None = None
    """Text of the reply, if readable by the caller."""
    referenced_sources: list[ReferencedSource] = Field(default_factory=list[ReferencedSource])
    warnings: list[str] = Field(default_factory=list[str])
    error_message: str | None = None
    """Reason for the missing reply, and the advice given to the person."""
    feedback: Verdict | None = None
    """Newest feedback on the reply."""
    feedback_text: str | None = None
    """Comment of the newest feedback; absent: none, or erased."""


class AdminQuestionLogQueryResponse(PagedResponse):
    """A page of questions."""

    questions: list[LoggedQuestion]
    """The questions, newest first."""


class AdminQuestionLogSummarizeRequest(QuestionFilters):
    """Count questions by day or week."""

    from_: Annotated[RequestInstant, Field(alias="from")]
    to: RequestInstant
    bucket: Bucket
    time_zone: Annotated[str, Field(max_length=64)] = "UTC"


class QuestionCounts(ResponseModel):
    """Some questions, counted."""

    questions: int
    """Number of questions."""
    unanswered: int
    """Number of questions with a reply that cites no document."""
    failed: int
    """Number of questions without a reply, because of an error."""
    thumbs_up: int
    """Number of replies with POSITIVE as the newest feedback."""
    thumbs_down: int
    """Number of replies with NEGATIVE as the newest feedback."""
    askers: int
    """Number of different people and service accounts with questions."""


class QuestionsInBucket(QuestionCounts):
    """Questions of one day or week; the first and the last count only the requested time."""

    from_: Annotated[Instant, Field(alias="from")]
    """Beginning of the day or week, in UTC."""


class AdminQuestionLogSummarizeResponse(Tabular):
    """All buckets in order, including empty buckets."""

    buckets: list[QuestionsInBucket]
    askers: int
    """Number of different people and service accounts with questions in the whole time."""


class RankedBy(StrEnum):
    """The dimension of a ranking."""

    AGENT = "AGENT"
    GROUP = "GROUP"


class AdminQuestionLogRankRequest(QuestionFilters):
    """Count the questions of a period for each agent, or for each group of the people asking."""

    from_: Annotated[RequestInstant, Field(alias="from")]
    to: RequestInstant
    by: RankedBy
    """The dimension of the ranking."""


class RankedQuestions(QuestionCounts):
    """Questions to one agent, or of one group's current members, direct or nested."""

    id: UUID
    """Id of the agent or group."""
    name: str
    """Name of the agent or group."""


class AdminQuestionLogRankResponse(Tabular):
    """The 100 agents or groups with the most questions, without empty entries."""

    ranking: list[RankedQuestions]
    """The agents or groups, most questions first; members of several groups count in each."""


ADMIN_QUESTION_LOG_QUERY = ApiOperation(
    "admin/questionLog/query", AdminQuestionLogQueryRequest, AdminQuestionLogQueryResponse, ADMIN
)
"""List the questions, newest first; `from_` is inclusive, `to` exclusive, and `query` is part of a message.
`outcome="UNANSWERED"` selects questions whose reply cites no document, `group_id` the questions of a group's
members, `ids` (at most 1000) messages. A reply based on documents that the caller may not read is withheld."""
ADMIN_QUESTION_LOG_SUMMARIZE = ApiOperation(
    "admin/questionLog/summarize",
    AdminQuestionLogSummarizeRequest,
    AdminQuestionLogSummarizeResponse,
    ADMIN,
    by_position=(),
)
"""Count the questions of every day or week (in UTC, weeks from Monday); `from_` is inclusive, `to` exclusive.
Days and weeks without questions are included. More than 400 raise BadRequestError."""
ADMIN_QUESTION_LOG_RANK = ApiOperation(
    "admin/questionLog/rank", AdminQuestionLogRankRequest, AdminQuestionLogRankResponse, ADMIN, by_position=("by",)
)
"""Count the questions of a time for each `AGENT` or `GROUP`; the 100 with the most, most first."""
