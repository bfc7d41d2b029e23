"""Applications that sign people in and act for them: who asked for which, what each may ask people for, its secret."""

from collections.abc import Sequence
from functools import partial
from uuid import UUID

import streamlit as st

from app import api
from app.credentials.applications import addresses_in, is_for_one_agent, meaning_of, problems_with, scope_for
from app.ui.access import require_admin
from app.ui.dialogs import (
    NotYetError,
    Secret,
    close_dialog,
    confirm,
    hold_secret,
    is_open,
    offer_submit,
    open_dialog,
    show_held_secret,
)
from app.ui.errors import explain
from app.ui.filters import choice_filter
from app.ui.links import offer_way_back
from app.ui.notices import show_empty, show_heading, show_table, show_text, show_title, show_warning
from app.ui.tables import Source, forget, show_pages
from app.vocabulary import APPLICATION_SCOPES, ONE_AGENT, scope_named, scopes_named
from app.words import ago, counted, moment, one_line
from carrel.wire.oauth_clients import (
    AdminOAuthClientsListResponse,
    ApiScope,
    OAuthClient,
    OAuthClientStatus,
)

CLIENTS, NEW, EDIT = "clients", "new_client", "edit_client"
STATUSES = {OAuthClientStatus.PENDING: "Waits for an admin", OAuthClientStatus.APPROVED: "Approved"}
MOST_AGENTS = 1000


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def agents() -> dict[str, str]:
    """Return the names of agents by id, of at most `MOST_AGENTS`."""
    page = next(api.client().admin.agents.list(page_size=MOST_AGENTS).pages())
    return {str(agent.agent_id): agent.name for agent in page.agents}


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def waiting() -> int:
    """Return how many applications wait for an admin, up to a thousand."""
    page = next(api.client().admin.oauth_clients.list(status=OAuthClientStatus.PENDING, page_size=1000).pages())
    return len(page.oauth_clients)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def application(client_id: str) -> OAuthClient | None:
    """Return an application by its id; None when there is none (any more)."""
    listed = api.client().admin.oauth_clients.list(page_size=1000)
    return next((one for one in listed if str(one.client_id) == client_id), None)


def changed() -> None:
    """Ask anew for everything that the page shows."""
    waiting.clear()
    application.clear()
    forget(CLIENTS)


def show_clients() -> OAuthClient | None:
    """List the applications; return the one chosen."""
    options = {"": "All", **{status.value: words for status, words in STATUSES.items()}}
    status = choice_filter("Status", "status", options)

    def fetch(token: str | None) -> AdminOAuthClientsListResponse:
        clients = api.client().admin.oauth_clients
        return next(clients.list(status=status or None, page_size=50, page_token=token).pages())

    return show_pages(
        CLIENTS,
        Source(fetch, lambda page: page.oauth_clients, about=status),
        row=lambda client: client_row(client, explain(agents)),
        empty=partial(say_none, status),
    )


def client_row(client: OAuthClient, names: dict[str, str]) -> dict[str, str]:
    """Return an application as a row."""
    return {
        "Name": one_line(client.name),
        "Status": STATUSES[client.status],
        "May ask people for": one_line(scopes_named(client.scopes, agents=names)),
        "Asked for by": client.requested_by,
        "Created": ago(client.created_at),
    }


def say_none(status: str) -> None:
    """Say that there is no application, and what one is."""
    if status:
        show_empty("No application has this status.")
    else:
        show_empty("There is no application yet.", "Create one for what signs people in, or approve what they ask for.")


def show_client(client_id: str) -> None:
    """Show an application: what it may ask people for and where it sends them, and what can be done with it."""
    offer_way_back("All applications", "client")
    client = explain(partial(application, client_id))
    if client is None:
        show_warning("There is no such application (any more).")
        return
    show_heading(client.name, STATUSES[client.status])
    if client.status is OAuthClientStatus.PENDING:
        show_warning(f"{client.requested_by} asks for it. It can do nothing until you approve it.")
    names = explain(agents)
    show_table(
        [
            ("Client id", str(client.client_id)),
            ("Asked for by", client.requested_by),
            ("Created", moment(client.created_at)),
            ("Secret ends in", f"…{client.hint}"),
            *[("Sends people back to", address) for address in client.redirect_uris],
        ],
        named=True,
    )
    show_scopes(client.scopes, names)
    show_deeds(client)
    if is_open(EDIT):
        show_edit(client)


def show_scopes(scopes: Sequence[str], names: dict[str, str]) -> None:
    """Show what an application may ask people for, with what that lets it do and risks."""
    rows = [
        (scope_named(scope, agents=names), meaning.lets, meaning.risk)
        for scope in scopes
        if (meaning := meaning_of(scope))
    ]
    show_table(rows, heads=("It may ask people for", "Which lets it", "Mind that"), named=True)


def show_deeds(client: OAuthClient) -> None:
    """Offer approving, editing, another secret, and deleting."""
    with st.container(horizontal=True):
        if client.status is OAuthClientStatus.PENDING and st.button("Approve", key="approve", type="primary"):
            ask_approving(client)
        st.button("Edit", key="edit.open", icon=":material/edit:", on_click=open_edit, args=(client,))
        if st.button("New secret", key="rotate", icon=":material/key:"):
            confirm(
                "Give it a new secret?",
                f"The secret of “{client.name}” that ends in {client.hint} stops at once: people can't sign in there "
                "until it has the new one.",
                doing="Make a new secret",
                action=partial(rotate, client),
            )
        if st.button("Delete", key="delete", icon=":material/delete:"):
            confirm(
                "Delete this application?",
                f"“{client.name}” is gone for good. Everybody who signed in there is signed out of it at once, and "
                "what they allowed it is forgotten.",
                doing="Delete it",
                action=partial(delete, client),
            )


def ask_approving(client: OAuthClient) -> None:
    """Say what approving means, and ask."""
    names = explain(agents)
    confirm(
        "Approve this application?",
        f"“{client.name}”, which {client.requested_by} asked for, may then ask people for: "
        f"{scopes_named(client.scopes, agents=names)}. It sends them back to {', '.join(client.redirect_uris)}. "
        "Each of them is asked before it may do anything.",
        doing="Approve it",
        action=partial(approve, client),
    )


def approve(client: OAuthClient) -> None:
    """Let it be used."""
    api.client().admin.oauth_clients.approve(client.client_id)
    changed()


def rotate(client: OAuthClient) -> None:
    """Give it a new secret, and have that shown."""
    given = api.client().admin.oauth_clients.rotate_secret(client.client_id)
    hold_secret(secret_of(client.client_id, given.client_secret))
    changed()


def delete(client: OAuthClient) -> None:
    """Delete it, and go back to the list."""
    api.client().admin.oauth_clients.delete(client.client_id)
    st.query_params.pop("client", None)
    changed()


def secret_of(client_id: UUID, value: str) -> Secret:
    """Return a secret as it is shown."""
    return Secret(
        "The application's secret",
        value,
        hint="The application needs it together with its id. Keep it on its server, never in a browser or an app.",
        command=f"CLIENT_ID={client_id}\nCLIENT_SECRET={value}",
    )


def open_edit(client: OAuthClient) -> None:
    """Open the dialog with what the application has."""
    fill(client.name, client.redirect_uris, client.scopes)
    open_dialog(EDIT)


def open_new() -> None:
    """Open the dialog with nothing in it."""
    fill("", [], [ApiScope.CATALOG_READ])
    open_dialog(NEW)


def fill(name: str, addresses: Sequence[str], scopes: Sequence[str]) -> None:
    """Fill the fields of the dialog that is to be opened."""
    st.session_state["client.name"] = name
    st.session_state["client.addresses"] = "\n".join(addresses)
    for scope in APPLICATION_SCOPES:
        st.session_state[f"client.{scope.value}"] = scope in scopes
    st.session_state["client.agents"] = [scope.removeprefix(ONE_AGENT) for scope in scopes if is_for_one_agent(scope)]


def show_fields() -> None:
    """Ask for an application's name, its addresses, and what it may ask people for."""
    st.text_input("Name", key="client.name", max_chars=200, placeholder="As people will be asked to allow it")
    st.text_area(
        "Redirect addresses, one a line",
        key="client.addresses",
        placeholder="https://app.example.com/callback",
        help="Where people are sent back to. They are compared character by character.",
    )
    for scope, meaning in APPLICATION_SCOPES.items():
        # Labels are these words alone: Streamlit reads them as Markdown.
        st.checkbox(f"**{meaning.name}.** {meaning.lets} *{meaning.risk}*", key=f"client.{scope.value}")
    names = explain(agents)
    options = list(dict.fromkeys([*st.session_state["client.agents"], *names]))
    st.multiselect(
        "Message these agents alone",
        options,
        key="client.agents",
        format_func=lambda agent: f"{one_line(names.get(agent, 'An agent'))} · …{agent[-4:]}",
        placeholder="Choose agents" if options else "There is no agent yet",
    )


def fields() -> tuple[str, list[str], list[str]]:
    """Return what the dialog's fields say; NotYetError says what is wrong with them."""
    state = st.session_state
    name, addresses = str(state["client.name"] or "").strip(), addresses_in(str(state["client.addresses"] or ""))
    if not name:
        raise NotYetError("Give it a name: people read it when they are asked to allow it something.")
    if wrong := problems_with(addresses):
        raise NotYetError(" ".join(wrong))
    scopes = [scope.value for scope in APPLICATION_SCOPES if state[f"client.{scope.value}"]]
    scopes += [scope_for(agent) for agent in state["client.agents"]]
    if not scopes:
        raise NotYetError("Choose what it may ask people for.")
    return name, addresses, scopes


@st.dialog("New application", width="large", on_dismiss=close_dialog)
def show_new() -> None:
    """Ask for a new application."""
    if not is_open(NEW):
        st.rerun()
    show_text("It is approved at once. It can do nothing for anybody who has not allowed it.")
    show_fields()
    offer_submit(NEW, "Create", action=create)


def create() -> None:
    """Create it as the fields say, look at it, and have its secret shown."""
    name, addresses, scopes = fields()
    made = api.client().admin.oauth_clients.create(name, redirect_uris=addresses, scopes=scopes)
    hold_secret(secret_of(made.client_id, made.client_secret))
    st.query_params["client"] = str(made.client_id)
    changed()


@st.dialog("Edit the application", width="large", on_dismiss=close_dialog)
def show_edit(client: OAuthClient) -> None:
    """Ask for changes of an application."""
    if not is_open(EDIT):
        st.rerun()
    show_text("What is taken away here stops at once, for those who allowed it before, too.")
    show_fields()
    offer_submit(EDIT, "Save", action=partial(update, client))


def update(client: OAuthClient) -> None:
    """Change it as the fields say."""
    name, addresses, scopes = fields()
    api.client().admin.oauth_clients.update(client.client_id, name=name, redirect_uris=addresses, scopes=scopes)
    changed()


def page() -> None:
    """Draw the page."""
    require_admin()
    show_title("OAuth clients", "Applications that sign your people in, and act for those who allow it.")
    show_held_secret()
    if "client" in st.query_params:
        show_client(str(st.query_params["client"]))
        return
    if number := explain(waiting):
        show_warning(f"{counted(number, 'application')} {'waits' if number == 1 else 'wait'} for an admin.")
    st.button("New application", key="new.open", type="primary", icon=":material/add:", on_click=open_new)
    if is_open(NEW):
        show_new()
    chosen = show_clients()
    if chosen is not None:
        st.query_params["client"] = str(chosen.client_id)
        st.rerun()


page()
