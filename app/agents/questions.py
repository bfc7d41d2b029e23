"""The part Questions of the page Agents: what people asked, what nothing answered, and one question with its reply."""

from collections.abc import Sequence
from datetime import UTC
from functools import partial

import streamlit as st

from app import api
from app.agents.definitions import find_agent
from app.agents.evaluation_sets import offer_adding
from app.agents.logged_reply import show_logged_reply
from app.agents.question_log import (
    ERASED,
    HEADS,
    LONGEST_SHOWN,
    OUTCOMES,
    THUMBS,
    Wanted,
    choose_questions,
    email_of,
    fetch,
    find_question,
    lines_of,
    rank,
    read_unanswered,
    retention_days,
    retention_in_words,
    row_of,
    summarize,
)
from app.chat.replies import message_html
from app.formatting import ago, moment, one_line, shorten
from app.search.queries import LONGEST
from app.ui.errors import show_errors
from app.ui.exporting import Export, offer_export
from app.ui.filters import part_of
from app.ui.notices import (
    look_at,
    offer_way_back,
    show_empty,
    show_heading,
    show_link,
    show_note,
    show_text,
    show_warning,
)
from app.ui.tables import PAGE_ROWS, Source, show_pages, source_of, time_cell
from carrel.wire.question_log import LoggedQuestion, Outcome, QuestionsInBucket, RankedBy, RankedQuestions
from flows.operations.formatting import count_text

LISTS = {"newest": "Newest first", "unanswered": "Most asked, not answered", "agents": "By agent", "groups": "By group"}
ONE = ("question",)
_MOST_EXPORTED = 50_000
_MOST_LINKS = 5
# Blue, orange and purple, which people with any colour vision tell apart, in both themes.
_LINES = {"Questions": "#2f7fb8", "Nothing answered": "#d9730d", "Thumbs down": "#9467bd"}
_READABLE = (
    "You see every question. A reply is shown when you may read all documents that it rests on, and is not shown "
    "otherwise."
)


def show_questions() -> None:
    """Show the question in the address, or the list of questions with their counts."""
    if (address := st.query_params.get("question")) is not None:
        _show_one(address)
    elif (conversation := st.query_params.get("conversation")) is not None:
        _show_conversation(conversation)
    else:
        _show_log()


def _show_log() -> None:
    wanted = choose_questions()
    counted = show_errors(partial(summarize, wanted))
    whole = sum(one.questions for one in counted.buckets)
    if whole:
        _show_counts(counted.buckets, counted.askers)
    chosen = part_of("list", LISTS, default="newest")
    if chosen == "newest":
        _list_newest(wanted, any_asked=bool(whole))
    elif chosen == "unanswered":
        _list_unanswered(wanted)
    else:
        _list_ranked(wanted, chosen)
    show_note(f"{_READABLE} {retention_in_words(show_errors(retention_days))}")


def _show_counts(buckets: Sequence[QuestionsInBucket], askers: int) -> None:
    sums = {name: sum(getattr(one, name) for one in buckets) for name in ("questions", "unanswered", "failed")}
    up, down = sum(one.thumbs_up for one in buckets), sum(one.thumbs_down for one in buckets)
    show_text(
        f"{count_text(sums['questions'], 'question')} of {count_text(askers, 'person', 'people')}: "
        f"{sums['unanswered']:,} not answered, {sums['failed']:,} failed, {up:,} thumbs up, {down:,} thumbs down."
    )
    counts = (
        [one.questions for one in buckets],
        [one.unanswered for one in buckets],
        [one.thumbs_down for one in buckets],
    )
    st.bar_chart(  # pyright: ignore[reportUnknownMemberType] - pandas has no types for all it takes
        # Without a zone, in which a browser elsewhere would draw a day of UTC as the day before or after.
        {
            "Begins": [one.from_.astimezone(UTC).replace(tzinfo=None) for one in buckets],
            **dict(zip(_LINES, counts, strict=True)),
        },
        x="Begins",
        x_label="Midnight UTC",
        y=list(_LINES),
        color=list(_LINES.values()),
        y_label="Count",
        height=200,
        stack=False,
        alt="Questions, those that nothing answered, and replies with thumbs down, over time.",
    )


def _list_newest(wanted: Wanted, *, any_asked: bool) -> None:
    show_pages(
        "questions",
        Source(partial(fetch, wanted, size=PAGE_ROWS), lambda page: page.questions, wanted),
        row=row_of,
        empty=partial(_show_none, any_asked=any_asked),
        go=lambda chosen: look_at("question", chosen.message_id),
        hint="Open a question to see the reply, and to do something about it.",
    )
    if any_asked:
        about = tuple(wanted)
        offer_export(Export("questions.csv", HEADS, lines_of(wanted), about, most=_MOST_EXPORTED))


def _show_none(*, any_asked: bool) -> None:
    if any_asked:
        show_empty("No question is like that.", "Take filters away, or look at a longer time.")
    else:
        show_empty(
            "Nobody has asked an agent in this time.",
            "Questions appear here as soon as somebody asks an agent in Chat or by a program, each with its reply, "
            "its thumbs, and whether anything answered.",
        )
        show_link("Ask one yourself", "chat")


def _list_unanswered(wanted: Wanted) -> None:
    found, more = show_errors(partial(read_unanswered, wanted))
    if more:
        show_note("Of the newest 1,000 questions that nothing answered.")
    show_pages(
        "questions.unanswered",
        source_of(found, about=(wanted, len(found), found[0].question.message_id if found else None)),
        row=lambda one: {
            "Question": shorten(one_line(one.question.message or ERASED), LONGEST_SHOWN),
            "Asked": one.count,
            "People": one.people_count,
            "Agent": one_line(one.question.agent_name),
            "Last time": time_cell(one.question.at),
        },
        empty=lambda: show_empty(
            "Nothing answered no question of this time.",
            "Questions whose reply cites no document are counted here by their words, the most asked first.",
        ),
        go=lambda chosen: look_at("question", chosen.question.message_id),
        hint="Open a question to look for the document that is missing.",
    )


def _list_ranked(wanted: Wanted, chosen: str) -> None:
    by, parameter = (RankedBy.AGENT, "of") if chosen == "agents" else (RankedBy.GROUP, "group")
    found = show_errors(partial(rank, by, wanted))

    def narrow(one: RankedQuestions) -> None:
        st.query_params.pop("list", None)
        look_at(parameter, one.id if by is RankedBy.AGENT else f"group:{one.id}")

    show_pages(
        f"questions.{chosen}",
        source_of(found, about=(wanted, chosen, tuple(_shown_of(one) for one in found))),
        row=lambda one: {
            "Agent" if by is RankedBy.AGENT else "Group": one_line(one.name),
            "Questions": one.questions,
            OUTCOMES[Outcome.UNANSWERED]: one.unanswered,
            "Failed": one.failed,
            "Thumbs up": one.thumbs_up,
            "Thumbs down": one.thumbs_down,
            "People": one.askers,
        },
        empty=lambda: show_empty(
            "Nobody has asked an agent in this time." if by is RankedBy.AGENT else "Nobody who asked is in a group.",
            "A person in several groups is counted in each." if by is RankedBy.GROUP else "",
        ),
        go=narrow,
        hint="Choose a row to see its questions.",
    )


def _shown_of(one: RankedQuestions) -> tuple[object, ...]:
    """Return what a row of a ranking shows, so that a changed ranking is drawn anew."""
    return (one.id, one.questions, one.unanswered, one.thumbs_down)


def _show_conversation(address: str) -> None:
    """List the questions of one conversation, as far as the admin may read it."""
    offer_way_back("All questions", "conversation")
    wanted = Wanted(conversation=address)
    show_pages(
        "questions.conversation",
        Source(partial(fetch, wanted, size=PAGE_ROWS), lambda page: page.questions, wanted),
        row=row_of,
        empty=lambda: show_empty("This conversation isn't here.", "Its address is wrong."),
        go=lambda chosen: look_at("question", chosen.message_id),
    )


def _show_one(address: str) -> None:
    offer_way_back("All questions", *ONE)
    question = show_errors(partial(find_question, address))
    if question is None:
        show_empty("This question isn't in the log.", "Its address is wrong.")
        return
    words = question.message if question.message is not None else ERASED
    show_heading(
        shorten(one_line(words), LONGEST_SHOWN),
        f"{question.actor.name} to {question.agent_name}",
        f"{ago(question.at)} ({moment(question.at)})",
        OUTCOMES[question.outcome],
    )
    if len(words) > LONGEST_SHOWN:
        st.html(message_html(words))
    show_logged_reply(question)
    _show_opinion(question)
    if question.message is not None:
        _offer_actions(question, question.message)


def _show_opinion(question: LoggedQuestion) -> None:
    if question.feedback is not None:
        comment = f": {question.feedback_text}" if question.feedback_text else ", without a comment."
        show_text(f"{THUMBS[question.feedback]}{comment}")


def _offer_actions(question: LoggedQuestion, words: str) -> None:
    """Show what can be done about a question: look for the document, load it, and ask the question again later."""
    agent = show_errors(partial(find_agent, str(question.agent_id)))
    names = {str(one.document_collection_id): one.collection_name for one in show_errors(api.collections)}
    ids = [str(one) for one in agent.collection_ids] if agent is not None else []
    readable = [one for one in ids if one in names]
    unanswered = question.outcome is Outcome.UNANSWERED
    st.subheader("Find the missing document" if unanswered else "What to do", anchor=False)
    with st.container(horizontal=True, gap="medium"):
        if len(words) <= LONGEST:
            show_link("Search for it", "search", q=words, **({"in": readable[0]} if len(ids) == 1 and readable else {}))
        for one in readable[:_MOST_LINKS]:
            show_link(f"Upload a document to {one_line(names[one])}", "ingestion", collection=one)
        if not readable:
            show_link("Upload a document", "documents")
        if email := email_of(question):
            show_link(
                f"What can {one_line(question.actor.name)} read?",
                "what_can_they_read",
                who=f"user:{email}",
            )
        _link_to_conversation(question)
        if agent is not None:
            show_link(f"Settings of {one_line(agent.name)}", "agents", agent=str(agent.agent_id))
    if agent is None:
        show_note("This agent was deleted.")
        return
    if unanswered and not ids:
        show_warning("This agent answers from no collection, so it finds nothing.", "Choose one in its settings.")
    offer_adding(agent, words)


def _link_to_conversation(question: LoggedQuestion) -> None:
    """Show a link to the conversation: in Chat if it is the admin's own, else to its questions here."""
    conversation = str(question.conversation_id)
    if email_of(question) == api.me().email:
        show_link("Open the conversation", "chat", agent=str(question.agent_id), conversation=conversation)
    else:
        show_link("All questions of this conversation", "agents", show="questions", conversation=conversation)
