"""How far a document is, and what is wanted done with it."""

from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    """How far a document is. FORBIDDEN and FAILED are in quarantine; UPLOADED waits for its index."""

    FOUND = "found"
    PLANNED = "planned"
    UNCHANGED = "unchanged"
    FORBIDDEN = "forbidden"
    UPLOADED = "uploaded"
    INDEXED = "indexed"
    FAILED = "failed"
    IGNORED = "ignored"
    DELETED = "deleted"


class Action(StrEnum):
    """What the plan wants done with a document."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class Count(NamedTuple):
    """How many documents are in a state with an action, how many bytes of them were sent, how many of them have parts
    that were not read, and how many of their pages are read later.

    In each of them are files that are as far as `contained` says (ledger.tables); empty: there are none.
    """

    state: State
    action: Action | None
    documents: int
    sent_bytes: int
    partly_read: int
    pages_waiting: int
    contained: str = ""
