"""The tokens of a service account: listing them, showing the reach of each, and revoking them."""

from collections.abc import Sequence
from functools import partial
from uuid import UUID

import streamlit as st

from app import api
from app.credentials.accounts import TOKENS, clear_caches, organization, token_of, tokens_of
from app.credentials.details import show_credential
from app.credentials.expiry import STATUSES, end_noted, ends, ends_exactly, select_ending_soon
from app.credentials.new_token import open_successor, show_reach
from app.formatting import ago, one_line
from app.labels import SERVICE_ACCOUNT, scopes_named
from app.ui.errors import show_errors
from app.ui.links import look_at, offer_way_back, show_link
from app.ui.notices import show_empty, show_warning
from app.ui.tables import PAGE_ROWS, Source, show_pages
from carrel.wire.api_keys import CredentialStatus
from carrel.wire.service_accounts import (
    AdminServiceAccountTokensListResponse,
    AdminServiceAccountTokensPreviewReachResponse,
    ServiceAccount,
    ServiceAccountToken,
)
from flows.operations.formatting import count_text

_SHOWN_ENDING = 10


def show_ending_soon(tokens: Sequence[ServiceAccountToken]) -> None:
    """List the tokens that must be replaced soon."""
    soon = select_ending_soon(tokens)
    if not soon:
        return
    show_warning(f"{count_text(len(soon), 'token')} will expire within 14 days. Open it, and create the next one.")
    for token in soon[:_SHOWN_ENDING]:
        show_link(
            f"{token.name} (…{token.hint}) ends {ends(token.expires_at)}, {ends_exactly(token.expires_at)}",
            "service_accounts",
            account=str(token.service_account_id),
            token=str(token.token_id),
        )


def show_tokens(account: ServiceAccount) -> None:
    """List an account's tokens; choosing one shows it."""

    def fetch(page_token: str | None) -> AdminServiceAccountTokensListResponse:
        tokens = api.client().admin.service_account_tokens
        listed = tokens.list(account.service_account_id, page_size=PAGE_ROWS, page_token=page_token)
        return next(listed.pages())

    show_pages(
        TOKENS,
        Source(fetch, lambda page: page.tokens, about=account.service_account_id),
        row=token_row,
        empty=lambda: show_empty("It has no token yet.", "Create one, and give it to the program."),
        go=lambda chosen: look_at("token", chosen.token_id),
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


def show_token(account: ServiceAccount, token_id: str) -> None:
    """Show a token of an account: exact times, its present reach, and the button that revokes it."""
    offer_way_back("All its tokens", "token")
    token = show_errors(partial(token_of, token_id, account.service_account_id))
    if token is None:
        show_warning("There is no such token of this account.")
        return
    about = [("Description", token.description)] if token.description else []
    facts = [("May", scopes_named(token.scopes)), *about]
    if token.status is not CredentialStatus.REVOKED:
        st.button(
            "New token with the same scopes",
            key="mint.successor",
            icon=":material/autorenew:",
            disabled=not show_errors(organization).service_accounts_enabled,
            on_click=open_successor,
            args=(token,),
        )
    every = show_errors(partial(tokens_of, account.service_account_id))
    show_credential(token, every=every, kind="token", facts=facts, revoke=partial(revoke, token.token_id))
    reach = show_errors(partial(reach_of, token.token_id))
    show_reach(reach)
    if not reach.document_count and token.status is CredentialStatus.ACTIVE:
        show_link("Give access", "who_can_read", who=f"{SERVICE_ACCOUNT}:{account.service_account_id}")


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def reach_of(token_id: UUID) -> AdminServiceAccountTokensPreviewReachResponse:
    """Return the reach of a token from the service."""
    return api.client().admin.service_account_tokens.preview_reach(token_id=token_id)


def revoke(token_id: UUID) -> None:
    """Revoke a token."""
    api.client().admin.service_account_tokens.revoke(token_id)
    reach_of.clear()
    clear_caches()
