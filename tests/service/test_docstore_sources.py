"""Promises of every source, over real connections to each MongoDB server. MONGO_TEST_URI names a real server with a
database; otherwise tests of real servers are skipped. A server's row lists a stand-in's limits."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvloop
from bson import Binary, Decimal128, Int64, ObjectId
from pydantic import SecretStr

from carrel.wire.docstore import DocstoreConfig
from service.domains.documents.docstore import mongodb
from service.domains.documents.docstore.mongodb import MongoSource, open_mongodb
from service.domains.documents.docstore.sources import Position, SourceDocument, SourceError
from service.domains.documents.docstore.values import SourceId
from service.platform.networks import AllowedHosts
from tests.harness.mongo import processes
from tests.harness.mongo.processes import MongoServer
from tests.service.docstore import DATED, START, a_thing

EVERYWHERE = AllowedHosts.of(["0.0.0.0/0", "::/0"])


@dataclass(frozen=True)
class Kind:
    """A kind of server, and whether it orders numbers, finds documents without a time, and stores Decimal128."""

    start: Callable[[Path], AbstractContextManager[MongoServer]]
    orders_numbers: bool = True
    knows_undated: bool = True
    keeps_decimals: bool = True


KINDS = {
    "mongomock": Kind(lambda _: processes.server_over_mongomock()),
    "nx-27017": Kind(processes.server_nx, orders_numbers=False, knows_undated=False, keeps_decimals=False),
    "real": Kind(processes.server_real),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "real" and not processes.is_real_one_given():
        pytest.skip(f"NOT TESTED against a real MongoDB: {processes.REAL_URI} names none")
    return str(request.param)


@pytest.fixture(scope="module")
def running(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MongoServer]:
    with KINDS[kind].start(tmp_path_factory.mktemp("mongo")) as server:
        yield server


@pytest.fixture
def server(running: MongoServer) -> MongoServer:
    return running.with_collection()


def opened(
    server: MongoServer, *, uri: str | None = None, allowed: AllowedHosts = EVERYWHERE, connect_seconds=10, **members
) -> AbstractAsyncContextManager[MongoSource]:
    config = {"syncName": "s", "collectionName": server.collection_name, "sourceFields": DATED, **members}
    return open_mongodb(
        SecretStr(uri or server.uri),
        DocstoreConfig.model_validate(config),
        allowed=allowed,
        seconds=10,
        connect_seconds=connect_seconds,
    )


def ids(documents: list[SourceDocument]) -> list:
    return [document.source_id.value for document in documents]


async def snapshot(source: MongoSource, after: SourceId | None = None) -> list[SourceDocument]:
    return [document async for page in source.snapshot(after) for document in page.documents]


async def changed(source: MongoSource, since: Position) -> list[SourceDocument]:
    return [document async for page in source.changes(since) for document in page.documents]


async def listed(source: MongoSource) -> list[str]:
    return [source_id.key async for page in source.list_ids() for source_id in page]


async def test_a_snapshot_has_every_document_once(server, kind, monkeypatch) -> None:
    monkeypatch.setattr(mongodb, "PAGE_DOCUMENTS", 7)
    monkeypatch.setattr(mongodb, "LISTED_AT_ONCE", 5)
    keys: list = [f"thing-{number:03}" for number in range(20)] + [ObjectId() for _ in range(20)]
    if KINDS[kind].orders_numbers:
        keys += [*range(-5, 0), *range(2, 15), Int64(2**40), 2.5, True, False, {"a": 1}, {"a": 2}, Binary(b"ab"), START]
    server.collection.insert_many([a_thing(number, _id=key) for number, key in enumerate(keys)])
    async with opened(server) as source:
        found = [document.source_id.key for document in await snapshot(source)]
        assert sorted(found) == sorted(SourceId(key).key for key in keys)
        assert sorted(await listed(source)) == sorted(found)
        assert await source.count() == len(keys)


async def test_a_snapshot_goes_on_after_any_document(server: MongoServer, kind: str) -> None:
    keys: list = ["a", "b", "c", *(ObjectId() for _ in range(3))]
    if KINDS[kind].orders_numbers:
        keys += [2, 3, 10, True]
    server.collection.insert_many([a_thing(number, _id=key) for number, key in enumerate(keys)])
    async with opened(server) as source:
        everything = [document.source_id for document in await snapshot(source)]
        assert len(everything) == len(keys)
        for place, source_id in enumerate(everything):
            assert ids(await snapshot(source, source_id)) == [one.value for one in everything[place + 1 :]]


async def test_changes_come_in_order_and_go_on(server: MongoServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mongodb, "PAGE_DOCUMENTS", 4)
    things = [a_thing(number, updatedAt=START + timedelta(hours=number // 10)) for number in range(40)]
    server.collection.insert_many(things)
    async with opened(server) as source:
        since = START + timedelta(hours=2)
        found = ids(await changed(source, Position(updated=since)))
        assert found == [f"thing-{number:04}" for number in range(20, 40)]
        pages = [page async for page in source.changes(Position(updated=since))]
        positions = [page.position for page in pages if page.position is not None]
        assert ids(await changed(source, positions[1])) == found[8:]
        assert await source.newest() == START + timedelta(hours=3)


async def test_what_has_no_time_comes_first(server: MongoServer, kind: str) -> None:
    if not KINDS[kind].knows_undated:
        pytest.skip(f"{kind} has no $nor")
    odd = [a_thing(number, updatedAt=value) for number, value in enumerate([None, "2026-01-01", 7, {"a": 1}])]
    odd.append({"_id": "none", "title": "t", "content": {"text": "x"}})
    server.collection.insert_many([*odd, a_thing(50)])
    async with opened(server) as source:
        found = ids(await changed(source, Position(updated=START)))
        assert found[-1] == "thing-0050"
        assert set(found[:-1]) == {one["_id"] for one in odd}
        again = Position(updated=START, source_id=SourceId("thing-0000"))
        assert ids(await changed(source, again)) == ["thing-0050"], "a walk that is taken up has had them"


async def test_the_filter_narrows_everything(server: MongoServer) -> None:
    server.collection.insert_many([a_thing(number, state="on" if number % 2 else "off") for number in range(10)])
    odd = [f"thing-{number:04}" for number in range(1, 10, 2)]
    async with opened(server, filterExpression={"state": {"$in": ["on"]}}) as source:
        assert ids(await snapshot(source)) == odd
        assert ids(await changed(source, Position(updated=START))) == odd
        assert await listed(source) == [f"string:{one}" for one in odd]
        assert await source.count() == 5
        assert ids(list(await source.read([SourceId("thing-0001"), SourceId("thing-0002")]))) == ["thing-0001"]


async def test_values_keep_their_types(server: MongoServer, kind: str) -> None:
    price = Decimal128("1.10") if KINDS[kind].keeps_decimals else 1.5
    stored = {"when": datetime(2026, 1, 31, tzinfo=UTC), "by": ObjectId(), "price": price, "big": 2**40}
    server.collection.insert_one(a_thing(1, content={"text": stored}))
    async with opened(server) as source:
        [document] = await snapshot(source)
        assert document.fields is not None
        assert document.fields["content"]["text"] == stored
        assert document.fields.keys() == {"_id", "title", "content", "updatedAt"}


async def test_large_documents_come_in_small_pages(server: MongoServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page ends after enough bytes, to bound the memory."""
    monkeypatch.setattr(mongodb, "PAGE_BYTES", 50_000)
    server.collection.insert_many([a_thing(number, content={"text": "x" * 20_000}) for number in range(10)])
    async with opened(server) as source:
        pages = [page async for page in source.snapshot(None)]
        assert [len(page.documents) for page in pages] == [3, 3, 3, 1]
        assert len(await source.read([SourceId(f"thing-{number:04}") for number in range(10)])) == 10


async def test_nothing_there_is_nothing(server: MongoServer) -> None:
    async with opened(server) as source:
        assert await snapshot(source) == []
        assert await changed(source, Position()) == []
        assert await listed(source) == []
        assert (await source.count(), await source.newest()) == (0, None)


@pytest.mark.usefixtures("impatient")
async def test_a_database_that_is_away_is_told_without_its_address(unused_tcp_port: int, mongo: MongoServer) -> None:
    uri = f"mongodb://reader:lighthouse@127.0.0.1:{unused_tcp_port}/shop"
    async with opened(mongo, uri=uri, connect_seconds=1) as source:
        with pytest.raises(SourceError) as caught:
            await source.count()
    assert caught.value.code == "source_unreachable"
    told = repr(caught.value) + str(caught.value.__cause__)
    assert not [word for word in ("127.0.0.1", "reader", "lighthouse", str(unused_tcp_port)) if word in told]


# The driver leaves the socket of a handshake that failed to the collector.
@pytest.mark.usefixtures("impatient")
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
async def test_why_there_is_no_connection_is_told_apart(mongo: MongoServer) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    listening = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening:
        for uri, code in (
            ("mongodb://nobody.invalid/shop", "source_host_unknown"),
            (f"mongodb://127.0.0.1:{port}/shop?tls=true", "source_tls_failed"),
            (f"mongodb://127.0.0.1:{port}/shop", "source_unreachable"),
        ):
            async with opened(mongo, uri=uri, connect_seconds=1) as source:
                with pytest.raises(SourceError) as caught:
                    await source.count()
            assert caught.value.code == code
            assert not [word for word in ("invalid", "127.0.0.1", str(port)) if word in caught.value.message]
    del caught, source
    gc.collect()


def test_the_driver_is_held_to_the_allowed_addresses_by_the_event_loop_of_the_service(mongo: MongoServer) -> None:
    """The test would fail if the driver connected in another way under uvloop."""
    mongo.collection.insert_one(a_thing(1))

    async def count(allowed: AllowedHosts) -> int:
        async with opened(mongo, allowed=allowed, connect_seconds=1) as source:
            return await source.count()

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(uvloop.run, count(EVERYWHERE)).result() == 1
        with pytest.raises(SourceError) as caught:
            thread.submit(uvloop.run, count(AllowedHosts())).result()
    assert caught.value.code == "source_host_not_allowed"


async def test_documents_that_are_no_bson_are_told_apart(mongo: MongoServer) -> None:
    mongo.collection.insert_many([a_thing(1), a_thing(2)])
    mongo.misbehave(broken_text="lamp of thing 1 ")
    async with opened(mongo) as source:
        documents = await snapshot(source)
    assert ids(documents) == ["thing-0001", "thing-0002"]
    assert [document.fields is None for document in documents] == [True, False]


async def test_a_walk_by_changes_ends_however_fast_documents_change(server, monkeypatch) -> None:
    """Changes behind the beginning wait for the next walk; a busy collection would otherwise keep a walk for ever."""
    monkeypatch.setattr(mongodb, "PAGE_DOCUMENTS", 2)
    things = [a_thing(number) for number in range(6)]
    server.collection.insert_many(things)
    found: list = []
    async with opened(server) as source:
        async for page in source.changes(Position(updated=START)):
            found += ids(list(page.documents))
            assert len(found) <= 6, "it follows what changes"
            later = START + timedelta(days=len(found))
            for thing in things[: len(found)]:  # nx-27017 makes text of a date that is set
                server.collection.replace_one({"_id": thing["_id"]}, {**thing, "updatedAt": later})
        assert found == [f"thing-{number:04}" for number in range(6)]
        assert len(await changed(source, Position(updated=START + timedelta(hours=1)))) == 6


async def test_odd_times_keep_no_walk_from_ending(mongo: MongoServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mongodb, "PAGE_DOCUMENTS", 2)
    things = [a_thing(number) for number in range(5)]
    things[1]["updatedAt"] = [START, START + timedelta(days=1)]
    mongo.collection.insert_many(things)
    mongo.misbehave(broken_text="lamp of thing 2 ")
    async with opened(mongo) as source:
        found = ids(await changed(source, Position(updated=START)))
    assert set(found) == {thing["_id"] for thing in things}


async def test_times_without_an_order_are_told(mongo: MongoServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mongodb, "PAGE_DOCUMENTS", 2)
    mongo.collection.insert_many([a_thing(number, updatedAt=[START, START + timedelta(days=1)]) for number in range(5)])
    async with opened(mongo) as source:
        with pytest.raises(SourceError) as caught:
            await changed(source, Position(updated=START))
    assert caught.value.code == "source_unordered"
