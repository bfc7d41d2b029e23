"""The page of provisioning: the address of SCIM, and the tokens of identity providers that keep people and groups."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from app import api
from app.credentials.tokens import STATUSES, ask_expiry, end_noted, get_expiry, show_credential
from app.formatting import ago, one_line
from app.lookup import by_id
from app.ui.dialogs import (
    NotYetError,
    Secret,
    close_dialog,
    hold_secret,
    is_open,
    offer_submit,
    open_dialog,
    show_held_secret,
)
from app.ui.errors import require_admin, show_errors
from app.ui.notices import look_at, offer_way_back, show_empty, show_help, show_text, show_title, show_warning
from app.ui.tables import PAGE_ROWS, Source, forget, show_pages, time_cell
from carrel.wire.scim_tokens import AdminScimTokensListResponse, ScimToken

TITLE, PURPOSE = "Provisioning", "An identity provider, such as Entra or Okta, keeps people and groups here (SCIM)."
NEW, TOKENS = "new_scim_token", "scim_tokens"


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def first_page() -> AdminScimTokensListResponse:
    """Return the tokens, up to a thousand, with the address of SCIM."""
    return next(api.client().admin.scim_tokens.list(page_size=1000).pages())


def clear_tokens() -> None:
    """Clear the cached tokens of the session."""
    first_page.clear()
    forget(TOKENS)


def offer_new() -> None:
    """Show the button that opens the dialog for a new token."""
    st.button("New token", key="new.open", type="primary", icon=":material/add:", on_click=open_dialog, args=(NEW,))


def show_address(page: AdminScimTokensListResponse) -> None:
    """Show what the provider is given, and when it last sent a request."""
    show_text("The address to give to the provider, as its tenant URL or base URL:")
    st.code(page.base_url, language=None, wrap_lines=True)
    last = max((one.last_used_at for one in page.tokens if one.last_used_at), default=None)
    show_text("No request has come yet." if last is None else f"The last request came {ago(last)}.")
    show_warning(
        "Who has a token can put anybody into any group, also into those that were made by hand, and delete groups. "
        "Guard it like an admin's password."
    )
    show_help("How to set up Entra and Okta", "provisioning")


def show_tokens() -> None:
    """List the tokens; choosing one shows it."""

    def fetch(token: str | None) -> AdminScimTokensListResponse:
        return next(api.client().admin.scim_tokens.list(page_size=PAGE_ROWS, page_token=token).pages())

    show_pages(
        TOKENS,
        Source(fetch, lambda page: page.tokens),
        row=token_row,
        empty=lambda: show_empty("There is no token yet.", "Create one, and give it to the provider with the address."),
        go=lambda chosen: look_at("token", chosen.token_id),
    )


def token_row(token: ScimToken) -> dict[str, object]:
    """Return a token as a row."""
    return {
        "Name": one_line(token.name),
        "Ends in": f"…{token.hint}",
        "Status": STATUSES[token.status],
        "Last request": time_cell(token.last_used_at),
        "Expires": end_noted(token),
    }


def show_token(token_id: str, every: Sequence[ScimToken]) -> None:
    """Show a token with exact times, and the button that revokes it."""
    offer_way_back("All tokens", "token")
    token = show_errors(partial(by_id, api.client().admin.scim_tokens.list, token_id))
    if token is None:
        show_warning("There is no such token.")
        return
    show_credential(token, every=every, kind="token", facts=[], revoke=partial(revoke, token))


def revoke(token: ScimToken) -> None:
    """Stop a token."""
    api.client().admin.scim_tokens.revoke(token.token_id)
    clear_tokens()


@st.dialog("New token", width="large", on_dismiss=close_dialog)
def show_new() -> None:
    """Show the dialog for a new token: its name and its expiry."""
    if not is_open(NEW):
        st.rerun()
    show_text("Anyone who has it can add, change and deactivate people here. It makes nobody an admin.")
    st.text_input("Name", key="scim.name", max_chars=200, placeholder="Entra, production")
    ask_expiry("scim", default="365")
    offer_submit(NEW, "Create", action=create)


def create() -> None:
    """Create a token as the dialog's fields say, and have its value shown."""
    name = str(st.session_state["scim.name"] or "").strip()
    if not name:
        raise NotYetError("Give the token a name, by which it is known when it is to be revoked.")
    made = api.client().admin.scim_tokens.create(name, expires_at=get_expiry("scim"))
    hold_secret(Secret("The new token", made.token, hint=f"Give it to the provider, with the address {made.base_url}"))
    clear_tokens()


def page() -> None:
    """Draw the address and the tokens, or the token in the address; for admins."""
    require_admin()
    one = "token" in st.query_params
    show_title(TITLE, PURPOSE, action=None if one else offer_new)
    show_held_secret()
    first = show_errors(first_page)
    if one:
        show_token(str(st.query_params["token"]), first.tokens)
    if is_open(NEW):
        show_new()
    if not one:
        show_address(first)
        show_tokens()


page()
