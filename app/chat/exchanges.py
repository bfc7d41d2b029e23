"""Showing the messages of a conversation, each with its reply or the reason why there is none."""

from collections.abc import Callable
from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import formatting
from app.chat.conversations import ChatLocation
from app.chat.following import ReplyReader
from app.chat.replies import growing_html, message_html, reply_html
from app.ui.errors import problem_of
from app.ui.feedback import about_reply, offer_feedback, show_failure
from app.ui.notices import show_problem, show_warning
from carrel.wire.conversations import ConversationMessage, MessageStatus
from carrel.wire.messages import Verdict

LOOK_SECONDS = 0.25
"""How often a page looks how far a reply is."""


def show_message(text: str, *, at: datetime | None = None) -> None:
    """Show a person's message with its time."""
    with st.chat_message("user", avatar=":material/person:"):
        st.html(message_html(text, note="" if at is None else f"{formatting.ago(at)} · {formatting.moment(at)}"))


def show_exchange(agent_id: UUID, message: ConversationMessage, *, ask_again: Callable[[str], None] | None) -> None:
    """Show a message and its reply or error; `ask_again` sends the text once more, None if that isn't possible."""
    show_message(message.message, at=message.created_at)
    with _reply():
        match message.status:
            case MessageStatus.COMPLETED:
                _show_reply(agent_id, message)
            case MessageStatus.WITHHELD:
                show_warning(message.error_message or "This reply is withheld.")
                _offer_again(message, ask_again)
            case MessageStatus.FAILED:
                show_problem(message.error_message or "There is no reply.")
                _offer_again(message, ask_again)
            case MessageStatus.RUNNING:
                st.html('<p class="carrel-facts" role="status">Waits until the reply above is there.</p>')


def show_growing(message: ConversationMessage, following: ReplyReader, *, ended: Callable[[], None]) -> None:
    """Show a message and its unfinished reply; `ended` is called when it is complete, and the page drawn again."""
    show_message(message.message, at=message.created_at)
    with _reply():
        if following.left:
            show_warning("You have stopped watching. The agent continues, and the conversation will have the reply.")
            st.button("Watch again", key="chat.again", on_click=ended)
        elif following.ended and following.problem is not None:
            problem_of(following.problem).show()
            show_warning("The agent continues, and the conversation will have the reply.")
            st.button("Refresh", key="chat.again", on_click=ended)
        else:
            _watch(following, ended)


@st.fragment(run_every=LOOK_SECONDS)
def _watch(following: ReplyReader, ended: Callable[[], None]) -> None:
    if following.ended:
        if following.problem is None:
            ended()
        st.rerun()
    st.html(growing_html(following.text))
    st.html('<p class="carrel-busy" role="status">Thinking …</p>')
    # A callback of a fragment draws the fragment alone; leaving concerns the page.
    if st.button("Stop", key="chat.leave", type="tertiary", icon=":material/stop_circle:"):
        following.leave()
        st.rerun()


def _reply() -> DeltaGenerator:
    return st.chat_message("assistant", avatar=":material/forum:")


def _show_reply(agent_id: UUID, message: ConversationMessage) -> None:
    text = message.agent_response_text or ""
    here = urlencode(ChatLocation.from_address(st.query_params).address())
    st.html(reply_html(text, message.referenced_sources, message_id=message.message_id, chat=here))
    if message.warnings:
        show_warning(*message.warnings)
    about = about_reply(agent_id, message.message_id)
    given = None if message.feedback is None else message.feedback is Verdict.POSITIVE
    with st.container(horizontal=True, vertical_alignment="center"):
        offer_feedback(about, given=given)
    show_failure(about)


def _offer_again(message: ConversationMessage, ask_again: Callable[[str], None] | None) -> None:
    if ask_again is not None:
        key = f"chat.ask-again-{message.message_id}"
        st.button("Ask again", key=key, on_click=ask_again, args=(message.message,))
