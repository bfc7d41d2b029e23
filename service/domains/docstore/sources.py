"""What a source of documents offers a sync, whatever kind of database it is.

A source is read in an order that can be taken up again after a position, and never changed. Every method may raise
SourceError, whose message names nothing of the address.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, Self

from service.domains.docstore.values import SourceId, extended_text, from_extended, to_extended


class SourceError(Exception):
    """The source can't be read; `code` is stable, `message` says what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def unknown_host() -> SourceError:
    """Say that nobody has a host of this name."""
    return SourceError(
        "source_host_unknown", "The host of the document database is not known in DNS. Update the sync if it is wrong."
    )


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document as the source has it: its id, and its fields, None when they can't be decoded. `size` in bytes.

    `updated` is when it was changed; None when it has no such time, or several.
    """

    source_id: SourceId
    fields: Mapping[str, Any] | None
    size: int
    updated: datetime | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a walk: after the document with this time and id; a snapshot has ids alone (`updated` None)."""

    updated: datetime | None = None
    source_id: SourceId | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the position as it is kept, with the types of its values.

        The id is kept as text: it may hold characters that PostgreSQL's JSON has not.
        """
        return {
            "updated": to_extended(self.updated),
            "_id": None if self.source_id is None else extended_text(self.source_id.value),
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        """Read what `to_json` returned."""
        source_id = None if kept["_id"] is None else SourceId(from_extended(json.loads(kept["_id"])))
        return cls(updated=from_extended(kept["updated"]), source_id=source_id)


@dataclass(frozen=True, slots=True)
class Page:
    """Some documents, and the position after them; None where the walk can't be taken up in between."""

    documents: Sequence[SourceDocument]
    position: Position | None


class Source(Protocol):
    """One collection of a document database, narrowed by a filter."""

    def snapshot(self, after: SourceId | None) -> AsyncIterator[Page]:
        """Walk all documents in the order of their ids, from after one on."""
        ...

    def changes(self, since: Position) -> AsyncIterator[Page]:
        """Walk the documents changed at `since.updated` or later, in the order of (time, id), from after the id on.

        Without an id, the documents that have no time come first: whether they changed can't be asked. What changes
        after the walk began is left to the next one, so that it ends however fast documents change.
        """
        ...

    def list_ids(self) -> AsyncIterator[Sequence[SourceId]]:
        """Walk the ids of all documents, each once."""
        ...

    async def read(self, source_ids: Sequence[SourceId]) -> Sequence[SourceDocument]:
        """Return those of these documents that there are."""
        ...

    async def count(self) -> int:
        """Return how many documents there are, as the database itself counts them."""
        ...

    async def newest(self) -> datetime | None:
        """Return the latest time at which a document was changed; None when no document has one."""
        ...
