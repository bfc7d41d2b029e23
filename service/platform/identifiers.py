"""How ids are made: UUIDv7 for what the service creates, UUIDv5 for documents, which callers name themselves."""

import os
import time
from datetime import datetime
from uuid import UUID, uuid5

NIL = UUID(int=0)
"""Sorts before every id; where a walk in order of ids begins."""

_VERSION_7 = 0x7 << 76
_RFC_VARIANT = 0b10 << 62
_RANDOM_A = ((1 << 12) - 1) << 64
_RANDOM_B = (1 << 62) - 1


def uuid7() -> UUID:
    """A new id that sorts by the millisecond it was made in (RFC 9562, section 5.7); random within it."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10))
    return UUID(int=milliseconds << 80 | _VERSION_7 | random & _RANDOM_A | _RFC_VARIANT | random & _RANDOM_B)


def first_uuid7_at(moment: datetime) -> UUID:
    """An id that sorts after every `uuid7` made before `moment`'s millisecond, and before every one made since."""
    milliseconds = max(0, int(moment.timestamp() * 1000))
    return UUID(int=milliseconds << 80 | _VERSION_7 | _RFC_VARIANT)


def document_id_for(organization_id: UUID, external_id: str) -> UUID:
    """The id of the document that callers of this organization know by `external_id`, whether it exists or not."""
    return uuid5(organization_id, external_id)
