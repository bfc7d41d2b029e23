"""Applications for sign-in and for acting as people: requester, scopes, and secret."""

import json
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import api
from app.credentials import applications
from app.formatting import moment, one_line
from app.labels import scope_named, scopes_named
from app.settings import settings
from app.ui import notices
from app.ui.dialogs import confirm, hold_secret, show_held_secret
from app.ui.errors import require_admin, require_found, show_errors
from app.ui.filters import choice_filter, filter_line
from app.ui.tables import pages_of, show_pages, time_cell
from carrel.wire.oauth_clients import OAuthAudience, OAuthClient, OAuthClientStatus
from flows.operations.formatting import count_text

TITLE, PURPOSE = "OAuth clients", "Applications that people sign in to, and that act for people who allow them."
MCP_PATH = "/mcp"
STATUSES = {OAuthClientStatus.PENDING: "Waiting for approval", OAuthClientStatus.APPROVED: "Approved"}
NONE_LIKE_THIS = ("No application has this status.",)
NONE_YET = ("No applications yet.", "Create an application, or approve applications that people request.")


def _show_clients(count_at: DeltaGenerator) -> None:
    options = {"": "All", **{status.value: words for status, words in STATUSES.items()}}
    with filter_line():
        status = choice_filter("Status", "status", options)
    wanted = OAuthClientStatus(status) if status else None
    show_pages(
        applications.CLIENTS,
        pages_of(lambda at: api.client().admin.oauth_clients.list(status=wanted, **at), about=status),
        row=lambda client: {
            "Name": one_line(client.name),
            "Status": STATUSES[client.status],
            "Scopes": one_line(scopes_named(client.scopes, agents=show_errors(api.agent_names))),
            "Requested by": client.requested_by or "described by a document",
            "Created": time_cell(client.created_at),
        },
        empty=lambda: notices.show_empty(*(NONE_LIKE_THIS if status else NONE_YET)),
        go=lambda chosen: notices.look_at("client", chosen.client_id),
        count_at=count_at,
    )


def _show_client(client_id: str) -> None:
    notices.offer_way_back("All applications", "client")
    client = require_found(partial(applications.application, client_id), "This application does not exist.")
    notices.show_heading(client.name, STATUSES[client.status])
    if client.status is OAuthClientStatus.PENDING:
        notices.show_warning(f"{client.requested_by} requested it. It can do nothing until you approve it.")
    names = show_errors(api.agent_names)
    notices.show_table(
        [
            ("Client id", str(client.client_id)),
            ("Requested by", client.requested_by or f"described by {client.document_url}"),
            ("Created", moment(client.created_at)),
            ("Calls", applications.AUDIENCES[client.audience]),
            ("Secret ends in", "no secret" if client.is_public else f"…{client.hint}"),
            *[("Redirect URL", address) for address in client.redirect_uris],
        ],
        named=True,
    )
    rows = [
        (scope_named(scope, agents=names), meaning.lets, meaning.risk)
        for scope in client.scopes
        if (meaning := applications.meaning_of(scope, client.audience))
    ]
    notices.show_table(rows, heads=("Scope", "Allows", "Risk"), named=True)
    show_configuration(client)
    _show_actions(client)
    applications.show_consents(client)
    applications.show_edit(client)


def show_configuration(client: OAuthClient) -> None:
    """Show the addresses that a client needs; for a public client at /mcp, also configurations to copy."""
    issuer = settings().auth_url or settings().base_url
    address = f"{issuer}{MCP_PATH}"
    st.header("Connect", anchor=False)
    if client.audience is OAuthAudience.API:
        libraries = "OAuth libraries find all endpoints at the discovery URL"
        notices.show_text(f"{libraries}. Then send people to the authorization endpoint:")
        notices.show_table(
            [
                ("Authorization endpoint", f"{issuer}/api/oauth/authorize"),
                ("Token endpoint", f"{issuer}/api/oauth/token"),
                ("Revocation endpoint", f"{issuer}/api/oauth/revoke"),
                ("Issuer", issuer),
                ("Discovery", f"{issuer}/.well-known/oauth-authorization-server"),
                ("API", f"{issuer}/api/v1"),
            ],
            named=True,
        )
        st.html(notices.help_link("How an application signs people in", "oauth"))
        return
    notices.show_text("The application needs its client id and exactly this URL:")
    st.code(address, language=None, wrap_lines=True)
    st.html(notices.help_link("How to connect a program", "mcp#connect-a-client"))
    if not client.is_public or client.document_url is not None:
        return
    notices.show_text("Claude Code:")
    command = f"claude mcp add --transport http --client-id {client.client_id} carrel {address}"
    st.code(f"{command}\nclaude mcp login carrel", language="bash", wrap_lines=True)
    notices.show_text("Programs that use mcpServers, with mcp-remote:")
    own = json.dumps({"client_id": str(client.client_id)})
    remote = {"command": "npx", "args": ["mcp-remote", address, "3334", "--static-oauth-client-info", own]}
    st.code(json.dumps({"mcpServers": {"carrel": remote}}, indent=2), language="json", wrap_lines=True)


def _show_actions(client: OAuthClient) -> None:
    with st.container(horizontal=True):
        if client.status is OAuthClientStatus.PENDING and st.button("Approve …", key="approve", type="primary"):
            _ask_approving(client)
        notices.offer_action("Edit", applications.open_edit, client, key="edit.open", icon="edit")
        if not client.is_public and st.button("New secret", key="rotate", icon=":material/key:"):
            confirm(
                "Create a new secret?",
                f"The secret of “{client.name}” that ends in {client.hint} stops working immediately. People "
                "cannot sign in there until the application has the new secret.",
                doing="Create secret",
                action=partial(_rotate, client),
            )
        if client.document_url is None and st.button("Delete …", key="delete", icon=":material/delete:"):
            confirm(
                "Delete this application?",
                f"You cannot restore “{client.name}”. It loses access immediately, and all consents for it "
                "are deleted.",
                action=lambda: api.client().admin.oauth_clients.delete(client.client_id),
                then=applications.clear_caches,
                leaving=("client",),
            )


def _ask_approving(client: OAuthClient) -> None:
    names = show_errors(api.agent_names)
    confirm(
        "Approve this application?",
        f"“{client.name}”, requested by {client.requested_by}, can then ask people for: "
        f"{scopes_named(client.scopes, agents=names)}. It redirects to {', '.join(client.redirect_uris)}. "
        "Each person must allow it before it can act for them.",
        action=partial(_approve, client),
    )


def _approve(client: OAuthClient) -> None:
    applications.clear_caches()  # a refusal leads to the current application
    api.client().admin.oauth_clients.approve(client.client_id, version=client.version)


def _rotate(client: OAuthClient) -> None:
    given = api.client().admin.oauth_clients.rotate_secret(client.client_id)
    hold_secret(applications.secret_of(client.client_id, given.client_secret))
    applications.clear_caches()


def page() -> None:
    require_admin()
    is_chosen = "client" in st.query_params
    open_new = applications.open_new
    new = partial(notices.offer_action, "New application", open_new, key="new.open", icon="add", kind="primary")
    count = notices.show_title(TITLE, PURPOSE, action=None if is_chosen else new)
    show_held_secret()
    if is_chosen:
        _show_client(str(st.query_params["client"]))
        return
    if number := show_errors(applications.count_waiting):
        notices.show_warning(f"{count_text(number, 'application')} {'waits' if number == 1 else 'wait'} for approval.")
    applications.show_new()
    _show_clients(count)
    applications.show_consents()
    applications.show_hosts()


page()
