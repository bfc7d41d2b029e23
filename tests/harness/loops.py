"""Work next to a test: in threads joined at the end, and in an event loop that outlives a test."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

Result = TypeVar("Result")
SECONDS = 60


class LoopThread:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="harness-loop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.submit(work).result(SECONDS)

    def submit(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()


@contextmanager
def going_on(*work: Callable[[], object], ending: threading.Event | None = None) -> Generator[None]:
    """Repeat each function in its own thread until the block ends or the event is set; a failure ends all, raised at
    the end."""
    ends, failures = ending or threading.Event(), list[BaseException]()

    def repeat(each: Callable[[], object]) -> None:
        try:
            while not ends.is_set():
                each()
        except BaseException as failure:  # noqa: BLE001 - raised again in the test's own thread
            failures.append(failure)
            ends.set()

    threads = [threading.Thread(target=repeat, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ends.set()
        for thread in threads:
            thread.join(120)
        if failures:
            raise failures[0]
    assert not any(thread.is_alive() for thread in threads)
