"""Documents of a source, and positions to continue reading from. A source is never changed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from service.domains.documents.docstore.values import SourceId, extended_text, from_extended, to_extended


class SyncError(Exception):
    """A sync can't do something; `code` is stable, `message` gives the remedy, without any part of the address."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class SourceError(SyncError):
    """The source can't be read."""


def unknown_host() -> SourceError:
    return SourceError(
        "source_host_unknown", "The host of the document database is unknown in DNS. Correct the address of the sync."
    )


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A source's document: `fields` (None: undecodable), `updated` (None: no single time)."""

    source_id: SourceId
    fields: Mapping[str, Any] | None
    updated: datetime | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a walk: after the document with this time and id. A snapshot has only ids (`updated` None)."""

    updated: datetime | None = None
    source_id: SourceId | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the position as JSON with types. The id is text, since PostgreSQL can't store all JSON."""
        return {
            "updated": to_extended(self.updated),
            "_id": None if self.source_id is None else extended_text(self.source_id.value),
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        source_id = None if kept["_id"] is None else SourceId(from_extended(json.loads(kept["_id"])))
        return cls(updated=from_extended(kept["updated"]), source_id=source_id)


@dataclass(frozen=True, slots=True)
class Page:
    """Documents, and the position after the last; None where a walk can't continue."""

    documents: Sequence[SourceDocument]
    position: Position | None
