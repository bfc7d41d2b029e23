"""Filters on metadata: offered by a collection's fields and their types, shown in words, and taken away again."""

from collections.abc import Callable
from dataclasses import replace
from html import escape
from typing import cast

import streamlit as st

from app.search.queries import (
    IN_WORDS,
    MOST,
    OF_TIMES,
    OFFERED,
    Answer,
    Condition,
    Kinds,
    SearchQuery,
    condition_of,
    kinds_of,
)
from app.ui.notices import show_note, show_text, show_warning
from carrel.wire.collections import DocumentCollection, FieldType
from carrel.wire.search import SearchDocumentCollectionResponse

Go = Callable[[SearchQuery], None]

_ONLY, _DRAWN, _FIELD = "only", "only.drawn", "only.field"
_YES_NO = {"true": "yes", "false": "no"}
_FOR_CATALOG = tuple(IN_WORDS)


def offer_conditions(question: SearchQuery, collection: DocumentCollection | None, go: Go) -> None:
    """Show a question's conditions, to take them away, and offer another; `go` asks the changed question."""
    kinds = kinds_of(collection)
    if question.only:
        st.session_state[_ONLY] = list(question.only)
        st.multiselect(
            "Only where",
            question.only,
            key=_ONLY,
            format_func=lambda condition: condition.in_words(kinds),
            placeholder="No filter",
            on_change=_keep,
            args=(question, go),
        )
    with st.popover("Add a filter", icon=":material/filter_alt:", disabled=len(question.only) >= MOST):
        if collection is not None and not kinds:
            show_text("The documents of this collection have no fields to filter by.")
        else:
            _offer(question, kinds, go, has_schema=collection is not None)


def show_applied(found: Answer, question: SearchQuery, kinds: Kinds, go: Go) -> None:
    """Show what the service made of the question; a filter that it drew can be taken away."""
    if not isinstance(found, SearchDocumentCollectionResponse):
        return
    extracted, drawn = found.applied.extraction, found.applied.filtering
    if extracted and extracted.questions != [question.text]:
        st.html(f'<p class="carrel-facts">Searched for: {escape(" · ".join(extracted.questions))}</p>')
    if drawn and drawn.filters and drawn.dropped:
        told = " · ".join(condition_of(one).in_words(kinds) for one in drawn.filters)
        show_warning("Nothing was found with the filters in the question.", f"They were left out: {told}.")
    elif conditions := [condition_of(one) for one in drawn.filters] if drawn else list(question.drawn):
        st.session_state[_DRAWN] = conditions
        st.multiselect(
            "From the question",
            conditions,
            key=_DRAWN,
            format_func=lambda condition: condition.in_words(kinds),
            on_change=_keep_drawn,
            args=(question, go),
        )
    for note in {one.note for one in (extracted, drawn) if one and one.note}:
        show_note(note)


def _offer(question: SearchQuery, kinds: Kinds, go: Go, *, has_schema: bool) -> None:
    field = _field(kinds, has_schema=has_schema)
    kind = kinds.get(field, FieldType.STRING)
    words = OF_TIMES if kind is FieldType.DATETIME else IN_WORDS
    operator = st.selectbox(
        "Condition",
        OFFERED[kind] if has_schema else _FOR_CATALOG,
        key=f"only.operator.{kind if has_schema else ''}",
        format_func=lambda one: words[one],
    )
    value = _value(kind)
    condition = Condition(field, operator, value) if field and value else None
    st.button(
        "Filter",
        type="primary",
        key="only.add",
        disabled=condition is None,
        on_click=_add,
        args=(question, condition, go),
    )


def _field(kinds: Kinds, *, has_schema: bool) -> str:
    if has_schema:
        names = list(kinds)
        if st.session_state.get(_FIELD) not in names:
            st.session_state[_FIELD] = names[0]
        return st.selectbox("Field", names, key=_FIELD)
    return st.text_input("Field", key="only.name", max_chars=200, placeholder="As in the results: team").strip()


def _value(kind: FieldType) -> str:
    """Show an input for a value of a type, and return it as requests have it; empty without one."""
    key = f"only.value.{kind}"
    match kind:
        case FieldType.BOOLEAN:
            return st.selectbox("Value", list(_YES_NO), key=key, format_func=lambda one: _YES_NO[one])
        case FieldType.INT:
            number = st.number_input("Value", key=key, value=None, step=1)
            return "" if number is None else str(int(number))
        case FieldType.DOUBLE:
            number = st.number_input("Value", key=key, value=None, step=None, format="%f")
            return "" if number is None else repr(float(number))
        case FieldType.DATETIME:
            day = st.date_input("Day", key=key, value=None)
            return "" if day is None else day.isoformat()
        case FieldType.STRING:
            return st.text_input("Value", key=key, max_chars=2000)


def _add(question: SearchQuery, condition: Condition, go: Go) -> None:
    go(replace(question, only=tuple(dict.fromkeys((*question.only, condition)))))


def _keep(question: SearchQuery, go: Go) -> None:
    kept = cast("list[Condition]", st.session_state[_ONLY])
    go(replace(question, only=tuple(condition for condition in question.only if condition in kept)))


def _keep_drawn(question: SearchQuery, go: Go) -> None:
    """Search with the drawn filters that are left, and draw none."""
    kept = cast("list[Condition]", st.session_state[_DRAWN])
    go(replace(question, drawn=tuple(kept), draws_filters=False))
