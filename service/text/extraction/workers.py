"""Extraction in worker processes with limits: a hostile file is refused, and the service keeps running. UnreadableFile
(400, or 415 for its type) gives advice. Unavailable `reading_late` (503): too little time, so send the file again."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from pebble import ProcessExpired

from service.platform import traces
from service.platform.errors import ServiceError, Unavailable
from service.platform.logs import logger
from service.text.extraction import task
from service.text.extraction.blocks import ContainedFile, Extraction, are_short, unpack_blocks
from service.text.extraction.building import Limits
from service.text.extraction.failures import FailureCode, Unreadable, too_complex
from service.text.pools import PRELOADED, IdlePool

if TYPE_CHECKING:
    from service.text.extraction.pages import RenderedPage

# Workers are replaced after this many files: parsers written in C leak, and forking a worker takes milliseconds.
_FILES_PER_WORKER = 1_000
# A person who waits for a page leaves after this time: for rendering alone, and with the wait for a worker.
_PAGE_SECONDS = 10.0
_PAGE_PATIENCE = 30.0
_MOST_PAGES_WANTED = 20
_MOST_PAGES_OF_ONE = 4
# Limits count the worker's processor time. A worker that gets no processor is ended after this many times the limit.
WAIT_FACTOR = 10
_LATE_SECONDS = 60
# After these pauses, a file is read again if its worker was ended, perhaps by the system or a person. If the worker
# crashed, the file is read again only once.
_PAUSES = (0.3, 1.0, 2.0, 4.0)
_ENDED = frozenset({-signal.SIGKILL, -signal.SIGTERM})
Result = TypeVar("Result")
_DEADLY = "Reading the file took too much memory or crashed the reader."
_UNSUPPORTED: frozenset[FailureCode] = frozenset({"file_type_unsupported", "file_type_mismatch"})


class UnreadableFile(ServiceError):  # noqa: N818 - named like its siblings in service.platform.errors
    """A file that can't or mustn't be read: 415 because of the type, otherwise 400."""

    def __init__(self, refusal: Unreadable) -> None:
        status = 415 if refusal.code in _UNSUPPORTED else 400
        super().__init__(refusal.message, code=refusal.code, status=status)


class Extractor:
    """Worker processes for reading within limits, forked from a server with parsers, and ended with this process."""

    def __init__(self, *, workers: int, seconds: float, memory_bytes: int, limits: Limits | None = None) -> None:
        self._workers = workers
        self._seconds = seconds
        self._limits = limits or Limits()
        forkserver.set_forkserver_preload(PRELOADED)
        self._rendering = asyncio.Semaphore()
        self._pages_wanted = Counter[UUID]()
        self._pool = IdlePool(
            workers=workers, tasks=_FILES_PER_WORKER, initializer=task.prepare, initargs=(memory_bytes,)
        )

    async def extract(self, path: Path, *, file_name: str, finds_pictures: bool = False) -> Extraction:
        """Return a file's text and pictures. Raises UnreadableFile and Unavailable. Cancelling ends the worker."""
        limits = replace(self._limits, finds_pictures=finds_pictures)
        with traces.span("extract") as span:
            found = await self._run(task.extract, path, file_name, limits)
            packed = found.packed
            blocks = unpack_blocks(packed) if are_short(packed) else await asyncio.to_thread(unpack_blocks, packed)
            extraction = replace(found, blocks=blocks)
            for cause in extraction.causes:
                logger.warning("extraction_detail_skipped", cause=cause)
            span.set_attributes({"carrel.media_type": extraction.media_type, "carrel.blocks": len(extraction.blocks)})
        return extraction

    async def read_files(
        self, path: Path, *, file_name: str, start: int, most: int | None, largest: int
    ) -> list[ContainedFile]:
        """Return some files within the file at `path`, limited like `extract`. Raises UnreadableFile."""
        return await self._run(
            partial(task.read_files, start=start, most=most, largest=largest), path, file_name, self._limits
        )

    async def render_page(
        self, on_disk: AbstractAsyncContextManager[Path], *, media_type: str, page: int, wanted_by: UUID
    ) -> "RenderedPage":
        """Return a page, from 1, as a picture; `on_disk` provides the file. Raises UnreadableFile, and Unavailable
        `rendering_saturated` if many pages wait, or several of one person (`wanted_by`). Pages are rendered in turn,
        for at most `_PAGE_SECONDS` each, so that uploads keep the other workers."""
        wanted = self._pages_wanted
        if wanted.total() >= _MOST_PAGES_WANTED or wanted[wanted_by] >= _MOST_PAGES_OF_ONE:
            raise _too_many_pages()
        wanted[wanted_by] += 1
        work = partial(task.render_page, media_type=media_type, page=page)
        seconds = min(self._seconds, _PAGE_SECONDS)
        try:
            async with asyncio.timeout(_PAGE_PATIENCE), self._rendering, on_disk as path:
                with traces.span("render page", {"carrel.page": page}):
                    return await self._run(work, path, "", self._limits, seconds=seconds)
        except TimeoutError as error:
            raise _too_many_pages() from error
        finally:
            wanted[wanted_by] -= 1
            if not wanted[wanted_by]:
                del wanted[wanted_by]

    async def warm(self) -> None:
        await asyncio.gather(*(self._pool.run(task.ready) for _ in range(self._workers)))

    def close(self) -> None:
        """Stop all workers, including busy workers."""
        self._pool.close()

    async def _run(
        self,
        work: Callable[..., Result | task.Refused],
        path: Path,
        file_name: str,
        limits: Limits,
        *,
        seconds: float | None = None,
    ) -> Result:
        seconds = seconds or self._seconds
        pauses, crashes = iter(_PAUSES), 0
        while True:
            try:
                given = (str(path), file_name, limits, seconds)
                outcome = await self._pool.run(work, given, seconds=WAIT_FACTOR * seconds)
                break
            except TimeoutError as error:
                message = f"The service is too busy to read the file now. Send it again in {_LATE_SECONDS} s."
                raise Unavailable(message, code="reading_late", retry_after=_LATE_SECONDS) from error
            except (ProcessExpired, RuntimeError) as error:
                code = getattr(error, "exitcode", None)
                logger.warning("extraction_worker_died", exit_code=code)
                if code == -signal.SIGXCPU:
                    raise UnreadableFile(
                        too_complex(f"Reading the file takes longer than {seconds:g} seconds.")
                    ) from error
                crashes += code not in {None, *_ENDED}
                if crashes > 1 or (pause := next(pauses, None)) is None:
                    raise UnreadableFile(too_complex(_DEADLY)) from error
                await asyncio.sleep(pause)
        if isinstance(outcome, task.Refused):
            if outcome.cause:
                logger.warning("extraction_failed", code=outcome.code, cause=outcome.cause)
            raise UnreadableFile(Unreadable(outcome.code, outcome.message))
        return outcome


def _too_many_pages() -> Unavailable:
    return Unavailable(
        f"The service is busy reading other files. Ask for the page again in {_PAGE_SECONDS:g} s.",
        code="rendering_saturated",
        retry_after=int(_PAGE_SECONDS),
    )
