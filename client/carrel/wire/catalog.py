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
    """Whether a document is searchable yet: RUNNING goes on in the background, the service tries FAILED again."""

    DONE = "DONE"
    RUNNING = "RUNNING"
    FAILED = "FAILED"


_KINDS = frozenset(NotReadKind)


def _known_kind(value: object) -> object:
    return value if value in _KINDS else NotReadKind.DETAIL


class NotRead(common.ResponseModel):
    """Parts of one kind that a file holds and that were not read, so that no search finds them."""

    kind: Annotated[NotReadKind, BeforeValidator(_known_kind)]
    """What the parts are; a kind of a newer service reads as `detail`."""
    count: int
    """How many there are."""
    where: list[str] = Field(default_factory=list[str])
    """The first few pages, slides, sheets or messages that have them, such as `page 3`, where the format tells."""

    def __str__(self) -> str:
        """Return the parts in words: `3 pages without a text layer (page 2, page 5, page 6)`."""
        places = f" ({', '.join(self.where)})" if self.where else ""
        return count_not_read(self.kind, self.count) + places


class RecognitionStatus(StrEnum):
    """Whether text recognition is done with a document; while it is RUNNING, that is in the background."""

    RUNNING = "RUNNING"
    DONE = "DONE"


class TextRecognition(common.ResponseModel):
    """How far text recognition (OCR) is with the pages of a document that show their text as a picture.

    Where that was asked, with the pictures within its file, too. Until it is done, the document is found by what else
    its file holds, and by what was read so far."""

    status: RecognitionStatus
    """Whether it is done."""
    pages: int
    """How many pages show their text as a picture."""
    pages_read: int
    """How many of them were read."""
    pages_failed: int
    """How many of them can't be read; `notRead` tells which."""
    pictures: int = 0
    """How many pictures within the file are read because that was asked."""
    pictures_read: int = 0
    """How many of them were read."""
    pictures_failed: int = 0
    """How many of them can't be read."""
    error: str | None = None
    """Why the first page or picture that can't be read can't."""

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


def count_pages(count: int) -> str:
    """Return a number of pages in words."""
    return _count(count, "page")


def _count(count: int, name: str) -> str:
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}s"


class Document(common.NamedDocument, common.Versioned):
    """A document of the catalog at its newest version; people change its name."""

    edited = ("document_name",)

    document_external_url: str | None = None
    resource: common.ResourceIdentifier
    """The document's identity in its source system."""
    owner: common.Principal
    """Who owns the document: its uploader."""
    document_version: int
    """Number of the newest version, counted from 1."""
    file_name: str
    """Name of the uploaded file."""
    file_size: int
    """Size of the file in bytes."""
    media_type: str
    """Media type of the file, such as application/pdf."""
    custom_metadata: dict[str, str] = Field(default_factory=dict)
    """The document's metadata: values by field name, always strings."""
    source_system_updated: Instant | None = None
    """When the document last changed in its source system, as its uploader said."""
    created_at: Instant
    updated_at: Instant
    indexing: IndexingStatus | None = None
    """Whether the newest version is searchable in the catalog."""
    chunk_count: int | None = None
    """Number of chunks that the version found in the catalog has; 0: there is no text in it, or none yet
    (`isBeingRead`); absent: none is found."""
    is_being_read: bool = False
    """Whether text recognition still has to read scanned pages or pictures of the newest file, or to add what it read
    to the text."""
    not_read: list[NotRead] | None = None
    """What the newest file holds that was not read; absent: unknown, by its format, its age, or since the
    files in it are not read yet (`filesDone` is less than `fileCount`)."""
    parent_document_id: UUID | None = None
    """Id of the archive or mail that this document is a file in, whose readers and owner it has; absent: none."""
    file_count: int | None = None
    """Number of files in the newest file, each of which becomes a document of its own; absent: none."""
    files_done: int | None = None
    """How many of those are documents by now or could not be read; those that could not are in `notRead` at the end."""

    @property
    def has_no_text(self) -> bool:
        """Whether the newest version is indexed in the catalog and read, and there is no text in it to be found by."""
        return self._has_none_so_far and not self.is_being_read

    @property
    def has_no_text_yet(self) -> bool:
        """Whether the newest version is indexed in the catalog, and all of its text is still being read by machine."""
        return self._has_none_so_far and self.is_being_read

    @property
    def _has_none_so_far(self) -> bool:
        return self.indexing is IndexingStatus.DONE and self.chunk_count == 0


class DocumentVersion(common.ResponseModel):
    """One version of a document's contents."""

    document_version: int
    """Number of the version, counted from 1."""
    file_name: str
    """Name of the uploaded file."""
    file_size: int
    """Size of the file in bytes."""
    media_type: str
    """Media type of the file, such as application/pdf."""
    created_at: Instant
    """When the version was uploaded."""
    created_by: common.Principal
    """Who uploaded the version."""


class DocumentIndexing(common.ResponseModel):
    """How far a document is in one place: the catalog or a collection."""

    document_collection_id: UUID | None = None
    """Id of the collection; absent: the catalog."""
    collection_name: str | None = None
    """Name of the collection; absent: the catalog."""
    document_version: int
    """Number of the version that is to be searchable there."""
    indexed_version: int | None = None
    """Number of the version that is searchable there, at least by its words; absent: none yet."""
    status: IndexingStatus
    """How far indexing is: DONE when the document is searchable by its words and by its meaning."""
    words_indexed: bool = False
    """Whether the version that is to be searchable there is found by its words; its meaning follows."""
    chunk_count: int
    """Number of chunks that are searchable there."""
    chunks_embedded: int | None = None
    """Chunks embedded so far, while indexing runs; renewed about every ten seconds."""
    chunks_expected: int | None = None
    """Chunks that are to be embedded, while indexing runs."""
    language: str | None = None
    """Language of the text that is searchable there, by ISO 639-1; absent: not certain, its words count as English."""
    error: str | None = None
    """Why indexing failed last."""


class ContainedFiles(common.ResponseModel):
    """How far the files in an archive or mail are, with those in archives and mails in it."""

    files: int
    """How many there are; those in an archive in it are counted from when that is a document."""
    waiting: int
    """How many of them have not been looked at yet."""
    documents: int
    """How many documents they are by now."""
    indexing: int
    """How many of those are still being indexed, in the catalog or in a collection."""
    indexing_failed: int
    """How many of those could not be indexed somewhere; the service tries again."""
    left_out: dict[str, int]
    """How many files were left out so far, by the code of the reason; catalog/listLeftOutFiles tells which."""

    @property
    def is_done(self) -> bool:
        """Whether all files were looked at, and none of their documents is being indexed."""
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
    """Ask for one document."""

    document_id: UUID


class GetDocumentResponse(Document):
    """A document with its versions, newest first, and where it is indexed (of collections, those the caller sees)."""

    text_recognition: TextRecognition | None = None
    """How far the newest file's scanned pages and pictures are read; absent: it has none."""
    read_pictures: bool = False
    """Whether text in pictures within the newest file is read by machine, since that was asked."""
    contained_files: ContainedFiles | None = None
    """How far the files in the newest file are; absent: there are none."""
    fingerprint: str | None = None
    """Fingerprint that the newest upload gave."""
    versions: list[DocumentVersion]
    """The versions, newest first."""
    indexed_in: list[DocumentIndexing]
    """Where the document is indexed: the catalog, and collections that the caller may see."""

    def list_left_out(self) -> list[NotRead]:
        """Return the parts that were not read, without what text recognition is still at."""
        recognition = self.text_recognition
        is_reading = recognition is not None and recognition.status is RecognitionStatus.RUNNING
        waiting: set[NotReadKind] = set()
        if recognition is not None and is_reading:
            waiting = {NotReadKind.PAGE, NotReadKind.PICTURE} if recognition.pictures else {NotReadKind.PAGE}
        return [part for part in self.not_read or () if part.kind not in waiting]


class DocumentOrder(StrEnum):
    """The key that a list of documents is in order of: CREATED is when a document was first loaded."""

    CREATED = "CREATED"
    UPDATED = "UPDATED"
    NAME = "NAME"
    SIZE = "SIZE"


class DocumentFilters(common.ActingRequest):
    """The filters of a list of documents; filters narrow together."""

    document_external_ids: Annotated[list[Identifier] | None, Field(min_length=1, max_length=1000)] = None
    """Only documents with these external ids, at most 1000; unknown ones are passed over."""
    document_name: DocumentName | None = None
    """Part of the name, or of the file's name, in any case."""
    owner_email: EmailAddress | None = None
    """Only documents of the owner with this email address."""
    readable_by: common.PrincipalReference | None = None
    """Only documents that this principal may read; for admins."""
    document_collection_id: UUID | None = None
    """Only documents in this collection; none where the caller has no role in it."""
    folder: Identifier | None = None
    """Only documents whose external id begins with this folder, in any case: `reports` finds `Reports/2026/a.pdf`."""
    resource_types: Annotated[list[common.ResourceType] | None, Field(min_length=1, max_length=100)] = None
    """Only documents of these types, at most 100."""
    media_types: Annotated[list[Identifier] | None, Field(min_length=1, max_length=100)] = None
    """Only files of these media types, at most 100."""
    updated_from: RequestInstant | None = None
    """Only documents changed since then, this time included."""
    updated_to: RequestInstant | None = None
    """Only documents changed before then, this time not included."""
    indexing: IndexingStatus | None = None
    """Only documents with this status in the catalog's index."""
    parent_document_id: UUID | None = None
    """Only the files in this archive or mail."""
    contained: StrictFlag | None = None
    """Only files in archives and mails (true), or only documents that are none (false)."""


class ListDocumentsRequest(DocumentFilters, common.NarrowedRequest):
    """List the documents the caller may READ."""

    order: DocumentOrder | None = None
    """Key of the order; CREATED unless given."""
    descending: StrictFlag | None = None
    """Whether the newest, the largest or the last name comes first; true unless given, false for NAME."""


class ListDocumentsResponse(common.PagedResponse):
    """One page of documents."""

    documents: list[Document]
    """The documents, newest first unless another order was asked for."""


class ListFoldersRequest(DocumentFilters, common.PagedRequest):
    """List the folders directly in `folder`, or at the top without any."""


class DocumentFolder(common.ResponseModel):
    """A folder that external ids have in common."""

    folder: str
    """Path of the folder, without a slash at its end; narrows lists as their `folder`."""
    name: str
    """Last part of the path."""
    document_count: int
    """Number of documents in the folder and the folders in it."""


class ListFoldersResponse(common.PagedResponse):
    """One page of folders."""

    folders: list[DocumentFolder]
    """The folders, in the order of their names in lower case."""


class ListLeftOutFilesRequest(common.ActingRequest, common.PagedRequest):
    """List which files in an archive or mail are no documents, for those who may READ it."""

    document_id: UUID
    """Id of the archive or mail."""


class LeftOutFile(common.ResponseModel):
    """A file in an archive or mail that is no document, and why."""

    path: str | None = None
    """Path of the file there; absent: it can't be read."""
    number: int
    """Number of the file there, counted from 1, by which `notRead` names it."""
    code: str
    """Stable code of the reason, for programs."""
    message: str
    """Why it was left out, for people."""


class ListLeftOutFilesResponse(common.PagedResponse):
    """One page of files, as far as they were looked at."""

    files: list[LeftOutFile]
    """The files, in the order that they have in the archive or mail."""


class DownloadDocumentRequest(common.ActingRequest):
    """Ask for a document's file, of its newest version unless one is named; answered with the bytes."""

    document_id: UUID
    document_version: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)] | None = None
    """Number of the version; absent: the newest."""


class ReindexDocumentRequest(common.ActingRequest):
    """Chunk and index a document's newest contents in the catalog again, for its editors, its owner and admins."""

    document_id: UUID


class ReindexDocumentResponse(common.ResponseModel):
    """What indexing a document in the catalog again came to."""

    document_id: UUID
    document_version: int
    """Number of the version that is indexed."""
    indexing: IndexingStatus
    """DONE: it is searchable when the call returns; RUNNING: indexing goes on in the background."""


class RenameDocumentRequest(common.VersionedRequest, GetDocumentRequest):
    """Give a document another name, which later uploads keep; for its editors, its owner and admins."""

    document_name: Annotated[DocumentName, Field(pattern=r"\S")]
    """The new name."""


class RenameDocumentResponse(common.NamedDocument, common.Versioned):
    """A document with its new name."""

    edited = ("document_name",)

    document_version: int
    """Number of the version that is found by the new name."""


class DeleteDocumentRequest(common.ActingRequest):
    """Delete a document everywhere; its id and version numbers are never used again."""

    document_id: UUID


class DeleteDocumentResponse(common.ResponseModel):
    """The document that is gone."""

    document_id: UUID


GET_DOCUMENT = ApiOperation("catalog/getDocument", GetDocumentRequest, GetDocumentResponse, READ, NOT_FOUND)
"""Return a document with its versions, newest first, and how far it is indexed where."""
LIST_DOCUMENTS = ApiOperation("catalog/listDocuments", ListDocumentsRequest, ListDocumentsResponse, READ)
"""Walk the documents the caller may read, in a stable order; filters narrow together.

`ids` and `document_external_ids` are at most 1000 each, and those of nothing are passed over.
`document_name` is part of the name or the file name, in any case; `updated_from` is included, `updated_to` not.
`indexing` (DONE, RUNNING or FAILED) is of the catalog's index. `parent_document_id` is the archive or mail that
the documents are files in; `contained`: only files in any (True), or only documents that are none (False).
`folder` is the beginning of external ids, whole folders in any case; `readable_by` is for admins.

`order` is CREATED, UPDATED, NAME or SIZE, `descending` unless it is NAME. Of documents that change during a
walk, only the order by CREATED shows each exactly once."""
LIST_FOLDERS = ApiOperation("catalog/listFolders", ListFoldersRequest, ListFoldersResponse, READ)
"""Walk the folders directly in `folder` (at the top without any), each with the number of the documents in it.

Folders are what external ids have before each `/`, in any case. Filters are those of `list_documents`, and only
what it lists is counted."""
LIST_LEFT_OUT_FILES = ApiOperation(
    "catalog/listLeftOutFiles", ListLeftOutFilesRequest, ListLeftOutFilesResponse, READ, NOT_FOUND
)
"""Walk the files in an archive or mail that are no documents, each with its reason, in their order there.

Those in an archive in it are listed of that one. Raises NotFoundError for who may not read it."""
DOWNLOAD_DOCUMENT: ApiOperation[Any, Any] = ApiOperation(
    "catalog/downloadDocument", DownloadDocumentRequest, None, READ, NOT_FOUND
)
"""Open a document's file, of its newest version unless one is named; `save`, `read` or iterate it."""
REINDEX_DOCUMENT = ApiOperation(
    "catalog/reindexDocument", ReindexDocumentRequest, ReindexDocumentResponse, WRITE, ADDS_DATA | NOT_FOUND
)
"""Chunk and index a document's newest contents in the catalog again, such as after indexing has failed.

Raises PermissionDeniedError `document_editor_required` for who may read it and not update it."""
RENAME_DOCUMENT = ApiOperation(
    "catalog/renameDocument", RenameDocumentRequest, RenameDocumentResponse, WRITE, ADDS_DATA | NOT_FOUND | CONFLICT
)
"""Give a document another name, which later uploads keep.

Raises PermissionDeniedError `document_editor_required` for a caller who may read it and not update it."""
DELETE_DOCUMENT = ApiOperation(
    "catalog/deleteDocument", DeleteDocumentRequest, DeleteDocumentResponse, WRITE, KEYED | NOT_FOUND
)
"""Delete a document everywhere; its id and version numbers are never used for something else."""
