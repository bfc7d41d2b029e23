"""The Settings page: every page outside the menu, by group, with a sentence about each."""

from functools import partial

import streamlit as st

from app import api
from app.navigation import GROUPS, pages
from app.ui.dialogs import confirm
from app.ui.errors import require_admin, show_errors
from app.ui.notices import show_text, show_title

SHARING = {
    True: "Owners can share their documents and collections with their groups, and with people whose email address "
    "they know. Shares end when the owner loses ownership or is deactivated.",
    False: "Only admins can give access to existing documents and collections.",
}
CONSEQUENCES = {
    True: "Owners decide who else can read their documents and collections. The audit log shows each share.",
    False: "Existing shares stay until the owner or an admin removes them.",
}


def _show_sharing() -> None:
    organization = show_errors(api.client().admin.organization.get)
    on = organization.owner_sharing_enabled
    show_text(SHARING[on])
    turn, update = f"Turn {'off' if on else 'on'}", api.client().admin.organization.update
    if st.button(f"{turn} sharing by owners", key="sharing"):
        change = partial(update, owner_sharing_enabled=not on, version=organization.version)
        confirm(f"{turn} sharing by owners?", CONSEQUENCES[not on], doing=turn, action=change)


def page() -> None:
    require_admin()
    show_title("Settings", "People, access, programs and oversight of your organization.")
    found = {item.url_path: item for item in pages(is_admin=True)}
    for number, (group, entries) in enumerate(GROUPS.items()):
        st.header(group, anchor=False)
        with st.container(key=f"settings-{number}"):
            for entry in entries:
                with st.container(gap=None):
                    st.page_link(found[entry.name])
                    st.caption(entry.purpose)
        if group == "Access":
            _show_sharing()


page()
