"""The reply to a question of the log, as far as the admin may read it."""

import streamlit as st

from app.agents.question_log import retention_days, retention_in_words
from app.chat.replies import reply_html
from app.ui.errors import show_errors
from app.ui.notices import show_text, show_warning
from carrel.wire.question_log import LoggedQuestion, Outcome


def show_logged_reply(question: LoggedQuestion) -> None:
    """Show the reply with its sources, or why there is none to show."""
    if question.message is None:
        kept = retention_in_words(show_errors(retention_days))
        show_warning("The words of this question and its reply were erased.", kept)
    elif question.withheld:
        show_warning(
            "This reply isn't shown to you: it rests on a document that you may not read, or that is gone.",
            "The person who asked sees it as long as they may read all of its documents.",
        )
    elif question.agent_response_text is not None:
        st.html(reply_html(question.agent_response_text, question.referenced_sources, message_id=question.message_id))
        if question.warnings:
            show_warning(*question.warnings)
    elif question.outcome is Outcome.RUNNING:
        show_text("The agent is thinking. Open this question again in a moment.")
    else:
        show_warning("There is no reply.", question.error_message or "")
