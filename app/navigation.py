"""The workbench's pages: who has which, and under which heading."""

from collections.abc import Mapping

import streamlit as st
from streamlit.navigation.page import StreamlitPage

# (the file in app/views, what the page is called, its icon); the file's name is the page's address, too.
Entry = tuple[str, str, str]
FOR_ALL: Mapping[str, tuple[Entry, ...]] = {
    "Find": (("search", "Search", "search"), ("chat", "Chat", "forum")),
    "Documents": (("documents", "Documents", "description"),),
}
FOR_EDITORS: Mapping[str, tuple[Entry, ...]] = {"Documents": (("collections", "Collections", "folder_copy"),)}
"""For admins, and for whoever may change a collection."""
FOR_ADMINS: Mapping[str, tuple[Entry, ...]] = {
    "Loading": (("ingestion", "Ingestion", "upload_file"), ("syncs", "Syncs", "sync")),
    "People": (
        ("people", "People", "person"),
        ("groups", "Groups", "group"),
        ("provisioning", "Provisioning", "sync_alt"),
        ("sign_in", "Sign-in", "passkey"),
    ),
    "Access": (
        ("who_can_read", "Who can read this?", "visibility"),
        ("what_can_they_read", "What can they read?", "person_search"),
        ("service_accounts", "Service accounts", "robot_2"),
        ("api_keys", "API keys", "key"),
        ("oauth_clients", "OAuth clients", "apps"),
    ),
    "Agents": (("agents", "Agents", "smart_toy"),),
    "Oversight": (
        ("audit_log", "Audit log", "history"),
        ("quality", "Quality", "monitoring"),
        ("health", "Health", "ecg_heart"),
    ),
}


def pages(*, is_admin: bool, is_editor: bool = False) -> dict[str, list[StreamlitPage]]:
    """Return the navigation; pages that aren't for this person are hidden, and say whom they are for."""
    found = {section: [_page(entry) for entry in entries] for section, entries in FOR_ALL.items()}
    # The first page is there at the address /, and Streamlit knows it by no other: links say its name all the same.
    found["Find"].append(st.Page("views/search.py", title="Search", url_path="search", visibility="hidden"))
    for entries_of, theirs in ((FOR_EDITORS, is_admin or is_editor), (FOR_ADMINS, is_admin)):
        for section, entries in entries_of.items():
            found.setdefault(section, []).extend(_page(entry) if theirs else _close_page(entry) for entry in entries)
    return found


def addresses() -> frozenset[str]:
    """Return the addresses of all pages, for everybody; the first page is at / too."""
    sections = (*FOR_ALL.values(), *FOR_EDITORS.values(), *FOR_ADMINS.values())
    return frozenset(name for entries in sections for name, _title, _icon in entries)


def _page(entry: Entry) -> StreamlitPage:
    name, title, icon = entry
    is_first = name == "search"
    path = "first" if is_first else name
    return st.Page(f"views/{name}.py", title=title, icon=f":material/{icon}:", url_path=path, default=is_first)


def _close_page(entry: Entry) -> StreamlitPage:
    name, title, _icon = entry
    return st.Page("views/for_admins.py", title=title, url_path=name, visibility="hidden")
