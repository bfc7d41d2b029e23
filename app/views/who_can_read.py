"""The page "Who can read this?": readers of a resource, the reasons, the granting people, and changing grants."""

from collections.abc import Iterator, Sequence
from functools import partial
from uuid import UUID

import streamlit as st

from app import api
from app.documents.facts import owner_of
from app.labels import COLLECTION, DOCUMENT
from app.lookup import Principal, Resource
from app.permissions.browsing import READER_HEADS, Reader, offer_readers, reader_row, show_resources
from app.permissions.explaining import show_why
from app.permissions.panel import READERS, offer_access, offer_change, show_access
from app.ui.errors import require_admin, show_errors
from app.ui.notices import look_at, offer_way_back, show_empty, show_link, show_note, show_text, show_title
from app.ui.pickers import pick_principal, pick_resource
from app.ui.tables import PAGE_ROWS, ItemsPage, Source, show_pages
from carrel.wire.access import AccessThrough


def _documents_of(collection: Resource) -> Iterator[Resource]:
    client = api.client()
    for page in client.document_collections.list_documents_in_collection(UUID(collection.id), page_size=1000).pages():
        if ids := [document.document_id for document in page.documents]:
            yield from map(Resource.of, client.admin.access.list_resources(object_ids=ids, page_size=1000))


def _read_page(resource: Resource, token: str | None) -> ItemsPage[tuple[Reader, Sequence[AccessThrough]]]:
    ask = api.client().permissions.list_authorized_principals_for_resource
    page = next(ask(resource.reference, with_through=True, page_size=PAGE_ROWS, page_token=token).pages())
    through = page.through or {}
    return ItemsPage([(item, through.get(item.id, ())) for item in page.principals], page.next_page_token)


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def _read_owner(resource: Resource) -> str:
    if resource.kind != DOCUMENT or resource.object_id is None:
        return ""
    return owner_of(api.client().catalog.get_document(resource.object_id))


def _show_resource(resource: Resource) -> None:
    st.header("Direct access", anchor=False)
    if owner := show_errors(partial(_read_owner, resource)):
        show_text(f"Owner: {owner}")
    grants = show_access(resource, leads=False)
    st.header("Effective access", anchor=False)
    show_text("Everyone who can read this, listed once. Select a row to see why.")
    show_pages(
        READERS,
        Source(partial(_read_page, resource), about=resource.key),
        row=lambda item: dict(zip(READER_HEADS, reader_row(*item), strict=True)),
        empty=lambda: show_empty("Nobody can read this.", "Choose “Manage access”, and add people or groups."),
        go=lambda chosen: look_at("who", f"{chosen[0].type}:{getattr(chosen[0], 'email', chosen[0].id)}"),
    )
    offer_readers([resource], of=resource.name, about=(resource.key, hash(str(grants))))
    if resource.kind == COLLECTION:
        documents, label = _documents_of(resource), "Export who can read its documents"
        offer_readers(documents, of=f"documents of {resource.name}", about=resource.key, label=label)
        show_note("The file contains the documents that you can read.")
    st.header("Why, or why not?", anchor=False)
    pick_principal("who", label="Check a person or group")


def _explain_access(resource: Resource) -> None:
    offer_way_back("Everyone who can read it", "who")
    who: Principal | None = pick_principal("who", label="Check why, or why not")
    if who is None:
        return
    if show_why(resource, who):
        offer_change(resource)
    else:
        offer_access(resource, who)


def page() -> None:
    require_admin()
    show_title("Who can read this?", "Find a document, collection or agent, and see who can read it and why.")
    resource = pick_resource("resource", label="Document, collection or agent")
    if resource is None:
        if "who" in st.query_params:
            pick_principal("who", label="Give access to")
        show_resources()
        return
    if resource.kind == DOCUMENT and resource.object_id is not None:
        show_link("Open document", "documents", document=str(resource.object_id))
    if "who" in st.query_params:
        _explain_access(resource)
    else:
        _show_resource(resource)


page()
