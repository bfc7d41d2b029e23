"""The Settings page: every page outside the menu, by group, with a sentence about each."""

import streamlit as st

from app.navigation import GROUPS, pages
from app.ui.errors import require_admin
from app.ui.notices import show_title


def page() -> None:
    require_admin()
    show_title("Settings", "People, access, programs and oversight of your organization.")
    found = {one.url_path: one for one in pages(is_admin=True)}
    for number, (group, entries) in enumerate(GROUPS.items()):
        st.header(group, anchor=False)
        with st.container(key=f"settings-{number}"):
            for entry in entries:
                with st.container(gap=None):
                    st.page_link(found[entry.name])
                    st.caption(entry.purpose)


page()
