"""admin/questionLog: what people ask agents, and what came of it; extensions, for admins."""

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
"""Questions that a query by words looks through for one page; the next page begins after them."""


class Outcome(StrEnum):
    """What came of a question. UNANSWERED: the reply cites no document; FAILED: there is no reply."""

    RUNNING = "RUNNING"
    ANSWERED = "ANSWERED"
    UNANSWERED = "UNANSWERED"
    FAILED = "FAILED"


class QuestionFilters(RequestModel):
    """What questions are narrowed to; filters narrow together, and without any there are all of the organization."""

    agent_id: UUID | None = None
    """Only questions to the agent of this id, a deleted one too."""
    group_id: UUID | None = None
    """Only questions of those who are in the group of this id now, directly or through other groups."""


class AdminQuestionLogQueryRequest(QuestionFilters, NarrowedRequest):
    """Read what people asked agents, newest first."""

    from_: Annotated[RequestInstant | None, Field(alias="from")] = None
    to: RequestInstant | None = None
    conversation_id: UUID | None = None
    """Only questions of the conversation of this id."""
    outcome: Outcome | None = None
    """Only questions that this came of."""
    feedback: Verdict | None = None
    """Only questions whose reply was last judged like this."""
    query: Label | None = None
    """Only questions with this in what was asked, in any case; one whose words were erased is none of them.

    A page may then be short, or empty, though a `nextPageToken` says that others follow."""


class LoggedQuestion(ResponseModel):
    """One question to an agent, with as much of the reply as the caller may read."""

    message_id: UUID
    conversation_id: UUID
    at: Instant
    """When it was asked."""
    agent_id: UUID
    agent_name: str
    actor: Principal
    """Who asked."""
    message: str | None = None
    """What was asked; absent when it was erased, and the reply with it."""
    outcome: Outcome
    """What came of it."""
    withheld: bool
    """Whether the reply is withheld: it rests on documents that the caller may not read, or that are gone."""
    agent_response_text: str | None = None
    """Text of the reply, if there is one that the caller may read."""
    referenced_sources: list[ReferencedSource] = Field(default_factory=list[ReferencedSource])
    warnings: list[str] = Field(default_factory=list[str])
    error_message: str | None = None
    """Why there is no reply, and what the person who asked was told to do."""
    feedback: Verdict | None = None
    """Newest feedback on the reply."""
    feedback_text: str | None = None
    """Words of the newest feedback; absent when there were none or they were erased."""


class AdminQuestionLogQueryResponse(PagedResponse):
    """One page of questions."""

    questions: list[LoggedQuestion]
    """The questions, newest first."""


class AdminQuestionLogSummarizeRequest(QuestionFilters):
    """Count questions by day or week."""

    from_: Annotated[RequestInstant, Field(alias="from")]
    to: RequestInstant
    bucket: Bucket
    """Length of a bucket; at most 400 buckets in all."""
    time_zone: Annotated[str, Field(max_length=64)] = "UTC"
    """Time zone whose days are counted, such as `Pacific/Auckland`."""


class QuestionCounts(ResponseModel):
    """Some questions, counted."""

    questions: int
    """Number of questions."""
    unanswered: int
    """Number of questions whose reply cites no document."""
    failed: int
    """Number of questions without a reply, because of an error."""
    thumbs_up: int
    """Number of replies whose newest feedback is POSITIVE."""
    thumbs_down: int
    """Number of replies whose newest feedback is NEGATIVE."""
    askers: int
    """Number of different people and service accounts who asked."""


class QuestionsInBucket(QuestionCounts):
    """Questions of one day or week; of the first and the last only what was asked for."""

    from_: Annotated[Instant, Field(alias="from")]
    """Beginning of the day or week, in UTC."""


class AdminQuestionLogSummarizeResponse(Tabular):
    """Every bucket in its order, those without questions, too."""

    buckets: list[QuestionsInBucket]
    """The buckets in order of time, empty ones included."""
    askers: int
    """Number of different people and service accounts who asked in the whole time."""


class RankedBy(StrEnum):
    """What questions are counted for."""

    AGENT = "AGENT"
    GROUP = "GROUP"


class AdminQuestionLogRankRequest(QuestionFilters):
    """Count the questions of a time for each agent, or for each group of those who asked."""

    from_: Annotated[RequestInstant, Field(alias="from")]
    to: RequestInstant
    by: RankedBy
    """What they are counted for."""


class RankedQuestions(QuestionCounts):
    """Questions to one agent; or of those who are in one group now, directly or through other groups."""

    id: UUID
    """Id of the agent or group."""
    name: str
    """Name of the agent or group."""


class AdminQuestionLogRankResponse(Tabular):
    """The 100 agents or groups with the most questions; those without any are left out."""

    ranking: list[RankedQuestions]
    """The agents or groups, the one with the most questions first; who is in several groups counts in each."""


ADMIN_QUESTION_LOG_QUERY = ApiOperation(
    "admin/questionLog/query", AdminQuestionLogQueryRequest, AdminQuestionLogQueryResponse, ADMIN
)
"""Walk the questions, newest first; `from_` is included, `to` is not, and `query` is a part of a message.

`outcome="UNANSWERED"` leaves the questions whose reply cites no document, `group_id` those of everybody who is
in a group, `ids` those of these messages, at most 1000. A reply is withheld if it rests on documents that the
caller may not read."""
ADMIN_QUESTION_LOG_SUMMARIZE = ApiOperation(
    "admin/questionLog/summarize",
    AdminQuestionLogSummarizeRequest,
    AdminQuestionLogSummarizeResponse,
    ADMIN,
    by_position=(),
)
"""Count the questions of every day or week (in UTC, beginning on Monday); `from_` is included, `to` is not.

Days and weeks without questions are among them. More than 400 are refused with BadRequestError."""
ADMIN_QUESTION_LOG_RANK = ApiOperation(
    "admin/questionLog/rank", AdminQuestionLogRankRequest, AdminQuestionLogRankResponse, ADMIN, by_position=("by",)
)
"""Count the questions of a time for each `AGENT` or `GROUP`; the 100 with the most, most first."""
