"""The page of service accounts and their tokens: what programs call with, its reach, and its expiry."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from app import api
from app.credentials.tokens import (
    ACCOUNTS,
    MINT,
    account_of,
    all_tokens,
    clear_caches,
    open_mint,
    organization,
    show_ending_soon,
    show_mint,
    show_token,
    show_tokens,
    tokens_of,
)
from app.formatting import ago, moment, one_line
from app.labels import SERVICE_ACCOUNT
from app.ui.dialogs import (
    NotYetError,
    close_dialog,
    confirm,
    is_open,
    offer_submit,
    open_dialog,
    show_held_secret,
)
from app.ui.errors import require_admin, show_errors
from app.ui.filters import filter_line, text_filter
from app.ui.notices import (
    leave,
    look_at,
    offer_way_back,
    show_empty,
    show_heading,
    show_link,
    show_text,
    show_title,
    show_warning,
)
from app.ui.tables import PAGE_ROWS, Source, show_pages
from carrel.wire.api_keys import CredentialStatus
from carrel.wire.organization import Organization
from carrel.wire.service_accounts import AdminServiceAccountsListResponse, ServiceAccount, ServiceAccountToken
from flows.operations.formatting import count_text

NEW = "new_account"


def show_switch(settings: Organization) -> None:
    """Show whether service accounts are enabled, with a button that changes it."""
    if settings.service_accounts_enabled:
        if st.button("Switch service accounts off", key="switch.off", type="tertiary", icon=":material/toggle_off:"):
            confirm(
                "Switch service accounts off?",
                "Every request with a token of a service account is refused from now on, and none can be created. What "
                "there is stays, and works again when they are switched on.",
                doing="Switch them off",
                action=partial(switch, on=False),
            )
        return
    show_warning(
        "Service accounts are switched off for your organization.",
        "Every request with a token of theirs is refused, and neither accounts nor tokens can be created.",
    )
    if st.button("Switch service accounts on", key="switch.on", type="primary"):
        show_errors(partial(switch, on=True))
        st.rerun()


def offer_new() -> None:
    """Offer to create an account."""
    st.button(
        "New service account", key="new.open", type="primary", icon=":material/add:", on_click=open_dialog, args=(NEW,)
    )


def switch(*, on: bool) -> None:
    """Switch service accounts on or off."""
    api.client().admin.organization.update(service_accounts_enabled=on)
    clear_caches()


def show_accounts(tokens: Sequence[ServiceAccountToken]) -> None:
    """List the accounts; choosing one shows it."""
    with filter_line("q"):
        query = text_filter("Find", "q", placeholder="A part of the name or address").replace("\0", "")

    def fetch(token: str | None) -> AdminServiceAccountsListResponse:
        accounts = api.client().admin.service_accounts
        return next(accounts.list(query=query or None, page_size=PAGE_ROWS, page_token=token).pages())

    show_pages(
        ACCOUNTS,
        Source(fetch, lambda page: page.service_accounts, about=query),
        row=partial(account_row, tokens),
        empty=partial(show_none, query),
        go=lambda chosen: look_at("account", chosen.service_account_id),
    )


def account_row(tokens: Sequence[ServiceAccountToken], account: ServiceAccount) -> dict[str, str]:
    """Return an account as a row."""
    own = [token for token in tokens if token.service_account_id == account.service_account_id]
    working = [token for token in own if token.status is CredentialStatus.ACTIVE]
    used = [token.last_used_at for token in own if token.last_used_at is not None]
    return {
        "Name": one_line(account.display_name),
        "Address": account.email,
        "Working tokens": f"{len(working):,}",
        "Last used": ago(max(used)) if used else "never",
        "Created": ago(account.created_at),
    }


def show_none(query: str) -> None:
    """Show that there is no account, and what one is for."""
    if query:
        show_empty("No service account has this in its name or address.", "Try fewer letters.")
    else:
        show_empty(
            "There is no service account yet.",
            "A program is best given one: an identity that is nobody's, stays when people leave, and reads only what "
            "it was granted.",
        )


@st.dialog("New service account", on_dismiss=close_dialog)
def show_new() -> None:
    """Show the dialog for a new account."""
    if not is_open(NEW):
        st.rerun()
    show_text("An identity for a program. It may read nothing before it is granted something, or put into a group.")
    st.text_input("Name", key="new.name", max_chars=200, placeholder="Intranet search")
    offer_submit(NEW, "Create", action=create)


def create() -> None:
    """Create the account, and open it."""
    name = str(st.session_state["new.name"] or "").strip()
    if not name:
        raise NotYetError("Give it a name: what the program is that uses it.")
    made = api.client().admin.service_accounts.create(name)
    clear_caches()
    st.query_params["account"] = str(made.service_account_id)


def delete(account: ServiceAccount) -> None:
    """Delete an account, and go back to the list."""
    api.client().admin.service_accounts.delete(account.service_account_id)
    leave("account", "token")
    clear_caches()


def ask_deleting(account: ServiceAccount) -> None:
    """Ask for confirmation before an account is deleted, naming what stops."""
    working = sum(
        token.status is CredentialStatus.ACTIVE for token in show_errors(partial(tokens_of, account.service_account_id))
    )
    confirm(
        "Delete this service account?",
        f"{account.display_name} ({account.email}) is gone for good. {count_text(working, 'working token')} will stop "
        "at once, and so will what uses them. It leaves its groups; documents that it uploaded stay, and its address "
        "is never given to another.",
        doing="Delete it",
        action=partial(delete, account),
    )


def show_account(account_id: str, settings: Organization) -> None:
    """Show an account with its tokens."""
    offer_way_back("All service accounts", "account", "token")
    account = show_errors(partial(account_of, account_id))
    if account is None:
        show_warning("There is no such service account (any more).")
        return
    show_heading(account.display_name, account.email, f"created {moment(account.created_at)}")
    show_link("What can it read?", "what_can_they_read", who=f"{SERVICE_ACCOUNT}:{account_id}")
    with st.container(horizontal=True):
        st.button(
            "Create token",
            key="mint.open",
            type="primary",
            icon=":material/add:",
            disabled=not settings.service_accounts_enabled,
            on_click=open_mint,
            args=(account_id,),
        )
        if st.button("Delete the account", key="delete", icon=":material/delete:"):
            ask_deleting(account)
    if is_open(MINT, account_id):
        show_mint(account, done=clear_caches)
    if "token" in st.query_params:
        show_token(account, str(st.query_params["token"]))
    else:
        show_tokens(account)


def page() -> None:
    """Draw the list of service accounts, or the account or token in the address; for admins."""
    require_admin()
    settings = show_errors(organization)
    is_list = "account" not in st.query_params
    show_title(
        "Service accounts",
        "Identities for programs, and the tokens with which they call the service.",
        action=offer_new if is_list and settings.service_accounts_enabled else None,
    )
    show_held_secret()
    if not settings.service_accounts_enabled:
        show_switch(settings)
    if not is_list:
        show_account(str(st.query_params["account"]), settings)
        return
    tokens = show_errors(all_tokens)
    show_ending_soon(tokens)
    if is_open(NEW):
        show_new()
    show_accounts(tokens)
    if settings.service_accounts_enabled:
        show_switch(settings)


page()
