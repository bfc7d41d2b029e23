"""The start of every page of the workbench: sign-in and the person's navigation."""

from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.auth.current import AWAY, current_session, key_client, require_person, watch_session
from app.auth.routes import SIGN_OUT
from app.auth.sessions import Person
from app.formatting import escape
from app.navigation import UNDER_SETTINGS, pages, trail_html
from app.palette import show_palette
from app.settings import settings
from app.ui.dialogs import close_on_page_change, close_unshown
from app.ui.errors import error_boundary
from app.ui.notices import show_warning
from app.ui.style import MARK, STYLE

# The page of a person's second factor and connected applications.
ACCOUNT = "/account/consents"


@st.cache_resource(show_spinner=False)
def last_menus() -> dict[UUID, dict[str, bool]]:
    """Return the last known pages of each person, by id, for use while the service is away."""
    return {}


def show_person(person: Person) -> None:
    options = settings()
    account = f"{options.auth_url or options.base_url}{ACCOUNT}"
    with st.sidebar:
        st.html(
            f'<div class="carrel-person" data-person="{person.id}">'
            f'<p title="{escape(f"{person.email}, {person.organization_name}")}">{escape(person.name)}</p>'
            f'<a href="{escape(account)}" target="_blank">Account</a>'
            f'<a href="{SIGN_OUT}" target="_self">Sign out</a></div>'
        )


def main() -> None:
    st.set_page_config(page_title="Carrel", page_icon="📚", layout="wide")
    st.html(STYLE)
    st.logo(MARK, size="large")
    if current_session() is None:
        # Otherwise the previous person's pages stay in the menu, and this page's address counts as unknown.
        st.navigation(pages(is_admin=False), position="hidden")
    person = require_person()
    st.session_state.pop(AWAY, None)
    palette = st.sidebar.container()
    show_person(person)
    menus = last_menus()
    with error_boundary():
        try:
            me = api.me()
            menus[person.id] = {"is_admin": me.is_admin, "is_editor": me.is_admin or bool(api.editable_collections())}
        except (carrel.APIConnectionError, carrel.APIError):  # the last menu stays
            st.navigation(pages(**menus.get(person.id, {"is_admin": False})))
            watch_session()
            raise
    page = st.navigation(pages(**menus[person.id]))
    with palette:
        show_palette(**menus[person.id])
    watch_session()  # before the navigation, because a due run of this fragment would empty the page
    if me.is_admin and key_client() is not None:
        show_warning("Except for Chat, these pages use an API key of the workbench, not your account.")
    close_on_page_change(page.url_path)
    if page.url_path in UNDER_SETTINGS and me.is_admin:
        st.html(trail_html(page.url_path))
    page.run()
    close_unshown()


main()
