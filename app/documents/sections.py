"""The sections of a document's page: indexes, versions, passages and readers. Also its details in a dialog."""

import html
from functools import partial
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.documents.facts import is_stale, kind_of, name_of_place, owner_of, pages_being_read, resource_of, state_in
from app.documents.original import has_original, passage_in_address
from app.documents.rows import rows_html
from app.formatting import ago, moment, size
from app.labels import EVERYONE, YES_NO
from app.permissions.panel import show_access
from app.ui import notices
from app.ui.errors import error_boundary, keep_problem, problem_of, show_errors, show_kept_problem
from app.ui.filters import choice_filter
from app.ui.passages import PassageLocation, find_quote, mark_html, open_html, place_html, words_in
from app.ui.tables import ItemsPage, Source, pages_of, show_each, show_text_pages
from carrel.wire.catalog import DocumentIndexing, GetDocumentResponse, IndexingStatus, LeftOutFile
from carrel.wire.collections import DocumentChunk
from carrel.wire.common import UserPrincipal
from carrel.wire.file_names import safe_name
from carrel.wire.formats import NotReadKind
from flows.operations.formatting import capitalize, count_text


@st.dialog("About this document", width="medium", on_dismiss="rerun")
def show_details(document_id: UUID) -> None:
    with error_boundary():
        document = api.client().catalog.get_document(document_id)
        readers = ", ".join(names_of_readers(document)) if api.me().is_admin else "Only admins can see this."
    facts = [
        ("Name", document.document_name),
        ("File", f"{document.file_name} ({size(document.file_size)})"),
        ("Version", f"{document.document_version:,} ({moment(document.updated_at)})"),
        ("Identifier", document.document_external_id),
        *((name, YES_NO.get(value, value)) for name, value in document.custom_metadata.items()),
        ("Direct access", readers),
    ]
    notices.show_table(facts, named=True)
    _offer_file(document, document.document_version, document.file_name)


def _offer_file(document: GetDocumentResponse, version: int, file_name: str) -> None:
    """Show a button for downloading a document's file as the person, outside the page's run."""
    given = api.client_for_later()

    def read() -> bytes:
        with given().catalog.download_document(document.document_id, document_version=version) as download:
            return download.read()

    notices.offer_download("Download", read, safe_name(file_name), mime="application/octet-stream")


def names_of_readers(document: GetDocumentResponse) -> list[str]:
    """Return the owner and the holders of the first page of grants by name, and "more" if there are others."""
    page = next(api.client().admin.grants.list(document.resource).pages())
    names = [EVERYONE] if page.organization_wide else []
    holders = [grant.principal for grant in page.grants]
    names += [f"{holder.name} (group)" if holder.type == "group" else holder.name for holder in holders]
    return [f"{document.owner.name} (owner)", *names, *(["more"] if page.next_page_token else [])]


CHUNKS = 20
REFRESH_SECONDS = 2.0
MOST_VERSIONS, MOST_PLACES, MOST_FILES = 50, 20, 50
_PROBLEM = "document.problem"
_FILES = {NotReadKind.ATTACHMENT, NotReadKind.EMBEDDED}
_WHAT_HELPS = {
    "To read text in images, load the file again with “Read text in images inside files”.": {NotReadKind.PICTURE},
    "Upload attachments and embedded files as separate documents.": _FILES,
}


def show_about(document: GetDocumentResponse) -> None:
    facts = [
        ("Identifier", document.document_external_id),
        ("File", f"{document.file_name} ({kind_of(document.media_type)}, {size(document.file_size)})"),
        ("Version", f"{document.document_version:,}"),
        ("Owner", owner_of(document)),
        ("First loaded", f"{ago(document.created_at)} ({moment(document.created_at)})"),
        ("Changed", f"{ago(document.updated_at)} ({moment(document.updated_at)})"),
        ("URL", document.document_external_url or ""),
        ("Changed at source", moment(document.source_system_updated)),
        *((name, YES_NO.get(value, value)) for name, value in document.custom_metadata.items()),
    ]
    notices.show_table([(name, fact) for name, fact in facts if fact], named=True)


def show_container(document: GetDocumentResponse) -> None:
    catalog = api.client().catalog
    if document.parent_document_id is not None:
        parent = show_errors(partial(catalog.get_document, document.parent_document_id))
        notices.show_link(f"In: {parent.document_name}", "documents", document=str(parent.document_id))
    if not document.file_count:
        return
    st.subheader("Files in this document", anchor=False)
    contained = document.contained_files
    if contained is not None and contained.is_done:
        notices.show_text(f"{capitalize(str(contained))}.")
    elif contained is not None:
        indexing = f", {count_text(contained.indexing, 'document')} being indexed" if contained.indexing else ""
        st.progress((contained.files - contained.waiting) / contained.files, text=f"{contained}{indexing}")
    listed = catalog.list_documents(parent_document_id=document.document_id, page_size=MOST_FILES)
    page = show_errors(lambda: next(listed.pages()))
    for item in page.documents:
        path = item.document_external_id.rpartition("!/")[2]
        named = item.document_name if item.document_name == path else f"{item.document_name} · {path}"
        notices.show_link(named, "documents", document=str(item.document_id))
    if page.next_page_token:
        notices.show_text(f"The first {MOST_FILES} files are shown. Find the others by name in the list of documents.")
    if contained is not None and contained.left_out:
        _show_left_out(document)


def _show_left_out(document: GetDocumentResponse) -> None:
    st.subheader("Left out", anchor=False)
    listed = api.client().catalog.list_left_out_files
    left_out = pages_of(lambda at: listed(document.document_id, **at), about=document.document_id)
    try:
        left_out.fetch(None)
    except carrel.NotFoundError:
        notices.show_text("Only people who can read the document can see the names of these files.")
        return

    def row(file: LeftOutFile) -> tuple[str, str, notices.HelpLink]:
        return file.path or f"file {file.number:,}", file.message, notices.HelpLink(file.code, document.document_name)

    show_text_pages("document.left_out", left_out, heads=("File", "Reason", "Help"), row=row)


def show_not_read(document: GetDocumentResponse) -> None:
    """Show the parts of a document read by machine, the parts not read, and a remedy, if there are any."""
    if (recognition := document.text_recognition) is not None:
        waits = pages_being_read(recognition)
        goes_on = f" {capitalize(waits)}." if waits and not _has_failed(document) else ""
        why = f" {recognition.error}" if recognition.error else ""
        notices.show_text(f"Text recognition read this document, and can make mistakes: {recognition}.{why}{goes_on}")
    # Files left out of an archive or mail have their own list.
    listed = _FILES if document.contained_files and document.contained_files.left_out else set[NotReadKind]()
    if left_out := [part for part in document.list_left_out() if part.kind not in listed]:
        kinds = {part.kind for part in left_out}
        # After a request to read pictures, the remaining ones are drawings, icons, and unreadable pictures.
        mendable = kinds - {NotReadKind.PICTURE} if document.read_pictures else kinds
        helps = [text for text, of in _WHAT_HELPS.items() if not mendable.isdisjoint(of)]
        parts = ", ".join(map(str, left_out))
        notices.show_text(" ".join([f"Not read, and therefore not searchable: {parts}.", *helps]))


def may_update(document: GetDocumentResponse) -> bool:
    """Return whether the person is an admin or the document's owner."""
    me = api.me()
    return me.is_admin or (isinstance(document.owner, UserPrincipal) and document.owner.email == me.email)


def show_places(document: GetDocumentResponse) -> None:
    """Show the indexes of a document with the state in each. Refreshes while the state changes."""
    show_kept_problem(_PROBLEM)
    if _is_indexing(document):
        _watch(document.document_id)
    else:
        _draw_places(document)


@st.fragment(run_every=REFRESH_SECONDS)
def _watch(document_id: UUID) -> None:
    try:
        document = api.client().catalog.get_document(document_id)
    except carrel.CarrelError as error:
        notices.show_warning("Progress is not available right now. This page keeps trying.", problem_of(error).message)
        return
    if not _is_indexing(document):
        st.rerun()
    _draw_places(document)


def _is_indexing(document: GetDocumentResponse) -> bool:
    is_unpacking = document.contained_files is not None and not document.contained_files.is_done
    # Recognized text is never added if indexing the earlier text failed.
    is_reading = bool(pages_being_read(document.text_recognition)) and not _has_failed(document)
    return is_unpacking or is_reading or any(place.status is IndexingStatus.RUNNING for place in document.indexed_in)


def _has_failed(document: GetDocumentResponse) -> bool:
    return any(place.status is IndexingStatus.FAILED for place in document.indexed_in)


def _draw_places(document: GetDocumentResponse) -> None:
    if not document.indexed_in:
        notices.show_text("This document is in no index that you can see.")
    editable = {collection.document_collection_id for collection in show_errors(api.editable_collections)}
    for number, place in enumerate(document.indexed_in[:MOST_PLACES]):
        with st.container(border=True):
            _draw_place(place, document)
            if place.document_collection_id is None:
                offered = place.status is IndexingStatus.FAILED and may_update(document)
            else:
                offered = is_stale(place, document) and place.document_collection_id in editable
                if offered:
                    notices.show_text("The newest version is not searchable here.")
            if offered:
                again = partial(_reindex, document.document_id, place.document_collection_id)
                notices.offer_action("Re-index", again, key=f"reindex.{number}")
    if (more := len(document.indexed_in) - MOST_PLACES) > 0:
        notices.show_text(f"… and in {count_text(more, 'collection')} more.")


def _draw_place(place: DocumentIndexing, document: GetDocumentResponse) -> None:
    st.html(f'<p class="carrel-text"><strong>{html.escape(name_of_place(place))}</strong></p>')
    notices.show_text(state_in(place, document.text_recognition))
    if place.status is IndexingStatus.RUNNING and (whole := place.chunks_expected):
        done = min(place.chunks_embedded or 0, whole)
        st.progress(done / whole, text=f"{done:,} of {count_text(whole, 'passage')} embedded")
    if place.error and place.status is IndexingStatus.FAILED:
        advice = "Carrel retries automatically. If the file is damaged, upload a corrected file with the same name."
        notices.show_problem(place.error, advice, help_at=notices.help_address_of_code("indexing_failed"))
    elif place.error:
        notices.show_warning(place.error, "Carrel retries automatically.")


def _reindex(document_id: UUID, collection_id: UUID | None) -> None:
    with keep_problem(_PROBLEM):
        if collection_id is None:
            api.client().catalog.reindex_document(document_id)
        else:
            reindex = api.client().document_collections.reindex_document_in_collection
            reindex(document_id=document_id, document_collection_id=collection_id)
        st.toast("Re-indexing started.")


def show_versions(document: GetDocumentResponse) -> None:
    rows = [
        (
            f"{version.document_version:,}",
            version.file_name,
            size(version.file_size),
            f"{ago(version.created_at)} ({moment(version.created_at)})",
            version.created_by.name,
        )
        for version in document.versions[:MOST_VERSIONS]
    ]
    notices.show_table(rows, heads=("Version", "File", "Size", "Loaded", "Loaded by"))
    if (more := len(document.versions) - len(rows)) > 0:
        notices.show_text(f"… and {count_text(more, 'older version')}, which you can also download.")
    files = {version.document_version: version for version in document.versions}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox("Version to download", list(files), key="version", width=220)
        _offer_file(document, chosen, files[chosen].file_name)


def show_chunks(document: GetDocumentResponse) -> None:
    places = {str(place.document_collection_id or ""): place for place in document.indexed_in}
    named = {"": "The whole catalog"} | {key: name_of_place(place) for key, place in places.items()}
    where = choice_filter("Index", "place", named)
    wanted = passage_in_address(document)
    marked = wanted.chunk_index if str(wanted.collection_id or "") == where else None
    if marked:
        begin = partial(notices.drop_parameters, "chunk", "chunk_in", "quoted")
        notices.offer_action("From the beginning", begin, key="chunks.all", icon="vertical_align_top", kind="tertiary")
    shown = places[where].indexed_version if where in places else None
    is_same = wanted.version in {None, shown}
    if marked is not None and not is_same and shown is not None:
        of = f"The passage is from version {wanted.version:,}. In version {shown:,}, shown here, it may have moved"
        notices.show_note(f"{of} or be missing. Files of older versions are under Versions.")

    def fetch(token: str | None) -> ItemsPage[DocumentChunk | str]:
        found = api.client().document_collections.get_document_chunks(
            document.document_id,
            document_collection_id=where or None,
            # The text before the passage helps to understand it.
            first_chunk_index=max(marked - 1, 0) if marked else None,
            page_size=CHUNKS,
            page_token=token,
        )
        try:
            page = next(found.pages())
            return ItemsPage([*page.chunks, *filter(None, [page.quoted_text])], page.next_page_token)
        except carrel.NotFoundError:  # an admin may know of a document without access to its text
            return ItemsPage([])

    may_be = "The document is not indexed yet, or you cannot read its contents."
    show_each(
        "chunks",
        Source(fetch, (document.document_id, where, document.document_version, marked)),
        each=partial(_show_chunk, document, where, wanted if marked is not None else None, is_same=is_same),
        empty=lambda: notices.show_empty("There is no text to show.", may_be),
    )


def _show_chunk(
    document: GetDocumentResponse, where: str, wanted: PassageLocation | None, chunk: DocumentChunk | str, is_same: bool
) -> None:
    if isinstance(chunk, str):
        notices.show_note("Quoted from earlier emails. Searches and agents ignore this text.")
        st.html(f'<div class="carrel-chunk"><p></p><div><p>{html.escape(chunk)}</p></div></div>')
        return
    text = chunk.text.strip()
    quote = find_quote(text, wanted.quoted) if wanted else ""
    is_marked = chunk.chunk_index == wanted.chunk_index if wanted and is_same else bool(quote)
    words = words_in(quote) or (wanted.words if wanted else []) if is_marked else None
    shown = mark_html(text, quote) if is_marked else html.escape(text)
    body = rows_html(text, chunk.place, marked=words) or f"<p>{shown}</p>"
    passage = PassageLocation(document.document_id, chunk.place, chunk.chunk_index, UUID(where) if where else None)
    is_paged = has_original(document) and chunk.place is not None and chunk.place.page is not None
    leads = open_html(passage) if is_paged else ""
    number = f"<p>{chunk.chunk_index + 1:,}</p>"
    st.html(f'<div class="carrel-chunk">{number}<div>{place_html(chunk.place)}{body}{leads}</div></div>')


def show_readers(document: GetDocumentResponse) -> None:
    notices.show_text(f"Owner: {owner_of(document)}")
    # A file in an archive has the readers of the archive.
    within = document.parent_document_id is not None
    show_access(resource_of(document), owns=may_update(document) and not within, within=within)
