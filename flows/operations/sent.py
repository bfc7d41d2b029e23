"""The result of sending one document."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

from carrel.wire.catalog import ContainedFiles
from flows.operations.ledger.rows import Entry
from flows.operations.ledger.states import State


@dataclass(frozen=True, slots=True)
class Sent:
    """The service's response to a document; `state` UPLOADED: not searchable yet.

    `fingerprint` is of the contents that were sent. `parts_not_read` are such as pictures and charts;
    `pages_waiting` are scanned ones, and pictures, which are read later; so are the files that it is a container of.
    """

    state: State
    document_id: str
    sent_bytes: int
    fingerprint: str
    parts_not_read: int = 0
    pages_waiting: int = 0
    contained: ContainedFiles | None = None

    def as_row(self) -> dict[str, Any]:
        """Return what a row of the ledger's documents keeps of it."""
        return asdict(self) | as_row(self.contained)


def as_row(contained: ContainedFiles | None) -> dict[str, Any]:
    """Return what a row of the ledger's documents keeps of how far the files in a document are."""
    return {"contained": "" if contained is None else contained.model_dump_json()}


Send = Callable[[Entry], Awaitable[Sent]]
"""Sends a document; safe to repeat."""
