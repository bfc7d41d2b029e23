"""The agents page: settings, access, and trials."""

from functools import partial

import streamlit as st

from app import api
from app.agents.definitions import find_agent, show_definition, show_deployment, show_trial, show_versions
from app.agents.questions import show_questions
from app.quality.set_page import show_set
from app.quality.sets import SET, list_sets
from app.ui.dialogs import confirm, dialog, offer_dialog, offer_submit, text_in
from app.ui.errors import require_admin, require_found, show_errors
from app.ui.filters import filter_line, part_of, text_filter
from app.ui.notices import look_at, offer_way_back, show_empty, show_heading, show_link, show_title
from app.ui.tables import forget, pages_of, show_pages, time_cell
from carrel.drafts import copy_agent
from carrel.wire.agents import AgentDefinition
from flows.operations.formatting import count_text

NEW = "new_agent"
ONE = ("agent", "part", "set", "q", "before", "after")
"""Address parameters of an agent, in addition to the list's."""
SHOWN = {"agents": "Agents", "questions": "Questions"}
COPYING = (
    "Creates an agent with the same settings and no access. Change the copy, and compare both under Evaluation sets."
)
PARTS = {
    "define": "Settings",
    "deploy": "Access",
    "try": "Test",
    "answers": "Evaluation sets",
    "versions": "Earlier settings",
}
NONE_CALLED = ("No agents match.", "Try another part of the name.")
NONE_YET = (
    "No agents yet.",
    "An agent answers questions from documents in collections, and quotes them. Create the first agent.",
)


@dialog("New agent", NEW)
def _ask_for_agent() -> None:
    st.text_input("Name", key="new.name", max_chars=200)
    st.text_input("Description", key="new.description", max_chars=500, placeholder="Purpose")
    offer_submit(NEW, "Create", action=_make)


def _make() -> None:
    name = text_in("new.name", missing="Enter a name for the agent.")
    made = api.client().admin.agents.create(name, description=text_in("new.description"))
    forget("agents")
    st.query_params["agent"] = str(made.agent_id)


def _show_agent(agent: AgentDefinition) -> None:
    model = agent.model or "default model"
    show_heading(agent.name, agent.description, count_text(len(agent.collection_ids), "collection"), model)
    show_link("Show questions", "agents", show="questions", of=str(agent.agent_id))
    part = part_of("part", PARTS, default="define")
    if part == "define":
        show_definition(agent)
        with st.container(horizontal=True, gap="small"):
            if st.button("Copy", key="copy", icon=":material/content_copy:", help=COPYING):
                made = show_errors(partial(copy_agent, api.client(), agent.agent_id))
                forget("agents")
                api.agent_names.clear()
                st.query_params.from_dict({"agent": str(made.agent_id)})
                st.toast(
                    "Copied. Nobody can use the copy until you give access. You can compare it in evaluation sets."
                )
                st.rerun()
            if st.button("Delete …", key="delete", icon=":material/delete:"):
                confirm(
                    "Delete this agent?",
                    f"Nobody can use “{agent.name}” afterwards. People keep their conversations with it.",
                    action=lambda: api.client().admin.agents.delete(agent.agent_id),
                    then=partial(forget, "agents"),
                    leaving=ONE,
                )
    elif part == "deploy":
        show_deployment(agent)
    elif part == "versions":
        show_versions(agent)
    elif part == "answers" and (set_id := st.query_params.get(SET)) is not None:
        show_set(set_id)
    elif part == "answers":
        list_sets(agent.agent_id)
    else:
        show_trial(agent)


def page() -> None:
    require_admin()
    address = st.query_params.get("agent")
    show_title(
        "Agents",
        "Agents answer questions from documents in collections, and quote them.",
        action=partial(offer_dialog, "New agent", NEW, key="new") if address is None else None,
    )
    if address is None:
        if part_of("show", SHOWN, default="agents", leaving=("question", "conversation")) == "questions":
            show_questions()
        else:
            _ask_for_agent()
            with filter_line("name"):
                name = text_filter("Name", "name", placeholder="Part of a name")
            show_pages(
                "agents",
                pages_of(lambda at: api.client().admin.agents.list(query=name or None, **at), about=name),
                row=lambda agent: {
                    "Name": agent.name,
                    "Description": agent.description,
                    "Collections": len(agent.collection_ids),
                    "Model": agent.model or "Default",
                    "Open to programs": agent.api_access_enabled,
                    "Changed": time_cell(agent.updated_at),
                },
                empty=lambda: show_empty(*(NONE_CALLED if name else NONE_YET)),
                columns={"Description": {"width": "large"}},
                go=lambda chosen: look_at("agent", chosen.agent_id),
                hint="Select a row to change or test an agent, or to change its access.",
            )
        return
    offer_way_back("All agents", *ONE)
    hint = "It was deleted, or the URL is wrong."
    _show_agent(require_found(lambda: find_agent(address), "This agent does not exist.", hint))


page()
