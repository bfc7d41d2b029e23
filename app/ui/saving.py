"""Saving an edit: only the person's changes are sent, and never over changes saved by another person since."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from uuid import uuid4

import streamlit as st
from pydantic.alias_generators import to_camel, to_snake
from pydantic_core import to_jsonable_python

from app.formatting import moment, one_line, shorten
from app.labels import CODES, label_of
from app.ui.notices import show_text, show_warning
from carrel.errors import EditConflictError
from carrel.wire.common import MeanwhileChange, Versioned

Thing = TypeVar("Thing")


class ConflictError(Exception):
    """Another person has saved the object, and the changes are not saved yet; the message gives the remedy."""


MINE, THEIRS = "Use mine", "Use theirs"
_LONGEST = 1000


def keep_opened(form: str, now: Thing, *, field: str = "") -> Thing:
    """Return a resource as it was when the form opened, kept since: outside a dialog, when the session got `field`."""
    if field and field not in st.session_state:
        forget_form(form)
    return st.session_state.setdefault(f"{form}.opened", now)


def key_of(form: str, part: str) -> str:
    """Return a field's key. `reset_fields` changes it, because with an equal key a browser keeps the shown value."""
    return f"{form}.{part}{st.session_state.get(f'{form}.turn', '')}"


def reset_fields(form: str) -> None:
    """Make a form's fields show saved values. The new keys end as in `app.loading.starting.field`."""
    st.session_state[f"{form}.turn"] = f"-{uuid4().hex}"


def forget_form(form: str) -> None:
    for kept in ("opened", "conflict"):
        st.session_state.pop(f"{form}.{kept}", None)


def send_changes(form: str, before: Versioned, written: Mapping[str, Any], send: Callable[..., object]) -> None:
    """Send changed members, if any, with the version of `before`, keeping other people's. Raises ConflictError if both
    changed a member: `show_conflict` then shows the choice, and the next call sends it."""
    changed = {name: new for name, new in written.items() if _as_json(new) != _as_json(getattr(before, name, None))}
    version = before.version
    conflict: MeanwhileChange | None = st.session_state.get(f"{form}.conflict")
    if conflict is not None:
        version = conflict.current.get("version")
        choices = {name: st.session_state.get(f"{form}.choice.{name}") for name in changed}
        changed = {name: new for name, new in changed.items() if choices[name] != THEIRS}
    while changed:
        try:
            send(**changed, version=version)
        except EditConflictError as error:
            meanwhile = error.meanwhile
            if meanwhile is None or not _is_apart(before, changed, meanwhile):
                st.session_state[f"{form}.conflict"] = meanwhile
                mine = {name: _as_json(new) for name, new in changed.items() if name in before.edited}
                st.session_state[f"{form}.mine"] = mine
                raise ConflictError("Nothing is saved yet. Choose the values to keep, and save again.") from None
            version = meanwhile.current.get("version")
        else:
            break
    forget_form(form)


def show_conflict(form: str, names: Mapping[str, str] = CODES) -> None:
    """Show values saved by other people next to the person's own, if any; `names` maps ids to names."""
    conflict: MeanwhileChange | None = st.session_state.get(f"{form}.conflict")
    if conflict is None:
        return
    mine: dict[str, Any] = st.session_state[f"{form}.mine"]
    before = _as_json(st.session_state[f"{form}.opened"])
    when = f" ({moment(conflict.changed_at)})" if conflict.changed_at else ""
    show_warning(f"{one_line(conflict.changed_by or 'Someone else')} changed this after you opened it{when}.")
    for name, own in mine.items():
        theirs = conflict.current.get(to_camel(name))
        if theirs not in (own, before.get(to_camel(name))):
            captions = [_excerpt(own, names), _excerpt(theirs, names)]
            st.radio(label_of(name), [MINE, THEIRS], captions=captions, key=f"{form}.choice.{name}")
    others = [
        f"{label_of(name)}: {_excerpt(conflict.current.get(to_camel(name)), names)}"
        for name in getattr(st.session_state[f"{form}.opened"], "edited", ())
        if name not in mine and conflict.current.get(to_camel(name)) != before.get(to_camel(name))
    ]
    for said in others:
        show_text(f"Their change, which is kept: {said}")


def _is_apart(before: Versioned, changed: Mapping[str, Any], meanwhile: MeanwhileChange) -> bool:
    """Return whether the two people's changes share no member."""
    return "version" in meanwhile.current and all(
        _as_json(meanwhile.current.get(to_camel(name))) == _as_json(getattr(before, name))
        for name in changed
        if name in before.edited
    )


def _as_json(value: object) -> Any:
    plain = to_jsonable_python(value, exclude_none=True)
    return None if plain == "" else plain


def _excerpt(value: object, names: Mapping[str, str]) -> str:
    return shorten(in_words(value, names), _LONGEST) or "Empty"


def in_words(value: object, names: Mapping[str, str] = CODES) -> str:
    """Return the value of a field as text, with `names` instead of ids and codes."""
    match to_jsonable_python(value, exclude_none=True):
        case bool(flag):
            return "yes" if flag else "no"
        case [*several]:
            return ", ".join(in_words(item, names) for item in several)
        case {"email": str(email)}:
            return email
        case {**fields}:
            return ", ".join(f"{label_of(to_snake(name))}: {in_words(field, names)}" for name, field in fields.items())
        case plain:
            return "" if plain is None else names.get(str(plain), str(plain))
