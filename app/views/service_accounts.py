"""Service accounts and their tokens: what programs call with, how far each reaches, and when it ends."""

from collections.abc import Sequence
from functools import partial
from uuid import UUID

import streamlit as st

from app import api
from app.credentials.expiry import STATUSES, end_noted, ending_soon, ends, ends_exactly
from app.credentials.minting import MINT, show_mint, show_reach
from app.finding import principal_at
from app.ui.access import require_admin
from app.ui.dialogs import (
    NotYetError,
    close_dialog,
    confirm,
    is_open,
    offer_submit,
    open_dialog,
    show_held_secret,
)
from app.ui.errors import explain
from app.ui.filters import text_filter
from app.ui.links import offer_way_back, show_link
from app.ui.notices import show_empty, show_heading, show_table, show_text, show_title, show_warning
from app.ui.tables import Source, forget, show_pages
from app.vocabulary import SERVICE_ACCOUNT, scopes_named
from app.words import ago, counted, moment, one_line
from carrel.wire.admin import CredentialStatus, Organization
from carrel.wire.service_accounts import (
    AdminServiceAccountsListResponse,
    AdminServiceAccountTokensListResponse,
    AdminServiceAccountTokensPreviewReachResponse,
    ServiceAccount,
    ServiceAccountToken,
)

ACCOUNTS, TOKENS, NEW = "accounts", "tokens", "new_account"
MOST_TOKENS = 5000


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def organization() -> Organization:
    """Return the organization's settings."""
    return api.client().admin.organization.get()


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def all_tokens() -> list[ServiceAccountToken]:
    """Return the tokens of all accounts, up to `MOST_TOKENS`."""
    found: list[ServiceAccountToken] = []
    for page in api.client().admin.service_account_tokens.list(page_size=1000).pages():
        found += page.tokens
        if len(found) >= MOST_TOKENS:
            break
    return found


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def account_of(account_id: str) -> ServiceAccount | None:
    """Return an account by its id; None when there is none (any more)."""
    named = principal_at(api.client(), f"{SERVICE_ACCOUNT}:{account_id}")
    if named is None:
        return None
    listed = api.client().admin.service_accounts.list(query=named.note)
    return next((one for one in listed if str(one.service_account_id) == account_id), None)


def changed() -> None:
    """Ask anew for everything that the page shows."""
    for kept in (organization, all_tokens, account_of):
        kept.clear()
    forget(ACCOUNTS)
    forget(TOKENS)


def show_switch(settings: Organization) -> None:
    """Say whether the organization has service accounts switched on, and offer the other."""
    if settings.service_accounts_enabled:
        if st.button("Switch service accounts off", key="switch.off", type="tertiary", icon=":material/toggle_off:"):
            confirm(
                "Switch service accounts off?",
                "Every request with a token of a service account is refused from now on, and none can be made. What "
                "there is stays, and works again when they are switched on.",
                doing="Switch them off",
                action=partial(switch, on=False),
            )
        return
    show_warning(
        "Service accounts are switched off for your organization.",
        "Every request with a token of theirs is refused, and neither accounts nor tokens can be made.",
    )
    if st.button("Switch service accounts on", key="switch.on", type="primary"):
        explain(partial(switch, on=True))
        st.rerun()


def switch(*, on: bool) -> None:
    """Switch service accounts on or off."""
    api.client().admin.organization.update(service_accounts_enabled=on)
    changed()


def show_ending_soon(tokens: Sequence[ServiceAccountToken]) -> None:
    """List first what has to be replaced soon."""
    soon = ending_soon(tokens)
    if not soon:
        return
    show_warning(f"{counted(len(soon), 'token')} will end within a fortnight. Mint the next one, and revoke the old.")
    for token in soon[:10]:
        show_link(
            f"{token.name} (…{token.hint}) ends {ends(token.expires_at)}, {ends_exactly(token.expires_at)}",
            "service_accounts",
            account=str(token.service_account_id),
        )


def show_accounts(tokens: Sequence[ServiceAccountToken]) -> ServiceAccount | None:
    """List the accounts; return the one chosen."""
    query = text_filter("Find", "q", placeholder="A part of the name or address").replace("\0", "")

    def fetch(token: str | None) -> AdminServiceAccountsListResponse:
        accounts = api.client().admin.service_accounts
        return next(accounts.list(query=query or None, page_size=50, page_token=token).pages())

    return show_pages(
        ACCOUNTS,
        Source(fetch, lambda page: page.service_accounts, about=query),
        row=partial(account_row, tokens),
        empty=partial(say_none, query),
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


def say_none(query: str) -> None:
    """Say that there is no account, and what one is for."""
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
    """Ask for a name."""
    if not is_open(NEW):
        st.rerun()
    show_text("An identity for a program. It may read nothing before it is granted something, or put into a group.")
    st.text_input("Name", key="new.name", max_chars=200, placeholder="Intranet search")
    offer_submit(NEW, "Create", action=create)


def create() -> None:
    """Create the account, and look at it."""
    name = str(st.session_state["new.name"] or "").strip()
    if not name:
        raise NotYetError("Give it a name: what the program is that uses it.")
    made = api.client().admin.service_accounts.create(name)
    changed()
    st.query_params["account"] = str(made.service_account_id)


def show_tokens(account: ServiceAccount) -> ServiceAccountToken | None:
    """List an account's tokens; return the one chosen."""

    def fetch(token: str | None) -> AdminServiceAccountTokensListResponse:
        tokens = api.client().admin.service_account_tokens
        return next(tokens.list(account.service_account_id, page_size=50, page_token=token).pages())

    return show_pages(
        TOKENS,
        Source(fetch, lambda page: page.tokens, about=account.service_account_id),
        row=token_row,
        empty=lambda: show_empty("It has no token yet.", "Mint one, and give it to the program."),
    )


def token_row(token: ServiceAccountToken) -> dict[str, str]:
    """Return a token as a row."""
    return {
        "Name": one_line(token.name),
        "Ends in": f"…{token.hint}",
        "May": scopes_named(token.scopes),
        "Status": STATUSES[token.status],
        "Last used": ago(token.last_used_at),
        "Expires": end_noted(token),
    }


def show_token(token: ServiceAccountToken) -> None:
    """Show a token: exact times, how far it reaches now, and the way to stop it."""
    show_heading(token.name, f"…{token.hint}", STATUSES[token.status])
    show_table(
        [
            ("May", scopes_named(token.scopes)),
            ("Created", moment(token.created_at)),
            ("Last used", moment(token.last_used_at) or "Never"),
            ("Expires", ends_exactly(token.expires_at)),
            *([("Description", token.description)] if token.description else []),
        ],
        named=True,
    )
    if token.status is CredentialStatus.ACTIVE and st.button("Revoke", key="revoke", icon=":material/block:"):
        confirm(
            "Revoke this token?",
            f"“{token.name}” (…{token.hint}) stops at once: the next request with it is refused. This can't be undone.",
            doing="Revoke it",
            action=partial(revoke, token.token_id),
        )
    show_reach(explain(partial(reach_of, token.token_id)))


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def reach_of(token_id: UUID) -> AdminServiceAccountTokensPreviewReachResponse:
    """Ask how far a token reaches."""
    return api.client().admin.service_account_tokens.preview_reach(token_id=token_id)


def revoke(token_id: UUID) -> None:
    """Stop a token."""
    api.client().admin.service_account_tokens.revoke(token_id)
    reach_of.clear()
    changed()


def delete(account: ServiceAccount) -> None:
    """Delete an account, and go back to the list."""
    api.client().admin.service_accounts.delete(account.service_account_id)
    st.query_params.pop("account", None)
    changed()


def ask_deleting(account: ServiceAccount) -> None:
    """Say what stops before an account is deleted."""
    working = sum(
        token.status is CredentialStatus.ACTIVE and token.service_account_id == account.service_account_id
        for token in explain(all_tokens)
    )
    confirm(
        "Delete this service account?",
        f"{account.display_name} ({account.email}) is gone for good. {counted(working, 'working token')} will stop at "
        "once, and so will what uses them. It leaves its groups; documents that it uploaded stay, and its address is "
        "never given to another.",
        doing="Delete it",
        action=partial(delete, account),
    )


def show_account(account_id: str, settings: Organization) -> None:
    """Show an account with its tokens."""
    offer_way_back("All service accounts", "account")
    account = explain(partial(account_of, account_id))
    if account is None:
        show_warning("There is no such service account (any more).")
        return
    show_heading(account.display_name, account.email, f"created {moment(account.created_at)}")
    show_link("What can it read?", "what_can_they_read", who=f"{SERVICE_ACCOUNT}:{account_id}")
    with st.container(horizontal=True):
        st.button(
            "Mint a token",
            key="mint.open",
            type="primary",
            icon=":material/add:",
            disabled=not settings.service_accounts_enabled,
            on_click=open_dialog,
            args=(MINT,),
        )
        if st.button("Delete the account", key="delete", icon=":material/delete:"):
            ask_deleting(account)
    if is_open(MINT):
        show_mint(account, done=changed)
    chosen = show_tokens(account)
    if chosen is not None:
        show_token(chosen)


def page() -> None:
    """Draw the page."""
    require_admin()
    show_title("Service accounts", "Identities for programs, and the tokens with which they call the service.")
    show_held_secret()
    settings = explain(organization)
    if not settings.service_accounts_enabled:
        show_switch(settings)
    if "account" in st.query_params:
        show_account(str(st.query_params["account"]), settings)
        return
    tokens = explain(all_tokens)
    show_ending_soon(tokens)
    if settings.service_accounts_enabled:
        st.button(
            "New service account",
            key="new.open",
            type="primary",
            icon=":material/add:",
            on_click=open_dialog,
            args=(NEW,),
        )
    if is_open(NEW):
        show_new()
    chosen = show_accounts(tokens)
    if chosen is not None:
        st.query_params["account"] = str(chosen.service_account_id)
        st.rerun()
    if settings.service_accounts_enabled:
        show_switch(settings)


page()
