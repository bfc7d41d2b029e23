"""Service accounts and their tokens, cached for a few seconds per session."""

from uuid import UUID

import streamlit as st

from app import api
from app.lookup import by_id
from app.ui.tables import forget
from carrel.wire.organization import Organization
from carrel.wire.service_accounts import ServiceAccount, ServiceAccountToken

ACCOUNTS, TOKENS = "accounts", "tokens"
"""The tables of accounts, and of an account's tokens."""

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


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def tokens_of(account_id: UUID) -> list[ServiceAccountToken]:
    """Return the tokens of an account, by one request, which has room for a thousand."""
    return next(api.client().admin.service_account_tokens.list(account_id, page_size=1000).pages()).tokens


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def account_of(account_id: str) -> ServiceAccount | None:
    """Return an account by its id; None when there is none (any more)."""
    return by_id(api.client().admin.service_accounts.list, account_id)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def token_of(token_id: str, account_id: UUID) -> ServiceAccountToken | None:
    """Return a token of an account by its id; None when there is none."""
    listed = next((one for one in tokens_of(account_id) if str(one.token_id) == token_id), None)
    found = listed or by_id(api.client().admin.service_account_tokens.list, token_id)
    return found if found is not None and found.service_account_id == account_id else None


def clear_caches() -> None:
    """Clear the cached service accounts and tokens of the session."""
    for kept in (organization, all_tokens, tokens_of, account_of, token_of):
        kept.clear()
    forget(ACCOUNTS)
    forget(TOKENS)
