"""Conversations with agents. A reply is Markdown by a model that has read untrusted texts: HTML, links and loaded
content are disabled, except links from source numbers. On another page, such as above search results, an answer is
requested after the page is drawn, so the page never waits; the answer's box keeps its height."""

import html
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias, cast
from urllib.parse import urlencode
from uuid import UUID, uuid4

import streamlit as st
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from streamlit.delta_generator import DeltaGenerator

import carrel
from app.auth.current import person_client
from app.formatting import ago, escape, isolate, moment, one_line
from app.ui.dialogs import dialog, offer_submit, text_in
from app.ui.errors import Problem, problem_of
from app.ui.feedback import about_reply, offer_feedback, show_failure
from app.ui.notices import offer_action, show_link, show_problem, show_text, show_warning
from app.ui.passages import PassageLocation, label, link_html, mark_of_quote, paragraph, place_html
from app.ui.tables import forget, pages_of, show_each
from carrel import CarrelError, Reply, ReplyError, Restarted, TextDelta
from carrel.wire.agents import Agent
from carrel.wire.conversations import Conversation, ConversationMessage, GetConversationResponse, MessageStatus
from carrel.wire.messages import SendAgentMessageResponse, Verdict
from carrel.wire.places import describe_place
from carrel.wire.replies import ReferencedSource

_NUMBER = re.compile(r"\[(\d{1,4})\]")
_LINKS = re.compile(r"((?<!\\)(?:\\\\)*(?=<[A-Za-z/!?])|(?<=\])(?=[(:]))")
"""Places where a backslash stops Markdown from reading HTML, a link or a picture."""
_MARKS, _URL = re.compile(r"([\\`*_\[\]<>#|~&])"), re.compile(r"https?://[^\s<>]+", re.IGNORECASE)


def reply_html(text: str, sources: Sequence[ReferencedSource], *, message_id: UUID, chat: str = "") -> str:
    """Return a reply as HTML; `[1]` links to the first source. `chat` is the query string for the link back."""
    body = _MARKDOWN.render(text, {"sources": sources, "message": message_id})
    said = f'<div class="carrel-reply">{body}</div>'
    if not sources:
        return f'<div class="carrel-said">{said}</div>'
    listed = "".join(_source_html(number, source, message_id, chat) for number, source in enumerate(sources, 1))
    # Folded on a phone; with room next to the reply, the style keeps the list open.
    shown = f'<details class="carrel-sources"><summary>Sources ({len(sources)})</summary><ol>{listed}</ol></details>'
    return f'<div class="carrel-said"><div class="carrel-wide">{said}{shown}</div></div>'


def reply_markdown(text: str, sources: Sequence[ReferencedSource]) -> str:
    """Return a reply as Markdown to copy, sources below. Only addresses of sources are links; no HTML, no loading."""
    lines = re.sub(r"\r\n?", "\n", text).split("\n")
    blocks = (token for token in _MARKDOWN.parse("\n".join(lines)) if token.type in {"fence", "code_block"})
    code = {line for block in blocks for line in range(*block.map or ())}
    said = "\n".join(line if number in code else _LINKS.sub(r"\1\\", line) for number, line in enumerate(lines))
    listed: list[str] = []
    for number, source in enumerate(sources, 1):
        named = _MARKS.sub(r"\\\1", ", ".join(filter(None, (source.name, describe_place(source.place)))))
        quote, url = _MARKS.sub(r"\\\1", source.quote), source.url if _URL.fullmatch(source.url or "") else None
        said_of = f"[{number}] {' '.join(named.split())}: “{' '.join(quote.split())}”"
        listed.append(f"{said_of} <{url}>" if url else said_of)
    return "\n\n".join([said, *listed])


def growing_html(text: str) -> str:
    """Return an unfinished reply as HTML, at first an outline. Sources come only with the complete reply."""
    if not text:
        return '<div class="carrel-skeleton" aria-hidden="true"><span></span><span></span><span></span></div>'
    return (
        f'<div class="carrel-said"><div class="carrel-reply" aria-busy="true">{_MARKDOWN.render(text, {})}</div></div>'
    )


def message_html(text: str, *, note: str = "") -> str:
    under = f'<p class="carrel-facts">{html.escape(note)}</p>' if note else ""
    return f'<div class="carrel-message">{paragraph(html.escape(text))}{under}</div>'


def _source_html(number: int, source: ReferencedSource, message_id: UUID, chat: str) -> str:
    where, anchor = html.escape(location_of(source, chat).address), anchor_of(message_id, number)
    away = f" · {link_html('Original', source.url)}" if link_html("", source.url) else ""
    return (
        f'<li id="{anchor}"><span class="carrel-number">{number}</span>'
        f"<div><strong>{escape(source.name)}</strong>{place_html(source.place)}<blockquote>{html.escape(source.quote)}</blockquote>"
        f'<a href="{where}" target="_blank" rel="noopener">Open document</a>{away}</div></li>'
    )


def location_of(source: ReferencedSource, chat: str) -> PassageLocation:
    chunk, mark = (source.chunk_index, source.document_collection_id), mark_of_quote(source.quote)
    return PassageLocation(source.id, source.place, *chunk, source.document_version, mark, chat=chat)


def anchor_of(message_id: object, number: int) -> str:
    return f"source-{message_id}-{number}"


def _text(_renderer: RendererHTML, tokens: Sequence[Token], index: int, _options: object, env: dict[str, Any]) -> str:
    """Return a text token of Markdown as HTML. `[1]` becomes a link to the first of the `sources` in `env`."""
    sources = cast("Sequence[ReferencedSource]", env.get("sources", ()))

    def chip(match: re.Match[str]) -> str:
        number = int(match[1])
        if not 1 <= number <= len(sources):
            return match[0]
        anchor = anchor_of(env["message"], number)
        return (
            f'<a class="carrel-chip" href="#{anchor}" data-source="{anchor}" '
            f'title="{html.escape(sources[number - 1].name)}">{number}</a>'
        )

    return _NUMBER.sub(chip, html.escape(tokens[index].content))


def _build_markdown() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table")
    made.disable(["link", "image", "autolink", "reference", "html_block", "html_inline"])
    made.add_render_rule("text", _text)
    return made


_MARKDOWN = _build_markdown()

LONGEST_MESSAGE = 20_000
"""In characters; the service's limit."""

_AT_ONCE = 200


@dataclass(frozen=True)
class ChatLocation:
    """The agent and conversation named in the address of the Chat page; empty if missing."""

    agent: str = ""
    conversation: str = ""

    @classmethod
    def from_address(cls, parameters: Mapping[str, str]) -> "ChatLocation":
        """Return the location in a page's address. The agent or conversation need not exist."""
        return cls(parameters.get("agent", ""), parameters.get("conversation", ""))

    def address(self) -> dict[str, str]:
        wanted = {"agent": self.agent, "conversation": self.conversation}
        return {name: value for name, value in wanted.items() if value}


@dataclass(frozen=True)
class Outgoing:
    """A message to send. The key guarantees a single answer, however often the message is sent."""

    place: ChatLocation
    text: str
    key: str = field(default_factory=lambda: uuid4().hex)

    def send(self) -> SendAgentMessageResponse:
        """Send the message and return the job that replies. The job's id is also the message's id."""
        client = person_client().with_options(headers={"Idempotency-Key": self.key})
        conversation = self.place.conversation or None
        return client.agents.send_message(self.place.agent, self.text, conversation_id=conversation)


@dataclass(frozen=True)
class Sent:
    """A message accepted by the service, with its conversation, perhaps new, and the job's id."""

    outgoing: Outgoing
    conversation_id: UUID
    message_id: UUID

    def is_again(self, place: ChatLocation, text: str) -> bool:
        """Return whether a text repeats the message, at the original location or in the new conversation."""
        mine = {self.outgoing.place.conversation, str(self.conversation_id)}
        return text == self.outgoing.text and place.conversation in mine


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def my_agents() -> list[Agent]:
    return sorted(person_client().agents.list(), key=lambda agent: agent.name.lower())


def read(conversation: str) -> GetConversationResponse | None:
    """Return a conversation with all its messages, oldest first; None for an id of no readable conversation."""
    try:
        pages = list(person_client().conversations.get(conversation, page_size=_AT_ONCE).pages())
    except (carrel.NotFoundError, carrel.BadRequestError, carrel.InvalidArgumentError):
        return None
    return pages[0].model_copy(update={"messages": [message for page in pages for message in page.messages]})


Events: TypeAlias = Iterable[TextDelta | Restarted | Reply]


class ReplyReader:
    """Reads a reply until `ended`. With a `problem` the connection is lost, while the agent continues."""

    def __init__(self, message_id: UUID, events: Callable[[UUID], Events]) -> None:
        self.message_id = message_id
        self.text = ""
        self.problem: CarrelError | None = None
        self.ended = False
        self.left = False
        self._events = events
        # Stopping the workbench need not wait for this thread: the service continues and keeps the reply.
        self._thread = threading.Thread(target=self._follow, name=f"reply-{message_id}", daemon=True)

    def begin(self) -> "ReplyReader":
        self._thread.start()
        return self

    def leave(self) -> None:
        """Stop reading. The thread ends with the next event, and the agent continues."""
        self.left = True

    def _follow(self) -> None:
        try:
            for event in self._events(self.message_id):
                match event:
                    case TextDelta():
                        self.text += event.text
                    case Restarted():
                        self.text = ""
                    case Reply():
                        self.text = event.text
                if self.left:
                    return
        except ReplyError:
            pass  # the conversation shows the reason
        except CarrelError as error:
            self.problem = error
        finally:
            self.ended = True


LOOK_SECONDS = 0.25
"""Seconds between looks at a growing reply."""


def show_message(text: str, *, at: datetime | None = None) -> None:
    with st.chat_message("user", avatar=":material/person:"):
        st.html(message_html(text, note="" if at is None else f"{ago(at)} · {moment(at)}"))


def show_exchange(message: ConversationMessage, show: Callable[[], None]) -> None:
    show_message(message.message, at=message.created_at)
    with st.chat_message("assistant", avatar=":material/forum:"):
        show()


def show_reply(
    place: ChatLocation, message: ConversationMessage, *, ask_again: Callable[[str], None] | None, is_own: bool = True
) -> None:
    """Show the reply, or the reason for none. `ask_again` sends the text again; None: no button."""
    match message.status:
        case MessageStatus.COMPLETED:
            text, chat = message.agent_response_text or "", urlencode(place.address())
            st.html(reply_html(text, message.referenced_sources, message_id=message.message_id, chat=chat))
            if message.warnings:
                show_warning(*message.warnings)
            about = about_reply(UUID(place.agent), message.message_id)
            given = None if message.feedback is None else message.feedback is Verdict.POSITIVE
            with st.container(horizontal=True, vertical_alignment="center"):
                if is_own:
                    offer_feedback(about, given=given)
                with st.popover("Copy", icon=":material/content_copy:", type="tertiary"):
                    st.code(reply_markdown(text, message.referenced_sources), language="markdown", wrap_lines=True)
            show_failure(about)
        case MessageStatus.WITHHELD:
            show_warning(message.error_message or "This reply is hidden.")
            _offer_again(message, ask_again)
        case MessageStatus.FAILED:
            show_problem(message.error_message or "No reply.")
            _offer_again(message, ask_again)
        case MessageStatus.RUNNING:
            waits = "Waiting for the reply above." if is_own else "The reply is not complete yet. Reload the page."
            st.html(f'<p class="carrel-facts" role="status">{waits}</p>')


def show_growing_reply(following: ReplyReader, *, ended: Callable[[], None]) -> None:
    """Show an unfinished reply. At the end `ended` is called and the page is drawn again."""
    if following.left:
        show_warning("You stopped watching. The agent continues, and its reply will appear in this conversation.")
        offer_action("Show progress", ended, key="chat.again")
    elif following.ended and following.problem is not None:
        problem_of(following.problem).show()
        show_warning("The agent continues, and its reply will appear in this conversation.")
        offer_action("Refresh", ended, key="chat.again")
    else:
        _watch_reply(following, ended)


@st.fragment(run_every=LOOK_SECONDS)
def _watch_reply(following: ReplyReader, ended: Callable[[], None]) -> None:
    if following.ended:
        if following.problem is None:
            ended()
        st.rerun()
    st.html(growing_html(following.text))
    st.html('<p class="carrel-busy" role="status">Thinking …</p>')
    # A callback of a fragment redraws only the fragment, but leaving changes the page.
    if st.button("Stop", key="chat.leave", type="tertiary", icon=":material/stop_circle:"):
        following.leave()
        st.rerun()


def _offer_again(message: ConversationMessage, ask_again: Callable[[str], None] | None) -> None:
    if ask_again is not None:
        offer_action("Ask again", ask_again, message.message, key=f"chat.ask-again-{message.message_id}")


_KEY, RENAME, SHARE = "chat.conversations", "chat.rename", "chat.share"
_YOURS, _SHARED = "Yours", "Shared"
_LISTED = 12


def show_conversations(current: str, *, choose: Callable[[Conversation], None]) -> None:
    """Show the person's conversations, or those shared with the person; all, or the matches for a search. The
    conversation `current` is marked."""
    which = st.segmented_control(
        "Conversations",
        [_YOURS, _SHARED],
        default=_YOURS,
        required=True,
        key="chat.whose",
        label_visibility="collapsed",
    )
    shared, label, hint = which == _SHARED or None, "Search conversations", "Search"
    empty = "No conversations are shared with you." if shared else "Your conversations will appear here."
    words = st.text_input(
        label, key="chat.find", max_chars=200, icon=":material/search:", label_visibility="collapsed", placeholder=hint
    ).strip()
    listed = partial(person_client().conversations.list, query=words or None, shared=shared)
    show_each(
        _KEY,
        pages_of(lambda at: listed(**at), about=(words, which), size=_LISTED),
        each=lambda item: _show_listed(item, is_current=str(item.conversation_id) == current, choose=choose),
        empty=lambda: show_text("No conversations contain all of these words." if words else empty),
    )


@dialog("Rename", RENAME, of="conversation_id")
def show_rename(conversation: Conversation) -> None:
    st.text_input("Title", value=conversation.title, key="chat.title", max_chars=80)
    offer_submit(RENAME, "Save", action=partial(_rename, conversation))


def _rename(conversation: Conversation) -> None:
    title = text_in("chat.title", missing="Enter a title.")
    person_client().conversations.rename(conversation.conversation_id, title)
    forget_conversations()


@dialog("Share", SHARE, of="conversation_id")
def show_share(conversation: Conversation) -> None:
    label, before = "Share with: one email address per line", "\n".join(conversation.shared_with or [])
    st.text_area(label, before, key="chat.readers", placeholder="name@example.com")
    show_text(
        "They can see all questions, and the replies whose sources they can read. Only people with access to "
        f"{one_line(conversation.agent_name)} can open the conversation."
    )
    offer_submit(SHARE, "Save", action=partial(_share, conversation))


def _share(conversation: Conversation) -> None:
    conversations, where = person_client().conversations, conversation.conversation_id
    before, chosen = set(conversation.shared_with or ()), {*re.split(r"[\s,;]+", text_in("chat.readers"))} - {""}
    # Another window may have changed the readers since this dialog opened.
    now = next(conversations.get(where, page_size=1).pages()).conversation.shared_with or ()
    conversations.share(where, sorted({*now, *chosen} - (before - chosen)))
    forget_conversations()


def forget_conversations() -> None:
    forget(_KEY)


def _show_listed(conversation: Conversation, *, is_current: bool, choose: Callable[[Conversation], None]) -> None:
    name = f"chat.conversation-{conversation.conversation_id}"
    with st.container(key=f"{name}-current" if is_current else name, gap=None):
        st.button(
            label(conversation.title or "(no text)"),
            key=f"{name}-open",
            type="tertiary",
            width="stretch",
            on_click=choose,
            args=(conversation,),
        )
        updated = conversation.updated_at
        when = f'<span title="{moment(updated)}">{ago(updated)}</span>'
        names = " · ".join(isolate(name) for name in (conversation.shared_by, conversation.agent_name) if name)
        st.html(f'<p class="carrel-facts">{names} · {when}</p>')


_ASKED, _AGENT = "agent_answer.asked", "agent_answer.agent"
_OUTLINE = f'<div class="carrel-answer-room">{growing_html("")}</div>'
_QUESTION = re.compile(r"[?\uff1f\u061f]\s*$|^(?:[Ww]h(?:o|at|en|ere|y|ich)|[Hh]ow)(?:'s)?\s+\S+\s+\S")
"""A question mark at the end, or a question word before two more words: WHO is an organization."""


@dataclass
class Asked:
    """A question to an agent. Without a `problem` (a failed send) and `reader`, a click ended the run in sending."""

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
        if self.reader is None:
            return self.problem is not None
        return self.message is not None or not self.reader.ended

    def send(self) -> None:
        """Send the question and start reading the reply, or keep the `problem`. Sending again doesn't ask twice."""
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
        """Read the reply into `message`, or the reason for none into `problem`, with the person's current access."""
        self.problem = None
        try:
            transcript = read(self.place.conversation)
        except carrel.CarrelError as error:
            self.problem = problem_of(error)
            return
        last = transcript.messages[-1] if transcript and transcript.messages else None
        if last is None or last.status is MessageStatus.RUNNING:
            self.problem = Problem("This answer is not available.", ("Its conversation may be deleted. Ask again.",))
        self.message = last


def is_question(text: str) -> bool:
    return _QUESTION.search(text) is not None


def read_again() -> None:
    """Make the page read the last answer again before showing the answer: access may have changed."""
    if (asked := _last_question()) is not None:
        asked.message = None


def make_room(text: str, *, is_busy: Callable[[], bool]) -> Callable[[], None]:
    """Reserve space for an agent's answer. Return a function for the end of the page that asks the agent and shows the
    answer. Text that isn't a question is asked only on a button. A page that `is_busy` is not redrawn after a reply."""
    slot = st.empty()
    asked, known = _last_question(), st.session_state.get(_AGENT)
    if asked is not None and asked.text == text and asked.is_read:
        with slot.container():
            _show_answer(asked, is_busy)
        return lambda: None
    if known is not None and is_question(text):
        slot.html(_OUTLINE)
    return partial(_fill_slot, slot, text, is_busy)


def choose_search_agent() -> Agent | None:
    """Return, and keep in the session, the person's first agent by name that answers searches; None if unknown."""
    st.session_state[_AGENT] = None
    with suppress(carrel.CarrelError):  # the page is useful without it
        st.session_state[_AGENT] = next((agent for agent in my_agents() if agent.answers_searches), None)
    return st.session_state[_AGENT]


def _fill_slot(slot: DeltaGenerator, text: str, is_busy: Callable[[], bool]) -> None:
    if (agent := choose_search_agent()) is None:
        slot.empty()
        return
    if is_question(text) and ((last := _last_question()) is None or last.text != text):
        _ask(agent, text)
    asked = _last_question()
    with slot.container():
        if asked is not None and asked.text == text:
            _show_answer(asked, is_busy)
        else:
            title = f"Answer with {label(agent.name)}"
            offer_action(title, _ask, agent, text, key="agent_answer.ask", icon="forum", kind="tertiary")


def _last_question() -> Asked | None:
    return st.session_state.get(_ASKED)


def _ask(agent: Agent, text: str) -> None:
    before = _last_question()
    if before is not None and before.reader is not None:
        before.reader.leave()
    asked = st.session_state[_ASKED] = Asked(agent, text)
    asked.send()


def _show_answer(asked: Asked, is_busy: Callable[[], bool]) -> None:
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
        show_growing_reply(reader, ended=partial(_finish, asked, is_busy))


def _finish(asked: Asked, is_busy: Callable[[], bool]) -> None:
    """Read the reply. If redrawing the page would close an open dialog, show the reply in place of the growing text."""
    if (reader := asked.reader) is not None and (reader.left or reader.problem is not None):
        asked.follow(reader.message_id)
        return
    asked.read()
    if is_busy():
        _show_state(asked, is_busy)
        st.stop()
