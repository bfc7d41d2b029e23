"""Adding documents to a collection: finding several by name, and choosing what happens to present ones."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import streamlit as st

from app import api
from app.document_collections.contents import Again, Done, add, fields_inside
from app.document_collections.outcomes import show_outcomes, work_through
from app.document_collections.writing import ask_for_values, empty_values
from app.formatting import one_line
from app.ui.errors import show_errors
from app.ui.notices import show_table, show_text
from carrel.wire.collections import DocumentCollection
from flows.operations.formatting import count_text

_FOUND = 50
_LEFT, _QUERY, _NAMES, _CHOSEN = "add.left", "add.query", "add.names", "add.chosen"
_AGAIN: Mapping[Again, str] = {
    Again.LEAVE: "Leave them as they are",
    Again.CHANGE: "Change the fields that are filled in above, and keep the others",
    Again.REPLACE: "Replace all their fields, also by what is left empty above",
}


def offer_adding(collection: DocumentCollection) -> None:
    """Offer finding documents by name, and adding several at once."""
    where = collection.document_collection_id
    _begin_again(collection)
    picked, named, inside = _choose(where)
    metadata = ask_for_values(collection)
    again = _ask_about(collection, {named[one]: inside[one] for one in picked if one in inside})
    # A second click finds nothing chosen any more.
    if st.button("Add", type="primary", key="add.go", disabled=not picked) and picked:
        _add(where, [(UUID(one), named[one]) for one in picked], metadata, again=again)
        st.rerun()
    show_outcomes()


def _begin_again(collection: DocumentCollection) -> None:
    """Keep the documents that failed in the form after an addition, and empty the form when none did."""
    if _LEFT not in st.session_state:
        return
    st.session_state[_CHOSEN] = left = st.session_state.pop(_LEFT)
    if not left:
        st.session_state[_QUERY] = ""
        empty_values(collection)


def _choose(where: UUID) -> tuple[list[str], dict[str, str], dict[str, dict[str, str]]]:
    """Show fields to find and choose documents; return their ids, labels by id, and fields of present ones by id."""
    query = st.text_input("Find documents", key=_QUERY, max_chars=200, placeholder="A part of the name").strip()
    named: dict[str, str] = st.session_state.setdefault(_NAMES, {})
    found = show_errors(lambda: _find_matches(query)) if query else {}
    named.update(found)
    chosen: list[str] = st.session_state.get(_CHOSEN, [])
    options = list(dict.fromkeys([*(one for one in chosen if one in named), *found]))
    inside = show_errors(lambda: _inside(where, options))
    picked = st.multiselect(
        "Documents to add",
        options,
        key=_CHOSEN,
        format_func=lambda one: f"{named[one]} · already in it" if one in inside else named[one],
        placeholder="Choose among those found" if options else "None yet: type a part of a name above",
        disabled=not options,
        filter_mode=None,
    )
    if query and not found:
        show_text("No document that you may read has this in its name.")
    return picked, named, inside


def _ask_about(collection: DocumentCollection, present: Mapping[str, Mapping[str, str]]) -> Again:
    """List the chosen documents that are in the collection already, and ask what happens to their fields."""
    if not present:
        return Again.LEAVE
    show_text(f"{count_text(len(present), 'of these is', 'of these are')} already in the collection:")
    if not collection.custom_metadata_schema.fields:
        show_table([(name,) for name in present], heads=("Document",))
        show_text("They stay as they are.")
        return Again.LEAVE
    show_table(
        [(name, _in_a_line(fields) or "None") for name, fields in present.items()],
        heads=("Document", "Its fields now"),
    )
    return st.radio("What becomes of them", list(_AGAIN), key="add.again", format_func=lambda one: _AGAIN[one])


def _in_a_line(fields: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in fields.items())


def _add(where: UUID, documents: Sequence[tuple[UUID, str]], metadata: Mapping[str, str], *, again: Again) -> None:
    kept: list[Done] = []
    try:
        outcomes = add(where, documents, metadata, again=again)
        show_errors(lambda: work_through(outcomes, kept, of=len(documents), doing="Adding"))
    finally:
        # Also when something else is pressed half-way.
        done = {one.document_id for one in kept if not one.problem}
        st.session_state[_LEFT] = [str(one) for one, _ in documents if one not in done]
        for cached in (api.collections, _inside):
            cached.clear()


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def _find_matches(query: str) -> dict[str, str]:
    page = next(api.client().catalog.list_documents(document_name=query, page_size=_FOUND).pages())
    return {
        str(one.document_id): one_line(f"{one.document_name} · {one.document_external_id} · {one.owner.name}")
        for one in page.documents
    }


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def _inside(where: UUID, documents: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the fields of those of the documents that are in the collection, by id."""
    return {str(one): fields for one, fields in fields_inside(where, [UUID(one) for one in documents]).items()}
