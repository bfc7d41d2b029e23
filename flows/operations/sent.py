"""The result of sending one document."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from flows.operations.ledger.rows import Entry
from flows.operations.ledger.states import State


@dataclass(frozen=True, slots=True)
class Sent:
    """The service's response to a document; `state` UPLOADED: not searchable yet.

    `fingerprint` is of the contents that were sent. `parts_not_read` are such as pictures and charts;
    `pages_waiting` are scanned ones, and pictures, which are read later.
    """

    state: State
    document_id: str
    sent_bytes: int
    fingerprint: str
    parts_not_read: int = 0
    pages_waiting: int = 0


Send = Callable[[Entry], Awaitable[Sent]]
"""Sends a document; safe to repeat."""
