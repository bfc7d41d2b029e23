"""Thumbs and a comment about one result, sent by callbacks: once when given, never again when the page is drawn."""

from dataclasses import dataclass
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.ui.errors import Problem, problem_of
from carrel.wire.search import SearchFeedback

COMMENT_LENGTH = 2000
THUMBS = (SearchFeedback.THUMBS_DOWN, SearchFeedback.THUMBS_UP)


@dataclass(frozen=True)
class About:
    """The result that feedback is about."""

    search_id: UUID
    document_id: UUID

    def key(self, part: str) -> str:
        """Return the name of a part of this feedback in the session."""
        return f"{part}-{self.search_id}-{self.document_id}"


def offer_feedback(about: About) -> None:
    """Offer thumbs and, once one is given, a comment."""
    choice = st.feedback("thumbs", key=about.key("thumb"), on_change=_send_thumb, args=(about,))
    if choice is None:
        return
    with st.popover("Thank you. Say why?"), st.form(about.key("why"), border=False):
        missing = "What was missing?" if THUMBS[choice] is SearchFeedback.THUMBS_DOWN else "What helped?"
        st.text_area("Comment", key=about.key("comment"), max_chars=COMMENT_LENGTH, placeholder=missing)
        st.form_submit_button("Send the comment", on_click=_send_comment, args=(about,))


def show_failure(about: About) -> None:
    """Show why the last feedback about this result didn't reach the service, if it didn't."""
    problem: Problem | None = st.session_state.get(about.key("problem"))
    if problem is not None:
        problem.show()


def _send_thumb(about: About) -> None:
    if st.session_state[about.key("thumb")] is not None and not _send(about, comment=None):
        st.session_state[about.key("thumb")] = None


def _send_comment(about: About) -> None:
    """Send what is in the field, unless it has just been sent: a second click can come before the field is empty."""
    comment = str(st.session_state[about.key("comment")] or "").strip()
    if not comment:
        st.toast("There is no comment yet.")
    elif comment == st.session_state.get(about.key("said")) or _send(about, comment=comment):
        st.session_state[about.key("said")] = comment
        st.session_state[about.key("comment")] = ""
        st.toast("Your comment is on the audit log.")


def _send(about: About, *, comment: str | None) -> bool:
    """Put feedback on the audit log; tell whether it got there."""
    thumb: SearchFeedback = THUMBS[int(st.session_state[about.key("thumb")])]
    st.session_state.pop(about.key("problem"), None)
    try:
        api.client().search.submit_search_feedback(
            search_id=about.search_id,
            document_id=about.document_id,
            feedback=thumb,
            comments=comment,
        )
    except carrel.CarrelError as error:
        st.session_state[about.key("problem")] = problem_of(error)
        return False
    return True
