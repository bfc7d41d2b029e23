"""The dialogs that create and change an application."""

from collections.abc import Sequence
from functools import partial
from uuid import UUID

import streamlit as st

from app import api
from app.credentials.applications import addresses_in, agents, clear_caches, is_for_one_agent, problems_with, scope_for
from app.credentials.scopes import ask_scopes, fill_scopes, get_scopes
from app.formatting import one_line
from app.labels import APPLICATION_SCOPES, ONE_AGENT
from app.ui.dialogs import NotYetError, Secret, close_dialog, hold_secret, is_open, offer_submit, open_dialog
from app.ui.errors import show_errors
from app.ui.notices import show_text
from carrel.wire.oauth_clients import OAuthAudience, OAuthClient

NEW, EDIT = "new_client", "edit_client"
_FIELDS = "client"
AUDIENCES = {OAuthAudience.API: "The API", OAuthAudience.MCP: "The endpoint for agents, /mcp"}


def open_edit(client: OAuthClient) -> None:
    """Open the dialog, filled with the application's values."""
    _fill(client.name, client.redirect_uris, client.scopes)
    open_dialog(EDIT, str(client.client_id))


def open_new() -> None:
    """Open the dialog for a new application."""
    _fill("", [], [])
    open_dialog(NEW)


@st.dialog("New application", width="large", on_dismiss=close_dialog)
def show_new() -> None:
    """Show the dialog for a new application."""
    if not is_open(NEW):
        st.rerun()
    show_text("It is approved at once. It can do nothing for anybody who has not allowed it.")
    _ask()
    audience = st.radio(
        "It calls",
        list(AUDIENCES),
        format_func=AUDIENCES.__getitem__,
        key="client.audience",
        help="Its tokens work there and nowhere else. This can't be changed afterwards. At /mcp, Administer lets it "
        "see who can read a document, and why, and do nothing else.",
    )
    if audience is OAuthAudience.MCP:
        st.checkbox(
            "It keeps no secret",
            key="client.public",
            help="For what runs on people's own machines, as editors and desktop assistants do.",
        )
    offer_submit(NEW, "Create", action=_create)


@st.dialog("Edit the application", width="large", on_dismiss=close_dialog)
def show_edit(client: OAuthClient) -> None:
    """Show the dialog that changes an application."""
    if not is_open(EDIT):
        st.rerun()
    show_text("What is taken away here stops at once, for those who allowed it before, too.")
    _ask()
    offer_submit(EDIT, "Save", action=partial(_update, client))


def secret_of(client_id: UUID, value: str) -> Secret:
    """Return an application's secret in the form in which it is shown once."""
    return Secret(
        "The application's secret",
        value,
        hint="The application needs it together with its id. Keep it on its server, never in a browser or an app.",
        command=f"CLIENT_ID={client_id}\nCLIENT_SECRET={value}",
    )


def _fill(name: str, addresses: Sequence[str], scopes: Sequence[str]) -> None:
    st.session_state["client.name"] = name
    st.session_state["client.addresses"] = "\n".join(addresses)
    st.session_state["client.agents"] = [scope.removeprefix(ONE_AGENT) for scope in scopes if is_for_one_agent(scope)]
    fill_scopes(_FIELDS, APPLICATION_SCOPES, scopes)


def _ask() -> None:
    """Show fields for an application's name, its addresses, and its scopes."""
    st.text_input("Name", key="client.name", max_chars=200, placeholder="As people will be asked to allow it")
    st.text_area(
        "Redirect addresses, one a line",
        key="client.addresses",
        placeholder="https://app.example.com/callback",
        help="Where people are sent back to. They are compared character by character.",
    )
    ask_scopes(_FIELDS, APPLICATION_SCOPES)
    names = show_errors(agents)
    options = list(dict.fromkeys([*st.session_state["client.agents"], *names]))
    st.multiselect(
        "Message these agents alone",
        options,
        key="client.agents",
        format_func=lambda agent: f"{one_line(names.get(agent, 'An agent'))} · …{agent[-4:]}",
        placeholder="Choose agents" if options else "There is no agent yet",
    )


def _read_fields() -> tuple[str, list[str], list[str]]:
    """Return the values of the dialog's fields; NotYetError says what is wrong with them."""
    state = st.session_state
    name, addresses = str(state["client.name"] or "").strip(), addresses_in(str(state["client.addresses"] or ""))
    if not name:
        raise NotYetError("Give it a name: people read it when they are asked to allow it something.")
    if wrong := problems_with(addresses):
        raise NotYetError(" ".join(wrong))
    scopes = [scope.value for scope in get_scopes(_FIELDS, APPLICATION_SCOPES)]
    scopes += [scope_for(agent) for agent in state["client.agents"]]
    if not scopes:
        raise NotYetError("Choose what it may ask people for.")
    return name, addresses, scopes


def _create() -> None:
    """Create the application from the fields, select it, and have its secret shown."""
    name, addresses, scopes = _read_fields()
    audience = OAuthAudience(st.session_state["client.audience"])
    made = api.client().admin.oauth_clients.create(
        name,
        redirect_uris=addresses,
        scopes=scopes,
        audience=audience,
        is_public=bool(st.session_state.get("client.public")) if audience is OAuthAudience.MCP else None,
    )
    if not made.is_public:
        hold_secret(secret_of(made.client_id, made.client_secret))
    st.query_params["client"] = str(made.client_id)
    clear_caches()


def _update(client: OAuthClient) -> None:
    name, addresses, scopes = _read_fields()
    api.client().admin.oauth_clients.update(client.client_id, name=name, redirect_uris=addresses, scopes=scopes)
    clear_caches()
