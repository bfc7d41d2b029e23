"""The workbench's pages: access, and the place in the menu or on the Settings page."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from app.ui.errors import require_editor, show_admins_only


class Entry(NamedTuple):
    """A page: file in app/views (also the address), title, icon, and description on Settings."""

    name: str
    title: str
    icon: str
    purpose: str = ""


HOME = Entry("search", "Home", "home", "Search, and what needs your attention today.")
"""The first page for admins."""
MENU, SETTINGS = "Menu", "settings"
_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
FOR_ALL, FOR_EDITORS, FOR_ADMINS = (
    {group: tuple(Entry(*entry) for entry in entries) for group, entries in _TEXTS[part].items()}
    for part in ("for_all", "for_editors", "for_admins")
)
ACTIONS: Sequence[Sequence[str]] = _TEXTS["palette"]["actions"]
"""More actions in the palette: name, icon, address and dialog."""
GROUPS = {group: entries for group, entries in FOR_ADMINS.items() if group != MENU}
"""The groups of the Settings page, with pages."""
UNDER_SETTINGS = frozenset(entry.name for entries in GROUPS.values() for entry in entries)


def entries_for(*, is_admin: bool, is_editor: bool = False) -> list[tuple[Entry, bool]]:
    """Return every page, and whether the person has access."""
    parts = ((FOR_ALL, True), (FOR_EDITORS, is_admin or is_editor), (FOR_ADMINS, is_admin))
    listed = [(entry, theirs) for groups, theirs in parts for entries in groups.values() for entry in entries]
    return [(HOME, True), *listed[1:]] if is_admin else listed


def pages(*, is_admin: bool, is_editor: bool = False) -> list[StreamlitPage]:
    """Return the menu and, hidden, the pages under Settings. A page without access names the people with access."""
    # Streamlit serves the first page only at /, but links contain its name.
    first = st.Page("views/search.py", title="Search", url_path="search", visibility="hidden")
    listed = entries_for(is_admin=is_admin, is_editor=is_editor)
    return [*(_page(entry) if theirs else _closed_page(entry) for entry, theirs in listed), first]


def addresses() -> frozenset[str]:
    """Return the addresses of all pages, for every role. The first page is also at /."""
    return frozenset(entry.name for entry, _ in entries_for(is_admin=True))


def trail_html(name: str) -> str:
    """Return HTML with the way back to Settings, and the pages of the group with the page `name`."""
    group, entries = next(item for item in GROUPS.items() if name in {each.name for each in item[1]})
    here = {True: ' aria-current="page"', False: ""}
    links = (f'<a href="{entry.name}" target="_self"{here[entry.name == name]}>{entry.title}</a>' for entry in entries)
    above = f'<a href="{SETTINGS}" target="_self">Settings</a> <span>{group}</span>'
    return f'<nav class="carrel-trail" aria-label="Place">{above} {" ".join(links)}</nav>'


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


def _closed_page(entry: Entry) -> StreamlitPage:
    told = require_editor if any(entry in entries for entries in FOR_EDITORS.values()) else show_admins_only
    return st.Page(told, title=entry.title, url_path=entry.name, visibility="hidden")
