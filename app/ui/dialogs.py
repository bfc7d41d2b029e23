"""Dialogs that every page asks and tells in: is this really meant, and a secret that is shown once."""

from collections.abc import Callable

import streamlit as st

import carrel
from app.ui.errors import problem_of
from app.ui.notices import show_text, show_warning


def confirm(title: str, consequence: str, *, doing: str, action: Callable[[], object], name: str | None = None) -> None:
    """Ask in a dialog before `action` is done, then draw the page anew; what fails is said in the dialog.

    `consequence` says what will be lost. With `name` it must be typed: for what can't be undone and is large.
    """

    @st.dialog(title)
    def ask() -> None:
        show_text(consequence)
        if name is not None:
            show_text(f"To go on, type its name: {name}")
        typed = st.text_input("Name", key="confirm.name") if name is not None else None
        sure, never = st.columns(2)
        if never.button("Cancel", key="confirm.no", width="stretch"):
            st.rerun()
        if sure.button(doing, key="confirm.yes", type="primary", width="stretch", disabled=typed != name):
            try:
                action()
            except carrel.CarrelError as error:
                problem_of(error).show()
            else:
                st.rerun()

    ask()


def show_secret(title: str, secret: str, *, hint: str) -> None:
    """Show a secret in a dialog, this once: it is in no state, and is gone with the dialog.

    `hint` says what it is for. Call it in the run that has made the secret, which must not go on to `st.rerun`.
    """

    @st.dialog(title, dismissible=False)
    def tell() -> None:
        show_warning("This is shown once. Copy it now, and keep it where secrets are kept.")
        st.code(secret, language=None, wrap_lines=True)
        show_text(hint)
        if st.button("I have copied it", key="secret.done", type="primary"):
            st.rerun()

    tell()
