"""A hostile document database, over TCP: a run ends with a reason, at normal cost."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import bson
import pytest
from bson import Int64
from pydantic import SecretStr
from pymongo.common import MAX_MESSAGE_SIZE
from pymongo.errors import AutoReconnect, OperationFailure
from pymongo.hello import Hello

from carrel.wire.docstore import DocstoreConfig
from service.domains.documents.docstore.asking import MOST_ITERATIONS, MOST_MEMBERS, Egress, SourceClient
from service.domains.documents.docstore.mongodb import PAGE_DOCUMENTS, MongoSource, open_mongodb
from service.domains.documents.docstore.sources import SourceError
from service.domains.documents.docstore.values import SourceId
from service.platform.networks import AddressDenied, AllowedHosts
from tests.harness.cases import cases
from tests.harness.mongo import server as protocol
from tests.service.docstore import DATED, a_thing

HELLO = protocol.Server([]).do_hello({}) | {"ok": 1.0}
LARGE = 4 * MAX_MESSAGE_SIZE
Answer = Callable[[dict], dict]


def batch(*documents: dict) -> dict:
    return {"ok": 1.0, "cursor": {"id": Int64(0), "ns": "shop.things", "firstBatch": list(documents)}}


@asynccontextmanager
async def source_of(
    answer: Answer, *, frame: bytes | None = None, user: str = "", **hello
) -> AsyncGenerator[MongoSource]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                length, request, _, kind = protocol.HEADER.unpack(await reader.readexactly(16))
                body = await reader.readexactly(length - 16)
                query = kind == protocol.OP_QUERY
                command = protocol.read_query(body) if query else protocol.read_message(body)[0]
                greeting = next(iter(command)) in {"hello", "ismaster"}
                if frame is not None and not greeting:
                    writer.write(frame)
                    continue
                reply = bson.encode(HELLO | hello if greeting else answer(command))
                writer.write((protocol.reply_to_query if query else protocol.reply_to_message)(request, reply))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    opened = open_mongodb(
        SecretStr(f"mongodb://{user}127.0.0.1:{port}/shop"),
        DocstoreConfig.model_validate({"syncName": "s", "collectionName": "things", "sourceFields": DATED}),
        allowed=AllowedHosts.of(["127.0.0.0/8"]),
        seconds=0.5,
        connect_seconds=0.5,
    )
    async with listening, opened as source:
        yield source


async def refusal(answer: Answer, **options) -> SourceError:
    async with source_of(answer, **options) as source:
        with pytest.raises(SourceError) as caught:
            [page async for page in source.snapshot(None)]
    return caught.value


async def test_a_message_larger_than_any_is_not_waited_for() -> None:
    """The driver would otherwise allocate the announced size after the header."""
    frame = protocol.HEADER.pack(LARGE, 0, 0, protocol.OP_MSG)
    error = await refusal(lambda _: batch(), frame=frame, maxMessageSizeBytes=LARGE)
    assert error.code == "source_failed", "it made room, and waited"


@pytest.mark.parametrize("told", [2**31 - 1, float("nan"), "all", None])
async def test_an_announced_size_is_believed_up_to_the_largest_there_is(told) -> None:
    """No type allows a number above every message's length to pass."""
    async with source_of(lambda _: batch(), maxMessageSizeBytes=told) as source:
        assert await source.count() == 0
    assert Hello({"maxMessageSizeBytes": told}).max_message_size == MAX_MESSAGE_SIZE


async def test_no_more_members_are_watched_than_a_replica_set_has() -> None:
    """The driver would watch, and connect to, thousands of announced members."""
    async with source_of(lambda _: batch()):
        named = Hello({"hosts": [f"203.0.113.7:{port}" for port in range(1, 5000)]})
    assert len(named.all_hosts) == MOST_MEMBERS


@pytest.mark.parametrize("iterations", [MOST_ITERATIONS, MOST_ITERATIONS + 1])
async def test_a_password_is_not_hashed_as_often_as_a_server_likes(iterations: int) -> None:
    """The driver hashes on the event loop: two billion iterations would stop the service."""
    asked: list[str] = []

    def answer(command: dict) -> dict:
        asked.append(next(iter(command)))
        nonce = bytes(command["payload"]).rpartition(b"r=")[2]
        payload = b"r=%s0,s=c2FsdA==,i=%d" % (nonce, iterations)
        return {"ok": 1.0, "conversationId": 1, "done": False, "payload": payload}

    assert (await refusal(answer, user="reader:lighthouse@")).code == "source_failed"
    assert ("saslContinue" in asked) == (iterations <= MOST_ITERATIONS)


@pytest.mark.parametrize(
    "answer", [{"ok": 1.0}, {"ok": 1.0, "cursor": 5}, {"ok": 0.0, "code": {"a": 1}, "errmsg": "no"}, {"ok": "yes"}]
)
async def test_an_answer_that_is_none_ends_the_run_as_the_sources_fault(answer: dict) -> None:
    """A defect of the service would put the driver's traceback into the log."""
    assert (await refusal(lambda _: answer)).code == "source_failed"


async def test_a_server_that_answers_the_same_for_ever_is_told() -> None:
    asked: list[str] = []

    def answer(command: dict) -> dict:
        asked.append(next(iter(command)))
        assert len(asked) < 10, "it follows"
        return batch(*(a_thing(number, _id=number) for number in range(PAGE_DOCUMENTS)))

    assert (await refusal(answer)).code == "source_unordered"


async def test_an_id_that_has_another_type_now_is_asked_for_once() -> None:
    """MongoDB treats numbers of different types as equal: a document inserted again matches both."""
    asked: list[str] = []

    def answer(command: dict) -> dict:
        asked.append(next(iter(command)))
        assert len(asked) < 10, "it asks on"
        return batch(a_thing(1, _id=Int64(5)))

    async with source_of(answer) as source:
        [found] = await source.read([SourceId(5), SourceId(6)])
    assert found.source_id.key == "long:5"


async def test_documents_without_ids_are_told() -> None:
    assert (await refusal(lambda _: batch({"title": "Thing"}))).code == "source_without_ids"


async def test_what_a_database_says_of_a_filter_is_repeated_as_plain_text() -> None:
    error = await refusal(lambda _: {"ok": 0.0, "code": 2, "errmsg": "unknown\0operator\x1b[2J $foo"})
    assert error.code == "source_refused_filter"
    assert error.message.endswith("unknown operator [2J $foo")
    assert "127" not in (await refusal(lambda _: {"ok": 0.0, "code": 2, "errmsg": "x" * 296 + "127.0.0.1"})).message


@pytest.mark.parametrize(("answer", "code"), cases("a_wrong_password_is_told_from_what_its_user_may_not"))
async def test_a_wrong_password_is_told_from_what_its_user_may_not(answer: dict, code: str) -> None:
    error = await refusal(lambda _: {"ok": 0.0, **answer})
    assert error.code == code
    assert (answer["errmsg"] in error.message) == (code != "source_login_refused")


def test_a_member_that_is_denied_is_no_reason_for_another_error() -> None:
    egress = Egress(AllowedHosts())
    with pytest.raises(AddressDenied):
        egress.judge(("10.0.0.1", 27017))
    asking = SourceClient(egress, words=frozenset(), seconds=1)
    refused = OperationFailure("no", code=2, details={"errmsg": "unknown operator"})
    assert asking.to_source_error(refused).code == "source_refused_filter"
    assert asking.to_source_error(AutoReconnect("no")).code == "source_host_not_allowed"
    assert asking.to_source_error(AddressDenied("no")).code == "source_host_not_allowed"
