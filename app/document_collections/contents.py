"""The documents of collections: add, index, change and remove documents and fields."""

import html
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, cast
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.formatting import count_of
from app.labels import YES_NO
from app.ui.dialogs import NotYetError, text_in
from app.ui.errors import line_of
from app.ui.notices import show_link, show_problem, show_table, show_text, show_warning
from app.ui.progress import show_progress
from app.ui.tables import forget
from carrel.wire.collections import DocumentCollection, DocumentInCollection, FieldType, SchemaField, SchemaFieldInfo
from carrel.wire.common import NamedDocument
from carrel.wire.field_values import BETWEEN
from flows.operations.formatting import count_text

TYPES: Mapping[str, FieldType] = {
    "Text": FieldType.STRING,
    "Whole number": FieldType.INT,
    "Number": FieldType.DOUBLE,
    "Date and time": FieldType.DATETIME,
    "Yes or no": FieldType.BOOLEAN,
    "List": FieldType.LIST,
}

EXAMPLES: Mapping[FieldType, str] = {
    FieldType.STRING: "",
    FieldType.INT: "12",
    FieldType.DOUBLE: "1.5",
    FieldType.DATETIME: "2026-01-31, or 2026-01-31T09:30:00Z",
    FieldType.BOOLEAN: "yes or no",
    FieldType.LIST: "red; green",
}


def type_in_words(kind: str) -> str:
    return next(words for words, known in TYPES.items() if known == kind)


def read_choices(text: str) -> list[str]:
    """Return the choices in a text with semicolons between them."""
    return list(dict.fromkeys(choice.strip() for choice in text.split(";") if choice.strip()))


MOST_LOOKED_THROUGH = 10_000
"""Stale documents are looked for in at most this many documents of a collection. A run checks all."""
MOST_AT_ONCE = 50
"""Most documents that a page indexes again, in turn. More need a run."""
_PAGE = 1000


@dataclass(frozen=True)
class Done:
    """The result of a change to a document of a collection. `problem` is empty on success."""

    document_id: UUID
    name: str
    problem: str = ""


def find_collection(address: str) -> DocumentCollection | None:
    return next((item for item in api.collections() if str(item.document_collection_id) == address), None)


def embedding_models() -> list[str]:
    return list(dict.fromkeys(collection.embeddings_model for collection in api.collections()))


def find_stale(collection_id: UUID) -> tuple[Sequence[DocumentInCollection], bool]:
    """Return the stale among a collection's first 10,000 documents, and whether these are all its documents."""
    listing = api.client().document_collections.list_documents_in_collection(collection_id, page_size=_PAGE)
    pages = list(islice(listing.pages(), MOST_LOOKED_THROUGH // _PAGE))
    return [document for page in pages for document in page.documents if document.stale], not pages[-1].next_page_token


def index_again(collection_id: UUID, documents: Iterable[NamedDocument]) -> Iterator[Done]:
    reindex = api.client().document_collections.reindex_document_in_collection
    for document in documents:
        index = partial(reindex, document_id=document.document_id, document_collection_id=collection_id)
        yield _attempt(document.document_id, document.document_name, index)


def find_inside(collection_id: UUID, documents: Sequence[UUID]) -> list[UUID]:
    """Return the ids in `documents` of documents that the collection has and the person can read."""
    listing = api.client().document_collections.list_documents_in_collection
    batches = (documents[start : start + _PAGE] for start in range(0, len(documents), _PAGE))
    return [item.document_id for batch in batches for item in listing(collection_id, ids=batch, page_size=_PAGE)]


def set_values(collection_id: UUID, documents: Iterable[UUID], values: Mapping[str, str]) -> dict[UUID, str]:
    """Change these values alone of up to 1,000 documents, and return each status; without values, change nothing."""
    changes = [{"document_id": document, "custom_metadata": values} for document in documents if values]
    change = api.client().document_collections.change_values
    return {result.document_id: result.status for result in change(collection_id, changes).results} if changes else {}


def _attempt(document_id: UUID, name: str, change: Callable[[], object]) -> Done:
    try:
        change()
    except carrel.CarrelError as error:
        return Done(document_id, name, line_of(error))
    return Done(document_id, name)


INSIDE = "inside"
_OUTCOMES = "collection.outcomes"


def work_through(outcomes: Iterable[Done], *, of: int, doing: str) -> None:
    """Do the work under a progress bar. Each result is stored at once, for `show_outcomes` if the person leaves."""
    kept = list[Done]()
    st.session_state[_OUTCOMES] = (kept, of)
    forget(INSIDE)
    kept.extend(show_progress(outcomes, of=of, doing=doing))


def show_outcomes() -> None:
    """Show and forget the stored results of the last work."""
    outcomes, of = cast("tuple[list[Done], int]", st.session_state.pop(_OUTCOMES, ([], 0)))
    failed = [outcome for outcome in outcomes if outcome.problem]
    if len(outcomes) < of:
        left = f"{of - len(outcomes):,} of {count_text(of, 'document')}"
        show_warning(f"Interrupted. {left} were not started. Try again.")
    if failed:
        others = "The others are done." if len(failed) < len(outcomes) else ""
        show_problem(f"{count_of(len(failed), len(outcomes), 'document')} failed.", *filter(None, [others]))
        show_table([(item.name, item.problem) for item in failed], heads=("Document", "Reason"))
    elif outcomes:
        show_text(f"Done: {count_text(len(outcomes), 'document')}.")


MOST_FIELDS = 200
_LONGEST_NAME, _LONGEST_VALUE = 200, 10_000


def ask_for_fields(key: str) -> None:
    """Show inputs for fields and an extra empty line. An editable table would lose letters typed during a redraw."""
    show_text("Searches can filter by these fields. You can change them later.")
    written = [number for number in range(MOST_FIELDS) if _name_in_field(key, number)]
    for number in range(min(max(written, default=-1) + 2, MOST_FIELDS)):
        visibility = "visible" if number == 0 else "collapsed"
        name, kind, choices = st.columns([3, 2, 3])
        name.text_input("Field", key=f"{key}.{number}.name", max_chars=_LONGEST_NAME, label_visibility=visibility)
        kind.selectbox("Type", list(TYPES), key=f"{key}.{number}.type", label_visibility=visibility)
        at = f"{key}.{number}.choices"
        choices.text_input("Choices", key=at, placeholder="Any, or red; green", label_visibility=visibility)


def read_fields(key: str) -> list[SchemaField]:
    """Return the fields entered in `ask_for_fields`. Raises ValueError with a sentence about the problem."""
    written = {number: name for number in range(MOST_FIELDS) if (name := _name_in_field(key, number))}
    if twice := sorted(name for name, count in Counter(written.values()).items() if count > 1):
        raise ValueError(f"Two fields have the same name: {', '.join(twice)}.")
    kinds = {number: TYPES[str(st.session_state[f"{key}.{number}.type"])] for number in written}
    given = {number: read_choices(text_in(f"{key}.{number}.choices")) for number in written}
    if any(len(of) > MOST_FIELDS or max(map(len, of), default=0) > _LONGEST_NAME for of in given.values()):
        raise ValueError("A field has at most 200 choices of 200 characters. Separate them with semicolons.")
    more: dict[int, dict[str, Any]] = {number: {"choices": of} if of else {} for number, of in given.items()}
    return [SchemaField(name=name, type=kinds[number], **more[number]) for number, name in written.items()]


def ask_for_values(collection: DocumentCollection, key: str, *, adds: bool = True) -> dict[str, str] | None:
    """Show fields for values, with each problem below its field. Return the values; None if any is wrong or missing."""
    if fields := collection.custom_metadata_schema.fields:
        show_text("Values of the collection's fields. Leave unknown values empty.")
    written = {
        field.name: _ask_for_value(field, f"{key}.{collection.document_collection_id}.{number}")
        for number, field in enumerate(fields)
    }
    missing = adds and any(field.required and not written[field.name] for field in fields)
    if missing or None in written.values():
        return None
    return {name: value for name, value in written.items() if value}


NEW = "new"


def choose_collection(
    words: str, key: str, *, none: str, at: str = "", may_create: bool = False
) -> DocumentCollection | None:
    """Ask for a collection that the person may edit, at first with the id `at`; `none` and `NEW` mean None."""
    known = {str(item.document_collection_id): item for item in api.editable_collections()}
    options = {"": none} | {key: collection.collection_name for key, collection in known.items()}
    options |= {NEW: "New collection …"} if may_create else {}
    start = list(options).index(at) if at in options else 0
    return known.get(st.selectbox(words, list(options), start, key=key, format_func=lambda item: options[str(item)]))


def read_values(collection: DocumentCollection, key: str) -> dict[str, str]:
    """Return the values typed into `ask_for_values`, without empty fields. NotYetError tells what a field takes."""
    values: dict[str, str] = {}
    for number, field in enumerate(collection.custom_metadata_schema.fields):
        held = st.session_state.get(f"{key}.{collection.document_collection_id}.{number}") or ""
        written = BETWEEN.join(held) if field.choices and field.type is FieldType.LIST else str(held).strip()
        if written and field.read(written) is None:
            raise NotYetError(field.explain(written))
        values |= {field.name: written} if written else {}
    return values


def _ask_for_value(field: SchemaFieldInfo, key: str) -> str | None:
    name, value = st.columns([2, 3], vertical_alignment="center")
    kind = f"<small>{type_in_words(field.type).lower()}{', required' if field.required else ''}</small>"
    name.html(f'<p class="carrel-text">{html.escape(field.name)}<br>{kind}</p>')
    with value:
        if field.choices:
            return _choose_value(field, key)
        written = st.text_input(
            field.name,
            key=key,
            max_chars=_LONGEST_VALUE,
            placeholder=EXAMPLES[field.type],
            label_visibility="collapsed",
        ).strip()
        if not written or field.read(written) is not None:
            return written
        show_problem(field.explain(written))
    return None


def _choose_value(field: SchemaFieldInfo, key: str) -> str:
    choices = field.choices or []
    if field.type is FieldType.LIST:
        return BETWEEN.join(st.multiselect(field.name, choices, key=key, label_visibility="collapsed"))
    return st.selectbox(field.name, choices, None, key=key, label_visibility="collapsed") or ""


def shown_value(kind: FieldType, value: str) -> str:
    return YES_NO.get(value, value) if kind is FieldType.BOOLEAN else value


def _name_in_field(key: str, number: int) -> str:
    return str(st.session_state.get(f"{key}.{number}.name") or "").strip()


def offer_adding(collection: DocumentCollection) -> None:
    """Lead to the list of documents, where several documents or all that match can be added at once."""
    show_text("Select documents in the list, then choose Add to a collection.")
    into = str(collection.document_collection_id)
    show_link("Select documents", "documents", of="all", rows="choose", into=into)
