"""Inputs that find principals or resources at each key press, with a single choice in the page's address."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import cast

import streamlit as st

from app import api, lookup
from app.formatting import escape, one_line
from app.labels import GROUP, PERSON, PRINCIPALS
from app.lookup import MOST, One, Principal, Resource, disambiguate
from app.ui import passages
from app.ui.errors import show_errors
from app.ui.notices import drop_parameters, offer_action, show_text, show_warning

ALL_KINDS = tuple(PRINCIPALS)
TELLING = 3
"""With at least so many letters, a single match is taken as chosen."""


def pick_principal(
    name: str, *, label: str, kinds: Sequence[str] = ALL_KINDS, compact: bool = False
) -> Principal | None:
    """Return the principal in the address's parameter `name`, or show an input that puts a principal there."""
    find, at = partial(_find_principals, kinds=tuple(kinds)), partial(_principal_at, kinds=tuple(kinds))
    return _show_choice_or_input(name, label=label, find=find, at=at, compact=compact)


def pick_resource(name: str, *, label: str) -> Resource | None:
    """Return the resource in the address's parameter `name`, or show an input that puts a resource there."""
    return _show_choice_or_input(name, label=label, find=_find_resources, at=_resource_at)


def pick_principals(
    key: str, *, label: str, chosen: Iterable[Principal] = (), kinds: Sequence[str] = ALL_KINDS, most: int | None = None
) -> list[Principal]:
    """Show an input, and return the choice, at first `chosen`: of more than `most`, the last. Not for use in a form."""
    if f"{key}.kept" not in st.session_state:
        st.session_state[key] = {principal.key: principal for principal in chosen}
    kept: dict[str, Principal] = st.session_state[key]
    found = _ask_and_find(key, label=label, find=partial(_find_principals, kinds=tuple(kinds)))
    match = _offer_matches(key, {item.key: item for item in found if item.key not in kept}, most=most)
    picked = _last_of([*kept.values(), *([match] if match else [])], most)
    options = disambiguate(picked)
    st.session_state[f"{key}.kept"] = list(options)
    st.session_state[f"{key}.shown"] = picked
    st.multiselect(
        "Chosen",
        list(options),
        key=f"{key}.kept",
        format_func=lambda item: options[item][0] if item in options else item,
        placeholder="Type part of a name above",
        disabled=not options,
        on_change=_keep,
        args=(key,),
    )
    return picked


def get_principals(key: str) -> list[Principal]:
    """Return the choice that `pick_principals` showed last; empty before."""
    return list(st.session_state.get(f"{key}.shown", ()))


def get_named(people: Iterable[str] | None, groups: Iterable[object] | None) -> list[Principal]:
    """Return people by address and groups by id. A deleted or unknown principal has its address or id as the name."""
    named = [(PERSON, person) for person in people or ()] + [(GROUP, str(group)) for group in groups or ()]
    return [show_errors(partial(_principal_at, f"{kind}:{one}")) or Principal(kind, one, one) for kind, one in named]


def drop_choice(key: str) -> None:
    """Forget the choice of `pick_principals`, which then starts with `chosen` again."""
    for name in (key, f"{key}.kept", f"{key}.shown", f"{key}.typed", f"{key}.match"):
        st.session_state.pop(name, None)


def _offer_matches(key: str, found: Mapping[str, Principal], *, most: int | None) -> Principal | None:
    options = disambiguate(found.values())
    if len(options) > 1:
        _choose_match(key, options, on_change=partial(_add_match, key, found, most=most))
    if len(options) != 1:
        return None
    name, one = next(iter(options.values()))
    is_meant = _only(options, typed=str(st.session_state[f"{key}.typed"] or "")) is not None
    if not (is_meant and most == 1):
        label = "Choose more" if is_meant else f"Choose {passages.label(name)}"
        offer_action(label, partial(_add, key, one, most=most), key=f"{key}.add", icon="add", kind="tertiary")
    return one if is_meant else None


def _choose_match(
    key: str, options: Mapping[str, tuple[str, object]], *, on_change: Callable[[], None] | None = None
) -> str | None:
    return st.selectbox(
        "Matches",
        list(options),
        index=None,
        key=f"{key}.match",
        format_func=lambda item: options[item][0] if item in options else item,
        placeholder="Select",
        filter_mode=None,
        on_change=on_change,
    )


def _add_match(key: str, found: Mapping[str, Principal], *, most: int | None) -> None:
    if (match := found.get(st.session_state[f"{key}.match"] or "")) is not None:
        _add(key, match, most=most)
    st.session_state[f"{key}.match"] = None


def _add(key: str, principal: Principal, *, most: int | None) -> None:
    kept: dict[str, Principal] = st.session_state[key]
    st.session_state[key] = {item.key: item for item in _last_of([*kept.values(), principal], most)}
    st.session_state[f"{key}.typed"] = ""


def _last_of(picked: list[Principal], most: int | None) -> list[Principal]:
    return picked[-(most or len(picked)) :]


def _keep(key: str) -> None:
    """Keep the choices still marked. To drop a single match that counted as chosen, clear the typed text."""
    left = cast("list[str]", st.session_state[f"{key}.kept"])
    kept: dict[str, Principal] = st.session_state[key]
    if any(principal.key not in {*kept, *left} for principal in get_principals(key)):
        st.session_state[f"{key}.typed"] = ""
    st.session_state[key] = {key: who for key, who in kept.items() if key in left}


def _show_choice_or_input(
    name: str, *, label: str, find: Callable[[str], list[One]], at: Callable[[str], One | None], compact: bool = False
) -> One | None:
    if key := str(st.query_params.get(name, "")):
        if (chosen := show_errors(lambda: at(key))) is not None:
            _show_chosen(name, label=label, chosen=chosen, compact=compact)
            return chosen
        show_warning("The URL contains a name that does not exist.", "Make a choice below.")

    @st.fragment
    def offer() -> None:
        options = disambiguate(_ask_and_find(name, label=label, find=find, compact=compact))
        picked = _only(options, typed=str(st.session_state[f"{name}.typed"] or "")) if options else None
        if options and picked is None:
            picked = _choose_match(name, options)
        if picked in options:
            st.query_params[name] = picked
            st.rerun()

    offer()
    return None


def _only(options: Mapping[str, object], *, typed: str) -> str | None:
    """Return the only match, if enough was typed to exclude coincidence."""
    return next(iter(options)) if len(options) == 1 and len(typed.strip()) >= TELLING else None


def _ask_and_find(key: str, *, label: str, find: Callable[[str], list[One]], compact: bool = False) -> list[One]:
    query = st.text_input(
        label,
        key=f"{key}.typed",
        type="search",
        live="100ms",
        placeholder=label if compact else "Part of the name",
        label_visibility="collapsed" if compact else "visible",
        autocomplete="off",
    )
    asked = (query or "").strip()
    found = show_errors(lambda: find(asked))
    if asked and not found:
        show_text("No matches. Try fewer letters, or another part of the name.")
    elif len(found) > MOST:
        show_text(f"More than {MOST} match. Type more of the name.")
    return found[:MOST]


def _show_chosen(name: str, *, label: str, chosen: Principal | Resource, compact: bool) -> None:
    key, hint = f"{name}.change", f"Remove this filter: {passages.label(chosen.facts)}"
    if compact:
        offer_action(f"{label}: {passages.label(chosen.name)}", drop_parameters, name, key=key, icon="close", hint=hint)
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.html(
            f'<p class="carrel-chosen"><small>{escape(label)}</small><br>'
            f"<strong>{escape(one_line(chosen.name))}</strong> · {escape(chosen.facts)}</p>"
        )
        offer_action("Choose another", drop_parameters, name, key=key, icon="search")


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def _find_principals(query: str, kinds: tuple[str, ...]) -> list[Principal]:
    return lookup.find_principals(api.client(), query, kinds=kinds)


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def _find_resources(query: str) -> list[Resource]:
    return lookup.find_resources(api.client(), query)


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def _principal_at(key: str, kinds: tuple[str, ...] = ALL_KINDS) -> Principal | None:
    found = lookup.principal_at(api.client(), key)
    return found if found is not None and found.kind in kinds else None


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def _resource_at(key: str) -> Resource | None:
    return lookup.resource_at(api.client(), key)
