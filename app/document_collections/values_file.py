"""Values from a CSV file: a preview of the changes, the lines that cannot be used, and a save like that of the rows."""

import csv
import io
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import streamlit as st

from app import api
from app.document_collections.contents import shown_value
from app.document_collections.values import HEADS, MOST_AT_ONCE, Editing, offer_saving
from app.lookup import is_id
from app.ui import notices
from app.ui.errors import show_errors
from app.ui.saving import key_of, reset_fields
from carrel.directory.tables import DELIMITERS, UTF_16_MARKS
from carrel.spreadsheets import flag_of, from_text
from carrel.wire.collections import DocumentCollection, DocumentInCollection, FieldType, SchemaFieldInfo
from flows.operations.formatting import count_text

FORM, MOST_SHOWN = "values_file", 50
_READ = f"{FORM}.read"
Line = tuple[int, Mapping[str, str]]


@dataclass
class Preview:
    """The changes of a file, by place in the documents, and the reason for each line that cannot be used."""

    editing: Editing
    edits: dict[int, dict[str, str]] = field(default_factory=dict[int, dict[str, str]])
    problems: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    ignored: list[str] = field(default_factory=list[str])
    unchanged: int = 0


def offer_values_import(collection: DocumentCollection) -> None:
    """Show an input for a CSV file, and the preview of its changes."""
    with st.expander("Load values from a CSV file", key=f"{FORM}.open"):
        notices.show_text("Edit an exported file and load it here. If you empty a cell, the value is removed.")
        sent = st.file_uploader("CSV file", type=["csv", "tsv", "txt"], key=key_of(FORM, "file"))
        if sent is None:
            return
        about, kept = (collection.document_collection_id, sent.file_id), st.session_state.get(_READ)
        if kept is None or kept[0] != about:
            with st.spinner("Comparing the file with the documents …"):
                kept = about, show_errors(lambda: read_preview(collection, sent.getvalue()))
            st.session_state[_READ] = kept
        if not kept[1].editing.now:  # the other changes are saved
            _show_preview(collection, kept[1])
        if offer_saving(FORM, collection, kept[1].editing, kept[1].edits):
            reset_fields(FORM)
            st.rerun()


def _show_preview(collection: DocumentCollection, preview: Preview) -> None:
    if preview.ignored:
        notices.show_text(f"These columns are ignored: {', '.join(preview.ignored)}.")
    if preview.problems:
        notices.show_warning(f"{count_text(len(preview.problems), 'line')} cannot be used.")
        lines = [(f"{line:,}", message) for line, message in preview.problems[:MOST_SHOWN]]
        notices.show_table(lines, heads=("Line", "Reason"))
    kinds = {item.name: item.type for item in collection.custom_metadata_schema.fields}
    changes = [
        (document.document_name, name, *(shown_value(kinds[name], text) or "Empty" for text in texts))
        for document, values in ((preview.editing.documents[place], values) for place, values in preview.edits.items())
        for name, value in values.items()
        for texts in [(document.custom_metadata.get(name, ""), value)]
    ]
    of = f"{count_text(len(preview.edits), 'document')} will change, {preview.unchanged:,} will not"
    notices.show_text(f"{of}. These are the first changes." if len(changes) > MOST_SHOWN else f"{of}.")
    if changes:
        notices.show_table(changes[:MOST_SHOWN], heads=("Document", "Field", "Now", "New"))


def read_preview(collection: DocumentCollection, data: bytes) -> Preview:
    """Compare a CSV file in UTF-8, UTF-16 or Windows-1252 with the documents' values now. Bad lines are problems."""
    where, fields = collection.document_collection_id, collection.custom_metadata_schema.fields
    preview = Preview(Editing(where, []))
    rows = list(_read_lines(_decode_text(data), {item.name for item in fields}, preview))
    preview.editing.documents = _fetch_documents(where, [row.get(f"\0{HEADS[0]}", "") for _, row in rows])
    known = defaultdict[tuple[str, str], list[int]](list)
    for place, held in enumerate(preview.editing.documents):
        cells = (str(held.document_id), held.document_external_id, held.document_name)
        for head, value in zip(HEADS, cells, strict=True):
            known[head, value.strip()].append(place)
    seen = set[int]()
    for line, row in rows:
        place, problem = _match(row, known)
        if place in seen:
            problem = "An earlier line has the same document."
        elif place is not None and preview.editing.documents[place].parent_document_id:
            problem = "This document has the values of its archive or email."
        if place is None or problem:
            preview.problems.append((line, problem))
        else:
            seen.add(place)
            _compare(preview, fields, place, (line, row))
    preview.problems.sort()
    return preview


def _read_lines(text: str, names: Collection[str], preview: Preview) -> Iterator[Line]:
    """Yield each line's number and cells, by field, or by NUL and a head; keep errors and other heads in `preview`."""
    known, first = {*HEADS, *names}, text.partition("\n")[0]
    try:
        headers = {sign: next(csv.reader([first], delimiter=sign), list[str]()) for sign in DELIMITERS}
    except csv.Error as error:
        preview.problems.append((1, f"The file cannot be read ({error})."))
        return
    sign = max(DELIMITERS, key=lambda sign: sum(cell.strip() in known for cell in headers[sign]))
    columns = dict[str, int]()
    for place, name in enumerate(cell.strip() for cell in headers[sign]):
        # Of two columns with the same name, the first is the document's, the second a field's.
        column = f"\0{name}" if name in HEADS and f"\0{name}" not in columns else name
        if column[:1] == "\0" or (name in names and name not in columns):
            columns[column] = place
        elif name:
            preview.ignored.append(name)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=sign, strict=True)
    try:
        for number, cells in enumerate(reader):
            if number and any(cells):
                yield reader.line_num, {name: from_text(cells[at]) for name, at in columns.items() if at < len(cells)}
    except csv.Error as error:
        preview.problems.append((reader.line_num, f"The file cannot be read from here on ({error})."))


def _compare(preview: Preview, fields: Sequence[SchemaFieldInfo], place: int, line: Line) -> None:
    (number, row), held = line, preview.editing.documents[place].custom_metadata
    changed, problems = dict[str, str](), list[str]()
    for item in fields:
        text = row.get(item.name)
        flag = flag_of(text or "") if item.type is FieldType.BOOLEAN else None  # as in spreadsheets of any language
        value = str(flag).lower() if flag is not None else item.read(text) if text else text
        if text and value is None:
            problems.append(f"{item.name}: {item.explain(text)}")
        elif value is not None and value != held.get(item.name, ""):
            changed[item.name] = value
            problems += [f"{item.name}: The field is required."] if item.required and not value else []
    preview.problems += [(number, problem) for problem in problems]
    if changed and not problems:
        preview.edits[place] = changed
    preview.unchanged += not changed and not problems


def _decode_text(data: bytes) -> str:
    if data.startswith(UTF_16_MARKS):
        return data.decode("utf-16", "replace")
    with suppress(UnicodeDecodeError):
        return data.decode("utf-8-sig")
    return data.decode("cp1252", "replace")


def _fetch_documents(where: UUID, ids: Sequence[str]) -> list[DocumentInCollection]:
    """Return the documents with these ids, or without ids for some lines, all documents of the collection."""
    listed = partial(api.client().document_collections.list_documents_in_collection, where, page_size=MOST_AT_ONCE)
    if not all(is_id(item.strip()) for item in ids):
        return list(listed())
    distinct = list(dict.fromkeys(item.strip() for item in ids))
    batches = (distinct[start : start + MOST_AT_ONCE] for start in range(0, len(distinct), MOST_AT_ONCE))
    return [document for batch in batches for document in listed(ids=batch)]


def _match(row: Mapping[str, str], known: Mapping[tuple[str, str], Sequence[int]]) -> tuple[int | None, str]:
    """Return the place of a line's document, or the reason for no document."""
    head, value = next(((head, text) for head in HEADS if (text := row.get(f"\0{head}", "").strip())), ("", ""))
    found = known.get((head, value), ())
    if len(found) == 1:
        return found[0], ""
    if found:
        return None, f"{len(found):,} documents have the name “{value}”. Add the column “External id”."
    if head:
        return None, f"This collection has no document that you can read with the {head.lower()} “{value}”."
    return None, "The line has no document id, external id or name."
