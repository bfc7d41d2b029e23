"""From source documents to uploads: dotted paths, every BSON type, and failures."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from bson import Binary, Code, DatetimeMS, DBRef, Decimal128, Int64, MaxKey, ObjectId, Regex, Timestamp

from carrel.wire.docstore import DocstoreConfig
from service.domains.documents.docstore import values
from service.domains.documents.docstore.filters import filter_query
from service.domains.documents.docstore.mapping import MappedDocument, MappingError, Target, map_document
from service.domains.documents.docstore.sources import Position, SourceDocument
from service.platform.errors import BadRequest
from tests.harness.cases import cases

OID = ObjectId("65a0c0ffee65a0c0ffee65a0")
UUID_VALUE = UUID("0190c1c0-0000-7000-8000-000000000001")
MOMENT = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
IDS = [OID, "a", 7, Int64(7), 7.0, Decimal128("7"), True, MOMENT, UUID_VALUE, b"7", {"a": 1}, None, Timestamp(7, 1)]
# Each is read by people as one of the others, or as its digest.
TWINS = [Timestamp(7, 2), Binary(b"7", 5), {"a": OID}, {"a": str(OID)}, "x" * 600, values.SourceId("x" * 600).text]
DOCUMENT = {"a": {"b": "x", "list": [{"t": 1}, {"t": 2}, {}, {"t": [3, 4]}]}, "flat": ["p", "q"]}
FIELDS = {"body": "text", "source_name": "title", "source_system_updated": "at", "source_url": "url"}


def target(**members: Any) -> Target:
    config = {"sync_name": "s", "collection_name": "c", "source_fields": FIELDS, **members}
    return Target("sync", UUID_VALUE, DocstoreConfig(**config))


def mapped(_id: Any = "a", _target: Target | None = None, **fields: Any) -> MappedDocument:
    whole = {"title": "A title", "text": "A text.", **fields}
    return map_document(SourceDocument(values.SourceId(_id), whole), _target or target())


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (OID, "65a0c0ffee65a0c0ffee65a0"),
        (Decimal128("12345678901234567890.123456789"), "12345678901234567890.123456789"),
        (Decimal128("NaN"), "NaN"),
        (MOMENT, "2026-01-31T09:30:00Z"),
        (MOMENT.astimezone(timezone(timedelta(hours=2))), "2026-01-31T09:30:00Z"),
        (Int64(2**60), 2**60),
        (True, True),
        (1.5, 1.5),
        (float("inf"), "inf"),
        (UUID_VALUE, str(UUID_VALUE)),
        (b"\x00\x01", "AAE="),
        (Binary(b"\x00\x01", 5), "AAE="),
        (Regex("^a", "i"), "^a"),
        (Timestamp(1769851800, 1), "2026-01-31T09:30:00Z"),
        (Code("f()"), "f()"),
        (None, None),
        ({"a": [OID, {"b": Decimal128("1.10")}]}, {"a": ["65a0c0ffee65a0c0ffee65a0", {"b": "1.10"}]}),
        (DBRef("things", OID), {"$ref": "things", "$id": "65a0c0ffee65a0c0ffee65a0"}),
        # The rest is written as MongoDB's own tools write it.
        (MaxKey(), {"$maxKey": 1}),
        (DatetimeMS(2**60), {"$date": {"$numberLong": str(2**60)}}),
    ],
)
def test_types_are_kept_faithfully(value: Any, plain: Any) -> None:
    found = values.plain_value(value)
    assert (found, type(found)) == (plain, type(plain))
    json.dumps(found)


def test_ids_of_different_types_are_different() -> None:
    keys = [values.SourceId(one).key for one in [*IDS, *TWINS]]
    assert len(set(keys)) == len(keys)
    assert {"objectId:65a0c0ffee65a0c0ffee65a0", "string:a", "int:7", "long:7", "decimal:7", "bool:true"} <= set(keys)
    for one in [*IDS, *TWINS]:
        again = Position.from_json(json.loads(json.dumps(Position(MOMENT, values.SourceId(one)).to_json())))
        assert (again.updated, again.source_id and again.source_id.key) == (MOMENT, values.SourceId(one).key)
    for one in [*IDS, DatetimeMS(2**60)]:
        kept = values.from_extended(json.loads(json.dumps(values.to_extended(one))))
        assert (kept, type(kept)) == (one, type(one))


def test_a_position_holds_nothing_that_a_database_cannot_keep() -> None:
    """PostgreSQL's JSON has no NUL, but ids may."""
    for value in ("a\0b", {"a": ["\0"]}, Regex("\0")):
        kept = json.dumps(Position(MOMENT, values.SourceId(value)).to_json())
        assert "\\u0000" not in kept.replace("\\\\", "")
        assert Position.from_json(json.loads(kept)) == Position(MOMENT, values.SourceId(value))


@pytest.mark.parametrize("odd", ["x" * 2000, "a\0b", "\ud800", "a\nb", ""])
def test_an_odd_id_is_known_by_its_digest(odd: str) -> None:
    external_id = target().external_id(values.SourceId(odd))
    assert len(external_id) < 1024
    assert "\0" not in external_id
    external_id.encode()
    assert external_id != target().external_id(values.SourceId(odd + "x"))


@pytest.mark.parametrize(("path", "found"), cases("dotted_paths"))
def test_dotted_paths(path: str, found: Any) -> None:
    assert values.value_at(DOCUMENT, path) == found


def test_a_document_is_mapped_to_an_upload() -> None:
    one = mapped(OID, at=MOMENT, url="https://things.test/1")
    assert (one.content, one.file_name) == (b"A text.", "A title.txt")
    assert one.form.document_external_id == "sync:objectId:65a0c0ffee65a0c0ffee65a0"
    assert (one.form.document_name, one.form.source_system_updated) == ("A title", MOMENT)
    assert one.form.document_external_url == "https://things.test/1"
    assert one.form.names_access
    assert one.form.internal_public is False


@pytest.mark.parametrize(
    ("value", "content", "suffix"),
    [
        (["one", "two"], b"one\n\ntwo", ".txt"),
        (Decimal128("1.10"), b"1.10", ".txt"),
        ({"a": OID}, b'{\n "a": "65a0c0ffee65a0c0ffee65a0"\n}', ".json"),
        ([{"a": 1}], b'[\n {\n  "a": 1\n }\n]', ".json"),
        (b"%PDF-1.7", b"%PDF-1.7", ""),
        ("h\u00e9", "h\u00e9".encode(), ".txt"),
    ],
)
def test_bodies_of_any_type(value: Any, content: bytes, suffix: str) -> None:
    one = mapped(text=value)
    assert (one.content, one.file_name) == (content, f"A title{suffix}")


@pytest.mark.parametrize(
    ("fields", "code", "member"),
    [*cases("documents_that_cannot_be_mapped"), ({"title": "x" * 1001}, "invalid_value", "sourceName")],
)
def test_what_cannot_be_mapped_says_why(fields: dict[str, Any], code: str, member: str) -> None:
    with pytest.raises(MappingError) as caught:
        mapped(**fields)
    assert caught.value.code == code
    assert member in caught.value.message
    assert "javascript" not in caught.value.message


def test_a_document_nested_beyond_reason_fails_alone() -> None:
    """Deeper than the call stack, and than MongoDB's limit."""
    nested: Any = "text"
    for _ in range(20_000):
        nested = {"a": nested}
    with pytest.raises(MappingError) as caught:
        mapped(text=nested)
    assert caught.value.code == "too_deep"


def test_the_fingerprint_covers_everything_that_is_sent() -> None:
    first = mapped()
    same = mapped(other="ignored")
    others = [
        mapped(text="Another."),
        mapped(title="Another"),
        mapped(url="https://things.test/"),
        mapped(at=MOMENT),
        mapped(_target=target(internal_public=True)),
        mapped(_target=target(allowed_users_email_addresses=["a@b.test"])),
        mapped(_target=Target("sync", UUID(int=1), target().config)),
    ]
    assert first.form.fingerprint == same.form.fingerprint
    assert len({one.form.fingerprint for one in [first, *others]}) == len(others) + 1
    assert len(first.form.fingerprint or "") <= 128


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (MOMENT, MOMENT),
        ("2026-01-31T09:30:00Z", MOMENT),
        ("2026-01-31T10:30:00+01:00", MOMENT),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("yesterday", None),
        (1769851800, None),
        (None, None),
    ],
)
def test_times(value: Any, moment: datetime | None) -> None:
    assert values.time_of(value) == moment


def test_filters_are_extended_json() -> None:
    assert filter_query(
        {"state": "on", "at": {"$gte": {"$date": "2026-01-31T09:30:00Z"}}, "$or": [{"_id": {"$oid": str(OID)}}]}
    ) == {"state": "on", "at": {"$gte": MOMENT}, "$or": [{"_id": OID}]}
    assert filter_query({"price": {"$numberDecimal": "1.10"}}) == {"price": Decimal128("1.10")}


def nested(depth: int) -> dict[str, Any]:
    return {"$and": [nested(depth - 1)]} if depth else {"a": 1}


HUGE = [{"n": 2**70}, {"text": "x" * 70_000}, nested(60)]


@pytest.mark.parametrize("expression", [*cases("filters_that_are_refused"), *HUGE])
def test_filters_that_are_refused(expression: dict[str, Any]) -> None:
    with pytest.raises(BadRequest) as caught:
        filter_query(expression)
    assert caught.value.code == "invalid_filter_expression"
