"""The command palette on every page: pages, actions and readable names, found by typing."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl

import streamlit as st

from app import api
from app.auth.current import person_client
from app.chat.conversations import my_agents
from app.formatting import one_line
from app.lookup import clean_query
from app.navigation import ACTIONS, Entry, entries_for
from app.ui.dialogs import close_on_page_change, open_dialog
from app.ui.errors import FAILURES, problem_of
from app.ui.tables import draw_component

_KEY, _ASKED, _CHOSEN = "palette", "palette.asked", "palette.chosen"
_MOST = 5


def _item(name: str, kind: str, icon: str, where: str, dialog: str = "") -> dict[str, str]:
    return {"name": name, "kind": kind, "icon": icon, "address": where, "dialog": dialog}


_ACTIONS = [_item(name, "Action", *rest) for name, *rest in ACTIONS]
# By page: the kind of its objects, and the members with name and id.
_KINDS = {
    "documents": ("Document", "document_name", "document_id"),
    "collections": ("Collection", "collection_name", "document_collection_id"),
    "agents": ("Agent", "name", "agent_id"),
    "chat": ("Agent", "name", "agent_id"),
    "people": ("Person", "name", "id"),
    "groups": ("Group", "name", "id"),
}


@st.fragment
def show_palette(*, is_admin: bool, is_editor: bool) -> None:
    """Draw the palette. Typing redraws only the palette; choosing opens the page."""
    known = {page.name: page for page, has in entries_for(is_admin=is_admin, is_editor=is_editor) if has}
    if chosen := st.session_state.pop(_CHOSEN, None):
        _open_chosen(chosen, known)
    items = [_item(entry.title, entry.purpose, entry.icon, entry.name) for entry in known.values()]
    data: dict[str, Any] = {"items": items + [row for row in _ACTIONS if row["address"].partition("?")[0] in known]}
    if asked := st.session_state.pop(_ASKED, None):
        data["found"] = {"query": asked, **_find_objects(asked, known)}
    callbacks = {f"on_{name}_change": partial(_keep, name, key) for name, key in (("query", _ASKED), ("go", _CHOSEN))}
    draw_component("palette", key=_KEY, data=data, **callbacks)


def _keep(name: str, key: str) -> None:
    st.session_state[key] = st.session_state[_KEY].get(name)


def _open_chosen(chosen: Mapping[str, str], known: Mapping[str, Entry]) -> None:
    page, _, query = str(chosen.get("address")).partition("?")
    if page not in known:
        return
    if chosen.get("dialog") in {row["dialog"] for row in _ACTIONS if row["dialog"]}:
        close_on_page_change(page)
        open_dialog(chosen["dialog"])
    st.switch_page(f"views/{page}.py", query_params=parse_qsl(query))


def _find_objects(asked: str, known: Mapping[str, Entry]) -> dict[str, Any]:
    """Return readable objects by part of a name, or the reason for a failed look-up."""
    text = clean_query(asked)
    try:
        person, admin = person_client(), api.client().admin
        collections = person.document_collections.list_document_collections
        rows: dict[str, Iterable[object]] = {
            "documents": person.catalog.list_documents(document_name=text, page_size=_MOST),
            "collections": collections(collection_name=text, page_size=_MOST),
            "agents": admin.agents.list(query=text, page_size=_MOST),
            "people": admin.users.list(query=text, page_size=_MOST),
            "groups": admin.groups.list(query=text, page_size=_MOST),
        }
        if "agents" not in known:
            rows["chat"] = [agent for agent in my_agents() if text.lower() in agent.name.lower()]
        asks = [(known[page], some) for page, some in rows.items() if page in known]
        with ThreadPoolExecutor(len(asks)) as pool:
            answers = list(pool.map(_list_matches, asks))
        problem = next((said for _, said in answers if said), "")
        return {"items": [item for items, _ in answers for item in items], "problem": problem}
    except FAILURES as error:
        return {"items": [], "problem": problem_of(error).message}


def _list_matches(asked: tuple[Entry, Iterable[object]]) -> tuple[list[dict[str, str]], str]:
    """Return the matches of a kind, or the reason for a failed look-up. Other kinds are unaffected."""
    page, rows = asked
    kind, name, identity = _KINDS[page.name]
    try:
        return [
            _item(one_line(getattr(row, name)), kind, page.icon, f"{page.name}?{kind.lower()}={getattr(row, identity)}")
            for row in islice(rows, _MOST)
        ], ""
    except FAILURES as error:
        return [], problem_of(error).message
