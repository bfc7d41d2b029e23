"""The details of a token or key, with the button that revokes it."""

from collections.abc import Callable, Sequence

import streamlit as st

from app.credentials.expiry import STATUSES, C, Credential, ends_exactly, find_successor
from app.formatting import ago, moment
from app.ui.dialogs import confirm
from app.ui.notices import show_heading, show_table, show_warning
from carrel.wire.api_keys import CredentialStatus


def show_credential(
    one: C, *, every: Sequence[C], kind: str, facts: Sequence[tuple[str, str]], revoke: Callable[[], object]
) -> None:
    """Show a credential with its `facts` and exact times; `kind` is its noun in "Revoke this token?".

    `every` are those among which its successor is looked for, which says when this one can be revoked.
    """
    show_heading(one.name, f"…{one.hint}", STATUSES[one.status])
    times = [
        ("Created", moment(one.created_at)),
        ("Last used", moment(one.last_used_at) or "Never"),
        ("Expires", ends_exactly(one.expires_at)),
    ]
    show_table([*facts, *times], named=True)
    successor = find_successor(one, every) if one.status is CredentialStatus.ACTIVE else None
    if successor is not None:
        _show_successor(one, successor, kind=kind)
    if one.status is CredentialStatus.ACTIVE and st.button("Revoke", key="revoke", icon=":material/block:"):
        confirm(
            f"Revoke this {kind}?",
            f"“{one.name}” (…{one.hint}) stops at once: the next request with it is refused. This can't be undone.",
            doing="Revoke it",
            action=revoke,
        )


def _show_successor(one: Credential, successor: Credential, *, kind: str) -> None:
    """Say whether the new one is in use already, and so whether this one can go."""
    made = f"A new {kind} of this name, …{successor.hint}, was made {ago(successor.created_at)}"
    if successor.last_used_at is None:
        show_warning(f"{made}, and is not used yet.", "Give it to the program, and revoke this one once it is used.")
    elif one.last_used_at is not None and one.last_used_at > successor.last_used_at:
        show_warning(f"{made}, but this one was used after it.", "Find what still uses this one, then revoke it.")
    else:
        show_warning(f"{made}, and is in use.", "Nothing has used this one since: revoke it.")
