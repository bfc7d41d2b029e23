"""Finding somebody or something by typing: each stroke asks the service for a handful, and one of them is chosen.

`pick_principal("who", …)` and `pick_resource("resource", …)` keep what was chosen in the page's address, so that a
reload or a shared address shows it again. `pick_principals` chooses several, for a dialog or a form of the page's.
"""

import html
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import cast

import streamlit as st

from app import api
from app.finding import (
    MOST,
    One,
    Principal,
    Resource,
    find_principals,
    find_resources,
    principal_at,
    resource_at,
    told_apart,
)
from app.ui.errors import explain
from app.ui.notices import show_text, show_warning
from app.vocabulary import AGENT, COLLECTION, DOCUMENT, PRINCIPALS

EVERYBODY = tuple(PRINCIPALS)
RESOURCES = (DOCUMENT, COLLECTION, AGENT)


def pick_principal(name: str, *, label: str, kinds: Sequence[str] = EVERYBODY) -> Principal | None:
    """Return who is chosen as the address's `name`; until somebody is, or to choose another, offer finding them."""
    return _pick(name, label=label, find=partial(_principals, kinds=tuple(kinds)), at=_principal, kinds=kinds)


def pick_resource(name: str, *, label: str, kinds: Sequence[str] = RESOURCES) -> Resource | None:
    """Return what is chosen as the address's `name`; until something is, or to choose another, offer finding it."""
    return _pick(name, label=label, find=partial(_resources, kinds=tuple(kinds)), at=_resource, kinds=kinds)


def pick_principals(
    key: str,
    *,
    label: str,
    chosen: Iterable[Principal] = (),
    kinds: Sequence[str] = EVERYBODY,
    most: int | None = None,
) -> list[Principal]:
    """Offer finding several, `chosen` being those at first, at most `most`; return who is chosen now.

    Not in an `st.form`, in which nobody can search.

    What is kept under `key` is the keys of the chosen ones; `drop_choice(key)` forgets them.
    """
    known: dict[str, Principal] = st.session_state.setdefault(_known(key), {one.key: one for one in chosen})
    if key not in st.session_state:
        st.session_state[key] = list(known)
    found = _search(key, label=label, find=partial(_principals, kinds=tuple(kinds)))
    known.update({one.key: one for one in found})
    picked = cast("list[str]", st.session_state[key])
    options = told_apart([known[one] for one in picked if one in known] + found)
    st.multiselect(
        "Chosen",
        list(options),
        key=key,
        format_func=lambda one: options[one][0] if one in options else one,
        placeholder="Choose from the matches" if found else "Nobody yet: type a part of a name above",
        filter_mode=None,
        max_selections=most,
    )
    return [known[one] for one in cast("list[str]", st.session_state[key]) if one in known]


def drop_choice(key: str) -> None:
    """Forget whom `pick_principals` of this key has: the next time it begins with its `chosen` again."""
    for name in (key, _known(key), _typed(key)):
        st.session_state.pop(name, None)


def _pick(
    name: str, *, label: str, find: Callable[[str], list[One]], at: Callable[[str], One | None], kinds: Collection[str]
) -> One | None:
    key = str(st.query_params.get(name, ""))
    if key:
        chosen = explain(lambda: at(key))
        if chosen is not None and chosen.kind in kinds:
            _show_chosen(name, label=label, chosen=chosen)
            return chosen
        show_warning("The address names somebody or something that isn't there.", "Choose here instead.")

    @st.fragment
    def offer() -> None:
        """Typing draws no more of the page than this."""
        options = told_apart(_search(name, label=label, find=find))
        if not options:
            return
        picked = st.selectbox(
            "Matches",
            list(options),
            index=None,
            key=f"{name}.match",
            format_func=lambda one: options[one][0] if one in options else one,
            placeholder="Choose one",
            filter_mode=None,
        )
        if picked in options:
            st.query_params[name] = picked
            st.rerun()

    offer()
    return None


def _search(key: str, *, label: str, find: Callable[[str], list[One]]) -> list[One]:
    """Offer typing, and return at most `MOST` that match."""
    query = st.text_input(
        label, key=_typed(key), type="search", live="250ms", placeholder="A part of the name", autocomplete="off"
    )
    asked = (query or "").strip()
    found = explain(lambda: find(asked))
    if asked and not found:
        show_text("Nothing matches. Try fewer letters, or another part of the name.")
    elif len(found) > MOST:
        show_text(f"More than {MOST} match: type more of the name to narrow them down.")
    return found[:MOST]


def _show_chosen(name: str, *, label: str, chosen: Principal | Resource) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.html(
            f'<p class="carrel-chosen"><small>{html.escape(label)}</small><br>'
            f"<strong>{html.escape(chosen.name)}</strong> {html.escape(chosen.label.removeprefix(chosen.name))}</p>"
        )
        st.button("Change", key=f"{name}.change", icon=":material/search:", on_click=_clear, args=(name,))


def _clear(name: str) -> None:
    if name in st.query_params:
        del st.query_params[name]


def _known(key: str) -> str:
    return f"{key}.known"


def _typed(key: str) -> str:
    return f"{key}.typed"


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def _principals(query: str, kinds: tuple[str, ...]) -> list[Principal]:
    return find_principals(api.client(), query, kinds=kinds)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def _resources(query: str, kinds: tuple[str, ...]) -> list[Resource]:
    return find_resources(api.client(), query, kinds=kinds)


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def _principal(key: str) -> Principal | None:
    return principal_at(api.client(), key)


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def _resource(key: str) -> Resource | None:
    return resource_at(api.client(), key)
