"""One document in a dialog: its facts, its readers, and its file, fetched when the dialog is opened."""

from collections.abc import Callable
from uuid import UUID

import streamlit as st

from app import api
from app.formatting import moment, size
from app.loading.staging import plain_name
from app.ui.errors import error_boundary
from app.ui.notices import show_table
from carrel.wire.admin import GrantInfo
from carrel.wire.catalog import GetDocumentResponse


@st.dialog("About this document", width="medium")
def show_details(document_id: UUID) -> None:
    """Show the facts of a document and its file; for admins, also who can read it."""
    with error_boundary():
        document = api.client().catalog.get_document(document_id)
        readers = readers_of(document)
    show_table([*_facts(document), ("Direct access", readers)], named=True)
    st.download_button(
        "Download",
        reader_of(document_id, document.document_version),
        file_name=plain_name(document.file_name),
        mime="application/octet-stream",
        icon=":material/download:",
        on_click="ignore",
    )


def reader_of(document_id: UUID, version: int) -> Callable[[], bytes]:
    """Return a function that fetches a document's file as the person; it is called outside of the page's run."""
    given = api.client_for_later()

    def read() -> bytes:
        with given().catalog.download_document(document_id, document_version=version) as download:
            return download.read()

    return read


def readers_of(document: GetDocumentResponse) -> str:
    """Name who holds a grant on a document, in a line; members of groups are not spelled out."""
    if not api.me().is_admin:
        return "Only an admin sees this."
    page = next(api.client().admin.grants.list(document.resource).pages())
    names = ["Everybody in the organization"] if page.organization_wide else []
    names += [_name(grant) for grant in page.grants]
    more = ", and more" if page.next_page_token else ""
    return f"{', '.join([f'{document.owner.name} (owner)', *names])}{more}"


def _name(grant: GrantInfo) -> str:
    principal = grant.principal
    return f"{principal.name} (group)" if principal.type == "group" else principal.name


def _facts(document: GetDocumentResponse) -> list[tuple[str, str]]:
    return [
        ("Name", document.document_name),
        ("File", f"{document.file_name} ({size(document.file_size)})"),
        ("Version", f"{document.document_version:,}, of {moment(document.updated_at)}"),
        ("Identifier", document.document_external_id),
        *document.custom_metadata.items(),
    ]
