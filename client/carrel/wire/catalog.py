"""catalog/*: documents and their files."""

from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import BeforeValidator, Field

from carrel.wire import common
from carrel.wire.fields import DocumentName, EmailAddress, Identifier, Instant, RequestInstant, StrictFlag
from carrel.wire.formats import NotReadKind, count_not_read, count_reasons
from carrel.wire.operations import ADDS_DATA, CONFLICT, KEYED, NOT_FOUND, READ, WRITE, ApiOperation


class IndexingStatus(StrEnum):
    """Whether a document is searchable. RUNNING continues in the background; FAILED is retried by the service."""

    DONE = "DONE"
    RUNNING = "RUNNING"
    FAILED = "FAILED"


_KINDS = frozenset(NotReadKind)


def _known_kind(value: object) -> object:
    return value if value in _KINDS else NotReadKind.DETAIL


class NotRead(common.ResponseModel):
    """Parts of a file, of one kind, that were not read and can't be found by search."""

    kind: Annotated[NotReadKind, BeforeValidator(_known_kind)]
    """Kind of the parts; a kind from a newer service reads as `detail`."""
    count: int
    """Number of parts."""
    where: list[str] = Field(default_factory=list[str])
    """The first few affected pages, slides, sheets or messages, such as `page 3`, if the format has them."""

    def __str__(self) -> str:
        """Return the parts in words: `3 pages without a text layer (page 2, page 5, page 6)`."""
        places = f" ({', '.join(self.where)})" if self.where else ""
        return count_not_read(self.kind, self.count) + places


class RecognitionStatus(StrEnum):
    """Whether text recognition is complete; RUNNING continues in the background."""

    RUNNING = "RUNNING"
    DONE = "DONE"


class TextRecognition(common.ResponseModel):
    """Progress of text recognition (OCR) on a document's scanned pages, and on pictures in the file if requested. Until
    recognition is complete, search finds the document by its other text and by the text read so far."""

    status: RecognitionStatus
    """Whether recognition is complete."""
    pages: int
    """Number of scanned pages."""
    pages_read: int
    """Number of scanned pages read."""
    pages_failed: int
    """Number of unreadable scanned pages; `notRead` lists them."""
    pictures: int = 0
    """Number of pictures to read in the file, if requested."""
    pictures_read: int = 0
    """Number of pictures read."""
    pictures_failed: int = 0
    """Number of unreadable pictures."""
    error: str | None = None
    """Reason for the first unreadable page or picture."""

    def __str__(self) -> str:
        """Return the progress in words: `12 of 80 pages, 1 page could not be read`."""
        counted = (
            (self.pages, self.pages_read, self.pages_failed, "page"),
            (self.pictures, self.pictures_read, self.pictures_failed, "picture"),
        )
        return ", ".join(
            f"{read:,} of {_count(every, name)}{f', {_count(failed, name)} could not be read' if failed else ''}"
            for every, read, failed, name in counted
            if every or (name == "page" and not self.pictures)
        )

    @property
    def waiting(self) -> int:
        """How many pages and pictures are still to be read."""
        pages = self.pages - self.pages_read - self.pages_failed
        return pages + self.pictures - self.pictures_read - self.pictures_failed


def _count(count: int, name: str) -> str:
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}s"


class Document(common.NamedDocument, common.Versioned):
    """A document of the catalog at its newest version; people can rename it."""

    edited = ("document_name",)

    document_external_url: str | None = None
    resource: common.ResourceIdentifier
    """The document's identity in its source system."""
    owner: common.Principal
    """The document's owner: its uploader."""
    document_version: int
    """Number of the newest version, counted from 1."""
    file_name: str
    file_size: int
    media_type: str
    custom_metadata: dict[str, str] = Field(default_factory=dict)
    source_system_updated: Instant | None = None
    """When the document last changed in its source system, according to the uploader."""
    created_at: Instant
    updated_at: Instant
    indexing: IndexingStatus | None = None
    """Whether the newest version is searchable in the catalog."""
    chunk_count: int | None = None
    """Number of the searchable version's chunks in the catalog; 0: no text (yet, `isBeingRead`); absent: no version."""
    is_being_read: bool = False
    """Whether text recognition still reads scanned pages or pictures of the newest file, or indexes their text."""
    not_read: list[NotRead] | None = None
    """Parts of the newest file not read; absent: unknown (its format or age), or files inside are still being read."""
    parent_document_id: UUID | None = None
    """Id of the archive or mail containing the document, which has the same readers and owner; absent: none."""
    file_count: int | None = None
    """Number of files in the newest file; each becomes a document. Absent: none."""
    files_done: int | None = None
    """Number of contained files read by now, or found unreadable; `notRead` finally lists the unreadable files."""

    @property
    def has_no_text(self) -> bool:
        """Whether the newest version is indexed in the catalog and read, and has no searchable text."""
        return self._has_none_so_far and not self.is_being_read

    @property
    def has_no_text_yet(self) -> bool:
        """Whether the newest version is indexed in the catalog, and text recognition still reads all of its text."""
        return self._has_none_so_far and self.is_being_read

    @property
    def _has_none_so_far(self) -> bool:
        return self.indexing is IndexingStatus.DONE and self.chunk_count == 0


class DocumentVersion(common.ResponseModel):
    """A version of a document's contents."""

    document_version: int
    file_name: str
    file_size: int
    media_type: str
    created_at: Instant
    """When the version was uploaded."""
    created_by: common.Principal
    """Uploader of the version."""


class DocumentIndexing(common.ResponseModel):
    """Indexing of a document in one place: the catalog or a collection."""

    document_collection_id: UUID | None = None
    """Id of the collection; absent: the catalog."""
    collection_name: str | None = None
    """Name of the collection; absent: the catalog."""
    document_version: int
    """Number of the version to be searchable in this place."""
    indexed_version: int | None = None
    """Number of the version searchable now, at least by words; absent: none yet."""
    status: IndexingStatus
    """Status of indexing: DONE when the document is searchable by words and by meaning."""
    words_indexed: bool = False
    """Whether the version to be searchable is found by words; search by meaning follows."""
    chunk_count: int
    chunks_embedded: int | None = None
    """Chunks embedded so far, while indexing runs; renewed about every ten seconds."""
    chunks_expected: int | None = None
    """Number of chunks to embed, during indexing."""
    language: str | None = None
    """Language of the searchable text, by ISO 639-1; absent: uncertain, treated as English."""
    error: str | None = None


class ContainedFiles(common.ResponseModel):
    """Progress of the files in an archive or mail, including nested archives and mails."""

    files: int
    """Number of files; files in a nested archive count once the archive is a document."""
    waiting: int
    """Number of files waiting."""
    documents: int
    """Number of files that are documents by now."""
    indexing: int
    """Number of documents still being indexed, in the catalog or in a collection."""
    indexing_failed: int
    """Number of documents with failed indexing in some place; the service retries."""
    left_out: dict[str, int]
    """Number of files left out so far, by reason code; catalog/listLeftOutFiles lists the files."""

    @property
    def is_done(self) -> bool:
        """Whether all files were examined, and no document is still being indexed."""
        return not self.waiting and not self.indexing

    def __str__(self) -> str:
        """Return the progress in words: `240 of 600 files read, 3 left out (3 with a password)`."""
        left_out = sum(self.left_out.values())
        read = self.files - self.waiting - left_out
        why = count_reasons(self.left_out)
        failed = f", {_count(self.indexing_failed, 'document')} could not be indexed" if self.indexing_failed else ""
        left = f", {left_out:,} left out ({why})" if why else ""
        return f"{read:,} of {_count(self.files, 'file')} read{left}{failed}"


class GetDocumentRequest(common.ActingRequest):
    """Get a document."""

    document_id: UUID


class GetDocumentResponse(Document):
    """A document with its versions, newest first, and its indexing in the catalog and the caller's collections."""

    text_recognition: TextRecognition | None = None
    """Progress of reading the newest file's scanned pages and pictures; absent: the file has none."""
    read_pictures: bool = False
    """Whether text in pictures of the newest file is read by machine, as requested."""
    contained_files: ContainedFiles | None = None
    """Progress of the files in the newest file; absent: none."""
    fingerprint: str | None = None
    """Fingerprint given by the newest upload."""
    versions: list[DocumentVersion]
    indexed_in: list[DocumentIndexing]
    """The document's indexing in the catalog, and in collections visible to the caller."""

    def list_left_out(self) -> list[NotRead]:
        """Return the unread parts, except parts still in text recognition."""
        recognition = self.text_recognition
        is_reading = recognition is not None and recognition.status is RecognitionStatus.RUNNING
        waiting: set[NotReadKind] = set()
        if recognition is not None and is_reading:
            waiting = {NotReadKind.PAGE, NotReadKind.PICTURE} if recognition.pictures else {NotReadKind.PAGE}
        return [part for part in self.not_read or () if part.kind not in waiting]


class DocumentOrder(StrEnum):
    """Sort key for a list of documents; CREATED is the time of the first upload."""

    CREATED = "CREATED"
    UPDATED = "UPDATED"
    NAME = "NAME"
    SIZE = "SIZE"


class DocumentFilters(common.RequestModel):
    """The filters of a list of documents; filters narrow together."""

    document_external_ids: Annotated[list[Identifier] | None, Field(min_length=1, max_length=1000)] = None
    """Only documents with these external ids, at most 1000; unknown ids are ignored."""
    document_name: DocumentName | None = None
    """Part of the name, or of the file's name, in any case."""
    owner_email: EmailAddress | None = None
    """Only documents owned by the user with this email address."""
    shared_with_me: StrictFlag | None = None
    """Only documents of other owners, shared with the caller or a group of the caller (true), or only others (false);
    what everyone in the organization may read is not counted as shared."""
    readable_by: common.PrincipalReference | None = None
    """Only documents readable by this principal; for admins."""
    document_collection_id: UUID | None = None
    """Only documents in the collection; empty if the caller has no role in the collection."""
    folder: Identifier | None = None
    """Only documents with external ids below the folder, in any case: `reports` finds `Reports/2026/a.pdf`."""
    resource_types: Annotated[list[common.ResourceType] | None, Field(min_length=1, max_length=100)] = None
    """Only documents of the given types, at most 100."""
    media_types: Annotated[list[Identifier] | None, Field(min_length=1, max_length=100)] = None
    """Only files of the given media types, at most 100."""
    updated_from: RequestInstant | None = None
    """Only documents changed since then (inclusive)."""
    updated_to: RequestInstant | None = None
    """Only documents changed before then (exclusive)."""
    indexing: IndexingStatus | None = None
    """Only documents with the given status in the catalog's index."""
    parent_document_id: UUID | None = None
    """Only files in the given archive or mail."""
    contained: StrictFlag | None = None
    """Only files in archives and mails (true), or only other documents (false)."""


class ListDocumentsRequest(DocumentFilters, common.ActingRequest, common.NarrowedRequest):
    """List the documents the caller may READ."""

    order: DocumentOrder | None = None
    """Key of the order; CREATED unless given."""
    descending: StrictFlag | None = None
    """Whether the list begins with the newest, the largest or the last name; default: true, for NAME false."""


class ListDocumentsResponse(common.PagedResponse):
    """A page of documents."""

    documents: list[Document]
    """The documents, newest first unless another order was asked for."""


class ListFoldersRequest(DocumentFilters, common.ActingRequest, common.PagedRequest):
    """List the folders directly in `folder`, or at the top without any."""


class DocumentFolder(common.ResponseModel):
    """A folder shared by external ids."""

    folder: str
    """Path of the folder, without a slash at the end; use it as the `folder` filter of lists."""
    name: str
    """Last part of the path."""
    document_count: int
    """Number of documents in the folder and its subfolders."""


class ListFoldersResponse(common.PagedResponse):
    """A page of folders."""

    folders: list[DocumentFolder]
    """The folders, sorted by lower-case name."""


class ListLeftOutFilesRequest(common.ActingRequest, common.PagedRequest):
    """List the files in an archive or mail that did not become documents; needs READ."""

    document_id: UUID
    """Id of the archive or mail."""


class LeftOutFile(common.ResponseModel):
    """A file left out of an archive or mail, and the reason."""

    path: str | None = None
    """Path of the file in the archive; absent: unreadable."""
    number: int
    """Number of the file in the archive, counted from 1, as used in `notRead`."""
    code: str
    """Stable code of the reason, for programs."""
    message: str
    """Reason for leaving out the file, for people."""


class ListLeftOutFilesResponse(common.PagedResponse):
    """A page of files examined so far."""

    files: list[LeftOutFile]
    """The files, in the order of the archive or mail."""


class DownloadDocumentRequest(common.ActingRequest):
    """Download a document's file (default: newest version); the response body is the file."""

    document_id: UUID
    document_version: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)] | None = None
    """Number of the version; absent: the newest."""


class ReindexDocumentRequest(common.ActingRequest):
    """Chunk and index a document's newest contents in the catalog again; for editors, the owner and admins."""

    document_id: UUID


class ReindexDocumentResponse(common.ResponseModel):
    """Result of indexing a document in the catalog again."""

    document_id: UUID
    document_version: int
    """Number of the indexed version."""
    indexing: IndexingStatus
    """DONE: searchable when the call returns; RUNNING: indexing continues in the background."""


class RenameDocumentRequest(common.VersionedRequest, GetDocumentRequest):
    """Rename a document; later uploads keep the name. For editors, the owner and admins."""

    document_name: Annotated[DocumentName, Field(pattern=r"\S")]
    """The new name."""


class RenameDocumentResponse(common.NamedDocument, common.Versioned):
    """A document with its new name."""

    edited = ("document_name",)

    document_version: int
    """Number of the version found by the new name."""


class DeleteDocumentRequest(common.ActingRequest):
    """Delete a document everywhere; for some days, its owner and admins can restore it from the trash."""

    document_id: UUID


class DeleteDocumentResponse(common.ResponseModel):
    """The deleted document."""

    document_id: UUID
    trashed_document_id: UUID | None = None
    """Id in the trash, by which the document is restored or deleted for good; absent: it is deleted for good. A file in
    an archive or mail comes back with that alone."""


GET_DOCUMENT = ApiOperation("catalog/getDocument", GetDocumentRequest, GetDocumentResponse, READ, NOT_FOUND)
"""Return a document with its versions, newest first, and its indexing status in each place."""
LIST_DOCUMENTS = ApiOperation("catalog/listDocuments", ListDocumentsRequest, ListDocumentsResponse, READ)
"""List the documents readable by the caller, in a stable order; all filters must match.

`ids` and `document_external_ids` take at most 1000 each; unknown ids are ignored. `document_name` is part of
the name or the file name, in any case. `updated_from` is inclusive, `updated_to` exclusive. `indexing` (DONE,
RUNNING or FAILED) is the status in the catalog's index. `parent_document_id`: only files in this archive or
mail. `contained`: only files in archives and mails (True), or only other documents (False). `folder` is the
beginning of external ids, whole folders in any case. `readable_by` is for admins. `order` is CREATED, UPDATED,
NAME or SIZE, `descending` except for NAME. If documents change while you iterate, only CREATED returns each
document exactly once."""
LIST_FOLDERS = ApiOperation("catalog/listFolders", ListFoldersRequest, ListFoldersResponse, READ)
"""List the folders directly in `folder` (default: the top), each with its number of documents. Folders are the
parts of external ids before each `/`, in any case. Filters of `list_documents` apply to the counts."""
LIST_LEFT_OUT_FILES = ApiOperation(
    "catalog/listLeftOutFiles", ListLeftOutFilesRequest, ListLeftOutFilesResponse, READ, NOT_FOUND
)
"""List the files in an archive or mail that did not become documents, with reasons, in archive order; files in
a nested archive are listed there. Raises NotFoundError if the caller may not read the document."""
DOWNLOAD_DOCUMENT: ApiOperation[Any, Any] = ApiOperation(
    "catalog/downloadDocument", DownloadDocumentRequest, None, READ, NOT_FOUND
)
"""Open a document's file (default: newest version); `save`, `read` or iterate over it."""
REINDEX_DOCUMENT = ApiOperation(
    "catalog/reindexDocument", ReindexDocumentRequest, ReindexDocumentResponse, WRITE, ADDS_DATA | NOT_FOUND
)
"""Chunk and index a document's newest contents in the catalog again, for example after indexing has failed.
Raises PermissionDeniedError `document_editor_required` for a caller with read access only."""
RENAME_DOCUMENT = ApiOperation(
    "catalog/renameDocument", RenameDocumentRequest, RenameDocumentResponse, WRITE, ADDS_DATA | NOT_FOUND | CONFLICT
)
"""Rename a document; later uploads keep the name. Raises PermissionDeniedError `document_editor_required`."""
DELETE_DOCUMENT = ApiOperation(
    "catalog/deleteDocument", DeleteDocumentRequest, DeleteDocumentResponse, WRITE, KEYED | NOT_FOUND
)
"""Delete a document everywhere. `restore_document` can restore the document while the trash keeps a copy."""
