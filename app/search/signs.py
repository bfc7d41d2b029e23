"""The reading of a query: removable signs, words, and facet values for adding signs."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

import streamlit as st

from app.labels import TYPES
from app.search.queries import CATALOG, Answer, Go, SearchQuery, show_chips
from app.search.results import Documents
from app.ui.notices import offer_action, show_note
from app.ui.passages import label
from carrel.wire.search import Facet, ResultOrder, SearchDocumentCatalogResponse, SignKind
from flows.operations.formatting import count_text

_FACETS = {"type": "Type", "in": "Collection", "owner": "Owner", "year": "Changed in"}
_SOURCES = {code.value: words for code, words in TYPES.items()}
_MAILS = {"eml", "msg", "emlx"}
_KINDS = {SignKind.PHRASE: "exactly", SignKind.EXCLUDED: "without", SignKind.ALTERNATIVES: "either"}


def show_reading(found: Answer, question: SearchQuery, documents: Documents, go: Go) -> None:
    """Show the reading of the query. Each part can be undone: signs, corrected words, and the document in `like`."""
    syntax = found.applied.syntax
    notes = syntax.notes if syntax else []
    undone = {"Searched as typed": replace(question, is_literal=False)} if question.is_literal else {}
    if question.like and (document := documents.get(question.like)):
        undone[f"Documents like {label(document.document_name)}"] = replace(question, like=None)
    for words, without in undone.items():
        offer_action(words, go, without, icon="close", kind="tertiary")
    if syntax and syntax.signs:
        chips = {
            sign.written: f"{_KINDS[sign.kind]} {' or '.join(sign.values)}" if sign.kind in _KINDS else sign.written
            for sign in syntax.signs
        }
        show_chips("Signs in the question", chips, "signs", partial(_keep_signs, question, go, set(chips)))
    # If a sign leaves no document to search, all words would seem missing.
    if (words := found.applied.missing_words) and (found.results or syntax is None):
        is_wide = question.where == CATALOG and not question.only and syntax is None
        notes.append(f"No document that {'you can read' if is_wide else 'was searched'} contains {' or '.join(words)}.")
        facets = (found.facets or ()) if isinstance(found, SearchDocumentCatalogResponse) else ()
        if any(value.value in _MAILS for facet in facets if facet.field == "type" for value in facet.values):
            notes.append("Text that emails quote from earlier emails is not searched.")
    corrections = found.applied.corrections or ()
    notes += [f"Searched for {' or '.join(each.replaced_by)} instead of {each.word}." for each in corrections]
    if waiting := found.applied.without_meaning:
        notes.append(f"{count_text(waiting, 'document')} can be found only by words so far.")
    if notes:
        show_note(" ".join(notes))
    if corrections:
        text = f"Search for {label(' '.join(each.word for each in corrections))} as typed"
        offer_action(text, go, replace(question, is_literal=True), key="typed", kind="tertiary")


def _keep_signs(question: SearchQuery, go: Go, signs: set[str], kept: Sequence[str]) -> None:
    go(replace(question, text=reduce(remove_sign, signs.difference(kept), question.text)))


def remove_sign(text: str, sign: str) -> str:
    """Return a query without the sign where it stands alone, or else without its first occurrence."""
    removed, count = re.subn(rf"(^|\s+){re.escape(sign)}" + (r"(?!\w)" if sign[-1].isalnum() else ""), "", text)
    return (removed if count else text.replace(sign, " ", 1)).strip()


def offer_order(question: SearchQuery, go: Go) -> None:
    if question.where == CATALOG:
        st.session_state["order"] = question.order
        st.segmented_control(
            "Order",
            list(ResultOrder),
            key="order",
            format_func=lambda order: order.value.capitalize(),
            label_visibility="collapsed",
            required=True,
            on_change=lambda: go(replace(question, order=st.session_state["order"])),
        )


def show_facets(facets: Sequence[Facet], counted: int, question: SearchQuery, go: Go) -> None:
    """Show values that each add a sign to the query. `counted`: the results counted, more than the page shows."""

    def add(key: str) -> None:
        go(replace(question, text=f"{question.text} {st.session_state[key]}"))

    for facet in facets:
        values = [value for value in facet.values if '"' not in value.value]
        named = {
            item.value: label(_SOURCES.get(item.label, item.label) if facet.field == "type" else item.label)
            for item in values
        }
        signs = {_sign_of(facet.field, item.value): f"{named[item.value]} {item.count:,}" for item in values}
        st.session_state[key := f"facet.{facet.field}"] = None
        name, again = _FACETS.get(facet.field, facet.field), partial(add, key)
        st.pills(name, list(signs), key=key, format_func=signs.__getitem__, on_change=again, wrap=True)
    show_note(f"Counted in the {counted:,} best results, including less relevant results.")


def _sign_of(field: str, value: str) -> str:
    if field == "year":
        return f"after:{value} before:{int(value) + 1}"
    return f'{field}:"{value}"' if re.search(r"\s", value) else f"{field}:{value}"
