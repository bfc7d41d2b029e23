"""Sending one document: uploading it, adding it to a collection, or deleting it."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from carrel import AsyncCarrel
from carrel.errors import NotFoundError
from carrel.wire.catalog import ContainedFiles, IndexingStatus
from carrel.wire.collections import CollectionIndexStatus
from flows.operations.apply import IndexingFailedError
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import Entry
from flows.operations.ledger.states import State
from flows.operations.sent import Send, Sent
from flows.operations.sources.contents import open_contents
from flows.operations.sources.documents import SourceDocument

_INDEXED: Mapping[CollectionIndexStatus, State] = {
    CollectionIndexStatus.INDEXED: State.INDEXED,
    CollectionIndexStatus.UNCHANGED: State.UNCHANGED,
    CollectionIndexStatus.RUNNING: State.UPLOADED,
}


def uploader(client: AsyncCarrel, *, upload_as: str | None = None) -> Send:
    """Return a function that uploads a document. Repeating is safe: the service finds the document by external id."""

    async def send(entry: Entry) -> Sent:
        contents = await asyncio.to_thread(open_contents, entry)
        try:
            response = await client.catalog.upload_file(
                contents.file,
                file_name=entry.document.file_name,
                fingerprint=contents.fingerprint,
                upload_as_user_email=upload_as,
                **upload_fields(entry.document),
            )
            contents.check()
        finally:
            contents.close()
        if response.indexing is IndexingStatus.FAILED:
            msg = "The document was stored, but its index could not be made."
            raise IndexingFailedError(msg)
        contained = contained_files(response.file_count, response.files_done)
        is_done = response.indexing is IndexingStatus.DONE and contained is None
        state = State.INDEXED if is_done else State.UPLOADED
        recognition = response.text_recognition
        waiting = 0 if recognition is None else recognition.waiting
        not_read = sum(part.count for part in response.not_read or ()) - waiting
        return Sent(state, str(response.document_id), contents.size, contents.fingerprint, not_read, waiting, contained)

    return send


def contained_files(file_count: int | None, files_done: int | None) -> ContainedFiles | None:
    """Return what is known of the files in a container as long as these are the only numbers; None for no container."""
    if not file_count:
        return None
    waiting = file_count - (files_done or 0)
    return ContainedFiles(files=file_count, waiting=waiting, documents=0, indexing=0, indexing_failed=0, left_out={})


def upload_fields(document: SourceDocument) -> dict[str, Any]:
    """Return the client's keyword arguments for a document; fields that it leaves open are omitted."""
    fields: dict[str, Any] = {
        "document_external_id": document.external_id,
        "document_name": document.name,
    }
    if document.access is not None:
        fields["allowed_users_email_addresses"] = list(document.access.users)
        fields["allowed_group_ids"] = list(document.access.groups)
        fields["internal_public"] = document.access.internal_public
    if document.metadata:
        fields["custom_metadata"] = dict(document.metadata)
    if document.collection is not None:
        fields["collection_id"] = document.collection
    if document.read_pictures is not None:
        fields["read_pictures"] = document.read_pictures
    if document.external_url is not None:
        fields["document_external_url"] = document.external_url
    return fields


def deleter(client: AsyncCarrel, ledger: Ledger, *, upload_as: str | None = None) -> Send:
    """Return what deletes a document. Safe to repeat: one that is there no more is as good as deleted.

    It deletes nothing once another run has the source, which may have sent the document again.
    """

    async def send(entry: Entry) -> Sent:
        document_id = entry.document_id or ""
        await asyncio.to_thread(ledger.assure)
        with contextlib.suppress(NotFoundError):
            await client.catalog.delete_document(document_id, user_email=upload_as)
        return Sent(State.DELETED, document_id, 0, entry.fingerprint)

    return send


def adder(client: AsyncCarrel) -> Send:
    """Return a function that adds a catalog document to its collection. Repeating with equal metadata is harmless."""

    async def send(entry: Entry) -> Sent:
        response = await client.document_collections.add_document_to_collection(
            document_id=UUID(entry.document_id),
            document_collection_id=UUID(entry.document.collection),
            custom_metadata=dict(entry.document.metadata),
        )
        return Sent(_INDEXED[response.status], str(response.document_id), 0, entry.fingerprint)

    return send
