"""Lookups of the syncs and collections that the person may use."""

from itertools import islice
from uuid import UUID

import carrel
from app import api
from app.formatting import one_line
from app.ui.errors import show_errors
from carrel.wire.common import Role
from carrel.wire.docstore import DocstoreSync, DocstoreSyncStatus

MOST = 500
"""The most syncs to choose from at once."""


def targets() -> dict[str, str]:
    """Return the collections that the person may change: names by id."""
    return {
        str(one.document_collection_id): one.collection_name
        for one in api.collections()
        if one.role in {Role.OWNER, Role.EDITOR}
    }


def find_sync(name: str) -> DocstoreSync | None:
    """Return the sync of this id, if the person may know about it."""
    try:
        identifier = UUID(name)
        return api.client().document_collections.docstore.get_docstore_sync(identifier)
    except (ValueError, carrel.NotFoundError):
        return None


def sync_names() -> dict[str, str]:
    """Return the names of the syncs that the person may know about, by their ids, at most the first `MOST`."""
    found = islice(api.client().document_collections.docstore.list_docstore_syncs(), MOST)
    names = {str(one.docstore_credential_id): one.config.sync_name for one in found}
    return dict(sorted(names.items(), key=lambda item: item[1].casefold()))


def is_running(sync: DocstoreSync) -> bool:
    """Return whether a run of the sync is in progress or about to begin."""
    return sync.status in {DocstoreSyncStatus.PENDING, DocstoreSyncStatus.RUNNING}


def collection_name(identifier: str) -> str:
    """Return the name of a collection, if the person may see the collection."""
    names = {str(one.document_collection_id): one.collection_name for one in show_errors(api.collections)}
    return one_line(names.get(identifier, "a collection"))
