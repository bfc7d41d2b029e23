"""Fields for choosing scopes, each with its label, what it allows, and its risks."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

import streamlit as st

from app.labels import Meaning
from app.ui.notices import show_note

S = TypeVar("S", bound=StrEnum)


def fill_scopes(name: str, meanings: Mapping[S, Meaning], chosen: Iterable[str]) -> None:
    """Preselect exactly these scopes in a dialog before it opens."""
    wanted = frozenset(chosen)
    for scope in meanings:
        st.session_state[_key(name, scope)] = scope.value in wanted


def ask_scopes(name: str, meanings: Mapping[S, Meaning]) -> list[S]:
    """Show fields for scopes, and return the chosen ones; in a callback `get_scopes` with the same name does."""
    for scope, meaning in meanings.items():
        with st.container(gap=None):
            st.checkbox(meaning.name, key=_key(name, scope))
            show_note(f"{meaning.lets} {meaning.risk}")
    return get_scopes(name, meanings)


def get_scopes(name: str, meanings: Mapping[S, Meaning]) -> list[S]:
    """Return the scopes that a dialog's fields say."""
    return [scope for scope in meanings if st.session_state.get(_key(name, scope))]


def _key(name: str, scope: StrEnum) -> str:
    return f"{name}.{scope.value}"
