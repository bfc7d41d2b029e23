"""The fourth step of a run: wait until uploads can be searched. An archive or mail is done when all its files are."""

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial

from carrel import AsyncCarrel
from carrel.errors import CarrelError
from carrel.wire.catalog import GetDocumentResponse, IndexingStatus
from flows.errors import RefusedError, ServiceDownError
from flows.operations.backlog import Backlog, BacklogReader, notes_of
from flows.operations.formatting import count_text, duration_text, rate_text
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import FIRST, Entry, State
from flows.operations.outages import OutagePolicy
from flows.operations.sending import IndexingFailedError, contained_files, quarantine, run_workers
from flows.operations.sources.documents import key_of

STALLED_SECONDS = 900.0
"""Seconds without any progress before a wait ends, where the service's backlog is unknown; otherwise a third."""
_WORKERS = 4
_FEW = 20
_ASKED_AT_ONCE = 200
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
_PART = "the index"
_WINDOW = 12  # the rounds that the pace is measured over


async def wait_until_indexed(
    client: AsyncCarrel, ledger: Ledger, *, outages: OutagePolicy, user_email: str | None = None
) -> None:
    """Wait until uploads are indexed or failed, if the caller may read. Raises RefusedError and ServiceDownError."""
    wait = _IndexWait(client, ledger, outages, user_email)
    try:
        await wait.run()
    except RefusedError as exc:
        # Without permission to read, the status is unknown, but the service indexes anyway.
        if exc.reason != "missing_scope":
            raise
    finally:
        notes_of(ledger.address.name).waits.pop(_PART, None)


@dataclass(slots=True)
class _Answers:
    """A round's result: documents that finished; for the rest, chunks and files, and the `containers`."""

    done: int = 0
    containers: int = 0
    embedded: int = 0
    expected: int = 0
    files: int = 0
    files_waiting: int = 0


@dataclass(slots=True)
class _IndexWait:
    client: AsyncCarrel
    ledger: Ledger
    outages: OutagePolicy
    user_email: str | None
    _after: bytes = FIRST
    _marks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    _moved_at: float = field(default_factory=time.monotonic)
    _seen: object = None
    _chunks: int | None = None

    async def run(self) -> None:
        reader, pause = BacklogReader(self.client), _FIRST_PAUSE
        while waiting := await asyncio.to_thread(self._count_waiting):
            began = time.monotonic()
            answers = await self._ask(waiting)
            waiting -= answers.done
            if not waiting:
                return
            backlog = await reader.read()
            self._note(waiting, answers, backlog)
            self._give_up_when_stalled(waiting, answers, backlog)
            pause = _FIRST_PAUSE if answers.done else min(pause * 1.5, _LONGEST_PAUSE)
            if answers.done < _ASKED_AT_ONCE:
                # A slow round means that the service is busy, so pause as long.
                await asyncio.sleep(max(pause, min(time.monotonic() - began, _LONGEST_PAUSE)))

    def _count_waiting(self) -> int:
        return sum(count.documents for count in self.ledger.counts() if count.state is State.UPLOADED)

    async def _ask(self, waiting: int) -> _Answers:
        running = set[str]() if waiting <= _FEW else await self.outages.call(self._list_running_ids)
        chosen = await asyncio.to_thread(self._choose, running)
        queue, answers = iter(chosen), _Answers()

        async def work() -> None:
            for entry in queue:
                await self._check_document(entry, answers)

        await run_workers(work, number=min(_WORKERS, len(chosen)))
        return answers

    async def _list_running_ids(self) -> set[str]:
        listed = self.client.catalog.list_documents
        running = listed(indexing=IndexingStatus.RUNNING, user_email=self.user_email, page_size=1000)
        return {str(document.document_id) async for document in running}

    def _choose(self, running: set[str]) -> list[Entry]:
        """Return the next uploads that are not `running`, up to 200; after the last, the next round starts over."""
        chosen = list[Entry]()
        while page := self.ledger.page(State.UPLOADED, after=self._after):
            for entry in page:
                self._after = key_of(entry.document.external_id)
                if entry.document_id not in running:
                    chosen.append(entry)
                if len(chosen) == _ASKED_AT_ONCE:
                    return chosen
        self._after = FIRST
        return chosen

    async def _check_document(self, entry: Entry, answers: _Answers) -> None:
        """Read a document's state. Mark a searchable document, quarantine a failed document, or count the progress."""
        try:
            get = partial(self.client.catalog.get_document, entry.document_id or "", user_email=self.user_email)
            document = await self.outages.call(get)
        except CarrelError as exc:  # deleted or unknown: the others continue
            await asyncio.to_thread(quarantine, self.ledger, entry, exc)
            answers.done += 1
            return
        statuses = {place.status for place in document.indexed_in}
        is_read = await self._keep_contained(entry, document, answers)
        if IndexingStatus.FAILED in statuses:
            failed = [place for place in document.indexed_in if place.status is IndexingStatus.FAILED]
            why = "; ".join(f"{one.collection_name or 'catalog'}: {one.error or 'indexing failed'}" for one in failed)
            await asyncio.to_thread(quarantine, self.ledger, entry, IndexingFailedError(why))
        elif IndexingStatus.RUNNING not in statuses and is_read:
            await asyncio.to_thread(self.ledger.mark_searchable, entry.document.external_id)
        else:
            answers.embedded += sum(place.chunks_embedded or 0 for place in document.indexed_in)
            answers.expected += sum(place.chunks_expected or 0 for place in document.indexed_in)
            return
        answers.done += 1

    async def _keep_contained(self, entry: Entry, document: GetDocumentResponse, answers: _Answers) -> bool:
        """Record the progress of a container's files; return whether all are read (True for no container)."""
        contained = document.contained_files or contained_files(document.file_count, document.files_done)
        if contained is None:
            return True
        not_read = sum(part.count for part in document.list_left_out())
        name = entry.document.external_id
        await asyncio.to_thread(self.ledger.keep_contained, name, contained, parts_not_read=not_read)
        if not contained.is_done:
            answers.containers += 1
            answers.files += contained.files
            answers.files_waiting += contained.waiting
        return contained.is_done

    def _note(self, waiting: int, answers: _Answers, backlog: Backlog | None) -> None:
        self._marks.append((time.monotonic(), waiting))
        chunks = (answers.embedded, answers.expected) if waiting <= _FEW else (0, 0)
        files = (answers.files - answers.files_waiting, answers.files)
        documents = waiting - answers.containers
        (then, before), (now, left) = self._marks[0], self._marks[-1]
        pace = (before - left) / (now - then) if now > then else 0.0  # documents a second over the last rounds
        waits = notes_of(self.ledger.address.name).waits
        waits[_PART] = left_text(documents, chunks=chunks, files=files, per_second=pace, backlog=backlog)

    def _give_up_when_stalled(self, waiting: int, answers: _Answers, backlog: Backlog | None) -> None:
        # The last known backlog stays while the current one can't be read.
        self._chunks = self._chunks if backlog is None else backlog.chunks
        seen, now = (waiting, answers.embedded, answers.files_waiting, self._chunks), time.monotonic()
        if seen != self._seen:
            self._seen, self._moved_at = seen, now
        seconds = STALLED_SECONDS if backlog is None else STALLED_SECONDS / 3
        if now - self._moved_at > seconds:
            first = self.ledger.page(State.UPLOADED, limit=1)
            such_as = f" (such as {first[0].document.external_id})" if first else ""
            goes_on = "and the service continues."
            if backlog is not None and backlog.is_paused:
                goes_on = "but the service is short of disk space, and indexes nothing until you free space."
            raise ServiceDownError(
                f"The service has indexed nothing for {seconds:.0f} s, and "
                f"{count_text(waiting, 'document')}{such_as} still wait{'s' if waiting == 1 else ''}. All "
                f"documents are stored, {goes_on} Run again to continue from here."
            )


def left_text(
    waiting: int, *, chunks: tuple[int, int], files: tuple[int, int], per_second: float, backlog: Backlog | None
) -> str:
    """Describe how much of a run can't be searched yet, and for how long; `chunks` and `files`: done and total."""
    parts = [f"{files[0]:,} of {count_text(files[1], 'file')} in archives and emails read"] if files[1] else []
    if waiting or not parts:
        parts.append(f"waiting for the index: {count_text(waiting, 'document')} left")
    if backlog is not None and backlog.without_meaning:
        parts.append(f"{count_text(backlog.without_meaning, 'document is', 'documents are')} already found by words")
    if chunks[1]:
        parts.append(f"{chunks[0]:,} of {count_text(chunks[1], 'chunk')} embedded")
    seconds = waiting / per_second if per_second else None
    if backlog is not None and backlog.chunks and backlog.chunks_per_second:
        parts.append(f"{count_text(backlog.chunks, 'chunk')} ahead at {backlog.chunks_per_second:,.0f} per second")
        seconds = backlog.seconds
    elif pace := rate_text(per_second, "document"):
        parts.append(pace)
    if seconds is not None:
        parts.append(duration_text(seconds))
    return ", ".join(parts)
