"""Which settings of the agents that two runs asked differ."""

from collections.abc import Sequence
from uuid import UUID

import streamlit as st

from app.agents.definitions import INSTRUCTIONS_IGNORED, all_collections
from app.formatting import one_line
from app.ui.errors import show_errors
from app.ui.notices import show_note, show_text
from carrel.evaluation import find_changed_settings
from carrel.wire.agents import BUILT_IN_MODEL, AgentRetrieval
from carrel.wire.evaluation_runs import EvaluationRun

_OPTIONS = {
    "enable_smart_filtering": "reads filters from the message",
    "enable_query_extraction": "looks up each question of a long message",
    "enable_reranking": "reranks",
}
_UNKNOWN = "not kept with this run"


def show_changed_settings(before: EvaluationRun, after: EvaluationRun) -> None:
    """Show what differs between the agents that two runs asked, setting by setting; nothing of searches."""
    if before.agent_id is None or after.agent_id is None:
        return
    changed = find_changed_settings(before, after)
    if not changed:
        if before.settings is None or after.settings is None:
            return
        show_note(
            "Both were asked with the same model and instructions, from the same collections, with the same options."
        )
        return
    show_text(f"Other settings: {', '.join(changed)}.")
    if "instructions" in changed and BUILT_IN_MODEL in {before.model, after.model}:
        show_note(INSTRUCTIONS_IGNORED)
    for name in changed:
        old, new = (_describe(run, name) for run in (before, after))
        left, right = st.columns(2)
        for column, head, text in ((left, "From", old), (right, "To", new)):
            with column:
                show_note(f"{name.capitalize()} · {head.lower()}")
                st.text(text)


def _describe(run: EvaluationRun, name: str) -> str:
    """Return a setting of the agent that a run asked, as text."""
    if name == "model":
        return one_line(run.model or _UNKNOWN)
    if run.settings is None:
        return _UNKNOWN
    if name == "instructions":
        return run.settings.instructions or "none"
    if name == "collections":
        return _name_collections(run.settings.collection_ids)
    return _describe_retrieval(run.settings.retrieval)


def _name_collections(ids: Sequence[UUID]) -> str:
    names = show_errors(all_collections)
    return ", ".join(names.get(str(one), "a collection that is gone") for one in ids) or "none"


def _describe_retrieval(retrieval: AgentRetrieval) -> str:
    """Name the options that are on, and those that are off by choice."""
    chosen = {words: getattr(retrieval, option) for option, words in _OPTIONS.items()}
    said = [words if on else f"never {words}" for words, on in chosen.items() if on is not None]
    return ", ".join(said) or "no option chosen"
