"""The details of a token or key, with the button that revokes it."""

from collections.abc import Callable, Sequence

import streamlit as st

from app.credentials.expiry import STATUSES, ends_exactly
from app.formatting import moment
from app.ui.dialogs import confirm
from app.ui.notices import show_heading, show_table
from carrel.wire.api_keys import ApiKey, CredentialStatus
from carrel.wire.service_accounts import ServiceAccountToken


def show_credential(
    one: ServiceAccountToken | ApiKey, *, kind: str, facts: Sequence[tuple[str, str]], revoke: Callable[[], object]
) -> None:
    """Show a credential with its `facts` and exact times; `kind` is its noun in "Revoke this token?"."""
    show_heading(one.name, f"…{one.hint}", STATUSES[one.status])
    times = [
        ("Created", moment(one.created_at)),
        ("Last used", moment(one.last_used_at) or "Never"),
        ("Expires", ends_exactly(one.expires_at)),
    ]
    show_table([*facts, *times], named=True)
    if one.status is CredentialStatus.ACTIVE and st.button("Revoke", key="revoke", icon=":material/block:"):
        confirm(
            f"Revoke this {kind}?",
            f"“{one.name}” (…{one.hint}) stops at once: the next request with it is refused. This can't be undone.",
            doing="Revoke it",
            action=revoke,
        )
