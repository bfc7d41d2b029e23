"""The workbench's pages: who has which, and which are in the menu or on the page Settings."""

from collections.abc import Mapping
from typing import NamedTuple

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from app.ui.errors import show_closed


class Entry(NamedTuple):
    """A page: its file in app/views, which is its address too, its title, its icon, and what Settings says of it."""

    name: str
    title: str
    icon: str
    purpose: str = ""


HOME = Entry("search", "Home", "home", "Search, and what needs you today.")
"""What the first page is to admins."""
MENU, SETTINGS = "Menu", "settings"
FOR_ALL: Mapping[str, tuple[Entry, ...]] = {
    MENU: (
        Entry("search", "Search", "search"),
        Entry("chat", "Chat", "forum"),
        Entry("documents", "Documents", "description"),
    )
}
FOR_EDITORS: Mapping[str, tuple[Entry, ...]] = {MENU: (Entry("collections", "Collections", "folder_copy"),)}
"""For admins, and for whoever may change a collection."""
FOR_ADMINS: Mapping[str, tuple[Entry, ...]] = {
    MENU: (
        Entry("agents", "Agents", "smart_toy"),
        Entry("ingestion", "Ingestion", "upload_file"),
        Entry(SETTINGS, "Settings", "settings"),
    ),
    "People and sign-in": (
        Entry("people", "People", "person", "Find a person, add or invite people, and offboard someone who leaves."),
        Entry("groups", "Groups", "group", "Give access to many people at once."),
        Entry("sign_in", "Sign-in", "passkey", "Sign-in providers, passwords and second factors."),
        Entry("provisioning", "Provisioning", "sync_alt", "Keep people and groups up to date from Entra or Okta."),
    ),
    "Access": (
        Entry("who_can_read", "Who can read this?", "visibility", "Everyone who may read a document, and why."),
        Entry("what_can_they_read", "What can they read?", "person_search", "All that a person or a group may read."),
    ),
    "Programs": (
        Entry("service_accounts", "Service accounts", "robot_2", "Identities and tokens for programs."),
        Entry("api_keys", "API keys", "key", "Keys that act as their owner."),
        Entry("oauth_clients", "OAuth clients", "apps", "Applications and assistants that act for people."),
    ),
    "Loading": (Entry("syncs", "Syncs", "sync", "Keep collections up to date with MongoDB."),),
    "Oversight": (
        Entry("health", "Health", "ecg_heart", "What works, what needs attention, and who is alerted."),
        Entry("audit_log", "Audit log", "history", "Who did what, and when."),
        Entry("quality", "Quality", "monitoring", "How well searches and agents answer, and what to improve."),
    ),
}
GROUPS = {group: entries for group, entries in FOR_ADMINS.items() if group != MENU}
"""The groups of the page Settings, with their pages."""
UNDER_SETTINGS = frozenset(entry.name for entries in GROUPS.values() for entry in entries)


def entries_for(*, is_admin: bool, is_editor: bool = False) -> list[tuple[Entry, bool]]:
    """Return every page, and whether this person has it."""
    parts = ((FOR_ALL, True), (FOR_EDITORS, is_admin or is_editor), (FOR_ADMINS, is_admin))
    listed = [(entry, theirs) for groups, theirs in parts for entries in groups.values() for entry in entries]
    return [(HOME, True), *listed[1:]] if is_admin else listed


def pages(*, is_admin: bool, is_editor: bool = False) -> list[StreamlitPage]:
    """Return the menu and, hidden, the pages under Settings; a page that isn't for this person says whom it is for."""
    # The first page is there at the address /, and Streamlit knows it by no other: links say its name all the same.
    first = st.Page("views/search.py", title="Search", url_path="search", visibility="hidden")
    listed = entries_for(is_admin=is_admin, is_editor=is_editor)
    return [*(_page(entry) if theirs else _close_page(entry) for entry, theirs in listed), first]


def addresses() -> frozenset[str]:
    """Return the addresses of all pages, for everybody; the first page is at / too."""
    return frozenset(entry.name for entry, _ in entries_for(is_admin=True))


def _page(entry: Entry) -> StreamlitPage:
    is_first = entry.name == "search"
    return st.Page(
        f"views/{entry.name}.py",
        title=entry.title,
        icon=f":material/{entry.icon}:",
        url_path="first" if is_first else entry.name,
        default=is_first,
        visibility="hidden" if entry.name in UNDER_SETTINGS else "visible",
    )


def _close_page(entry: Entry) -> StreamlitPage:
    return st.Page(show_closed, title=entry.title, url_path=entry.name, visibility="hidden")
