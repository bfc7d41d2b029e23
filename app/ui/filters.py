"""Fields that filter a list, kept in the page's address: a reload or a shared address shows equal rows."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, datetime, time, timedelta

import streamlit as st

from app.formatting import browser_zone
from app.ui.notices import offer_action

LONGEST = 200
FIRST_DAY, LAST_DAY = date(2000, 1, 1), date(2100, 1, 1)
_OPEN = "filters.open"
_IN_LINE = ContextVar("in_line", default=False)


@contextmanager
def filter_line(*parameters: str, most: int = 0) -> Generator[None]:
    """Put the enclosed filters into a line. On a phone all but the first fold, with the number of set `parameters`. If
    `most` is given, later filters fold on a screen, too; `parameters` then has all after the first, in their order."""
    is_open = bool(st.session_state.get(_OPEN))
    with st.container(
        horizontal=True, key=f"filters-{'open' if is_open else 'folded'}{'-few' * bool(most)}", gap="small"
    ):
        before = _IN_LINE.set(True)
        try:
            yield
        finally:
            _IN_LINE.reset(before)
        folds = {"toggle": ("Filters", parameters)}
        if most:  # a phone also shows the third and fourth
            folds["toggle"] = ("Filters", parameters[:1] + parameters[most - 1 :])
            folds["more"] = ("Fewer filters" if is_open else "More filters", parameters[most - 1 :])
        for name, (label, folded) in folds.items():
            chosen = sum(parameter in st.query_params for parameter in folded)
            said = f"{label} ({chosen})" if chosen else label
            offer_action(said, st.session_state.update, {_OPEN: not is_open}, key=f"filters-{name}", icon="tune")


def text_filter(label: str, parameter: str, *, placeholder: str = "") -> str:
    key = _follow_address(parameter, "")
    if in_line := _IN_LINE.get():
        placeholder = f"{label}: {placeholder[0].lower()}{placeholder[1:]}" if placeholder else label
    text = st.text_input(
        label,
        key=key,
        max_chars=LONGEST,
        placeholder=placeholder,
        label_visibility="collapsed" if in_line else "visible",
        on_change=_tell_address,
        args=(parameter, ""),
    )
    return text.strip()


def choice_filter(label: str, parameter: str, options: Mapping[str, str], *, default: str = "") -> str:
    """Show a choice of `options` (value in the address: label), and return the chosen value."""
    key, in_line = _follow_address(parameter, default, options), _IN_LINE.get()
    return st.selectbox(
        label,
        list(options),
        key=key,
        format_func=lambda option: f"{label}: {options[option]}" if in_line and option == default else options[option],
        label_visibility="collapsed" if in_line else "visible",
        on_change=_tell_address,
        args=(parameter, default),
    )


def days_filter() -> tuple[datetime | None, datetime | None]:
    """Show fields for the first and the last day, and return the midnights in the browser's zone around them."""
    first, last = _ask_day("From", "from"), _ask_day("To", "to")
    return (
        None if first is None else datetime.combine(first, time.min, browser_zone()),
        None if last is None else datetime.combine(last + timedelta(days=1), time.min, browser_zone()),
    )


def _ask_day(label: str, name: str) -> date | None:
    key = _follow_address(name, "")
    st.session_state[key] = day_of(str(st.session_state[key]))
    return st.date_input(
        label, value=None, key=key, min_value=FIRST_DAY, max_value=LAST_DAY, on_change=_tell_address, args=(name, "")
    )


def day_of(text: str) -> date | None:
    """Return the day in an address; None if invalid, or if nothing can be from then."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if FIRST_DAY <= day <= LAST_DAY else None


def part_of(parameter: str, parts: Mapping[str, str], *, default: str, leaving: Sequence[str] = ()) -> str:
    """Show the labels (Markdown) of a page's parts, and return the part to draw. Choosing removes `leaving`."""

    def choose() -> None:
        _tell_address(parameter, default)
        for name in leaving:
            st.query_params.pop(name, None)

    chosen = st.segmented_control(
        "Show",
        list(parts),
        key=_follow_address(parameter, default, parts),
        format_func=lambda part: parts[part],
        required=True,
        label_visibility="collapsed",
        on_change=choose,
    )
    return chosen or default


def _follow_address(parameter: str, default: str, options: Mapping[str, str] | None = None) -> str:
    """Fill the field from a new address, with the default for an unknown option; return the field's key."""
    key, seen = f"filter.{parameter}", f"filter.{parameter}.seen"
    said = st.query_params.get(parameter, default)[:LONGEST]
    if key not in st.session_state or st.session_state.get(seen) != said:
        st.session_state[key] = st.session_state[seen] = said
    if options is not None and st.session_state[key] not in options:
        st.session_state[key] = default
    return key


def _tell_address(parameter: str, default: str) -> None:
    key, seen = f"filter.{parameter}", f"filter.{parameter}.seen"
    said = str(st.session_state[key] or "").strip() or default
    if said == st.session_state.get(seen):
        return  # a fragment's timer may still send fields after the person left the list
    if said != default:
        st.query_params[parameter] = said
    else:
        st.query_params.pop(parameter, None)
    st.session_state[seen] = said
