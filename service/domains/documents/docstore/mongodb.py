"""A MongoDB collection as a source. Each page is a separate query after the last document, so no cursor must outlive
indexing. Ids are read type by type, because MongoDB compares only values of the same type."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import bson
from bson import Binary, ObjectId, Timestamp
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from pydantic import SecretStr
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import PyMongoError

from carrel.wire.docstore import DocstoreConfig
from service.domains.documents.docstore.asking import Egress, OnSilence, SourceClient, bound_announcements
from service.domains.documents.docstore.filters import filter_query
from service.domains.documents.docstore.sources import Page, Position, SourceDocument, SourceError
from service.domains.documents.docstore.uris import connection_parts, words_of
from service.domains.documents.docstore.values import SourceId, times_of, value_at
from service.platform.networks import AllowedHosts

Raw: TypeAlias = RawBSONDocument
Query: TypeAlias = Mapping[str, Any]

PAGE_DOCUMENTS = 100
PAGE_BYTES = 16 * 1024 * 1024
LISTED_AT_ONCE = 1000
POOL_SIZE = 2

# Python has no times outside this range, and no reader means one.
_EARLIEST: Final = datetime(1, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
_DATED: Final = {"$gte": _EARLIEST, "$lte": _LATEST}
# The least id of each type, in MongoDB's order of types; null equals only itself.
_LEAST: Final[tuple[tuple[frozenset[str], Any], ...]] = (
    (frozenset({"null"}), None),
    (frozenset({"int", "long", "double", "decimal"}), float("-inf")),
    (frozenset({"string"}), ""),
    (frozenset({"object"}), {}),
    (frozenset({"binData", "uuid"}), Binary(b"")),
    (frozenset({"objectId"}), ObjectId("0" * 24)),
    (frozenset({"bool"}), False),
    (frozenset({"date"}), _EARLIEST),
    (frozenset({"timestamp"}), Timestamp(0, 0)),
)
_CODEC: Final = CodecOptions[dict[str, Any]](
    tz_aware=True, uuid_representation=UuidRepresentation.STANDARD, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)
_LENIENT: Final = _CODEC.with_options(unicode_decode_error_handler="replace")
_RAW: Final = CodecOptions[Raw](document_class=RawBSONDocument, uuid_representation=UuidRepresentation.STANDARD)


@asynccontextmanager
async def open_mongodb(
    uri: SecretStr,
    config: DocstoreConfig,
    *,
    allowed: AllowedHosts,
    seconds: float,
    connect_seconds: float,
    on_silence: OnSilence | None = None,
) -> AsyncGenerator["MongoSource"]:
    """Open a sync's source until the block ends, without a query; `seconds` limits each. SourceError for the URI."""
    bound_announcements()
    parts = await connection_parts(uri, seconds=connect_seconds)
    egress = Egress(await asyncio.to_thread(allowed.resolve))
    milliseconds = int(connect_seconds * 1000)
    options: dict[str, Any] = {
        **parts.options,
        "appname": "carrel",
        "connectTimeoutMS": milliseconds,
        "serverSelectionTimeoutMS": milliseconds,
        "socketTimeoutMS": int(seconds * 1000) + milliseconds,
        "maxPoolSize": POOL_SIZE,
        # A run is short and retries after a change of primary, so it needs no second connection that watches for one.
        "serverMonitoringMode": "poll",
    }
    if options.get("tls") or options.get("ssl"):
        # OCSP would connect to an address from the certificate that AllowedHosts has not checked.
        options["tlsDisableOCSPEndpointCheck"] = True
    hosts = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in parts.hosts]
    try:
        client: AsyncMongoClient[Raw] = AsyncMongoClient(hosts, **options, document_class=RawBSONDocument)
    except (PyMongoError, ValueError, TypeError):
        raise SourceError(
            "invalid_docstore_uri", "The options in the address contradict each other. Update the sync."
        ) from None
    names = tuple(host for host, _ in parts.hosts)
    asking = SourceClient(egress, words=words_of(uri, parts), seconds=seconds, hosts=names, on_silence=on_silence)
    try:
        collection = client.get_database(parts.database).get_collection(config.collection_name, codec_options=_RAW)
        yield MongoSource(collection, config, asking)
    finally:
        with egress.enforce():
            await client.close()
        egress.close_forgotten()


class MongoSource:
    """A MongoDB collection with the sync's filter and mapped fields. Every method may raise SourceError."""

    def __init__(self, collection: AsyncCollection[Raw], config: DocstoreConfig, asking: SourceClient) -> None:
        self._collection = collection
        self._filter = filter_query(config.filter_expression)
        self._asking = asking
        fields = config.source_fields
        paths = (fields.body, fields.source_name, fields.source_system_updated, fields.source_url)
        # Whole top-level fields: MongoDB can't project overlapping paths together.
        self._projection = {path.split(".")[0]: 1 for path in paths if path is not None}
        self._updated = fields.source_system_updated
        self._milliseconds = int(asking.seconds * 1000)

    async def snapshot(self, after: SourceId | None) -> AsyncIterator[Page]:
        """Yield pages of all documents after an id (None: from the first), by type and id."""
        async for documents in self._by_id(after, self._projection, PAGE_DOCUMENTS):
            yield Page(documents, Position(source_id=documents[-1].source_id))

    async def changes(self, since: Position) -> AsyncIterator[Page]:
        """Yield pages of documents changed since a position by (time, id); without an id, undated documents first."""
        if self._updated is None:
            return
        if since.source_id is None:
            undated = {"$nor": [{self._updated: _DATED}]}
            async for documents in self._by_id(None, self._projection, PAGE_DOCUMENTS, undated):
                yield Page(documents, None)
        if (until := await self.newest()) is None:
            return
        order = [(self._updated, 1), ("_id", 1)]
        position = since
        while True:
            asked = {"$and": [self._condition_after(position), {self._updated: {"$lte": until}}]}
            found, is_all = await self._find(asked, self._projection, order, PAGE_DOCUMENTS)
            after = _position_after(position, found)
            if found:
                yield Page(found, after)
            if is_all:
                return
            if after is None:
                raise SourceError(
                    "source_unordered",
                    "The field in sourceSystemUpdated does not order the documents by time. Choose a field with a "
                    "single date in every document, or leave it out.",
                )
            position = after

    async def list_ids(self) -> AsyncIterator[Sequence[SourceId]]:
        async for documents in self._by_id(None, {"_id": 1}, LISTED_AT_ONCE):
            yield [document.source_id for document in documents]

    async def read(self, source_ids: Sequence[SourceId]) -> Sequence[SourceDocument]:
        """Return the documents with these ids that exist and fit the filter, in as many queries as their sizes need."""
        found: dict[str, SourceDocument] = {}
        wanted = [source_id.value for source_id in source_ids]
        while wanted:
            documents, _ = await self._find({"_id": {"$in": wanted}}, self._projection, [("_id", 1)], len(wanted))
            found |= {document.source_id.key: document for document in documents}
            # MongoDB may return an equal id of another type, which is not the wanted document.
            rest = [value for value in wanted if SourceId(value).key not in found]
            wanted = rest if len(rest) < len(wanted) else []
        return list(found.values())

    async def read_first(self, limit: int) -> Sequence[SourceDocument]:
        return (await self._find({}, {}, [("_id", 1)], limit))[0]

    async def count(self) -> int:
        limit = self._milliseconds
        return await self._asking.ask(lambda: self._collection.count_documents(self._filter, maxTimeMS=limit))

    async def newest(self) -> datetime | None:
        """Return the latest time of change among all documents; None when no document has a time."""
        if self._updated is None:
            return None
        field = self._updated
        found, _ = await self._find({field: _DATED}, {field.split(".")[0]: 1}, [(field, -1)], 1)
        # MongoDB orders a document with several times by the latest.
        times = [time for item in found if item.fields for time in times_of(value_at(item.fields, field))]
        return max(times, default=None)

    async def _by_id(
        self, after: SourceId | None, projection: Query, limit: int, narrowed: Query | None = None
    ) -> AsyncIterator[list[SourceDocument]]:
        """Yield documents after an id, up to `limit` at a time, by type and id; SourceError if they come again."""
        for kinds, least in _types_from(after):
            query: dict[str, Any] = {"_id": {"$gt": after.value} if after and after.kind in kinds else _least(least)}
            reached: SourceId | None = None
            while True:
                asked = {"$and": [query, narrowed]} if narrowed else query
                found, is_all = await self._find(asked, projection, [("_id", 1)], limit)
                # Some servers compare across types; documents of other types come in their own round.
                own = [document for document in found if document.source_id.kind in kinds]
                if own:
                    yield own
                if is_all or least is None:
                    break
                if found[-1].source_id == reached:
                    raise SourceError(
                        "source_unordered", "The document database sends the same documents again, without later ones."
                    )
                reached = found[-1].source_id
                query = {"_id": {"$gt": reached.value}}

    async def _find(
        self, query: Query, projection: Query, order: list[tuple[str, int]], limit: int
    ) -> tuple[list[SourceDocument], bool]:
        """Return the first documents of a query and the filter, to `limit` or PAGE_BYTES, and whether these are all."""
        asked = {"$and": [self._filter, query]} if self._filter and query else query or self._filter
        return await self._asking.ask(lambda: self._read_page(asked, projection, order, limit))

    async def _read_page(
        self, query: Query, projection: Query, order: list[tuple[str, int]], limit: int
    ) -> tuple[list[SourceDocument], bool]:
        found: list[Raw] = []
        size = 0
        cursor = self._collection.find(
            query,
            projection,
            sort=order,
            limit=limit,
            batch_size=limit,
            max_time_ms=self._milliseconds,
            allow_disk_use=True,
        )
        async with cursor:
            async for raw in cursor:
                found.append(raw)
                size += len(raw.raw)
                if size >= PAGE_BYTES:
                    break
        documents = await asyncio.to_thread(lambda: [_to_document(raw, self._updated) for raw in found])
        return documents, len(found) < limit and size < PAGE_BYTES

    def _condition_after(self, position: Position) -> Query:
        assert self._updated is not None  # noqa: S101 - the caller has looked
        if position.updated is None:
            return {self._updated: _DATED}
        if position.source_id is None:
            return {self._updated: {"$gte": position.updated}}
        later = [{"_id": _least(least)} for _, least in _types_from(position.source_id)[1:]]
        same_time = {"$or": [{"_id": {"$gt": position.source_id.value}}, *later]}
        return {
            "$or": [
                {self._updated: {"$gt": position.updated}},
                {"$and": [{self._updated: position.updated}, same_time]},
            ]
        }


def _types_from(after: SourceId | None) -> Sequence[tuple[frozenset[str], Any]]:
    """Return the types of ids still to read, beginning with the type of `after` (None: all; of no known type: none)."""
    if after is None:
        return _LEAST
    return next((_LEAST[place:] for place, (kinds, _) in enumerate(_LEAST) if after.kind in kinds), ())


def _least(least: Any) -> Any:
    return None if least is None else {"$gte": least}


def _position_after(position: Position, documents: Sequence[SourceDocument]) -> Position | None:
    """Return the position after a page; None if the page has no time, or lies not after the position before."""
    dated = ((document.updated, document.source_id) for document in reversed(documents) if document.updated is not None)
    updated, source_id = next(dated, (None, None))
    if updated is None or (position.updated is not None and updated < position.updated):
        return None
    after = Position(updated, source_id)
    return None if after == position else after


def _to_document(raw: Raw, updated: str | None) -> SourceDocument:
    """Decode a document with its time at the path `updated`; SourceError `source_without_ids` without an _id."""
    try:
        fields = known = _decode(raw, _CODEC)
    except (BSONError, ValueError):
        fields, known = None, _decode(raw, _LENIENT)
    if "_id" not in known:
        raise SourceError(
            "source_without_ids",
            "The document database sends documents without _id, which identifies them. If collectionName is a view, "
            "let the view keep _id.",
        )
    value = None if updated is None else value_at(known, updated)
    time = value if isinstance(value, datetime) else None
    return SourceDocument(SourceId(known["_id"]), fields, time)


def _decode(raw: Raw, codec: CodecOptions[dict[str, Any]]) -> dict[str, Any]:
    return bson.decode(raw.raw, codec)  # pyright: ignore[reportUnknownMemberType] - it leaves one kind of buffer untyped
