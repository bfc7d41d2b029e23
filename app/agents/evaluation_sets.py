"""Keeping a question to an agent in one of its evaluation sets, to ask it again after a change."""

from functools import partial
from uuid import UUID

import streamlit as st

from app import api
from app.formatting import one_line
from app.lookup import by_id
from app.quality.sets import LONGEST_QUESTION, forget_sets
from app.ui.dialogs import NotYetError, close_dialog, is_open, offer_submit, open_dialog
from app.ui.errors import show_errors
from app.ui.notices import show_link, show_text
from carrel.wire.agents import AgentDefinition
from carrel.wire.evaluation import EvaluationSet

_ADD, _CHOSEN, _NAME, _ADDED = "answers.add", "answers.set", "answers.name", "answers.added"
_NEW = ""
_MOST_SETS = 1000


def read_sets(agent_id: UUID) -> list[EvaluationSet]:
    """Return the sets whose questions are asked to an agent, the newest first."""
    listed = api.client().admin.evaluation_sets.list(agent_id=agent_id, page_size=_MOST_SETS)
    return list(reversed(next(listed.pages()).evaluation_sets))


def offer_adding(agent: AgentDefinition, question: str) -> None:
    """Show a button and a dialog that keep a question in a set, to ask it again after a change."""
    st.button(
        "Add to an evaluation set",
        key="answers.add.open",
        icon=":material/playlist_add:",
        on_click=open_dialog,
        args=(_ADD, question),
    )
    if is_open(_ADD, question):
        _ask_for_set(agent, question)
    added: tuple[str, str, str] | None = st.session_state.get(_ADDED)
    if added is not None and added[0] == question:
        show_text(f"It is in the evaluation set {added[2]}. Say there which documents the reply should cite.")
        where = {"agent": str(agent.agent_id), "part": "answers", "set": added[1], "q": question.strip()}
        show_link("Open it in the set", "agents", **where)


@st.dialog("Add to an evaluation set", on_dismiss=close_dialog)
def _ask_for_set(agent: AgentDefinition, question: str) -> None:
    if not is_open(_ADD):
        st.rerun()
    show_text("The questions of a set are asked again whenever you like, and their replies are compared.")
    sets = {str(one.evaluation_set_id): one_line(one.name) for one in show_errors(partial(read_sets, agent.agent_id))}
    options = [*sets, _NEW]
    chosen = st.selectbox("Set", options, key=_CHOSEN, format_func=lambda key: sets.get(key, "A new set"))
    if chosen == _NEW:
        st.text_input("Name", f"Questions to {agent.name}"[:200], key=_NAME, max_chars=200)
    offer_submit(_ADD, "Add", action=partial(_add, agent.agent_id, question))


def _add(agent_id: UUID, question: str) -> None:
    """Keep the question in the chosen set, or in a new one; what is in the set already stays as it is."""
    if len(question.strip()) > LONGEST_QUESTION:
        message = (
            f"A set keeps questions of up to {LONGEST_QUESTION:,} characters. Ask this one in fewer, and add that."
        )
        raise NotYetError(message)
    sets = api.client().admin.evaluation_sets
    chosen = str(st.session_state[_CHOSEN])
    if chosen == _NEW:
        name = str(st.session_state.get(_NAME) or "").strip()
        if not name:
            message = "Give the set a name."
            raise NotYetError(message)
        one = sets.create(name, agent_id=agent_id)
    elif (one := by_id(sets.list, chosen)) is None:
        message = "This set has been deleted. Choose another one."
        raise NotYetError(message)
    sets.put_judgements(one.evaluation_set_id, [{"question": question}])
    forget_sets()
    st.session_state[_ADDED] = (question, str(one.evaluation_set_id), one_line(one.name))
