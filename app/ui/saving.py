"""Saving an edit: only what the person changed is sent, and never over what somebody else saved meanwhile."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import streamlit as st
from pydantic.alias_generators import to_camel
from pydantic_core import to_jsonable_python

from app.formatting import moment, one_line, shorten
from app.ui.notices import show_text, show_warning
from carrel.errors import ChangedMeanwhileError
from carrel.wire.common import MeanwhileChange, Versioned

Thing = TypeVar("Thing")


class ConflictError(Exception):
    """Somebody else saved meanwhile, and nothing of one's own is saved yet; the message says what to do."""


MINE, THEIRS = "Use mine", "Use theirs"
_LONGEST = 1000


def keep_opened(form: str, now: Thing, *, field: str = "") -> Thing:
    """Return a resource as it was when its form was opened: outside a dialog, when the session got the key `field`."""
    if field and field not in st.session_state:
        forget_form(form)
    return st.session_state.setdefault(f"{form}.opened", now)


def forget_form(form: str) -> None:
    """Forget how a resource was when its form was opened, and a conflict."""
    for kept in ("opened", "conflict"):
        st.session_state.pop(f"{form}.{kept}", None)


def send_changes(form: str, before: Versioned, written: Mapping[str, Any], send: Callable[..., object]) -> None:
    """Send the members that differ from those of `before`, with its version. Members that others have saved meanwhile
    stay; of the same members `show_conflict` shows both, and the next call sends the choice."""
    changed = {name: one for name, one in written.items() if _plain(one) != _plain(getattr(before, name, None))}
    version = before.version
    conflict: MeanwhileChange | None = st.session_state.get(f"{form}.conflict")
    if conflict is not None:
        version = conflict.current.get("version")
        changed = {
            name: one for name, one in changed.items() if st.session_state.get(f"{form}.choice.{name}") != THEIRS
        }
    while changed:
        try:
            send(**changed, version=version)
        except ChangedMeanwhileError as error:
            meanwhile = error.meanwhile
            if meanwhile is None or not _is_apart(before, changed, meanwhile):
                st.session_state[f"{form}.conflict"] = meanwhile
                mine = {name: _plain(one) for name, one in changed.items() if name in before.edited}
                st.session_state[f"{form}.mine"] = mine
                raise ConflictError("Nothing is saved yet. Choose which values to keep, and save again.") from None
            version = meanwhile.current.get("version")
        else:
            break
    forget_form(form)


def show_conflict(form: str) -> None:
    """Show the values that somebody else has saved meanwhile beside the person's own, if there are any."""
    conflict: MeanwhileChange | None = st.session_state.get(f"{form}.conflict")
    if conflict is None:
        return
    mine: dict[str, Any] = st.session_state[f"{form}.mine"]
    before = _plain(st.session_state[f"{form}.opened"])
    when = f" ({moment(conflict.changed_at)})" if conflict.changed_at else ""
    show_warning(f"{one_line(conflict.changed_by or 'Somebody else')} has changed this since you opened it{when}.")
    for name, own in mine.items():
        theirs = conflict.current.get(to_camel(name))
        if theirs != own:
            captions = [_excerpt(own), _excerpt(theirs)]
            st.radio(_label(name), [MINE, THEIRS], captions=captions, key=f"{form}.choice.{name}")
    others = [
        f"{_label(name)}: {_excerpt(conflict.current.get(to_camel(name)))}"
        for name in getattr(st.session_state[f"{form}.opened"], "edited", ())
        if name not in mine and conflict.current.get(to_camel(name)) != before.get(to_camel(name))
    ]
    for said in others:
        show_text(f"Theirs, which stays as it is: {said}")


def _is_apart(before: Versioned, changed: Mapping[str, Any], meanwhile: MeanwhileChange) -> bool:
    """Return whether somebody else changed none of the members that the person changed."""
    return "version" in meanwhile.current and all(
        meanwhile.current.get(to_camel(name)) == _plain(getattr(before, name))
        for name in changed
        if name in before.edited
    )


def _label(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _plain(value: object) -> Any:
    plain = to_jsonable_python(value, exclude_none=True)
    return None if plain == "" else plain


def _excerpt(value: object) -> str:
    return shorten(in_words(value), _LONGEST) or "Empty"


def in_words(value: object) -> str:
    plain = to_jsonable_python(value, exclude_none=True)
    return plain if isinstance(plain, str) else "" if plain is None else json.dumps(plain, ensure_ascii=False)
