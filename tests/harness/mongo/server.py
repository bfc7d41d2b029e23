"""`python -m tests.harness.mongo.server`: MongoDB's wire protocol over TCP, answered from mongomock: OP_MSG, and
OP_QUERY for the first handshake. The server prints its port, and runs until killed. Arguments name further members."""

import asyncio
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

import bson
import mongomock
from bson import Int64, Timestamp

Document = dict[str, Any]
HEADER = struct.Struct("<iiii")
OP_REPLY, OP_QUERY, OP_MSG = 1, 2004, 2013
MORE_TO_COME = 2


class CommandError(Exception):
    """A response with `ok: 0`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Faults:
    """The faults of the server, set by the command `testFaults`: until the next command, or for a number of times."""

    find_code: int = 0
    find_after: int = 0
    find_times: int = 0
    listed_at_most: int | None = None
    disconnect_times: int = 0
    broken_text: str | None = None


@dataclass
class Server:
    """The databases, the open cursors, and further members."""

    others: list[str]
    address: str = ""
    engine: Any = field(default_factory=mongomock.MongoClient)
    cursors: dict[int, list[Document]] = field(default_factory=dict[int, list[Document]])
    numbers: count = field(default_factory=lambda: count(1))
    faults: Faults = field(default_factory=Faults)

    def answer(self, command: Document) -> Document:
        name = next(iter(command))
        handler: Callable[[Document], Document] | None = getattr(self, f"do_{name.lower()}", None)
        try:
            return {**(handler or self.do_unknown)(command), "ok": 1.0}
        except CommandError as error:
            return {"ok": 0.0, "code": error.code, "errmsg": str(error)}
        except mongomock.OperationFailure as error:
            return {"ok": 0.0, "code": error.code or 2, "errmsg": str(error)}

    def _collection(self, command: Document) -> Any:
        return self.engine[command["$db"]][command[next(iter(command))]]

    def do_unknown(self, command: Document) -> Document:
        raise CommandError(59, f"no such command: '{next(iter(command))}'")

    def do_hello(self, _: Document) -> Document:
        told: Document = {
            "helloOk": True,
            "isWritablePrimary": True,
            "ismaster": True,
            "maxBsonObjectSize": 16 * 1024 * 1024,
            "maxMessageSizeBytes": 48_000_000,
            "maxWriteBatchSize": 100_000,
            "minWireVersion": 0,
            "maxWireVersion": 25,
            "readOnly": False,
        }
        if self.others:
            members = [self.address, *self.others]
            told |= {"setName": "rs0", "hosts": members, "primary": self.address, "me": self.address, "setVersion": 1}
        return told

    do_ismaster = do_hello

    def do_ping(self, _: Document) -> Document:
        return {}

    do_endsessions = do_ping

    def do_testfaults(self, command: Document) -> Document:
        self.faults = Faults(**{name: command[name] for name in command.keys() & Faults.__annotations__.keys()})
        return {}

    def do_insert(self, command: Document) -> Document:
        for document in command["documents"]:
            self._collection(command).insert_one(document)
        return {"n": len(command["documents"])}

    def do_update(self, command: Document) -> Document:
        changed = 0
        for one in command["updates"]:
            operators = any(name.startswith("$") for name in one["u"])
            target = self._collection(command)
            method = (
                (target.update_many if one.get("multi") else target.update_one) if operators else target.replace_one
            )
            changed += method(one["q"], one["u"], upsert=one.get("upsert", False)).matched_count
        return {"n": changed, "nModified": changed}

    def do_delete(self, command: Document) -> Document:
        target, deleted = self._collection(command), 0
        for one in command["deletes"]:
            method = target.delete_one if one.get("limit") == 1 else target.delete_many
            deleted += method(one["q"]).deleted_count
        return {"n": deleted}

    def do_drop(self, command: Document) -> Document:
        self._collection(command).drop()
        return {}

    def do_find(self, command: Document) -> Document:
        if self.faults.find_after:
            self.faults.find_after -= 1
        elif self.faults.find_times:
            self.faults.find_times -= 1
            raise CommandError(self.faults.find_code, "as it was told to")
        found = self._collection(command).find(comparable(command.get("filter")), command.get("projection"))
        if command.get("sort"):
            found = found.sort(list(command["sort"].items()))
        documents = list(found.limit(command.get("limit", 0)))
        if self.faults.listed_at_most is not None and command.get("projection") == {"_id": 1}:
            documents, self.faults.listed_at_most = (
                documents[: self.faults.listed_at_most],
                max(0, self.faults.listed_at_most - len(documents)),
            )
        return self._batch(command, documents)

    def do_getmore(self, command: Document) -> Document:
        waiting = self.cursors.pop(command["getMore"], None)
        if waiting is None:
            raise CommandError(43, "cursor not found")
        reply = self._batch({"find": command["collection"], **command}, waiting)
        reply["cursor"]["nextBatch"] = reply["cursor"].pop("firstBatch")
        return reply

    def do_killcursors(self, command: Document) -> Document:
        return {"cursorsKilled": [one for one in command["cursors"] if self.cursors.pop(one, None) is not None]}

    def do_aggregate(self, command: Document) -> Document:
        return self._batch(
            {"find": command["aggregate"], **command}, list(self._collection(command).aggregate(command["pipeline"]))
        )

    def _batch(self, command: Document, documents: list[Document]) -> Document:
        size = command.get("batchSize", 101) or len(documents)
        rest, number = documents[size:], 0
        if rest:
            number = next(self.numbers)
            self.cursors[number] = rest
        namespace = f"{command['$db']}.{command['find']}"
        return {"cursor": {"id": Int64(number), "ns": namespace, "firstBatch": list(islice(documents, size))}}

    def _broken(self, reply: bytes) -> bytes:
        text = self.faults.broken_text
        return reply if text is None else reply.replace(text.encode(), b"\xff" + text.encode()[1:])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                length, request, _, kind = HEADER.unpack(await reader.readexactly(HEADER.size))
                body = await reader.readexactly(length - HEADER.size)
                command, flags = (read_query(body), 0) if kind == OP_QUERY else read_message(body)
                if self.faults.disconnect_times and "find" in command:
                    self.faults.disconnect_times -= 1
                    return
                reply = self._broken(bson.encode(self.answer(command)))
                if not flags & MORE_TO_COME:
                    writer.write(
                        reply_to_query(request, reply) if kind == OP_QUERY else reply_to_message(request, reply)
                    )
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def comparable(query: Any) -> Any:
    """Return a query without comparisons to timestamps: mongomock has none, so no document would match."""
    if isinstance(query, dict):
        if any(isinstance(one, Timestamp) for one in query.values()):
            return {"$in": []}
        return {name: comparable(one) for name, one in query.items()}
    return [comparable(one) for one in query] if isinstance(query, list) else query


def read_query(body: bytes) -> Document:
    end_of_name = body.index(b"\0", 4) + 1
    return {**bson.decode(body[end_of_name + 8 :]), "$db": "admin"}


def read_message(body: bytes) -> tuple[Document, int]:
    (flags,) = struct.unpack_from("<I", body)
    place, end = 4, len(body) - (4 if flags & 1 else 0)
    command: Document = {}
    while place < end:
        kind, (size,) = body[place], struct.unpack_from("<i", body, place + 1)
        section = body[place + 1 : place + 1 + size]
        place += 1 + size
        if kind == 0:
            command |= bson.decode(section)
        else:
            name_end = section.index(b"\0", 4)
            command[section[4:name_end].decode()] = bson.decode_all(section[name_end + 1 :])
    return command, flags


def reply_to_query(request: int, reply: bytes) -> bytes:
    body = struct.pack("<iqii", 8, 0, 0, 1) + reply
    return HEADER.pack(HEADER.size + len(body), 0, request, OP_REPLY) + body


def reply_to_message(request: int, reply: bytes) -> bytes:
    body = struct.pack("<IB", 0, 0) + reply
    return HEADER.pack(HEADER.size + len(body), 0, request, OP_MSG) + body


async def main(others: list[str]) -> None:
    server = Server(others)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=2**26)
    port = listening.sockets[0].getsockname()[1]
    server.address = f"127.0.0.1:{port}"
    print(port, flush=True)  # noqa: T201 - who started it reads this
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
