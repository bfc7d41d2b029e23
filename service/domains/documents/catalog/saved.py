"""The outcome of an upload: what was saved, and what its answer says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from carrel.wire.catalog import IndexingStatus, TextRecognition
from carrel.wire.uploads import UploadStatus
from service.domains.documents.catalog.queries import known_not_read
from service.domains.documents.stored.queries import StoredFile
from service.index.ingestion.indexer import Waiter


@dataclass(frozen=True, slots=True)
class Uploaded:
    """What an upload came to; `indexing` is DONE when the document is searchable wherever it is wanted."""

    document_id: UUID
    document_version: int
    status: UploadStatus
    indexing: IndexingStatus
    not_read: Sequence[Mapping[str, Any]] | None
    text_recognition: TextRecognition | None
    file_count: int | None
    files_done: int | None


@dataclass(frozen=True, slots=True)
class SavedUpload:
    """What a document is now.

    `is_pending`: something of it is to be indexed since before. `waiter` waits for what is to be indexed now, if
    anything is.
    """

    document_id: UUID
    version: int
    status: UploadStatus
    is_pending: bool
    file: StoredFile
    text_recognition: TextRecognition | None = None
    waiter: Waiter | None = None

    def to_uploaded(self, *, is_indexed: bool) -> Uploaded:
        """Return what the upload came to, whether or not its index is there."""
        is_done = is_indexed and not self.is_pending
        indexing = IndexingStatus.DONE if is_done else IndexingStatus.RUNNING
        return Uploaded(
            self.document_id,
            self.version,
            self.status,
            indexing,
            known_not_read(self.file),
            self.text_recognition,
            self.file.file_count,
            self.file.files_done,
        )
