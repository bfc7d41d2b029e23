"""Uploading a few files of a person's own, one after the other; nothing here is drawn."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import PurePosixPath
from typing import Protocol
from uuid import UUID

import carrel
from app import api
from app.documents.facts import pages_being_read
from app.ui.errors import line_of
from carrel.wire.catalog import IndexingStatus
from flows.operations.formatting import capitalize, count_text

MOST_FILES = 20
"""How many files a person loads at once by hand; more are a run's."""


class ChosenFile(Protocol):
    """A file that was dropped on a page."""

    @property
    def name(self) -> str:
        """The name the browser gave."""
        ...

    @property
    def file_id(self) -> str:
        """The unique id of a dropped file; a file that is dropped twice has two ids."""
        ...

    def getvalue(self) -> bytes:
        """Return the contents."""
        ...


@dataclass(frozen=True)
class Outcome:
    """The result of loading a file: the document, or the reason for the failure; `rest`: what goes on afterwards."""

    name: str
    document_id: UUID | None = None
    problem: str = ""
    waits: bool = False
    rest: str = ""

    @property
    def said(self) -> str:
        """The outcome in words."""
        if self.document_id is None:
            return f"Failed. {self.problem}"
        if self.problem:
            return f"Loaded, but not added to the collection. {self.problem}"
        if self.rest:
            return f"Loaded. {self.rest}."
        return "Loaded. It can be found in a moment." if self.waits else "Loaded, and can be found."


def identifier_of(name: str) -> str:
    """Return the external id of a person's own file; a file of the same name becomes the next version."""
    return f"{api.me().email}/{PurePosixPath(name.replace(chr(92), '/')).name}"[:1024]


def load(
    files: Iterable[ChosenFile], *, everybody: bool, collection_id: UUID | None, read_pictures: bool | None = None
) -> Iterator[tuple[str, Outcome]]:
    """Upload files one after the other as the person; yield the outcome of each, by the file's id.

    With a collection, each document is added to it, too.

    A failed file doesn't stop the others, unless the sign-in has ended: then all others fail too.
    """
    for file in files:
        yield (
            file.file_id,
            _load(file, everybody=everybody, collection_id=collection_id, read_pictures=read_pictures),
        )


def _load(file: ChosenFile, *, everybody: bool, collection_id: UUID | None, read_pictures: bool | None) -> Outcome:
    name = file.name[:1000]
    try:
        loaded = api.client().catalog.upload_file(
            BytesIO(file.getvalue()),
            document_external_id=identifier_of(name),
            document_name=name,
            file_name=name,
            internal_public=everybody,
            read_pictures=read_pictures,
        )
    except carrel.CarrelError as error:
        return Outcome(name, problem=line_of(error))
    except ValueError as error:
        return Outcome(name, problem=str(error))
    problem = "" if collection_id is None else _add_to_collection(loaded.document_id, collection_id)
    rest = pages_being_read(loaded.text_recognition)
    if loaded.file_count:
        rest = f"{count_text(loaded.file_count, 'file is', 'files are')} being taken out of it"
    waits = loaded.indexing is not IndexingStatus.DONE
    return Outcome(name, loaded.document_id, problem, waits=waits, rest=capitalize(rest))


def _add_to_collection(document_id: UUID, collection_id: UUID) -> str:
    """Add a document to a collection, where it keeps the fields it has; return what went wrong, if anything did."""
    collections = api.client().document_collections
    try:
        there = next(iter(collections.list_documents_in_collection(collection_id, ids=[document_id])), None)
        collections.add_document_to_collection(
            document_id=document_id,
            document_collection_id=collection_id,
            custom_metadata=there.custom_metadata if there else {},
        )
    except carrel.CarrelError as error:
        return line_of(error)
    return ""


def select_unloaded(files: Sequence[ChosenFile], outcomes: Mapping[str, Outcome]) -> list[ChosenFile]:
    """Return the files that are not loaded yet, or not where they were to go."""
    return [file for file in files if (done := outcomes.get(file.file_id)) is None or done.problem]
