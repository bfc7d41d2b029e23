"""The interface between a sync and a source of documents, whatever kind of database it is.

A source is read in an order that can be continued after a position, and never changed. Every method may raise
SourceError, whose message has nothing of the address.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, Self

from service.domains.documents.docstore.values import SourceId, extended_text, from_extended, to_extended


class SourceError(Exception):
    """The source can't be read; `code` is stable, `message` says what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def unknown_host() -> SourceError:
    """Build the error for a host name that DNS doesn't know."""
    return SourceError(
        "source_host_unknown", "The host of the document database is not known in DNS. Update the sync if it is wrong."
    )


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document of the source: its id, its fields (None when they can't be decoded), and its `size` in bytes.

    `updated` is the time of its last change; None when it has no such time, or several.
    """

    source_id: SourceId
    fields: Mapping[str, Any] | None
    size: int
    updated: datetime | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a walk: after the document with this time and id; a snapshot has ids only (`updated` None)."""

    updated: datetime | None = None
    source_id: SourceId | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the position as JSON, with the types of its values.

        The id is kept as text: it may have characters that PostgreSQL's JSON can't store.
        """
        return {
            "updated": to_extended(self.updated),
            "_id": None if self.source_id is None else extended_text(self.source_id.value),
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        """Read the JSON that `to_json` returned."""
        source_id = None if kept["_id"] is None else SourceId(from_extended(json.loads(kept["_id"])))
        return cls(updated=from_extended(kept["updated"]), source_id=source_id)


@dataclass(frozen=True, slots=True)
class Page:
    """Some documents, and the position after them; None where a walk can't be continued."""

    documents: Sequence[SourceDocument]
    position: Position | None


class Source(Protocol):
    """One collection of a document database, with a filter."""

    def snapshot(self, after: SourceId | None) -> AsyncIterator[Page]:
        """Yield all documents in pages, in the order of their ids, after a given id."""
        ...

    def changes(self, since: Position) -> AsyncIterator[Page]:
        """Yield the documents changed at `since.updated` or later in pages, by (time, id), after the position's id.

        Without an id, documents that have no time come first, because nothing says whether they changed. Changes made
        after the walk began are left to the next one, so that it ends however fast documents change.
        """
        ...

    def list_ids(self) -> AsyncIterator[Sequence[SourceId]]:
        """Yield the ids of all documents in pages, each id once."""
        ...

    async def read(self, source_ids: Sequence[SourceId]) -> Sequence[SourceDocument]:
        """Return the documents of these ids that exist."""
        ...

    async def count(self) -> int:
        """Return the number of documents, as the database itself counts them."""
        ...

    async def newest(self) -> datetime | None:
        """Return the latest time at which a document was changed; None when no document has one."""
        ...
