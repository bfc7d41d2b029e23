"""The page of the organization's agents: their settings, who may use them, and trying them."""

from functools import partial
from uuid import UUID

import streamlit as st

from app import api
from app.agents.definitions import find_agent, show_definition, show_deployment, show_trial
from app.agents.questions import show_questions
from app.quality.set_page import show_set
from app.quality.sets import SET, forget_agent_names, list_sets
from app.ui.dialogs import NotYetError, close_dialog, confirm, is_open, offer_submit, open_dialog
from app.ui.errors import require_admin, show_errors
from app.ui.filters import filter_line, part_of, text_filter
from app.ui.notices import leave, look_at, offer_way_back, show_empty, show_heading, show_link, show_title
from app.ui.tables import PAGE_ROWS, Source, forget, show_pages, time_cell
from carrel.drafts import copy_agent
from carrel.wire.agents import AdminAgentsListResponse, AgentDefinition
from flows.operations.formatting import count_text

NEW = "new_agent"
ONE = ("agent", "part", "set", "q", "before", "after")
"""What the address of one agent has more than that of the list."""
SHOWN = {"agents": "Agents", "questions": "Questions"}
COPYING = (
    "Makes an agent with the same settings that nobody may use yet: change it, and compare both in Evaluation sets."
)
PARTS = {"define": "Settings", "deploy": "Access", "try": "Test", "answers": "Evaluation sets"}


def row(agent: AgentDefinition) -> dict[str, object]:
    """Return the table row of an agent."""
    return {
        "Name": agent.name,
        "Purpose": agent.description,
        "Collections": len(agent.collection_ids),
        "Model": agent.model or "The default",
        "Programs": agent.api_access_enabled,
        "Changed": time_cell(agent.updated_at),
    }


def fetch(name: str, token: str | None) -> AdminAgentsListResponse:
    """Return the page of the list that a token stands for."""
    listed = api.client().admin.agents.list(query=name or None, page_size=PAGE_ROWS, page_token=token)
    return next(listed.pages())


def show_no_agents(name: str) -> None:
    """Show that the list is empty."""
    if name:
        show_empty("No agent is called that.", "Try another part of its name.")
    else:
        show_empty(
            "There is no agent yet.",
            "An agent answers questions from the documents of some collections, and quotes them. Make the first one.",
        )


def offer_new() -> None:
    """Offer to make an agent."""
    st.button("New agent", type="primary", icon=":material/add:", key="new", on_click=open_dialog, args=(NEW,))


def show_list() -> None:
    """Show the list, and open the agent that is chosen in it."""
    if is_open(NEW):
        ask_for_agent()
    with filter_line("name"):
        name = text_filter("Name", "name", placeholder="Part of a name")
    show_pages(
        "agents",
        Source(partial(fetch, name), lambda page: page.agents, name),
        row=row,
        empty=partial(show_no_agents, name),
        go=lambda chosen: look_at("agent", chosen.agent_id),
        hint="Choose a row to change an agent, its access, or to test it.",
    )


@st.dialog("New agent", on_dismiss=close_dialog)
def ask_for_agent() -> None:
    """Ask for a new agent's name; the rest is set on its page, and nobody may use it before that."""
    if not is_open(NEW):
        st.rerun()
    st.text_input("Name", key="new.name", max_chars=200)
    st.text_input("Purpose", key="new.description", max_chars=500)
    offer_submit(NEW, "Create", action=make)


def make() -> None:
    """Create the agent from the dialog's fields, and open it."""
    name, description = (str(st.session_state[f"new.{part}"] or "").strip() for part in ("name", "description"))
    if not name:
        raise NotYetError("An agent needs a name.")
    made = api.client().admin.agents.create(name, description=description)
    forget("agents")
    st.query_params["agent"] = str(made.agent_id)


def show_agent(agent: AgentDefinition) -> None:
    """Show one agent."""
    model = agent.model or "the service's default model"
    show_heading(agent.name, agent.description, count_text(len(agent.collection_ids), "collection"), model)
    show_link("What people ask it", "agents", show="questions", of=str(agent.agent_id))
    part = part_of("part", PARTS, default="define")
    if part == "define":
        show_definition(agent)
        with st.container(horizontal=True, gap="small"):
            offer_copy(agent)
            offer_deletion(agent)
    elif part == "deploy":
        show_deployment(agent)
    elif part == "answers" and (one := st.query_params.get(SET)) is not None:
        show_set(one)
    elif part == "answers":
        list_sets(agent.agent_id)
    else:
        show_trial(agent)


def offer_copy(agent: AgentDefinition) -> None:
    """Offer to copy an agent: a draft with the same settings, to change and to compare with it."""
    if st.button("Copy", key="copy", icon=":material/content_copy:", help=COPYING):
        made = show_errors(partial(copy_agent, api.client(), agent.agent_id))
        forget("agents")
        forget_agent_names()
        st.query_params.from_dict({"agent": str(made.agent_id)})
        st.toast("Copied. Nobody may use the copy before you give access; it can be compared in evaluation sets.")
        st.rerun()


def offer_deletion(agent: AgentDefinition) -> None:
    """Offer to delete an agent."""
    if st.button("Delete …", key="delete", icon=":material/delete:"):
        confirm(
            "Delete this agent?",
            f"Nobody can ask {agent.name} any more. People keep their conversations with it.",
            doing="Delete",
            action=partial(delete, agent.agent_id),
        )


def delete(agent_id: UUID) -> None:
    """Delete an agent, and go back to the list."""
    api.client().admin.agents.delete(agent_id)
    forget("agents")
    leave(*ONE)


def page() -> None:
    """Draw the list of agents, or the agent in the address; for admins."""
    require_admin()
    address = st.query_params.get("agent")
    show_title(
        "Agents",
        "They answer people's questions from the documents of collections, and quote them.",
        action=offer_new if address is None else None,
    )
    if address is None:
        if part_of("show", SHOWN, default="agents", leaving=("question", "conversation")) == "questions":
            show_questions()
        else:
            show_list()
        return
    offer_way_back("All agents", *ONE)
    agent = show_errors(lambda: find_agent(address))
    if agent is None:
        show_empty("This agent isn't here.", "It was deleted, or its address is wrong.")
    else:
        show_agent(agent)


page()
