"""An agent's answer on another page, such as above the results of a search: asked for once the page's own content is
drawn, so that it holds nothing up, and shown in a room of the same height from the outline to the last word."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

import carrel
from app.auth.current import person_client
from app.chat.conversations import (
    ChatLocation,
    Outgoing,
    ReplyReader,
    growing_html,
    my_agents,
    read,
    show_growing_reply,
    show_reply,
)
from app.ui.errors import Problem, problem_of
from app.ui.notices import offer_action, show_link
from app.ui.passages import label
from carrel.wire.agents import Agent
from carrel.wire.conversations import ConversationMessage, MessageStatus

_ASKED, _AGENT = "agent_answer.asked", "agent_answer.agent"
_OUTLINE = f'<div class="carrel-answer-room">{growing_html("")}</div>'
_QUESTION = re.compile(r"[?\uff1f\u061f]\s*$|^(?:[Ww]h(?:o|at|en|ere|y|ich)|[Hh]ow)(?:'s)?\s+\S+\s+\S")
"""A question mark at the end, or a question word before two more words: WHO is an organization."""


@dataclass
class Asked:
    """A question that an agent was asked; `problem` is why it could not be sent, `message` has the ended reply. Without
    a `problem` and a `reader`, a click ended the run of the page that was sending it."""

    agent: Agent
    text: str
    conversation_id: UUID | None = None
    reader: ReplyReader | None = None
    problem: Problem | None = None
    message: ConversationMessage | None = None
    outgoing: Outgoing | None = None

    @property
    def place(self) -> ChatLocation:
        return ChatLocation(str(self.agent.agent_id), str(self.conversation_id or ""))

    @property
    def is_read(self) -> bool:
        """Whether the page can show the answer without fetching more."""
        if self.reader is None:
            return self.problem is not None
        return self.message is not None or not self.reader.ended

    def send(self) -> None:
        """Send the question, which is asked once however often it is sent, and begin to read the reply."""
        self.outgoing = self.outgoing or Outgoing(self.place, self.text)
        try:
            sent = self.outgoing.send()
        except carrel.CarrelError as error:
            self.problem = problem_of(error)
            return
        self.conversation_id = sent.conversation_id
        self.follow(sent.job_id)

    def follow(self, message_id: UUID) -> None:
        self.reader = ReplyReader(message_id, person_client().agents.stream_response).begin()

    def read(self) -> None:
        """Read the ended reply, or why there is none, as the person may read it now."""
        self.problem = None
        try:
            transcript = read(self.place.conversation)
        except carrel.CarrelError as error:
            self.problem = problem_of(error)
            return
        last = transcript.messages[-1] if transcript and transcript.messages else None
        if last is None or last.status is MessageStatus.RUNNING:
            self.problem = Problem("This answer can't be shown.", ("The conversation may be gone. Ask again.",))
        self.message = last


def is_question(text: str) -> bool:
    return _QUESTION.search(text) is not None


def read_again() -> None:
    """Have the last answer read again before it is shown: access may have changed."""
    if (asked := _last_question()) is not None:
        asked.message = None


def make_room(text: str, *, is_busy: Callable[[], bool]) -> Callable[[], None]:
    """Make room for an agent's answer to a text; return what asks and shows it, once the page is drawn. A text that is
    no question is asked at the press of a button. While the page `is_busy`, an ended reply doesn't draw it again."""
    slot = st.empty()
    asked, known = _last_question(), st.session_state.get(_AGENT)
    if asked is not None and asked.text == text and asked.is_read:
        with slot.container():
            _show(asked, is_busy)
        return lambda: None
    if known is not None and is_question(text):
        slot.html(_OUTLINE)
    return partial(_fill, slot, text, is_busy)


def find_agent() -> Agent | None:
    """Find the agent whose answers the person is shown beside searches: the first by name that they may message. Once
    it is known, `make_room` makes room for the answer before it is asked."""
    st.session_state[_AGENT] = None
    with suppress(carrel.CarrelError):  # the page is useful without it
        st.session_state[_AGENT] = next((one for one in my_agents() if one.answers_searches), None)
    return st.session_state[_AGENT]


def _fill(slot: DeltaGenerator, text: str, is_busy: Callable[[], bool]) -> None:
    if (agent := find_agent()) is None:
        slot.empty()
        return
    if is_question(text) and ((last := _last_question()) is None or last.text != text):
        _ask(agent, text)
    asked = _last_question()
    with slot.container():
        if asked is not None and asked.text == text:
            _show(asked, is_busy)
        else:
            title = f"Get an answer from {label(agent.name)}"
            offer_action(title, _ask, agent, text, key="agent_answer.ask", icon="forum", kind="tertiary")


def _last_question() -> Asked | None:
    return st.session_state.get(_ASKED)


def _ask(agent: Agent, text: str) -> None:
    before = _last_question()
    if before is not None and before.reader is not None:
        before.reader.leave()
    asked = st.session_state[_ASKED] = Asked(agent, text)
    asked.send()


def _show(asked: Asked, is_busy: Callable[[], bool]) -> None:
    title = f"Answer from {label(asked.agent.name)}"
    with st.expander(title, expanded=True, key="agent-answer"), st.container(key="agent-answer-room"):
        _show_state(asked, is_busy)


def _show_state(asked: Asked, is_busy: Callable[[], bool]) -> None:
    if asked.reader is None and asked.problem is None:
        asked.send()
    reader = asked.reader
    if not asked.is_read and reader is not None and reader.problem is None:
        asked.read()
    if asked.problem is not None:
        asked.problem.show()
        offer_action("Ask again", _ask, asked.agent, asked.text, key="agent_answer.again")
    elif asked.message is not None:
        show_reply(asked.place, asked.message, ask_again=partial(_ask, asked.agent))
        show_link("Continue in Chat", "chat", **asked.place.address())
    elif reader is not None:
        show_growing_reply(reader, ended=partial(_end, asked, is_busy))


def _end(asked: Asked, is_busy: Callable[[], bool]) -> None:
    """Read the reply; show it in place of the growing one where drawing the page again would close a dialog on it."""
    if (reader := asked.reader) is not None and (reader.left or reader.problem is not None):
        asked.follow(reader.message_id)
        return
    asked.read()
    if is_busy():
        _show_state(asked, is_busy)
        st.stop()
