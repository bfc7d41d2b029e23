"""Questions to agents: the log with filters and counts, and each question with the reply."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple
from uuid import UUID

import streamlit as st

from app import api
from app.agents.definitions import find_agent
from app.chat.conversations import message_html, reply_html
from app.formatting import ago, browser_zone, days_back, moment, one_line, shorten
from app.labels import GROUP
from app.lookup import by_id, is_id
from app.quality.searches import SPANS
from app.quality.sets import LONGEST_QUESTION, forget_sets
from app.search.queries import LONGEST
from app.ui import notices
from app.ui.dialogs import NotYetError, dialog, is_open, offer_submit, open_dialog, text_in
from app.ui.errors import require_found, show_errors
from app.ui.filters import choice_filter, filter_line, part_of, text_filter
from app.ui.pickers import pick_principal
from app.ui.progress import find_rows, offer_export
from app.ui.tables import ALL_ROWS, PAGE_ROWS, PageAsked, Source, page_from, show_pages, source_of, time_cell
from carrel import Pager
from carrel.wire import question_log
from carrel.wire.agents import AgentDefinition
from carrel.wire.common import UserPrincipal
from carrel.wire.messages import Verdict
from carrel.wire.oversight import Bucket
from flows.operations.formatting import count_text

ERASED = "(erased)"
OUTCOMES: Mapping[question_log.Outcome, str] = {
    question_log.Outcome.UNANSWERED: "Not answered",
    question_log.Outcome.FAILED: "Failed",
    question_log.Outcome.ANSWERED: "Answered",
    question_log.Outcome.RUNNING: "In progress",
}
THUMBS: Mapping[Verdict, str] = {Verdict.NEGATIVE: "Thumbs down", Verdict.POSITIVE: "Thumbs up"}
HEADS = ("Question", "Reply", "Thumbs", "Comment", "Agent", "Person", "Email", "When", "Text of the reply", "Sources")
LONGEST_SHOWN = 300


class Wanted(NamedTuple):
    """The filters of the log. A tuple, because lists are compared by filters."""

    words: str = ""
    agent: str = ""
    group: str = ""
    over: str = "month"
    outcome: str = ""
    thumbs: str = ""
    conversation: str = ""

    @property
    def since(self) -> datetime:
        """Return the start of the period: midnight, on a Monday if weeks are counted."""
        span = SPANS[self.over]
        return days_back(span.days, monday=span.bucket is Bucket.WEEK)


def _choose_questions() -> Wanted:
    said = st.query_params.get("of", "")
    agents = {"": "All", **show_errors(agent_names)}
    if is_id(said):
        agents.setdefault(said, "A deleted agent")
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
    """Return the names of the organization's agents by id, including deleted agents used in the last year."""
    now = datetime.now(UTC)
    asked = api.client().admin.question_log.rank("AGENT", from_=now - timedelta(days=365), to=now).ranking
    names = {str(ranked.id): f"{one_line(ranked.name)} (deleted)" for ranked in asked}
    for agent in api.client().admin.agents.list(**ALL_ROWS):
        names[str(agent.agent_id)] = one_line(agent.name if agent.collection_ids else f"{agent.name} (no collections)")
    return dict(sorted(names.items(), key=lambda pair: pair[1].lower()))


def query_log(
    wanted: Wanted, at: PageAsked
) -> Pager[question_log.LoggedQuestion, question_log.AdminQuestionLogQueryResponse]:
    return api.client().admin.question_log.query(
        agent_id=wanted.agent or None,
        group_id=wanted.group or None,
        from_=None if wanted.conversation else wanted.since,
        conversation_id=wanted.conversation or None,
        outcome=question_log.Outcome(wanted.outcome) if wanted.outcome else None,
        feedback=Verdict(wanted.thumbs) if wanted.thumbs else None,
        query=wanted.words or None,
        **at,
    )


def _source_of_log(wanted: Wanted) -> Source[question_log.LoggedQuestion]:
    return Source(lambda token: page_from(_find(wanted, {"page_size": PAGE_ROWS, "page_token": token})), wanted)


def _find(wanted: Wanted, at: PageAsked) -> question_log.AdminQuestionLogQueryResponse:
    """Return a page, or the next page with rows: a search for words can leave a page empty."""
    pages = query_log(wanted, at).pages()
    return find_rows(pages, rows=lambda page: page.questions, most=question_log.MOST_LOOKED_THROUGH, of="questions")


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def summarize(wanted: Wanted) -> question_log.AdminQuestionLogSummarizeResponse:
    return api.client().admin.question_log.summarize(
        from_=wanted.since,
        to=datetime.now(UTC),
        bucket=SPANS[wanted.over].bucket,
        time_zone=browser_zone().key,
        agent_id=wanted.agent or None,
        group_id=wanted.group or None,
    )


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def rank(by: question_log.RankedBy, wanted: Wanted) -> list[question_log.RankedQuestions]:
    """Count the questions of the period for each agent or group, highest count first."""
    found = api.client().admin.question_log.rank(
        by, from_=wanted.since, to=datetime.now(UTC), agent_id=wanted.agent or None, group_id=wanted.group or None
    )
    return list(found.ranking)


@dataclass(frozen=True)
class Unanswered:
    """Equal questions to an agent without an answer; `question` is the newest."""

    count: int
    people_count: int
    question: question_log.LoggedQuestion


def rank_unanswered(questions: Iterable[question_log.LoggedQuestion]) -> list[Unanswered]:
    """Group questions, except erased questions, by agent and words, ignoring case and end marks; most asked first."""
    groups: dict[Hashable, list[question_log.LoggedQuestion]] = {}
    for question in questions:
        if question.message is not None:
            key = (question.agent_id, " ".join(question.message.lower().split()).rstrip("?!. "))
            groups.setdefault(key, []).append(question)
    found = [
        Unanswered(len(some), len({item.actor.id for item in some}), max(some, key=lambda item: item.at))
        for some in groups.values()
    ]
    return sorted(found, key=lambda item: (-item.count, -item.people_count, -item.question.at.timestamp()))


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def read_unanswered(wanted: Wanted) -> tuple[list[Unanswered], bool]:
    """Return the newest 1,000 unanswered questions in groups, most asked first, and whether the log has more."""
    page = _find(wanted._replace(outcome=question_log.Outcome.UNANSWERED.value), ALL_ROWS)
    return rank_unanswered(page.questions), page.next_page_token is not None


def _email_of(question: question_log.LoggedQuestion) -> str:
    return question.actor.email if isinstance(question.actor, UserPrincipal) else ""


def in_words(question: question_log.LoggedQuestion) -> str:
    if question.withheld:
        return "Hidden from you"
    if question.outcome is question_log.Outcome.ANSWERED and question.referenced_sources:
        return f"Answered from {count_text(len(question.referenced_sources), 'source')}"
    return OUTCOMES[question.outcome]


def _row_of(question: question_log.LoggedQuestion) -> dict[str, object]:
    return {
        "Question": shorten(one_line(question.message), LONGEST_SHOWN) if question.message is not None else ERASED,
        "Reply": in_words(question),
        "Thumbs": THUMBS[question.feedback] if question.feedback is not None else "",
        "Agent": show_errors(agent_names).get(str(question.agent_id), one_line(question.agent_name)),
        "Person": one_line(question.actor.name),
        "When": time_cell(question.at),
    }


def _export_row(question: question_log.LoggedQuestion) -> tuple[str, ...]:
    return (
        question.message if question.message is not None else ERASED,
        in_words(question),
        THUMBS[question.feedback] if question.feedback is not None else "",
        question.feedback_text or "",
        question.agent_name,
        question.actor.name,
        _email_of(question),
        moment(question.at),
        question.agent_response_text or "",
        "\n".join(source.name for source in question.referenced_sources),
    )


def retention_in_words(days: int | None) -> str:
    if days is None:
        return "The texts have no expiry. They are kept until someone erases them."
    return f"Texts are kept for {count_text(days, 'day')}. The person, agent, time and result stay in the log."


@st.cache_data(ttl=300, show_spinner=False, scope="session")
def _retention_days() -> int | None:
    return api.client().admin.status.get().text_retention_days


def show_logged_reply(question: question_log.LoggedQuestion) -> None:
    if question.message is None:
        kept = retention_in_words(show_errors(_retention_days))
        notices.show_warning("The text of this question and its reply was erased.", kept)
    elif question.withheld:
        notices.show_warning(
            "This reply is hidden: it uses a document that you cannot read or that was deleted.",
            "The person who asked can see it while they can read all of its documents.",
        )
    elif question.agent_response_text is not None:
        st.html(reply_html(question.agent_response_text, question.referenced_sources, message_id=question.message_id))
        if question.warnings:
            notices.show_warning(*question.warnings)
    elif question.outcome is question_log.Outcome.RUNNING:
        notices.show_text("The agent is thinking. Open this question again in a moment.")
    else:
        notices.show_warning("No reply.", question.error_message or "")


_ADD, _CHOSEN, _NAME, _ADDED = "answers.add", "answers.set", "answers.name", "answers.added"
_NEW = ""
_MOST_SETS = 1000


def offer_adding(agent: AgentDefinition, question: str) -> None:
    """Show a button and dialog for saving a question to a set, to repeat it after a change."""
    notices.offer_action(
        "Add to an evaluation set", open_dialog, _ADD, question, key="answers.add.open", icon="playlist_add"
    )
    if is_open(_ADD, question):
        _ask_for_set(agent, question)
    added: tuple[str, str, str] | None = st.session_state.get(_ADDED)
    if added is not None and added[0] == question:
        notices.show_text(f"Added to the set {added[2]}. Open it to choose the documents that the reply should cite.")
        where = {"agent": str(agent.agent_id), "part": "answers", "set": added[1], "q": question.strip()}
        notices.show_link("Open evaluation set", "agents", **where)


@dialog("Add to an evaluation set", _ADD)
def _ask_for_set(agent: AgentDefinition, question: str) -> None:
    notices.show_text("You can run an evaluation set at any time and compare the replies.")
    listed = api.client().admin.evaluation_sets.list(agent_id=agent.agent_id, page_size=_MOST_SETS)
    newest = reversed(show_errors(lambda: next(listed.pages()).evaluation_sets))
    sets = {str(evaluation.evaluation_set_id): one_line(evaluation.name) for evaluation in newest}
    chosen = st.selectbox("Set", [*sets, _NEW], key=_CHOSEN, format_func=lambda key: sets.get(key, "New set"))
    if chosen == _NEW:
        st.text_input("Name", f"Questions to {agent.name}"[:200], key=_NAME, max_chars=200)
    offer_submit(_ADD, "Add", action=partial(_add_to_set, agent.agent_id, question))


def _add_to_set(agent_id: UUID, question: str) -> None:
    """Add the question to the chosen set or a new set. A question in the set stays unchanged. Raises NotYetError."""
    if len(question.strip()) > LONGEST_QUESTION:
        too_long = (
            f"A question in a set can have at most {LONGEST_QUESTION:,} characters. Shorten it, and add it again."
        )
        raise NotYetError(too_long)
    sets = api.client().admin.evaluation_sets
    chosen = str(st.session_state[_CHOSEN])
    if chosen == _NEW:
        target = sets.create(text_in(_NAME, missing="Enter a name for the set."), agent_id=agent_id)
    elif (target := by_id(sets.list, chosen)) is None:
        raise NotYetError("This set was deleted. Choose another set.")
    sets.put_judgements(target.evaluation_set_id, [{"question": question}])
    forget_sets()
    st.session_state[_ADDED] = (question, str(target.evaluation_set_id), one_line(target.name))


LISTS = {"newest": "Newest first", "unanswered": "Most asked, not answered", "agents": "By agent", "groups": "By group"}
_MOST_EXPORTED = 50_000
_MOST_LINKS = 5
# Blue, orange and purple look different to people with any colour vision, in both themes.
_LINES = {"Questions": "#2f7fb8", "Not answered": "#d9730d", "Thumbs down": "#9467bd"}
_READABLE = "You can see every question. You can see a reply if you can read all of its documents."


def show_questions() -> None:
    if (address := st.query_params.get("question")) is not None:
        _show_question(address)
    elif (conversation := st.query_params.get("conversation")) is not None:
        notices.offer_way_back("All questions", "conversation")
        show_pages(
            "questions.conversation",
            _source_of_log(Wanted(conversation=conversation)),
            row=_row_of,
            empty=lambda: notices.show_empty("This conversation does not exist.", "The URL is wrong."),
            go=lambda chosen: notices.look_at("question", chosen.message_id),
        )
    else:
        _show_log()


def _show_log() -> None:
    wanted = _choose_questions()
    counted = show_errors(partial(summarize, wanted))
    whole = sum(bucket.questions for bucket in counted.buckets)
    if whole:
        _show_counts(counted.buckets, counted.askers)
    chosen = part_of("list", LISTS, default="newest")
    if chosen == "newest":
        _list_newest(wanted, any_asked=bool(whole))
    elif chosen == "unanswered":
        _list_unanswered(wanted)
    else:
        _list_ranked(wanted, chosen)
    notices.show_note(f"{_READABLE} {retention_in_words(show_errors(_retention_days))}")


def _show_counts(buckets: Sequence[question_log.QuestionsInBucket], askers: int) -> None:
    names = ("questions", "unanswered", "thumbs_down", "failed", "thumbs_up")
    counts = [[getattr(bucket, name) for bucket in buckets] for name in names]
    asked, unanswered, down, failed, up = map(sum, counts)
    notices.show_text(
        f"{count_text(asked, 'question')} from {count_text(askers, 'person', 'people')}: "
        f"{unanswered:,} not answered, {failed:,} failed, {up:,} thumbs up, {down:,} thumbs down."
    )
    st.bar_chart(  # pyright: ignore[reportUnknownMemberType] - pandas has no types for all it takes
        {
            "Begins": [item.from_.astimezone(browser_zone()).replace(tzinfo=None) for item in buckets],
            **dict(zip(_LINES, counts[:3], strict=True)),
        },
        x="Begins",
        x_label=f"Day ({browser_zone()})",
        y=list(_LINES),
        color=list(_LINES.values()),
        y_label="Count",
        height=200,
        stack=False,
        alt="Questions, unanswered questions, and replies with thumbs down, over time.",
    )


def _list_newest(wanted: Wanted, *, any_asked: bool) -> None:
    show_pages(
        "questions",
        _source_of_log(wanted),
        row=_row_of,
        empty=partial(_show_none, any_asked=any_asked),
        go=lambda chosen: notices.look_at("question", chosen.message_id),
        hint="Select a question to see the reply and what to do next.",
    )
    if any_asked:
        about = tuple(wanted)
        lines = (map(_export_row, page.questions) for page in query_log(wanted, ALL_ROWS).pages())
        offer_export("questions.csv", HEADS, lines, about=about, most=_MOST_EXPORTED)


def _show_none(*, any_asked: bool) -> None:
    if any_asked:
        notices.show_empty("No questions match.", "Clear some filters, or choose a longer period.")
    else:
        notices.show_empty(
            "No questions in this period.",
            "When someone asks an agent in Chat or from a program, the question appears here with its reply "
            "and feedback.",
        )
        notices.show_link("Ask a question", "chat")


def _list_unanswered(wanted: Wanted) -> None:
    found, more = show_errors(partial(read_unanswered, wanted))
    if more:
        notices.show_note("Based on the newest 1,000 unanswered questions.")
    show_pages(
        "questions.unanswered",
        source_of(found, about=(wanted, len(found), found[0].question.message_id if found else None)),
        row=lambda group: {
            "Question": shorten(one_line(group.question.message or ERASED), LONGEST_SHOWN),
            "Asked": group.count,
            "People": group.people_count,
            "Agent": _row_of(group.question)["Agent"],
            "Last time": time_cell(group.question.at),
        },
        empty=lambda: notices.show_empty(
            "Every question in this period was answered.",
            "Questions whose reply cites no document appear here, most frequent first.",
        ),
        go=lambda chosen: notices.look_at("question", chosen.question.message_id),
        hint="Select a question to look for the missing document.",
    )


_NO_GROUP = ("None of the people who asked is in a group.", "A person in several groups counts in each group.")
_RANKINGS = {
    "agents": (question_log.RankedBy.AGENT, "Agent", "of", "", ("No questions in this period.", "")),
    "groups": (question_log.RankedBy.GROUP, "Group", "group", "group:", _NO_GROUP),
}


def _list_ranked(wanted: Wanted, chosen: str) -> None:
    by, head, parameter, before, empty = _RANKINGS[chosen]
    found = show_errors(partial(rank, by, wanted))

    def narrow(question: question_log.RankedQuestions) -> None:
        st.query_params.pop("list", None)
        notices.look_at(parameter, f"{before}{question.id}")

    show_pages(
        f"questions.{chosen}",
        source_of(found, about=(wanted, chosen, tuple(found))),
        row=lambda question: {
            head: one_line(question.name),
            "Questions": question.questions,
            OUTCOMES[question_log.Outcome.UNANSWERED]: question.unanswered,
            "Failed": question.failed,
            "Thumbs up": question.thumbs_up,
            "Thumbs down": question.thumbs_down,
            "People": question.askers,
        },
        empty=lambda: notices.show_empty(*empty),
        go=narrow,
        hint="Select a row to see its questions.",
    )


def _show_question(address: str) -> None:
    notices.offer_way_back("All questions", "question")
    find = partial(by_id, api.client().admin.question_log.query, address)
    question = require_found(find, "This question is not in the log.", "The URL is wrong.")
    words = question.message if question.message is not None else ERASED
    notices.show_heading(
        shorten(one_line(words), LONGEST_SHOWN),
        f"{question.actor.name} to {question.agent_name}",
        f"{ago(question.at)} ({moment(question.at)})",
        OUTCOMES[question.outcome],
    )
    if len(words) > LONGEST_SHOWN:
        st.html(message_html(words))
    show_logged_reply(question)
    if question.feedback is not None:
        comment = f": {question.feedback_text}" if question.feedback_text else ", without a comment."
        notices.show_text(f"{THUMBS[question.feedback]}{comment}")
    if question.message is not None:
        _offer_actions(question, question.message)


def _offer_actions(question: question_log.LoggedQuestion, words: str) -> None:
    agent = show_errors(partial(find_agent, str(question.agent_id)))
    names = show_errors(api.collection_names)
    ids = [str(collection_id) for collection_id in agent.collection_ids] if agent is not None else []
    readable = [item for item in ids if item in names]
    unanswered = question.outcome is question_log.Outcome.UNANSWERED
    st.subheader("Find the missing document" if unanswered else "Next steps", anchor=False)
    with st.container(horizontal=True, gap="medium"):
        if len(words) <= LONGEST:
            notices.show_link(
                "Search for it", "search", q=words, **({"in": readable[0]} if len(ids) == 1 and readable else {})
            )
        for item in readable[:_MOST_LINKS]:
            notices.show_link(f"Upload a document to {one_line(names[item])}", "ingestion", collection=item)
        if not readable:
            notices.show_link("Upload a document", "documents")
        if email := _email_of(question):
            notices.show_link(
                f"What can {one_line(question.actor.name)} read?", "what_can_they_read", who=f"user:{email}"
            )
        conversation = str(question.conversation_id)
        if _email_of(question) == api.me().email:
            notices.show_link("Open conversation", "chat", agent=str(question.agent_id), conversation=conversation)
        else:
            notices.show_link(
                "All questions of this conversation", "agents", show="questions", conversation=conversation
            )
        if agent is not None:
            notices.show_link(f"Settings of {one_line(agent.name)}", "agents", agent=str(agent.agent_id))
    if agent is None:
        notices.show_note("This agent was deleted.")
        return
    if unanswered and not ids:
        notices.show_warning(
            "This agent has no collections, or they were deleted, so it finds nothing.",
            "Choose a collection in its settings.",
        )
    offer_adding(agent, words)
