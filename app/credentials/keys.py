"""API keys, cached for a few seconds per session."""

from itertools import islice

import streamlit as st

from app import api
from app.credentials.accounts import MOST_TOKENS
from app.lookup import by_id
from app.ui.tables import forget
from carrel.wire.api_keys import ApiKey

KEYS = "keys"
"""The table of keys."""


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def key_of(key_id: str) -> ApiKey | None:
    """Return a key by its id; None when there is none."""
    return by_id(api.client().admin.api_keys.list, key_id)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def all_keys() -> list[ApiKey]:
    """Return the keys, up to `MOST_TOKENS`."""
    return list(islice(api.client().admin.api_keys.list(page_size=1000), MOST_TOKENS))


def clear_keys() -> None:
    """Clear the cached keys of the session."""
    key_of.clear()
    all_keys.clear()
    forget(KEYS)
