"""BSON values as text, JSON and typed ids, and the values at dotted paths, by MongoDB's rules."""

import base64
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast
from uuid import UUID

from bson import DatetimeMS, DBRef, Decimal128, Int64, ObjectId, Regex, Timestamp, json_util
from bson.binary import Binary, UuidRepresentation
from bson.codec_options import DatetimeConversion
from bson.json_util import JSONMode, JSONOptions

from carrel.wire.fields import format_instant

_CANONICAL: Final = JSONOptions(
    json_mode=JSONMode.CANONICAL,
    uuid_representation=UuidRepresentation.STANDARD,
    tz_aware=True,
    tzinfo=UTC,
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
)
# Longer ids are replaced by their digests.
_LONGEST_ID = 500
_DIGEST = "sha256-"


def to_extended(value: Any) -> Any:
    """Return a value as canonical Extended JSON, which preserves the type."""
    return json.loads(extended_text(value))


def extended_text(value: Any) -> str:
    return json_util.dumps(value, json_options=_CANONICAL, separators=(",", ":"))


def from_extended(kept: Any) -> Any:
    """Read Extended JSON, canonical or relaxed; ValueError or TypeError for invalid input."""
    return json_util.loads(json.dumps(kept), json_options=_CANONICAL)


@dataclass(frozen=True, slots=True)
class SourceId:
    """The `_id` of a source document, of any type."""

    value: Any

    @property
    def kind(self) -> str:
        """The name of the id's type in MongoDB. Ids of different types differ, even with equal text."""
        return next((name for kind, name in _KINDS if isinstance(self.value, kind)), "other")

    @property
    def key(self) -> str:
        """The type and the id as text, different for any two ids."""
        return f"{self.kind}:{self.text}"

    @property
    def text(self) -> str:
        """The id as text: a short plain id unchanged, else Extended JSON, or a digest of long Extended JSON."""
        value, extended = self.value, extended_text(self.value)
        if isinstance(value, Mapping | Timestamp) or (isinstance(value, Binary) and value.subtype != 0):
            text = extended  # a value of another type might have the same plain text
        else:
            plain = plain_value(value)
            text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
        if len(text) <= _LONGEST_ID and text.isprintable() and not text.startswith(_DIGEST):
            return text
        return f"{_DIGEST}{hashlib.sha256(extended.encode()).hexdigest()}"


# bool comes before int, and Int64 too, because both are subclasses of int.
_KINDS: Final[tuple[tuple[type, str], ...]] = (
    (ObjectId, "objectId"),
    (str, "string"),
    (bool, "bool"),
    (Int64, "long"),
    (int, "int"),
    (float, "double"),
    (Decimal128, "decimal"),
    (datetime, "date"),
    (DatetimeMS, "date"),
    (UUID, "uuid"),
    (bytes, "binData"),
    (Timestamp, "timestamp"),
    (Mapping, "object"),
    (type(None), "null"),
)


def plain_value(value: Any) -> Any:
    """Return a value as JSON without loss: numbers unknown to JSON become text; RFC 3339, hexadecimal, base64."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain_value(each) for key, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [plain_value(item) for item in cast("Sequence[Any]", value)]
    if isinstance(value, int):
        return int(value)
    return next((write for kind, write in _WRITERS if isinstance(value, kind)), to_extended)(value)


# Binary is a subclass of bytes.
_WRITERS: Final[tuple[tuple[type, Callable[[Any], Any]], ...]] = (
    (float, lambda value: value if math.isfinite(value) else str(value)),
    (datetime, format_instant),
    (Timestamp, lambda value: format_instant(value.as_datetime())),
    (bytes, lambda value: base64.b64encode(value).decode()),
    (ObjectId, str),
    (Decimal128, str),
    (UUID, str),
    (Regex, lambda value: str(value.pattern)),
    (DBRef, lambda value: plain_value(value.as_doc())),
)


def times_of(value: Any) -> list[datetime]:
    """Return a date value as a list, or the dates in a list."""
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, datetime)]


def time_of(value: Any) -> datetime | None:
    """Return a date, or text in ISO 8601 (without an offset: UTC), as a time; None for any other value."""
    if isinstance(value, Timestamp):
        return value.as_datetime()
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


_MISSING: Final = object()


def value_at(fields: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path (None: absent). For a list, return the items' values, or the numbered item."""
    found = _resolve(fields, tuple(path.split(".")))
    return None if found is _MISSING else found


def _resolve(value: Any, segments: tuple[str, ...]) -> Any:
    if not segments:
        return value
    first, rest = segments[0], segments[1:]
    if isinstance(value, Mapping):
        return _resolve(cast("Mapping[str, Any]", value).get(first, _MISSING), rest)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if first.isascii() and first.isdecimal():
            return _resolve(items[int(first)], rest) if int(first) < len(items) else _MISSING
        return [item for item in _resolve_each(items, segments) if item is not _MISSING] or _MISSING
    return _MISSING


def _resolve_each(items: list[Any], segments: tuple[str, ...]) -> Iterator[Any]:
    for item in items:
        found = _resolve(item, segments)
        yield from cast("list[Any]", found) if isinstance(found, list) else (found,)
