"""The page of service accounts and tokens: reach and expiry."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from app import api
from app.credentials import tokens
from app.formatting import moment, one_line
from app.labels import SERVICE_ACCOUNT
from app.ui import notices
from app.ui.dialogs import confirm, dialog, offer_dialog, offer_submit, show_held_secret, text_in
from app.ui.errors import require_admin, require_found, show_errors
from app.ui.filters import filter_line, text_filter
from app.ui.tables import pages_of, show_pages, time_cell
from carrel.wire.api_keys import CredentialStatus
from carrel.wire.organization import Organization
from carrel.wire.service_accounts import ServiceAccount, ServiceAccountToken
from flows.operations.formatting import count_text

NEW = "new_account"
NONE_CALLED = ("No service accounts match.", "Try fewer letters.")
NONE_YET = (
    "No service accounts yet.",
    "An account for a program keeps working when people leave, and reads only what you grant.",
)


def _show_switch(settings: Organization) -> None:
    if settings.service_accounts_enabled:
        if st.button("Turn off service accounts", key="switch.off", type="tertiary", icon=":material/toggle_off:"):
            confirm(
                "Turn off service accounts?",
                "Their tokens are refused immediately, and nobody can create accounts or tokens. Existing accounts and "
                "tokens stay, and work again when you turn service accounts on.",
                doing="Turn off",
                action=partial(_switch, settings, on=False),
            )
        return
    notices.show_warning(
        "Service accounts are turned off for your organization.",
        "Requests with their tokens are refused, and nobody can create accounts or tokens.",
    )
    if st.button("Turn on service accounts", key="switch.on", type="primary"):
        show_errors(partial(_switch, settings, on=True))
        st.rerun()


def _switch(settings: Organization, *, on: bool) -> None:
    tokens.clear_caches()  # a refusal leads to the current settings
    api.client().admin.organization.update(service_accounts_enabled=on, version=settings.version)


def _account_row(every: Sequence[ServiceAccountToken], account: ServiceAccount) -> dict[str, object]:
    own = [token for token in every if token.service_account_id == account.service_account_id]
    return {
        "Name": one_line(account.display_name),
        "Address": account.email,
        "Active tokens": sum(token.status is CredentialStatus.ACTIVE for token in own),
        "Last used": time_cell(max((token.last_used_at for token in own if token.last_used_at), default=None)),
        "Created": time_cell(account.created_at),
    }


@dialog("New service account", NEW)
def _show_new() -> None:
    notices.show_text("An account for a program. It can read nothing until you give it access or add it to a group.")
    st.text_input("Name", key="new.name", max_chars=200, placeholder="Intranet search")
    offer_submit(NEW, "Create", action=_create)


def _create() -> None:
    name = text_in("new.name", missing="Enter a name, such as the name of the program.")
    made = api.client().admin.service_accounts.create(name)
    tokens.clear_caches()
    st.query_params["account"] = str(made.service_account_id)


def _ask_deleting(account: ServiceAccount) -> None:
    own = show_errors(partial(tokens.tokens_of, account.service_account_id))
    working = sum(token.status is CredentialStatus.ACTIVE for token in own)
    confirm(
        "Delete this service account?",
        f"You cannot restore {account.display_name} ({account.email}). {count_text(working, 'active token')} "
        "will stop immediately, with every program that uses it. Documents that it uploaded stay. Its "
        "address is never used again.",
        action=lambda: api.client().admin.service_accounts.delete(account.service_account_id),
        then=tokens.clear_caches,
        leaving=("account", "token"),
    )


def _show_account(account_id: str, settings: Organization) -> None:
    notices.offer_way_back("All service accounts", "account", "token")
    account = require_found(partial(tokens.account_of, account_id), "This service account does not exist.")
    notices.show_heading(account.display_name, account.email, f"created {moment(account.created_at)}")
    notices.show_link("What can it read?", "what_can_they_read", who=f"{SERVICE_ACCOUNT}:{account_id}")
    with st.container(horizontal=True):
        create, is_off = partial(tokens.open_mint, account_id), not settings.service_accounts_enabled
        notices.offer_action("Create token", create, key="mint.open", icon="add", kind="primary", disabled=is_off)
        if st.button("Delete account", key="delete", icon=":material/delete:"):
            _ask_deleting(account)
    tokens.show_mint(account)
    if "token" in st.query_params:
        tokens.show_token(account, str(st.query_params["token"]))
    else:
        tokens.show_tokens(account)


def page() -> None:
    require_admin()
    settings = show_errors(tokens.organization)
    is_list = "account" not in st.query_params
    makes = is_list and settings.service_accounts_enabled
    new = partial(offer_dialog, "New service account", NEW) if makes else None
    purpose = "Accounts for programs, and their tokens."
    notices.show_title("Service accounts", purpose, action=new)
    show_held_secret()
    if not settings.service_accounts_enabled:
        _show_switch(settings)
    if not is_list:
        _show_account(str(st.query_params["account"]), settings)
        return
    every = show_errors(tokens.all_tokens)
    tokens.show_ending_soon(every)
    _show_new()
    with filter_line("q"):
        query = text_filter("Find", "q", placeholder="Part of the name or address").replace("\0", "")
    show_pages(
        tokens.ACCOUNTS,
        pages_of(lambda at: api.client().admin.service_accounts.list(query=query or None, **at), about=query),
        row=partial(_account_row, every),
        empty=lambda: notices.show_empty(*(NONE_CALLED if query else NONE_YET)),
        go=lambda chosen: notices.look_at("account", chosen.service_account_id),
    )
    if settings.service_accounts_enabled:
        _show_switch(settings)


page()
