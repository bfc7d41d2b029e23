"""Work that goes on in threads beside a test."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def going_on(*work: Callable[[], object], ending: threading.Event | None = None) -> Generator[None]:
    """Repeat each in its own thread until the block ends or the event is set; a failure ends all, raised at the end."""
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
