"""Text recognition in worker processes: started for the first page, ended when there is nothing to read for a while."""

import asyncio
import multiprocessing
import signal
from collections.abc import Sequence
from pathlib import Path

from pebble import ProcessExpired, ProcessPool

from service.platform import traces
from service.platform.logs import logger
from service.text.extraction.blocks import Block, unpack_blocks
from service.text.extraction.workers import WAIT_FACTOR

# A new process loads the models again, which takes as long as half a page.
_PAGES_PER_WORKER = 500
_IDLE_SECONDS = 120.0
# Behind everything else that wants the processor.
_NICENESS = 19


class UnreadablePage(Exception):  # noqa: N818 - named for what the page is
    """A page that can't be read; the message is a sentence that says why."""


class ReadingInterrupted(RuntimeError):  # noqa: N818 - named for what became of the reading
    """A page whose worker was ended, or got no processor: it is to be read again later."""


class PageReader:
    """A pool of worker processes that read pages, each within limits of processor time and memory, after other work."""

    def __init__(self, *, workers: int, seconds: float, memory_bytes: int, pixels: int) -> None:
        self._workers = workers
        self._seconds = seconds
        self._memory_bytes = memory_bytes
        self._pixels = pixels
        self._pool: ProcessPool | None = None
        self._at_work = 0
        self._end: asyncio.TimerHandle | None = None

    async def read(
        self, path: Path, *, media_type: str, page: int, is_numbered: bool, address: str | None = None
    ) -> Sequence[Block]:
        """Return a page's text, counted from 1; blocks are numbered if `is_numbered`. With an `address`, the text of
        the picture there. Raises UnreadablePage; ReadingInterrupted; another RuntimeError, or OSError, if no worker can
        begin: killed while idle, no models, or no room on the machine. Cancelling ends the worker."""
        # Imported here: the worker's modules take the libraries along, which the service has no other use for.
        from service.text.recognition import task  # noqa: PLC0415

        arguments = (str(path), media_type, page)
        limits = {"is_numbered": is_numbered, "pixels": self._pixels, "seconds": self._seconds, "address": address}
        late = WAIT_FACTOR * self._seconds
        with traces.span("read page", {"carrel.page": page}):
            self._at_work += 1
            if self._end is not None:
                self._end.cancel()
                self._end = None
            try:
                future = self._open().schedule(task.read_page, args=arguments, kwargs=limits, timeout=late)
                read = await asyncio.wrap_future(future)
            except TimeoutError as error:
                raise ReadingInterrupted(f"Reading the page took longer than {late:g} s on a busy machine.") from error
            except ProcessExpired as error:
                logger.warning("recognition_worker_died", cause=repr(error))
                if error.exitcode == -signal.SIGXCPU:
                    raise UnreadablePage(f"Reading the page takes longer than {self._seconds:g} seconds.") from error
                raise ReadingInterrupted("Reading the page took too much memory or crashed the reader.") from error
            finally:
                self._at_work -= 1
                if not self._at_work:
                    self._end = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._end_idle)
            if read.cause:
                logger.warning("recognition_failed", page=page, cause=read.cause)
            if read.error:
                raise UnreadablePage(read.error)
            return unpack_blocks(read.packed)

    def close(self) -> None:
        """Stop the workers, also those that are reading a page."""
        pool, self._pool = self._pool, None
        if pool is not None:
            _stop(pool)

    def _end_idle(self) -> None:
        """End the workers, which have nothing to read; a page that comes now gets others."""
        pool, self._pool = self._pool, None
        if pool is not None:
            asyncio.get_running_loop().run_in_executor(None, _stop, pool)

    def _open(self) -> ProcessPool:
        from service.text.recognition import task  # noqa: PLC0415 - see above

        if self._pool is None or not self._pool.active:
            self._pool = ProcessPool(
                max_workers=self._workers,
                max_tasks=_PAGES_PER_WORKER,
                initializer=task.prepare,
                initargs=(self._memory_bytes, _NICENESS),
                context=multiprocessing.get_context("forkserver"),  # pyright: ignore[reportArgumentType] - its Pipe is typed for Windows
            )
        return self._pool


def _stop(pool: ProcessPool) -> None:
    pool.stop()
    pool.join()
