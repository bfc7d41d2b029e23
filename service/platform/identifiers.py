"""Identifiers: UUIDv7 for objects created by the service, UUIDv5 for documents, named by callers."""

import os
import time
from datetime import datetime
from uuid import UUID, uuid5

NIL = UUID(int=0)
"""Sorts before every id; the start of a walk in order of ids."""

_VERSION_7 = 0x7 << 76
_RFC_VARIANT = 0b10 << 62
_RANDOM_A = ((1 << 12) - 1) << 64
_RANDOM_B = (1 << 62) - 1


def uuid7() -> UUID:
    """Return an id sorted by millisecond (RFC 9562, section 5.7) and random within a millisecond."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10))
    return UUID(int=milliseconds << 80 | _VERSION_7 | random & _RANDOM_A | _RFC_VARIANT | random & _RANDOM_B)


def first_uuid7_at(moment: datetime) -> UUID:
    """Return an id sorted after every `uuid7` made before `moment`'s millisecond, and before every later `uuid7`."""
    milliseconds = max(0, int(moment.timestamp() * 1000))
    return UUID(int=milliseconds << 80 | _VERSION_7 | _RFC_VARIANT)


def to_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def document_id_for(organization_id: UUID, external_id: str) -> UUID:
    return uuid5(organization_id, external_id)
