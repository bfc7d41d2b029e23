"""Dynamic micro-batching: concurrent calls to `embed` share the model in small batches of texts of similar length. The
request with the least work left goes first, so queries don't wait; the oldest request gets every fourth batch."""

import asyncio
import heapq
import math
import os
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from service.platform.errors import Unavailable

Tokens = NDArray[np.int64]
Rows = NDArray[np.float32]

_TURN_OF_THE_OLDEST = 4
_NEIGHBOURS = 16  # how many requests after the leading request are searched for texts to fit the batch

_SMOOTHING = 0.05
_CONTENDED = 1.25  # a batch taking this many times its processor time shares the core with competing work
_SHARE_LEFT = 0.05
_LOOK_SECONDS = 0.005
_LONGEST_RETRY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of a batch: the longest text times the texts (`tokens`), and the tokens added by a joining text
    (`padding`, the cost of its own batch). `waiting_texts` bounds the queue, but never a single request."""

    texts: int = 8
    tokens: int = 256
    padding: int = 16
    waiting_texts: int = 16_384


@dataclass(eq=False, slots=True)
class _Request:
    """The texts of a call; `left` has the numbers of texts not yet in a batch, the longest last."""

    number: int
    texts: Sequence[Tokens]
    rows: dict[int, NDArray[np.float32]]
    left: list[int]
    tokens_left: int
    future: "Future[Rows]" = field(default_factory=Future[Rows])

    def longest_within(self, length: int) -> int | None:
        place = bisect_right(self.left, length, key=lambda text: len(self.texts[text])) - 1
        return place if place >= 0 else None

    def longest(self, within: int) -> int:
        place = self.longest_within(within)
        return 0 if place is None else len(self.texts[self.left[place]])


_Batch = list[tuple[_Request, int]]


class BatchQueue:
    """The texts waiting to be embedded, in the order of batches. All methods are thread-safe."""

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._requests: dict[int, _Request] = {}
        self._changed = threading.Condition()
        self._arrivals = 0
        self._batches = 0
        self._closed = False

    def put(self, texts: Sequence[Tokens]) -> _Request:
        """Add the texts of a call. Raises Unavailable once closed."""
        left = sorted(range(len(texts)), key=lambda text: len(texts[text]))
        with self._changed:
            if self._closed:
                raise _stopping()
            self._arrivals += 1
            request = _Request(self._arrivals, texts, {}, left, sum(map(len, texts)))
            self._requests[request.number] = request
            self._changed.notify_all()
        return request

    def discard(self, request: _Request) -> None:
        with self._changed:
            self._requests.pop(request.number, None)

    def take(self) -> _Batch | None:
        """Wait for the next batch; None once the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._requests)
            if self._closed:
                return None
            self._batches += 1
            return self._choose_batch()

    def _choose_batch(self) -> _Batch:
        first, *others = heapq.nsmallest(_NEIGHBOURS, self._requests.values(), key=lambda request: request.tokens_left)
        if self._batches % _TURN_OF_THE_OLDEST == 0:
            oldest = next(iter(self._requests.values()))
            others = [request for request in (first, *others) if request is not oldest]
            first = oldest
        # Other texts may be a little longer than the first text, which is padded anyway.
        reach = len(first.texts[first.left[-1]]) + self._limits.padding
        longest = max(request.longest(reach) for request in (first, *others))
        room = max(1, min(self._limits.texts, self._limits.tokens // longest))
        batch: _Batch = []
        for request in (first, *others):
            self._fill(batch, request, longest=longest, room=room)
            if not request.left:
                del self._requests[request.number]
        return batch

    def _fill(self, batch: _Batch, request: _Request, *, longest: int, room: int) -> None:
        while request.left and len(batch) < room:
            place = request.longest_within(longest)
            if place is None or len(request.texts[request.left[place]]) < longest - self._limits.padding:
                return
            batch.append((request, text := request.left.pop(place)))
            request.tokens_left -= len(request.texts[text])

    def deliver(self, batch: _Batch, rows: Rows) -> None:
        with self._changed:
            for (request, text), row in zip(batch, rows, strict=True):
                request.rows[text] = row
                if len(request.rows) == len(request.texts) and _begin_answer(request):
                    request.future.set_result(np.stack([request.rows[text] for text in range(len(request.texts))]))

    def fail(self, batch: _Batch, error: Exception) -> None:
        for request in {request.number: request for request, _ in batch}.values():
            self._abandon(request, error)

    def close(self) -> None:
        """Make `take` return None from now on, and fail waiting requests with Unavailable."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            waiting = list(self._requests.values())
        for request in waiting:
            self._abandon(request, _stopping())

    def _abandon(self, request: _Request, error: Exception) -> None:
        with self._changed:
            self._requests.pop(request.number, None)
            if _begin_answer(request):
                request.future.set_exception(error)


def _begin_answer(request: _Request) -> bool:
    """Mark a request as being answered, to prevent cancelling; False when it is already done or cancelled."""
    return not request.future.done() and request.future.set_running_or_notify_cancel()


class Batcher:
    """Threads running batches, each on a core, less urgent by `niceness`; on a busy core they rest if `must_rest`."""

    def __init__(
        self,
        run: Callable[[Sequence[Tokens]], Rows],
        *,
        workers: int,
        limits: BatchLimits | None = None,
        niceness: int = 0,
        must_rest: Callable[[], bool] = lambda: False,
    ) -> None:
        self._run = run
        self._must_rest = must_rest
        self._niceness = niceness
        self._limits = limits or BatchLimits()
        self._queue = BatchQueue(self._limits)
        self._waiting = 0
        self._counting = threading.Lock()
        self._seconds_a_text = 0.05 / workers
        self._workers = [
            threading.Thread(target=self._work, name=f"embedding-{number}", daemon=True) for number in range(workers)
        ]
        for worker in self._workers:
            worker.start()

    @contextmanager
    def admit(self, texts: int) -> Generator[None]:
        """Count waiting texts during the block. Raises Unavailable, with the seconds to wait, if there are too many."""
        with self._counting:
            if self._waiting and self._waiting + texts > self._limits.waiting_texts:
                seconds = math.ceil(min(self._waiting * self._seconds_a_text, _LONGEST_RETRY_SECONDS))
                message = f"The service is busy embedding other texts. Try again in {seconds} s."
                raise Unavailable(message, code="embedding_saturated", retry_after=seconds)
            self._waiting += texts
        try:
            yield
        finally:
            with self._counting:
                self._waiting -= texts

    async def embed(self, texts: Sequence[Tokens]) -> Rows:
        """Return a row for each text, in order. Cancelling removes the waiting texts."""
        request = self._queue.put(texts)
        try:
            return await asyncio.wrap_future(request.future)
        finally:
            self._queue.discard(request)

    def close(self) -> None:
        """Stop after the running batches; blocks until they are done."""
        self._queue.close()
        for worker in self._workers:
            worker.join()

    def _work(self) -> None:
        if self._niceness and sys.platform == "linux":  # on other systems, this would change the whole process
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._niceness)
        while (batch := self._queue.take()) is not None:
            started, used = time.monotonic(), time.thread_time()
            try:
                rows = self._run([request.texts[text] for request, text in batch])
            except Exception as error:  # noqa: BLE001 - it belongs to those who wait for this batch
                self._queue.fail(batch, error)
            else:
                self._queue.deliver(batch, rows)
                seconds = (time.monotonic() - started) / len(batch)
                self._seconds_a_text += _SMOOTHING * (seconds / len(self._workers) - self._seconds_a_text)
            self._leave_core(started, used=time.thread_time() - used)

    def _leave_core(self, started: float, *, used: float) -> None:
        is_contended = time.monotonic() - started > _CONTENDED * used
        while is_contended and self._must_rest() and time.monotonic() < started + used / _SHARE_LEFT:
            time.sleep(_LOOK_SECONDS)


def _stopping() -> Unavailable:
    return Unavailable("The service is stopping. Try again in a moment.", code="unavailable")
