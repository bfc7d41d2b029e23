"""Pages for admins, to others: a calm word, and nothing else. The service refuses them too."""

import streamlit as st

from app import api
from app.ui.errors import show_errors
from app.ui.notices import show_empty


def require_admin() -> None:
    """End the page's run here for everybody who is no admin."""
    if not show_errors(api.me).is_admin:
        show_closed()
        st.stop()


def require_editor() -> None:
    """End the page's run here for everybody who is no admin and may change no collection."""
    if not show_errors(api.me).is_admin and not show_errors(api.edits_collections):
        show_empty(
            "This page is for admins, and for editors of a collection.",
            "Ask an admin of your organization to make you an editor of one.",
        )
        st.stop()


def show_closed() -> None:
    """Show that a page is for admins only."""
    show_empty("This page is for admins.", "Ask an admin of your organization for what you need here.")
