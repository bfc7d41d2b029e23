"""admin/questionLog: what people asked agents, what came of it, and what they thought of the replies."""

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, as_any, as_list
from carrel.resources._choices import AnyBucket, AnyOutcome, AnyRankedBy, AnyVerdict
from carrel.wire import question_log as wire
from carrel.wire.messages import Verdict
from carrel.wire.oversight import Bucket

M = TypeVar("M")


class QuestionLog(Resource[M]):
    """The question log: what people asked agents, with the replies that the caller may read."""

    @property
    def with_raw_response(self) -> "QuestionLog[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return QuestionLog(self._session.as_raw())

    @ListOperation
    def query(
        self,
        *,
        agent_id: Id | None = None,
        group_id: Id | None = None,
        from_: datetime | str | None = None,
        to: datetime | str | None = None,
        conversation_id: Id | None = None,
        outcome: AnyOutcome | None = None,
        feedback: AnyVerdict | None = None,
        query: str | None = None,
        ids: Iterable[Id] | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.LoggedQuestion, wire.AdminQuestionLogQueryResponse]:
        """Walk the questions, newest first; `from_` is included, `to` is not, and `query` is a part of a message.

        `outcome="UNANSWERED"` leaves the questions whose reply cites no document, `group_id` those of everybody who is
        in a group, `ids` those of these messages, at most 1000. A reply is withheld if it rests on documents that the
        caller may not read.
        """
        request = wire.AdminQuestionLogQueryRequest(
            agent_id=as_any(UUID, agent_id),
            group_id=as_any(UUID, group_id),
            from_=as_any(datetime, from_),
            to=as_any(datetime, to),
            conversation_id=as_any(UUID, conversation_id),
            outcome=as_any(wire.Outcome, outcome),
            feedback=as_any(Verdict, feedback),
            query=query,
            ids=as_list(UUID, ids),
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(wire.ADMIN_QUESTION_LOG_QUERY, request, lambda page: page.questions)

    @Operation
    def summarize(
        self,
        *,
        from_: datetime | str,
        to: datetime | str,
        bucket: AnyBucket = Bucket.DAY,
        agent_id: Id | None = None,
        group_id: Id | None = None,
    ) -> Call[wire.AdminQuestionLogSummarizeResponse]:
        """Count the questions of every day or week (in UTC, beginning on Monday); `from_` is included, `to` is not.

        Days and weeks without questions are among them. More than 400 are refused with BadRequestError.
        """
        request = wire.AdminQuestionLogSummarizeRequest(
            from_=as_any(datetime, from_),
            to=as_any(datetime, to),
            bucket=as_any(Bucket, bucket),
            agent_id=as_any(UUID, agent_id),
            group_id=as_any(UUID, group_id),
        )
        return Call(wire.ADMIN_QUESTION_LOG_SUMMARIZE, request)

    @Operation
    def rank(
        self,
        by: AnyRankedBy,
        *,
        from_: datetime | str,
        to: datetime | str,
        agent_id: Id | None = None,
        group_id: Id | None = None,
    ) -> Call[wire.AdminQuestionLogRankResponse]:
        """Count the questions of a time for each `AGENT` or `GROUP`; the 100 with the most, most first."""
        request = wire.AdminQuestionLogRankRequest(
            by=as_any(wire.RankedBy, by),
            from_=as_any(datetime, from_),
            to=as_any(datetime, to),
            agent_id=as_any(UUID, agent_id),
            group_id=as_any(UUID, group_id),
        )
        return Call(wire.ADMIN_QUESTION_LOG_RANK, request)
