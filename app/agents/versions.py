"""The settings that an agent has had: who saved them and when, a comparison with those of now, and restoring them."""

import difflib
from collections.abc import Mapping
from functools import partial

import streamlit as st

from app import api
from app.agents.definitions import all_collections
from app.formatting import moment, one_line
from app.labels import label_of
from app.ui.dialogs import confirm
from app.ui.errors import show_errors
from app.ui.notices import show_empty, show_text, show_warning
from app.ui.saving import begin_anew, in_words
from app.ui.tables import forget
from carrel.wire.agents import AgentDefinition, AgentSettings, AgentVersion, RetrievalOptions


def show_versions(agent: AgentDefinition) -> None:
    """List the earlier settings of an agent, compare the chosen ones with those of now, and offer to restore them."""
    kept = show_errors(lambda: list(api.client().admin.agents.list_versions(agent.agent_id)))
    earlier = [one for one in kept if one.version != agent.version]
    if not earlier:
        show_empty("There are no earlier settings.", "Each save keeps the settings; the newest 50 are here.")
        return
    chosen = st.selectbox("Settings of", earlier, format_func=_when, key=f"agent.{agent.agent_id}.earlier")
    names = show_errors(all_collections)
    changes = _lines(chosen, agent, names)
    show_text("What restoring them would take away (-) and bring back (+):")
    st.code("\n".join(changes), language="diff", wrap_lines=True)
    gone = [str(one) for one in chosen.collection_ids if str(one) not in names]
    if gone:
        show_warning(f"Collections that are deleted stay left out: {len(gone)}.")
    if st.button("Restore …", key="restore", icon=":material/restore:"):
        said = f"{agent.name} has the settings of {_when(chosen)} from the next message on. Those of now stay here."
        confirm("Restore these settings?", said, doing="Restore", action=partial(_restore, agent, chosen, gone))


def _restore(agent: AgentDefinition, chosen: AgentVersion, gone: list[str]) -> None:
    api.client().admin.agents.update(
        agent.agent_id,
        name=chosen.name,
        description=chosen.description,
        instructions=chosen.instructions,
        model=chosen.model,
        collection_ids=[one for one in chosen.collection_ids if str(one) not in gone],
        api_access_enabled=chosen.api_access_enabled,
        retrieval=RetrievalOptions.model_validate_json(chosen.retrieval.model_dump_json(exclude_none=True)),
        starter_questions=chosen.starter_questions,
        answers_searches=chosen.answers_searches,
        version=agent.version,
    )
    begin_anew(f"agent.{agent.agent_id}")
    forget("agents")


def _when(one: AgentVersion) -> str:
    by = f", saved by {one_line(one.saved_by)}" if one.saved_by else ""
    return f"{moment(one.saved_at)}{by} (number {one.number})"


def _lines(earlier: AgentSettings, now: AgentSettings, names: Mapping[str, str]) -> list[str]:
    said: list[str] = []
    for name in now.edited:
        new, old = (
            [names.get(str(each), str(each)) for each in one.collection_ids]
            if name == "collection_ids"
            else in_words(getattr(one, name)).splitlines()
            for one in (now, earlier)
        )
        if new != old:
            differing = [line for line in difflib.ndiff(new, old) if line[0] in "+-"]
            said += [f"@@ {label_of(name)} @@", *differing]
    return said
