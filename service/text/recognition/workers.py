"""Text recognition in worker processes: started for the first page, ended after idling for a while."""

import signal
from collections.abc import Sequence
from pathlib import Path

from pebble import ProcessExpired

from service.platform import traces
from service.platform.logs import logger
from service.text.extraction.blocks import Block, unpack_blocks
from service.text.extraction.workers import WAIT_FACTOR
from service.text.pools import IdlePool

# A new process must load the models, which takes as long as half a page.
_PAGES_PER_WORKER = 500
# The lowest priority.
_NICENESS = 19


class UnreadablePage(Exception):  # noqa: N818 - named for what the page is
    """A page that can't be read; the message gives the reason in a sentence."""


class ReadingInterrupted(RuntimeError):  # noqa: N818 - named for what became of the reading
    """Reading was interrupted or starved of processor time: read the page again later."""


class PageReader:
    """A pool of low-priority worker processes for reading pages, each with limits on processor time and memory."""

    def __init__(self, *, workers: int, seconds: float, memory_bytes: int, pixels: int) -> None:
        self._workers = workers
        self._seconds = seconds
        self._memory_bytes = memory_bytes
        self._pixels = pixels
        self._pool: IdlePool | None = None

    async def read(
        self, path: Path, *, media_type: str, page: int, is_numbered: bool, address: str | None = None
    ) -> Sequence[Block]:
        """Return the text of page `page`, from 1, numbered if `is_numbered`; with an `address`, of the picture there.
        Raises UnreadablePage; ReadingInterrupted; another RuntimeError, or OSError, if no worker can start: killed
        while idle, no models, or no room on the machine. Cancelling ends the worker."""
        # Imported here: only the worker needs the libraries of this module.
        from service.text.recognition import task  # noqa: PLC0415

        if self._pool is None:
            limits = (self._memory_bytes, _NICENESS)
            self._pool = IdlePool(
                workers=self._workers, tasks=_PAGES_PER_WORKER, initializer=task.prepare, initargs=limits
            )
        given = (str(path), media_type, page)
        named = {"is_numbered": is_numbered, "pixels": self._pixels, "seconds": self._seconds, "address": address}
        late = WAIT_FACTOR * self._seconds
        with traces.span("read page", {"carrel.page": page}):
            try:
                read = await self._pool.run(task.read_page, given, named, seconds=late)
            except TimeoutError as error:
                raise ReadingInterrupted(f"Reading the page took longer than {late:g} s on a busy machine.") from error
            except ProcessExpired as error:
                logger.warning("recognition_worker_died", cause=repr(error))
                if error.exitcode == -signal.SIGXCPU:
                    raise UnreadablePage(f"Reading the page takes longer than {self._seconds:g} seconds.") from error
                raise ReadingInterrupted("Reading the page took too much memory or crashed the reader.") from error
            if read.cause:
                logger.warning("recognition_failed", page=page, cause=read.cause)
            if read.error:
                raise UnreadablePage(read.error)
            return unpack_blocks(read.packed)

    def close(self) -> None:
        """Stop all workers, including busy workers."""
        if self._pool is not None:
            self._pool.close()
