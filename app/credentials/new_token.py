"""The dialog that creates a token: scopes, expiry, and a preview of what the token could read."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import cast
from uuid import UUID

import streamlit as st

from app import api
from app.credentials.expiry import EXPIRIES, NEVER, ON_DATE, WITHOUT_END, curl_line, expiry, expiry_like
from app.credentials.scopes import ask_scopes, fill_scopes, get_scopes
from app.labels import ROLES, TOKEN_SCOPES, calls_in_words
from app.settings import settings
from app.ui.dialogs import NotYetError, Secret, close_dialog, hold_secret, is_open, offer_submit, open_dialog
from app.ui.errors import show_errors
from app.ui.notices import show_table, show_text, show_warning
from carrel.wire.api_keys import ApiKey
from carrel.wire.scopes import Scope
from carrel.wire.service_accounts import (
    AdminServiceAccountTokensPreviewReachResponse,
    ServiceAccount,
    ServiceAccountToken,
)
from flows.operations.formatting import count_text

MINT = "mint"
_MOST_NAMED = 8


@st.dialog("Create token", width="large", on_dismiss=close_dialog)
def show_mint(account: ServiceAccount, *, done: Callable[[], object]) -> None:
    """Show the dialog for a new token with a preview of its reach; `done` is called with the created token."""
    if not is_open(MINT):
        st.rerun()
    show_text(f"A token with which a program acts as {account.display_name} ({account.email}).")
    st.text_input("Name", key="mint.name", max_chars=200, placeholder="Where it is used: intranet, production")
    scopes = ask_scopes("mint", TOKEN_SCOPES)
    ask_expiry("mint")
    if scopes:
        reach = show_errors(lambda: preview(account.service_account_id, tuple(scopes)))
        with st.container(border=True):
            show_reach(reach)
    else:
        show_text("Choose what it may do, and see here how far it would reach.")
    offer_submit(MINT, "Create", action=partial(mint, account, done=done))


def mint(account: ServiceAccount, *, done: Callable[[], object]) -> None:
    """Create the token that the dialog's fields describe and show its value; a double click creates one token."""
    name, scopes = str(st.session_state["mint.name"] or "").strip(), get_scopes("mint", TOKEN_SCOPES)
    if not name:
        raise NotYetError("Give the token a name, by which it is known when it is to be replaced or revoked.")
    if not scopes:
        raise NotYetError("Choose what the token may do: one that may do nothing is of no use.")
    minted = api.client().admin.service_account_tokens.mint(
        account.service_account_id, name, scopes=scopes, expires_at=get_expiry("mint") or NEVER
    )
    hold_secret(
        Secret(
            "The new token",
            minted.token,
            hint="This line tries it, from wherever the service can be reached:",
            command=curl_line(minted.token, scopes, base_url=settings().base_url),
        )
    )
    done()


def open_mint(account_id: str) -> None:
    """Open the dialog for a new token of an account."""
    fill_expiry("mint", None)
    open_dialog(MINT, account_id)


def open_successor(token: ServiceAccountToken) -> None:
    """Open the dialog for a new token, filled as this one is, so that it can take its place."""
    st.session_state["mint.name"] = token.name
    fill_scopes("mint", TOKEN_SCOPES, token.scopes)
    fill_expiry("mint", token)
    open_dialog(MINT, str(token.service_account_id))


def fill_expiry(name: str, like: ServiceAccountToken | ApiKey | None) -> None:
    """Fill the fields of `ask_expiry` before they are drawn, so that the new one lasts as long as another did."""
    st.session_state.pop(f"{name}.default", None)
    if like is None:
        return
    choice, days = expiry_like(like)
    st.session_state[f"{name}.default"] = choice
    if choice == ON_DATE:
        st.session_state[f"{name}.day"] = datetime.now(UTC).date() + timedelta(days=days)


def ask_expiry(name: str, *, default: str = "90") -> None:
    """Show fields for an expiry; `get_expiry` with the same name returns it."""
    # A value in the session would be sent once: a browser that is slow to draw may miss it, and then sends none back.
    filled: str = st.session_state.get(f"{name}.default", default)
    choice = st.segmented_control(
        "Expires",
        list(EXPIRIES),
        default=filled,
        format_func=lambda one: EXPIRIES[one],
        required=True,
        key=f"{name}.expiry",
    )
    if choice == ON_DATE:
        today = datetime.now(UTC).date()
        st.session_state.setdefault(f"{name}.day", today + timedelta(days=180))
        st.date_input("It works until the end of", min_value=today, key=f"{name}.day")
    if choice == WITHOUT_END:
        show_warning(
            "Anyone who finds it can use it, at any time. Prefer an end, and replace it before.",
            "Choose this only where nobody can replace it, and look at when it was last used.",
        )


def get_expiry(name: str) -> datetime | None:
    """Return until when something shall work, as its dialog's fields say; None: for ever."""
    day = cast("date | None", st.session_state.get(f"{name}.day"))
    return expiry(str(st.session_state[f"{name}.expiry"]), day=day)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def preview(account_id: UUID, scopes: tuple[Scope, ...]) -> AdminServiceAccountTokensPreviewReachResponse:
    """Return the reach that a new token of an account would have."""
    return api.client().admin.service_account_tokens.preview_reach(account_id, scopes)


def show_reach(reach: AdminServiceAccountTokensPreviewReachResponse) -> None:
    """Show the documents and actions that a token reaches now."""
    for warning in reach.warnings:
        show_warning(warning)
    collections = [f"{one.collection_name} ({ROLES[one.role].lower()})" for one in reach.collections]
    agents = [
        one.agent_name if one.api_access_enabled else f"{one.agent_name} (closed to programs)" for one in reach.agents
    ]
    rows = [
        ("Documents it can read", f"{reach.document_count:,}"),
        ("Documents it can change", f"{reach.editable_document_count:,}"),
        ("Collections", _name_resources(collections, reach.collection_count)),
        ("Agents", _name_resources(agents, reach.agent_count)),
        ("Documents that agents quote to it", f"{reach.agent_document_count:,}"),
        ("It can", calls_in_words(reach.endpoints) or "nothing"),
    ]
    show_text("As things are now, it reaches:")
    show_table(rows, named=True)


def _name_resources(names: Sequence[str], count: int) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    more = count - min(len(names), _MOST_NAMED)
    return f"{shown} and {count_text(more, 'other')}" if more > 0 else shown or "None"
