"""A bad network and service: an HTTP proxy on loopback that disturbs requests by operation, and counts them. Random
faults repeat for equal sequences of requests (`seed`)."""

import http.client
import json
import random
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum

from tests.harness.http_servers import Handler, serving

_RESET = struct.pack("ii", 1, 0)
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}
_SECONDS = 120
_LATENCY = 0.3


class Fault(StrEnum):
    """The fault of a request; after `LOST_ANSWER` and `TRUNCATED` the service has done the work."""

    LATENCY = "latency"
    RESET = "reset"
    LOST_ANSWER = "lost answer"
    TRUNCATED = "truncated"
    SLOW_LORIS = "slow loris"
    TOO_MANY = "429"
    UNAVAILABLE = "503"
    BACKLOG = "indexing backlog"
    STORAGE_FULL = "507"


_REFUSALS: Mapping[Fault, tuple[int, str, str]] = {
    Fault.TOO_MANY: (429, "busy", "Later."),
    Fault.UNAVAILABLE: (503, "busy", "Later."),
    Fault.BACKLOG: (503, "indexing_backlog", "1,240 documents wait to be indexed. Send this again later."),
    Fault.STORAGE_FULL: (507, "storage_full", "The disk of the service has 3 MB free. Make room there."),
}


@dataclass(frozen=True)
class Passed:
    """An answer of the service, received by the client or not."""

    operation: str
    status: int


@dataclass
class Proxy:
    """The proxy; clients use `base_url`. `script` has the next uploads' faults (None for none); then come random faults
    by rates. Requests with `poison` are reset; while `refusal` is set, uploads get it."""

    base_url: str
    upstream: str
    seed: int = 0
    rates: Mapping[Fault, float] = field(default_factory=dict[Fault, float])
    script: deque[Fault | None] = field(default_factory=deque[Fault | None])
    poison: bytes | None = None
    away: bool = False
    refusal: Fault | None = None
    happened: Counter[Fault] = field(default_factory=Counter[Fault])
    passed: list[Passed] = field(default_factory=list[Passed])
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _asked: int = 0

    def count(self, operation: str) -> int:
        with self._changed:
            return self._count(operation)

    def _count(self, operation: str) -> int:
        return sum(one.operation == operation and one.status == 200 for one in self.passed)

    def wait_for(self, operation: str, number: int, *, seconds: float = _SECONDS) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._count(operation) >= number, seconds)

    def note(self, operation: str, status: int) -> None:
        with self._changed:
            self.passed.append(Passed(operation, status))
            self._changed.notify_all()

    def choose(self, operation: str, body: bytes) -> Fault | None:
        with self._changed:
            fault = self._chosen(operation, body)
            if fault is not None:
                self.happened[fault] += 1
            return fault

    def _chosen(self, operation: str, body: bytes) -> Fault | None:
        if self.away:
            return Fault.UNAVAILABLE
        if self.poison is not None and self.poison in body:
            return Fault.RESET
        if self.refusal is not None and operation == UPLOAD:
            return self.refusal
        if self.script and operation == UPLOAD:
            return self.script.popleft()
        self._asked += 1
        dice = random.Random(f"{self.seed}:{self._asked}").random()  # noqa: S311 - no secret
        for fault, rate in self.rates.items():
            if dice < rate:
                return fault
            dice -= rate
        return None


UPLOAD = "catalog/uploadFile"


class _Handler(Handler):
    timeout = _SECONDS
    proxy: Proxy

    def answer(self, body: bytes) -> None:
        operation = self.path.partition("?")[0].removeprefix("/api/v0/").strip("/")
        fault = self.proxy.choose(operation, body)
        if fault is Fault.RESET:
            self._reset()
            return
        if fault in _REFUSALS:
            self._refuse(*_REFUSALS[fault])
            return
        if fault is Fault.LATENCY:
            time.sleep(_LATENCY)
        try:
            status, headers, answer = self._ask(body)
        except (OSError, http.client.HTTPException):
            # The service isn't there, or went away in the middle: so does this end.
            self._reset()
            return
        self.proxy.note(operation, status)
        if fault is Fault.LOST_ANSWER:
            self._reset()
            return
        self._answer(status, headers, answer, fault)

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        host, port = self.proxy.upstream.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=_SECONDS)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, fault: Fault | None) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if fault is Fault.TRUNCATED:
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        elif fault is Fault.SLOW_LORIS:
            for place in range(len(body)):
                self.wfile.write(body[place : place + 1])
                time.sleep(0.005)
        else:
            self.wfile.write(body)

    def _refuse(self, status: int, code: str, message: str) -> None:
        body = json.dumps({"error": {"message": message, "code": code, "requestId": "r"}}).encode()
        headers = [("Content-Type", "application/json"), ("Retry-After", "1")]
        self._answer(status, headers, body, None)

    def _reset(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            # As long as one of these files is open, closing the connection does nothing.
            self.rfile.close()
            self.wfile.close()
            self.connection.close()


@contextmanager
def faulty(upstream: str, *, seed: int = 0, rates: Mapping[Fault, float] | None = None) -> Iterator[Proxy]:
    between = Proxy("", upstream, seed=seed, rates=rates or {})

    class Passing(_Handler):
        proxy = between

    with serving(Passing) as between.base_url:
        yield between
