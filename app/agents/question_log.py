"""What people asked agents: its filters, its counts, and its questions as rows."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import streamlit as st

from app import api
from app.formatting import moment, one_line, shorten
from app.labels import GROUP
from app.lookup import by_id, is_id
from app.quality.searches import SPANS
from app.ui.errors import show_errors
from app.ui.filters import choice_filter, filter_line, text_filter
from app.ui.pickers import pick_principal
from app.ui.progress import find_rows
from app.ui.tables import time_cell
from carrel.wire.common import UserPrincipal
from carrel.wire.messages import Verdict
from carrel.wire.oversight import Bucket
from carrel.wire.question_log import (
    MOST_LOOKED_THROUGH,
    AdminQuestionLogQueryResponse,
    AdminQuestionLogSummarizeResponse,
    LoggedQuestion,
    Outcome,
    RankedBy,
    RankedQuestions,
)
from flows.operations.formatting import count_text

ERASED = "(erased)"
OUTCOMES: Mapping[Outcome, str] = {
    Outcome.UNANSWERED: "Nothing answered",
    Outcome.FAILED: "Failed",
    Outcome.ANSWERED: "Answered",
    Outcome.RUNNING: "Being answered",
}
THUMBS: Mapping[Verdict, str] = {Verdict.NEGATIVE: "Thumbs down", Verdict.POSITIVE: "Thumbs up"}
HEADS = ("Question", "Reply", "Thumbs", "Comment", "Agent", "Who", "Email", "When", "Text of the reply", "Sources")
LONGEST_SHOWN = 300
"""Characters of a question in a row."""
_MOST_AGENTS = 200
_MOST_READ = 1000


class Wanted(NamedTuple):
    """The filters of the log; a tuple, so that lists can be told apart by it."""

    words: str = ""
    agent: str = ""
    group: str = ""
    over: str = "month"
    outcome: str = ""
    thumbs: str = ""
    conversation: str = ""

    @property
    def since(self) -> datetime:
        """Beginning of the time: a midnight, and a Monday's where weeks are counted."""
        span = SPANS[self.over]
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        begin = midnight - timedelta(days=span.days - 1)
        return begin - timedelta(days=begin.weekday()) if span.bucket is Bucket.WEEK else begin


def choose_questions() -> Wanted:
    """Show the filters, which are kept in the address, and return them."""
    said = st.query_params.get("of", "")
    agents = {"": "All", **show_errors(agent_names)}
    if is_id(said):
        agents.setdefault(said, "An agent that is gone")
    with filter_line("of", "group", "over", "reply", "thumbs"):
        words = text_filter("Question", "words", placeholder="Part of it")
        agent = choice_filter("Agent", "of", agents)
        over = choice_filter("Period", "over", {key: span.name for key, span in SPANS.items()}, default="month")
        outcomes = {"": "Any", **{key.value.lower(): name for key, name in OUTCOMES.items()}}
        outcome = choice_filter("Reply", "reply", outcomes)
        thumbs = choice_filter("Thumbs", "thumbs", {"": "Any", **{key.value.lower(): THUMBS[key] for key in THUMBS}})
        group = pick_principal("group", label="Asked by members of a group", kinds=(GROUP,), compact=True)
    return Wanted(
        words=words.replace("\0", ""),
        agent=agent,
        group=group.id if group is not None else "",
        over=over,
        outcome=outcome.upper(),
        thumbs=thumbs.upper(),
    )


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def agent_names() -> dict[str, str]:
    """Return the names of the organization's agents by id, and of deleted ones that were asked in the last year."""
    now = datetime.now(UTC)
    listed = next(api.client().admin.agents.list(page_size=_MOST_AGENTS).pages()).agents
    asked = api.client().admin.question_log.rank("AGENT", from_=now - timedelta(days=365), to=now).ranking
    names = {str(one.id): f"{one_line(one.name)} (deleted)" for one in asked}
    names |= {str(one.agent_id): one_line(one.name) for one in listed}
    return dict(sorted(names.items(), key=lambda pair: pair[1].lower()))


def pages_of(wanted: Wanted, *, size: int, token: str | None = None) -> Iterator[AdminQuestionLogQueryResponse]:
    """Walk the log from a page on."""
    listed = api.client().admin.question_log.query(
        agent_id=wanted.agent or None,
        group_id=wanted.group or None,
        from_=None if wanted.conversation else wanted.since,
        conversation_id=wanted.conversation or None,
        outcome=Outcome(wanted.outcome) if wanted.outcome else None,
        feedback=Verdict(wanted.thumbs) if wanted.thumbs else None,
        query=wanted.words or None,
        page_size=size,
        page_token=token,
    )
    return listed.pages()


def fetch(wanted: Wanted, token: str | None, *, size: int) -> AdminQuestionLogQueryResponse:
    """Return the page of a token, or the next one with rows: a page that was narrowed by words may have none."""
    pages = pages_of(wanted, size=size, token=token)
    return find_rows(pages, rows=lambda page: page.questions, most=MOST_LOOKED_THROUGH, of="questions")


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def summarize(wanted: Wanted) -> AdminQuestionLogSummarizeResponse:
    """Count the questions of the time by day or week, of an agent and a group alone."""
    return api.client().admin.question_log.summarize(
        from_=wanted.since,
        to=datetime.now(UTC),
        bucket=SPANS[wanted.over].bucket,
        agent_id=wanted.agent or None,
        group_id=wanted.group or None,
    )


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def rank(by: RankedBy, wanted: Wanted) -> list[RankedQuestions]:
    """Count the questions of the time for each agent or group, most first."""
    found = api.client().admin.question_log.rank(
        by,
        from_=wanted.since,
        to=datetime.now(UTC),
        agent_id=wanted.agent or None,
        group_id=wanted.group or None,
    )
    return list(found.ranking)


@dataclass(frozen=True)
class Unanswered:
    """Equal questions to an agent that nothing answered; `question` is the newest of them."""

    count: int
    people_count: int
    question: LoggedQuestion


def rank_unanswered(questions: Iterable[LoggedQuestion]) -> list[Unanswered]:
    """Group questions by agent and words, whatever the case and spaces, and return the most asked first."""
    groups: dict[Hashable, list[LoggedQuestion]] = {}
    for one in questions:
        if one.message is not None:
            key = (one.agent_id, " ".join(one.message.lower().split()).rstrip("?!. "))
            groups.setdefault(key, []).append(one)
    found = [
        Unanswered(len(some), len({one.actor.id for one in some}), max(some, key=lambda one: one.at))
        for some in groups.values()
    ]
    return sorted(found, key=lambda one: (-one.count, -one.people_count, -one.question.at.timestamp()))


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def read_unanswered(wanted: Wanted) -> tuple[list[Unanswered], bool]:
    """Return the most asked questions that nothing answered, and whether there were more than were read."""
    page = fetch(wanted._replace(outcome=Outcome.UNANSWERED.value), None, size=_MOST_READ)
    return rank_unanswered(page.questions), page.next_page_token is not None


def email_of(question: LoggedQuestion) -> str:
    """Return the address of who asked."""
    return question.actor.email if isinstance(question.actor, UserPrincipal) else ""


def in_words(question: LoggedQuestion) -> str:
    """Return what came of a question, as far as the admin may see it."""
    if question.withheld:
        return "Not shown to you"
    if question.outcome is Outcome.ANSWERED and question.referenced_sources:
        return f"Answered from {count_text(len(question.referenced_sources), 'source')}"
    return OUTCOMES[question.outcome]


def row_of(question: LoggedQuestion) -> dict[str, object]:
    """Return a question as a row of the list."""
    return {
        "Question": shorten(one_line(question.message), LONGEST_SHOWN) if question.message is not None else ERASED,
        "Reply": in_words(question),
        "Thumbs": THUMBS[question.feedback] if question.feedback is not None else "",
        "Agent": one_line(question.agent_name),
        "Who": one_line(question.actor.name),
        "When": time_cell(question.at),
    }


def lines_of(wanted: Wanted) -> Iterator[Sequence[Sequence[str]]]:
    """Walk the log for its export."""
    for page in pages_of(wanted, size=1000):
        yield [_line_of(one) for one in page.questions]


def _line_of(question: LoggedQuestion) -> tuple[str, ...]:
    return (
        question.message if question.message is not None else ERASED,
        in_words(question),
        THUMBS[question.feedback] if question.feedback is not None else "",
        question.feedback_text or "",
        question.agent_name,
        question.actor.name,
        email_of(question),
        moment(question.at),
        question.agent_response_text or "",
        "\n".join(one.name for one in question.referenced_sources),
    )


def retention_in_words(days: int | None) -> str:
    """Return how long words are kept, for people."""
    if days is None:
        return "Words are kept until somebody erases them: no time is set after which they go."
    return (
        f"Words are kept for {count_text(days, 'day')}; after that, who asked which agent, when and with what result."
    )


@st.cache_data(ttl=300, show_spinner=False, scope="session")
def retention_days() -> int | None:
    """Return how many days the service keeps words; None for no end."""
    return api.client().admin.status.get().text_retention_days


def find_question(address: str) -> LoggedQuestion | None:
    """Return the question of this id, with as much of its reply as the admin may read; None when there is none."""
    return by_id(api.client().admin.question_log.query, address)
