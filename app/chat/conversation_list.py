"""The list of the person's conversations, the latest first, a few at a time."""

import html
from collections.abc import Callable

import streamlit as st

from app import formatting
from app.auth.current import person_client
from app.ui.notices import show_text
from app.ui.passages import label
from app.ui.tables import Source, forget, show_each
from carrel.wire.conversations import Conversation, ListConversationsResponse

_KEY = "chat.conversations"
_AT_ONCE = 12


def show_conversations(current: str, *, choose: Callable[[Conversation], None]) -> None:
    """Show the person's conversations; the one with the id `current` is marked."""
    show_each(
        _KEY,
        Source(_page, lambda page: page.conversations),
        each=lambda one: _show(one, is_current=str(one.conversation_id) == current, choose=choose),
        empty=lambda: show_text("Your conversations will be listed here."),
    )


def forget_conversations() -> None:
    """Clear the cached list of conversations after a new message."""
    forget(_KEY)


def _page(token: str | None) -> ListConversationsResponse:
    return next(person_client().conversations.list(page_size=_AT_ONCE, page_token=token).pages())


def _show(one: Conversation, *, is_current: bool, choose: Callable[[Conversation], None]) -> None:
    name = f"chat.conversation-{one.conversation_id}"
    with st.container(key=f"{name}-current" if is_current else name, gap=None):
        st.button(
            label(one.title or "(no text)"),
            key=f"{name}-open",
            type="tertiary",
            width="stretch",
            on_click=choose,
            args=(one,),
        )
        when = f'<span title="{formatting.moment(one.updated_at)}">{formatting.ago(one.updated_at)}</span>'
        st.html(f'<p class="carrel-facts">{html.escape(one.agent_name)} · {when}</p>')
