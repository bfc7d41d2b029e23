"""Thumbs and a comment on a subject, sent in callbacks: once per click, and not again when the page is redrawn."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import streamlit as st

from app import api
from app.auth.current import person_client
from app.ui.errors import Problem, keep_problem
from app.ui.notices import offer_action
from carrel.wire.messages import Verdict
from carrel.wire.search import SearchFeedback

COMMENT_LENGTH = 2000
THUMBS = ((True, "Helpful", "thumb_up"), (False, "Not helpful", "thumb_down"))


@dataclass(frozen=True)
class About:
    """The subject of feedback; `send` records in the audit log whether it was good, and an optional text."""

    name: str
    send: Callable[[bool, str | None], object]

    def key(self, part: str) -> str:
        return f"{part}-{self.name}"


def about_search(search_id: UUID, document_id: UUID | None = None) -> About:
    def send(good: bool, comment: str | None) -> None:
        feedback = SearchFeedback.THUMBS_UP if good else SearchFeedback.THUMBS_DOWN
        submit = api.client().search.submit_search_feedback
        submit(search_id=search_id, document_id=document_id, feedback=feedback, comments=comment)

    return About(f"{search_id}-{document_id}", send)


def about_reply(agent_id: UUID, message_id: UUID) -> About:
    def send(good: bool, comment: str | None) -> None:
        feedback = Verdict.POSITIVE if good else Verdict.NEGATIVE
        person_client().agents.provide_message_feedback(agent_id, message_id, feedback, descriptive_feedback=comment)

    return About(str(message_id), send)


def offer_feedback(about: About, *, given: bool | None = None) -> None:
    """Show two thumbs, as buttons: a double click would undo Streamlit's own thumbs. `given` is the stored thumb."""
    chosen = st.session_state.setdefault(about.key("thumb"), given)
    for good, word, icon in THUMBS:
        kind = "secondary" if chosen is good else "tertiary"
        offer_action(word, _send_thumb, about, good, key=about.key(word), icon=icon, kind=kind)
    if chosen is None:
        return
    label = "Add a comment?" if about.key("said") in st.session_state else "Thank you. Add a comment?"
    # The popover tracks its state so that `_send_comment` can close it.
    with st.popover(label, key=about.key("more"), on_change="rerun"), st.form(about.key("why"), border=False):
        placeholder = "What helped?" if chosen else "What was missing?"
        st.text_area("Comment", key=about.key("comment"), max_chars=COMMENT_LENGTH, placeholder=placeholder)
        st.form_submit_button("Send comment", on_click=_send_comment, args=(about,))


def show_failure(about: About) -> None:
    """Show the error of the last failed feedback on the subject, if any."""
    problem: Problem | None = st.session_state.get(about.key("problem"))
    if problem is not None:
        problem.show()


def _send_thumb(about: About, good: bool) -> None:
    if st.session_state.get(about.key("thumb")) is not good and _send(about, good, comment=None):
        st.session_state[about.key("thumb")] = good


def _send_comment(about: About) -> None:
    """Send the comment in the field, unless just sent: a second click can come before the field is empty."""
    if not (comment := str(st.session_state[about.key("comment")] or "").strip()):
        st.toast("Enter a comment.")
    elif comment == st.session_state.get(about.key("said")) or _send(
        about, st.session_state[about.key("thumb")], comment=comment
    ):
        st.session_state[about.key("said")] = comment
        st.session_state.update({about.key("comment"): "", about.key("more"): False})
        st.toast("Thank you. Admins can read your comment.")


def _send(about: About, good: bool, *, comment: str | None) -> bool:
    st.session_state.pop(about.key("problem"), None)
    with keep_problem(about.key("problem")):
        about.send(good, comment)
    return about.key("problem") not in st.session_state
