"""The Chat page: asking agents about documents, and continuing conversations."""

from collections.abc import Mapping
from functools import partial
from typing import cast

import streamlit as st

import carrel
from app import api
from app.auth.current import person_client
from app.chat import conversations
from app.chat.source import show_source
from app.formatting import one_line
from app.ui import notices
from app.ui.dialogs import confirm, open_dialog
from app.ui.errors import Problem, problem_of, show_errors
from app.ui.passages import label
from carrel.wire.agents import Agent
from carrel.wire.conversations import Conversation, ConversationMessage, GetConversationResponse, MessageStatus
from flows.operations.formatting import count_text, list_text

SHOWN = 20
FOLLOWING, SENT, UNSENT = "chat.following", "chat.sent", "chat.unsent"
MORE, AGENT, WORDS, LISTED = "chat.more", "chat.agent", "chat.words", "chat.listed"


def _go(place: conversations.ChatLocation) -> None:
    for name in (SENT, MORE):
        st.session_state.pop(name, None)
    st.query_params.from_dict(place.address())


def _go_to(conversation: Conversation) -> None:
    st.session_state[LISTED] = False
    _go(conversations.ChatLocation(str(conversation.agent_id), str(conversation.conversation_id)))


def refresh_conversation() -> None:
    """Stop the reader of a reply and drop the cached conversations, to fetch all again."""
    if (following := cast("conversations.ReplyReader | None", st.session_state.pop(FOLLOWING, None))) is not None:
        following.leave()
    conversations.forget_conversations()


def _forget_deleted() -> None:
    st.session_state.pop(SENT, None)  # while the reply is still coming, the person may ask the question again
    refresh_conversation()


def _submit(place: conversations.ChatLocation) -> None:
    send_once(place, str(st.session_state[WORDS] or "").strip())


def send_once(place: conversations.ChatLocation, text: str) -> None:
    """Send a text, unless it is empty or being sent: Enter may be pressed twice. Keep too long a text unsent."""
    sent = cast("conversations.Sent | None", st.session_state.get(SENT))
    if not text or (sent is not None and sent.is_again(place, text)):
        return
    if len(text) > conversations.LONGEST_MESSAGE:
        # A field with a limit of its own would silently drop pasted text beyond it.
        problem = Problem(
            f"This message has {len(text):,} characters.", (f"Send at most {conversations.LONGEST_MESSAGE:,}.",)
        )
        st.session_state[UNSENT] = conversations.Outgoing(place, text), problem
        return
    waiting = unsent_at(place)
    post(waiting[0] if waiting is not None and waiting[0].text == text else conversations.Outgoing(place, text))


def post(outgoing: conversations.Outgoing) -> None:
    """Send a message, and open its conversation. A refused message stays, with the reason."""
    state = st.session_state
    try:
        taken = outgoing.send()
    except carrel.CarrelError as error:
        state[UNSENT] = outgoing, problem_of(error)
        return
    refresh_conversation()
    state.pop(UNSENT, None)
    state[SENT] = conversations.Sent(outgoing, taken.conversation_id, taken.job_id)
    st.query_params.from_dict(conversations.ChatLocation(outgoing.place.agent, str(taken.conversation_id)).address())


def unsent_at(place: conversations.ChatLocation) -> tuple[conversations.Outgoing, Problem] | None:
    kept = cast("tuple[conversations.Outgoing, Problem] | None", st.session_state.get(UNSENT))
    return kept if kept is not None and kept[0].place == place else None


def _show_unsent(place: conversations.ChatLocation) -> None:
    kept = unsent_at(place)
    if kept is None:
        return
    outgoing, problem = kept
    conversations.show_message(outgoing.text)
    problem.show()
    with st.container(horizontal=True):
        if len(outgoing.text) <= conversations.LONGEST_MESSAGE:
            notices.offer_action("Send again", post, outgoing, key="chat.send-again", kind="primary")
        notices.offer_action("Discard", lambda: st.session_state.pop(UNSENT, None), key="chat.discard")


def _show_transcript(
    transcript: GetConversationResponse, place: conversations.ChatLocation, *, can_continue: bool
) -> None:
    hidden = max(len(transcript.messages) - int(st.session_state.get(MORE, SHOWN)), 0)
    if hidden:
        more = len(transcript.messages) - hidden + SHOWN
        notices.offer_action("Show earlier messages", lambda: st.session_state.update({MORE: more}))
    is_own = transcript.conversation.shared_by is None
    running = next((item for item in transcript.messages if is_own and item.status is MessageStatus.RUNNING), None)
    ask_again = partial(send_once, place) if can_continue else None
    for message in transcript.messages[hidden:]:
        if message is running:
            show = partial(conversations.show_growing_reply, get_reply_reader(message), ended=refresh_conversation)
        else:
            show = partial(conversations.show_reply, place, message, ask_again=ask_again, is_own=is_own)
        conversations.show_exchange(message, show)
    forget_sent(transcript)


def get_reply_reader(message: ConversationMessage) -> conversations.ReplyReader:
    """Return this window's reader of a reply, or start a reader: also after a reload, or in another window."""
    current = cast("conversations.ReplyReader | None", st.session_state.get(FOLLOWING))
    if current is None or current.message_id != message.message_id:
        if current is not None:
            current.leave()
        current = conversations.ReplyReader(message.message_id, person_client().agents.stream_response).begin()
        st.session_state[FOLLOWING] = current
    return current


def forget_sent(transcript: GetConversationResponse) -> None:
    """Forget the last sent message unless its reply is running, to allow an equal message."""
    sent = cast("conversations.Sent | None", st.session_state.get(SENT))
    running = {message.message_id for message in transcript.messages if message.status is MessageStatus.RUNNING}
    if sent is not None and sent.message_id not in running:
        st.session_state.pop(SENT)


def _choose_agent(agents: Mapping[str, Agent], place: conversations.ChatLocation) -> Agent:
    if place.agent and place.agent not in agents:
        notices.show_warning("You cannot use the agent in the URL.", "Choose another agent.")
    chosen = place.agent if place.agent in agents else next(iter(agents))
    if st.session_state.get(AGENT) != chosen:
        st.session_state[AGENT] = chosen
    if len(agents) > 1:
        st.selectbox(
            "Agent",
            list(agents),
            key=AGENT,
            format_func=lambda key: agents[key].name,
            on_change=lambda: _go(conversations.ChatLocation(st.session_state[AGENT])),
        )
    else:
        notices.show_heading(agents[chosen].name)
    notices.show_text(agents[chosen].description)
    return agents[chosen]


def begin(agents: Mapping[str, Agent], place: conversations.ChatLocation) -> conversations.ChatLocation | None:
    """Show a new conversation; return the location to send messages from, None without agents."""
    if not agents:
        is_admin = show_errors(api.me).is_admin
        todo = "Create an agent, or give yourself access." if is_admin else "Ask an admin for access to an agent."
        notices.show_empty("You cannot use any agent yet.", f"An agent answers from documents. {todo}")
        if is_admin:
            notices.show_link("Go to Agents", "agents")
        return None
    agent = _choose_agent(agents, place)
    location = conversations.ChatLocation(str(agent.agent_id))
    offer_examples(agent, location)
    _show_unsent(location)
    return location


def offer_examples(agent: Agent, location: conversations.ChatLocation) -> None:
    if not agent.starter_questions:
        return
    notices.show_note("Ask in your own words, or start with one of these questions:")
    with st.container(key="chat-examples"):
        for number, question in enumerate(agent.starter_questions):
            notices.offer_action(label(question), send_once, location, question, key=f"chat.example-{number}")


def show_conversation(
    agents: Mapping[str, Agent], place: conversations.ChatLocation
) -> conversations.ChatLocation | None:
    """Show a conversation; return the location to send messages from, None if it can't be continued."""
    transcript = show_errors(lambda: conversations.read(place.conversation))
    if transcript is None:
        conversations.forget_conversations()  # the list may still contain it
        notices.show_warning(
            "This conversation is not available.",
            "It belongs to another person, is no longer shared with you, or was deleted.",
        )
        return None
    agent_id = str(transcript.conversation.agent_id)
    location = conversations.ChatLocation(agent_id, place.conversation)
    description = agents[agent_id].description if agent_id in agents else ""
    notices.show_heading(transcript.conversation.title or "(no text)", transcript.conversation.agent_name, description)
    if (sharer := transcript.conversation.shared_by) is not None:
        notices.show_warning(f"Shared by {one_line(sharer)}. Replies whose sources you cannot read are hidden.")
        _show_transcript(transcript, location, can_continue=False)
        return None
    _offer_changes(transcript.conversation)
    _show_transcript(transcript, location, can_continue=agent_id in agents)
    _show_unsent(location)
    if agent_id not in agents:
        notices.show_warning("You can no longer use this agent. You can read this conversation, and ask another agent.")
        return None
    return location


def _offer_changes(conversation: Conversation) -> None:
    rename, share, about = conversations.RENAME, conversations.SHARE, str(conversation.conversation_id)
    with st.container(horizontal=True):
        notices.offer_action("Rename", open_dialog, rename, about, key="chat.rename", icon="edit", kind="tertiary")
        notices.offer_action("Share", open_dialog, share, about, key="chat.share", icon="group_add", kind="tertiary")
        if st.button("Delete …", key="chat.delete", icon=":material/delete:", type="tertiary"):
            confirm(
                "Delete this conversation?",
                f"You cannot restore its messages and replies: {count_text(conversation.message_count, 'message')}.",
                action=lambda: person_client().conversations.delete(conversation.conversation_id),
                then=_forget_deleted,
                leaving=("conversation",),
            )
    conversations.show_rename(conversation)
    conversations.show_share(conversation)
    if conversation.shared_with:
        notices.show_note(f"Shared with {list_text(conversation.shared_with)}.")


def page() -> None:
    notices.show_title("Chat", "Ask an agent. It answers from documents that you can read, and shows its sources.")
    agents = {str(agent.agent_id): agent for agent in show_errors(conversations.my_agents)}
    place = conversations.ChatLocation.from_address(st.query_params)
    # Streamlit leaves out an empty container, which the style would need to hide the column.
    side, main, *beside = st.columns([22, 48, 30] if place.conversation else [22, 78], gap="medium")
    with side, st.container(key="chat-side"):
        new = conversations.ChatLocation(place.agent if place.agent in agents else "")
        with st.container(horizontal=True):
            st.button("New conversation", icon=":material/add:", width="stretch", on_click=_go, args=(new,))
            # For a phone, which has no room next to the messages; elsewhere the style hides it.
            is_open = bool(st.session_state.get(LISTED))
            toggle = partial(st.session_state.update, {LISTED: not is_open})
            notices.offer_action("Conversations", toggle, key="chat-list", icon="list")
        with st.container(key=f"chat-listed-{'open' if is_open else 'folded'}"):
            conversations.show_conversations(place.conversation, choose=_go_to)
    with main:
        here = show_conversation(agents, place) if place.conversation else begin(agents, place)
    if beside:
        with beside[0], st.container(key="chat-source"):
            show_source(place)
    if here is not None:
        st.chat_input("Your message", key=WORDS, on_submit=_submit, args=(here,))


page()
