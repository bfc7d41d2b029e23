"""Documents as people think of them: their kinds, how far they are indexed, and loading a few of one's own."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import PurePosixPath
from typing import Protocol
from uuid import UUID

import carrel
from app import api
from app.words import counted
from carrel.wire.catalog import Document, DocumentIndexing, GetDocumentResponse, IndexingStatus, UploadFileResponse
from carrel.wire.collections import DocumentCollection
from carrel.wire.common import Role, UserPrincipal

_OFFICE = "application/vnd.openxmlformats-officedocument"
KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "pdf": ("PDF", ("application/pdf",)),
    "word": ("Word", (f"{_OFFICE}.wordprocessingml.document",)),
    "slides": ("PowerPoint", (f"{_OFFICE}.presentationml.presentation",)),
    "sheet": ("Excel", (f"{_OFFICE}.spreadsheetml.sheet",)),
    "table": ("CSV and TSV", ("text/csv", "text/tab-separated-values")),
    "web": ("Web page", ("text/html",)),
    "markdown": ("Markdown", ("text/markdown",)),
    "text": ("Text", ("text/plain",)),
    "data": ("JSON", ("application/json", "application/jsonl")),
    "mail": ("Mail", ("message/rfc822",)),
}
"""What the address of a list says: how people call a kind, and its media types."""

STATES = {
    IndexingStatus.DONE: "Searchable",
    IndexingStatus.RUNNING: "Being indexed",
    IndexingStatus.FAILED: "Not searchable",
}
MOST_FILES = 20
"""How many files a person loads at once by hand; more are a run's."""


def kind_of(media_type: str) -> str:
    """Return how people call a kind of file."""
    return next((name for name, types in KINDS.values() if media_type in types), media_type)


def owner_of(document: Document) -> str:
    """Return who owns a document, with the address that tells apart who has the same name."""
    owner = document.owner
    return f"{owner.name} ({owner.email})" if isinstance(owner, UserPrincipal) else owner.name


def name_of_place(place: DocumentIndexing) -> str:
    """Return what people call the place that a document is indexed in."""
    return "The whole catalog" if place.document_collection_id is None else place.collection_name or "A collection"


def state_in(place: DocumentIndexing) -> str:
    """Say in a sentence how far a document is in a place."""
    searchable = f"version {place.indexed_version} can be found" if place.indexed_version else "nothing can be found"
    if place.status is IndexingStatus.FAILED:
        return f"Not searchable: version {place.document_version} could not be indexed; {searchable}."
    if place.status is IndexingStatus.RUNNING:
        return f"Being indexed: version {place.document_version}; until then {searchable}."
    return f"Searchable: {searchable}, in {counted(place.chunk_count, 'passage')}."


def is_stale(place: DocumentIndexing, document: GetDocumentResponse) -> bool:
    """Tell whether what can be found in a collection isn't the newest contents, and nothing is on its way there."""
    return (
        place.document_collection_id is not None
        and place.status is not IndexingStatus.RUNNING
        and place.indexed_version != document.document_version
    )


def may_edit(collection: DocumentCollection) -> bool:
    """Tell whether the person may change what is in a collection."""
    return collection.role in {Role.OWNER, Role.EDITOR}


class ChosenFile(Protocol):
    """A file that somebody dropped on a page."""

    @property
    def name(self) -> str:
        """The name the browser gave."""
        ...

    @property
    def file_id(self) -> str:
        """What tells it from every other file, the same one dropped again too."""
        ...

    def getvalue(self) -> bytes:
        """Return the contents."""
        ...


@dataclass(frozen=True)
class Outcome:
    """What came of loading a file: the document, or why there is none."""

    name: str
    document_id: UUID | None = None
    problem: str = ""
    waits: bool = False

    @property
    def said(self) -> str:
        """The outcome in words."""
        if self.document_id is None:
            return f"Not loaded. {self.problem}"
        return "Loaded. It can be found in a moment." if self.waits else "Loaded, and can be found."


def identifier_of(name: str) -> str:
    """Return the identifier that a person's own file has: sent again under the same name it is the next version."""
    return f"{api.me().email}/{PurePosixPath(name.replace(chr(92), '/')).name}"[:1024]


def load(files: Iterable[ChosenFile], *, everybody: bool) -> Iterator[tuple[str, Outcome]]:
    """Load files one after the other as the person; yield what came of each, by the file's id.

    One that fails stops no other, but for a sign-in that has ended: that fails all that are left.
    """
    for file in files:
        yield file.file_id, _load(file, everybody=everybody)


def _load(file: ChosenFile, *, everybody: bool) -> Outcome:
    name = file.name[:1000]
    try:
        loaded: UploadFileResponse = api.client().catalog.upload_file(
            BytesIO(file.getvalue()),
            document_external_id=identifier_of(name),
            document_name=name,
            file_name=name,
            internal_public=everybody,
        )
    except carrel.APIConnectionError:
        return Outcome(name, problem="The service doesn't answer. Load it again in a moment.")
    except carrel.APIError as error:
        return Outcome(name, problem=error.message)
    except (carrel.CarrelError, ValueError) as error:
        return Outcome(name, problem=str(error))
    return Outcome(name, loaded.document_id, waits=loaded.indexing is not IndexingStatus.DONE)


def left_of(files: Sequence[ChosenFile], outcomes: Mapping[str, Outcome]) -> list[ChosenFile]:
    """Return the files that are not loaded yet."""
    return [file for file in files if (done := outcomes.get(file.file_id)) is None or done.document_id is None]
