"""Embedding in a separate process for several processes: both ends and the messages. A `Line`, made before the fork,
carries a socket pair: no foreign process can connect, and requests wait while the embedding process restarts."""

import asyncio
import json
import struct
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from itertools import count
from socket import AF_UNIX, SOCK_DGRAM, SOCK_STREAM, recv_fds, send_fds, socket, socketpair
from typing import Any, cast

import numpy as np

from service.platform import traces
from service.platform.errors import Unavailable
from service.platform.logs import logger
from service.platform.traces import TRACEPARENT
from service.text.embedding.batching import Rows, Tokens
from service.text.embedding.local import Arithmetic

# How long texts wait for the restart of an embedding process.
PATIENCE_SECONDS = 30.0
AGAIN_SECONDS = 0.1
RETRY_SECONDS = 5

_SIZE = struct.Struct("<I")
# Request number; kind of question or answer; length of the trace before the body; number of texts.
_HEAD = struct.Struct("<IBBI")
_QUERY, _DOCUMENT, _CANCEL = range(3)
_HERE, _DONE, _BUSY, _FAILED = range(4)
# Four bytes a token, because multilingual vocabularies have 250,000 tokens.
_TOKENS = np.dtype("<u4")
_ROWS = np.dtype("<f4")


class Line:
    """The line from forked processes to the embedding process, surviving its restarts."""

    def __init__(self) -> None:
        self._asking, self._answering = socketpair(AF_UNIX, SOCK_DGRAM)
        for end in (self._asking, self._answering):
            end.setblocking(False)

    def call(self) -> socket:
        """Return a socket connected to the embedding process; OSError when too many requests wait."""
        own, other = socketpair(AF_UNIX, SOCK_STREAM)
        with other:
            try:
                send_fds(self._asking, [b"\0"], [other.fileno()])
            except BaseException:
                own.close()
                raise
        own.setblocking(False)
        return own

    async def answer(self, arithmetic: Arithmetic, until: "asyncio.Future[Any]") -> None:
        """Answer requests by the arithmetic until the future is done, then close the arithmetic."""
        loop, starting = asyncio.get_running_loop(), set[asyncio.Task[Any]]()

        def receive() -> None:
            with suppress(BlockingIOError, InterruptedError):
                _, descriptors, _, _ = recv_fds(self._answering, 1, 1)
                for taken in (socket(fileno=each) for each in descriptors):
                    taken.setblocking(False)
                    task = asyncio.create_task(loop.connect_accepted_socket(lambda: _Answering(arithmetic), taken))
                    starting.add(task)
                    task.add_done_callback(starting.discard)

        loop.add_reader(self._answering, receive)
        await until
        loop.remove_reader(self._answering)
        await arithmetic.close()

    def close(self) -> None:
        self._asking.close()
        self._answering.close()


class _Frames(asyncio.Protocol):
    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)  # uvloop's is none by its class

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= _SIZE.size:
            end = _SIZE.size + _SIZE.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            frame = bytes(self._received[_SIZE.size : end])
            del self._received[:end]
            number, kind, traced, texts = _HEAD.unpack_from(frame)
            start = _HEAD.size + traced
            self.take(number, kind, texts, frame[start:], trace=frame[_HEAD.size : start].decode())

    def take(self, number: int, kind: int, texts: int, body: bytes, *, trace: str) -> None:
        raise NotImplementedError

    def send(self, number: int, kind: int, texts: int, body: bytes = b"") -> None:
        if self._transport is not None and not self._transport.is_closing():
            trace = traces.traceparent().encode()
            head = _HEAD.pack(number, kind, len(trace), texts)
            self._transport.write(_SIZE.pack(len(head) + len(trace) + len(body)) + head + trace + body)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class _Answering(_Frames):
    def __init__(self, arithmetic: Arithmetic) -> None:
        super().__init__()
        self._arithmetic = arithmetic
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.send(0, _HERE, 0)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        for task in self._tasks.values():
            task.cancel()

    def take(self, number: int, kind: int, texts: int, body: bytes, *, trace: str) -> None:
        if kind == _CANCEL:
            if (task := self._tasks.get(number)) is not None:
                task.cancel()
            return
        numbers = np.frombuffer(body, _TOKENS).astype(np.int64)
        tokens, in_background = np.split(numbers[texts:], np.cumsum(numbers[:texts])[:-1]), kind == _DOCUMENT
        task = asyncio.create_task(self._answer(number, tokens, in_background=in_background, trace=trace))
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._tasks.pop(number, None))

    async def _answer(self, number: int, texts: list[Tokens], *, in_background: bool, trace: str) -> None:
        measured = {"carrel.texts": len(texts), "carrel.tokens": sum(map(len, texts))}
        try:
            # Without the asker's trace, each search would start a separate trace.
            with traces.begin("compute vectors", measured, parent={TRACEPARENT: trace}) if trace else nullcontext():
                rows = await self._arithmetic.embed(texts, in_background=in_background)
        except Unavailable as error:
            told = {"message": error.message, "code": error.code, "retry_after": error.retry_after}
            self.send(number, _BUSY, 0, json.dumps(told).encode())
        except Exception as error:  # noqa: BLE001 - it belongs to who asked
            logger.exception("embedding_failed")
            self.send(number, _FAILED, 0, repr(error).encode())
        else:
            self.send(number, _DONE, len(rows), rows.astype(_ROWS, copy=False).tobytes())


class _Asking(_Frames):
    def __init__(self) -> None:
        super().__init__()
        self.is_lost = False
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Rows]] = {}

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.is_lost = True
        for future in (self.answered, *self._waiting.values()):
            if not future.done():
                future.set_exception(ConnectionResetError("the embedding process has ended"))
                future.exception()  # reading the exception of an abandoned future silences asyncio's warning

    async def ask(self, texts: Sequence[Tokens], *, in_background: bool) -> Rows:
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        packed = np.concatenate([[len(text) for text in texts], *texts]).astype(_TOKENS)
        self.send(number, _DOCUMENT if in_background else _QUERY, len(texts), packed.tobytes())
        try:
            return await future
        finally:
            del self._waiting[number]
            if future.cancelled():
                self.send(number, _CANCEL, 0)

    def take(self, number: int, kind: int, texts: int, body: bytes, *, trace: str) -> None:
        del trace
        if kind == _HERE:
            self.answered.set_result(None)
            return
        future = self._waiting.get(number)
        if future is None or future.done():
            return
        if kind == _DONE:
            future.set_result(np.frombuffer(body, _ROWS).reshape(texts, -1))
        else:
            future.set_exception(Unavailable(**json.loads(body)) if kind == _BUSY else RuntimeError(body.decode()))


class DistantArithmetic:
    """Vectors from the embedding process at the other end of a line."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._connection: _Asking | None = None
        self._is_closed = False

    async def embed(self, texts: Sequence[Tokens], *, in_background: bool) -> Rows:
        """Return a row for each text, in order, also across a restart; raises Unavailable (Retry-After) in the end."""
        loop = asyncio.get_running_loop()
        lost_at = float("inf")
        while not self._is_closed and loop.time() < lost_at + PATIENCE_SECONDS:
            try:
                return await (await self._connect()).ask(texts, in_background=in_background)
            except (OSError, TimeoutError):  # the process has ended, doesn't start again, or its line is full
                lost_at = min(lost_at, loop.time())
                await asyncio.sleep(AGAIN_SECONDS)
        message = f"The service's embedding process is restarting. Try again in {RETRY_SECONDS} s."
        raise Unavailable(message, code="embedding_away", retry_after=RETRY_SECONDS)

    async def close(self) -> None:
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()

    async def _connect(self) -> _Asking:
        """Return a connection whose other end has answered, possibly known. Raises OSError or TimeoutError."""
        connection = self._connection
        if connection is None or connection.is_lost:
            called = self._line.call()
            connection = self._connection = _Asking()
            try:
                await asyncio.get_running_loop().create_unix_connection(lambda: connection, sock=called)
            except BaseException:
                connection.connection_lost(None)  # otherwise waiting callers would wait for ever
                called.close()
                raise
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await asyncio.shield(connection.answered)
        except TimeoutError:
            connection.close()
            raise
        if connection.is_lost:
            raise ConnectionResetError("the embedding process ended as soon as it had answered")
        return connection
