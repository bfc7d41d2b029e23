"""The indexer: documents being indexed, waiting requests, and limits. Work beyond the limit is only in the database, by
version (docs/decisions/001), and claimed when room is free (`ingestion.feeding`). So a backlog costs no memory, and a
crash loses no work. Words are written first; a second indexer with separate limits adds the vectors."""

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from uuid import UUID

from service.index.ingestion.backlog.queries import EntryState, PendingWork, Progress
from service.index.ingestion.indexing import IndexingDeps, IndexOutcome, Made, Outcomes, Work, index_in_spaces
from service.index.ingestion.pace import FIRST_WORDS_PACE, BackPressure, Pace
from service.index.ingestion.queries import IndexingWork
from service.index.ingestion.turns import Lane, lane_of
from service.index.progress import Half
from service.platform.background import log_trouble
from service.platform.database import Database
from service.platform.sharing import Figure, Share
from service.text.embedding import Embedders

# The most documents in memory, of all organizations and of each: enough to start the next document at once.
MOST_DOCUMENTS = 64
MOST_OF_LANE = {Lane.SMALL: 16, Lane.LARGE: 2}
# The most rebuilds at once; `service.index.rebuilds.running` says how many documents each takes.
REBUILDS_AT_ONCE = 2
# The most large documents of all organizations, so that room for small documents remains.
MOST_LARGE = MOST_DOCUMENTS // 2
# The most packed text of large documents; a single one counts for at most half, so that there is room for two. Beyond
# that, each organization may have one large document, up to twice this total.
MOST_BYTES = 64 * 1024 * 1024
# The newest documents without vectors, per lane, that searches found.
MOST_FOUND = 64
# The most requests that wait for their documents; further requests are answered before the indexing.
MOST_WAITING = 256

_GONE = EntryState(is_pending=False, lacks_words=False, chunk_count=0)

Key = tuple[UUID, UUID]  # a document's organization id and document id


@dataclass(eq=False, slots=True)
class Waiter:
    """A request waiting for a document's words, or vectors, too, in some spaces; the future is None after a failure."""

    key: Key
    space_ids: tuple[int, ...]
    future: "asyncio.Future[Outcomes | None]"
    half: Half = Half.MEANING

    def answer(self, outcomes: Outcomes | None) -> None:
        """Resolve the request's future with the document's outcomes; only the first call counts."""
        if not self.future.done():
            self.future.set_result(outcomes)


@dataclass(eq=False, slots=True)
class Job:
    """A claimed document: the spaces being indexed, and the spaces requested again in the meantime."""

    work: Work
    packed_bytes: int
    space_ids: tuple[int, ...]
    again: set[int] = field(default_factory=set[int])
    waiters: list[Waiter] = field(default_factory=list[Waiter])
    later: list[Waiter] = field(default_factory=list[Waiter])
    task: "asyncio.Task[None] | None" = None

    @property
    def key(self) -> Key:
        return self.work.organization_id, self.work.document_id

    def restart(self) -> bool:
        """Restart with the spaces requested in the meantime; False without any."""
        self.space_ids, self.waiters = tuple(sorted(self.again)), [*self.waiters, *self.later]
        self.again, self.later, self.work.known, self.work.made = set(), [], {}, {}
        return bool(self.space_ids)


class Indexer:
    """The documents being indexed, within limits of memory, and waiting requests; writes words, `meaning` embeds."""

    def __init__(
        self,
        database: Database,
        embedders: Embedders,
        *,
        backlog_seconds: float,
        share: Share | None = None,
        half: Half = Half.WORDS,
    ) -> None:
        self.database, self.half = database, half
        self._share = share or Share()
        pace, self.meaning = Pace(share=self._share), None
        if half is Half.WORDS:
            self.meaning = Indexer(database, embedders, backlog_seconds=math.inf, share=share, half=Half.MEANING)
            pace.figure, pace.chunks_per_second = Figure.WORDS_PER_SECOND, FIRST_WORDS_PACE
        self.deps = IndexingDeps(database, embedders, half, pace=pace)
        self.pressure = BackPressure(backlog_seconds, pace=pace)
        self.changed = asyncio.Event()
        self.rebuilding = asyncio.Semaphore(REBUILDS_AT_ONCE)
        # By rebuild: a transaction number. Each later transaction knows of the new space.
        self.rebuilds_known_from: dict[UUID, int] = {}
        # By rebuild: the last copied document; absent at the beginning and at the end.
        self.rebuilds_copied_to: dict[UUID, UUID] = {}
        self.feeding = asyncio.Lock()
        self.backlogged: dict[UUID, set[Lane]] = {}
        self.resting: set[UUID] = set()
        self.claims = Counter[tuple[UUID, Lane]]()
        self.found: dict[tuple[UUID, Lane], dict[UUID, None]] = {}
        self._jobs: dict[Key, Job] = {}
        self._waiters: dict[Key, list[Waiter]] = {}
        self._closed = False

    @property
    def parts(self) -> "list[Indexer]":
        """Return this indexer and the embedding indexer, if any."""
        return [self] if self.meaning is None else [self, self.meaning]

    @property
    def embedding(self) -> "Indexer":
        return self.meaning or self

    def words_awaited(self) -> AbstractContextManager[None]:
        """Let embedding leave busy processors to the block, to bring a document nearer to being found by words."""
        return self._share.count_in(Figure.WORDS_AWAITED)

    @property
    def running(self) -> int:
        return len(self._jobs) + sum(part.running for part in self.parts[1:])

    @property
    def is_saturated(self) -> bool:
        """Whether more documents wait than this process indexes at a time, so the pace can be measured."""
        return bool(self._jobs) and (bool(self.backlogged) or self.deps.turns.are_exhausted)

    @property
    def waiting(self) -> int:
        """The number of documents waiting for a claim or a turn, as far as this process knows."""
        own = max(self.pressure.documents, len(self._jobs)) - self.deps.turns.held
        return own + sum(part.waiting for part in self.parts[1:])

    @property
    def requests(self) -> int:
        """The number of requests waiting for documents not indexed by this process."""
        return sum(map(len, self._waiters.values())) + sum(part.requests for part in self.parts[1:])

    @property
    def chunks_per_second(self) -> float:
        """The recent number of chunks indexed per second; 0 when this process is idle."""
        return self.deps.pace.chunks_per_second if self._jobs else 0.0

    def pace_of(self, organization_id: UUID) -> float:
        """Return an organization's recent number of chunks indexed per second; 0 without documents to index."""
        return self.pressure.pace_of(organization_id) if self._is_busy(organization_id) else 0.0

    def has_room(self, organization_id: UUID, *, packed_bytes: int) -> bool:
        """Return whether a document may begin now: the size is known, room is free, the organization has no queue."""
        lane = lane_of(packed_bytes)
        return lane not in self.backlogged.get(organization_id, ()) and self.room(organization_id, lane) > 0

    def room(self, organization_id: UUID, lane: Lane) -> int:
        """Return how many more documents of a lane an organization may begin now; 0 once closed."""
        own = sum(job.work.turn.lane is lane for job in self.jobs_of(organization_id))
        lanes = [job.work.turn.lane for job in self._jobs.values()]
        free = MOST_DOCUMENTS - len(lanes) + lanes.count(Lane.REBUILD)
        if lane is Lane.LARGE:
            free = min(free, MOST_LARGE - lanes.count(lane), self._large_that_fit(own))
        return 0 if self._closed else max(0, min(MOST_OF_LANE[lane] - own, free))

    def is_worth_a_claim(self, organization_id: UUID, lane: Lane, room: int) -> bool:
        """Return whether a claim now would take many documents: half a lane is free, or the lane is idle."""
        at_work = any(job.work.turn.lane is lane for job in self.jobs_of(organization_id))
        return not at_work or 2 * room >= MOST_OF_LANE[lane]

    def jobs_of(self, organization_id: UUID) -> list[Job]:
        return [job for key, job in self._jobs.items() if key[0] == organization_id]

    def refuse_backlog(self, organization_id: UUID) -> None:
        """Raise Unavailable `indexing_backlog` when an organization's backlog is too large to accept more."""
        if self._is_busy(organization_id):
            self.pressure.refuse(organization_id)

    def refused_seconds(self, organization_id: UUID) -> int | None:
        """Return the seconds until a refused upload may be retried; None while uploads are accepted."""
        return self.pressure.refused_seconds(organization_id) if self._is_busy(organization_id) else None

    def _is_busy(self, organization_id: UUID) -> bool:
        """Return whether an organization has documents to index; a measured backlog may be done by now."""
        return organization_id in self.backlogged or any(key[0] == organization_id for key in self._jobs)

    def request(
        self,
        organization_id: UUID,
        *,
        document_id: UUID,
        space_ids: Sequence[int],
        is_begun: bool,
        known: IndexingWork | None = None,
        packed_bytes: int = 0,
        half: Half = Half.MEANING,
    ) -> Waiter:
        """Request the indexing of a document in these spaces: now if it `is_begun`, else in turn. `known` is the work
        in a space, kept only during indexing. The request can wait for the end of a `half`."""
        key = (organization_id, document_id)
        waiter = Waiter(key, tuple(space_ids), asyncio.get_running_loop().create_future(), half)
        self._waiters.setdefault(key, []).append(waiter)
        if is_begun:
            begun = {known.space_id: known} if known is not None else {}
            self.take_up(organization_id, PendingWork(document_id, waiter.space_ids, packed_bytes), known=begun)
        elif (job := self._jobs.get(key)) is not None:
            self._repeat(job, waiter.space_ids, lane=lane_of(max(packed_bytes, job.packed_bytes)))
        else:
            self.pressure.add(organization_id, packed_bytes=packed_bytes)
            self.note_backlog(organization_id, *([lane_of(packed_bytes)] if packed_bytes else MOST_OF_LANE))
        return waiter

    async def wait(self, waiter: Waiter, *, seconds: float | None) -> Outcomes | None:
        """Wait until a document is indexed; None after `seconds` (None: no limit) or a failure. Indexing continues."""
        crowded = self.requests > MOST_WAITING
        try:
            done, _ = await asyncio.wait({waiter.future}, timeout=0 if crowded and seconds is not None else seconds)
            return waiter.future.result() if done else None
        finally:
            waiter.answer(None)
            self.drop(waiter)

    async def index_now(self, organization_id: UUID, claimed: Iterable[PendingWork]) -> None:
        """Index claimed documents for a rebuild, and wait until every document is done or failed."""
        tasks = [self.parts[-1].take_up(organization_id, each, lane=Lane.REBUILD).task for each in claimed]
        await asyncio.gather(*(asyncio.shield(task) for task in tasks if task is not None), return_exceptions=True)

    def take_up(
        self,
        organization_id: UUID,
        claimed: PendingWork,
        *,
        known: dict[int, IndexingWork] | None = None,
        lane: Lane | None = None,
        made: dict[int, Made] | None = None,
    ) -> Job:
        """Start indexing a document claimed by this process; after its current indexing, if running."""
        key = (organization_id, claimed.document_id)
        own_lane = lane or lane_of(claimed.packed_bytes)
        job = self._jobs.get(key)
        if job is None:
            turn = self.deps.turns.enqueue(organization_id, own_lane)
            left = {space_id: each.left for space_id, each in (made or {}).items()}
            is_rebuilt = own_lane is Lane.REBUILD
            work = Work(self.deps, turn, claimed.document_id, known or left, made=made or {}, both=is_rebuilt)
            job = self._jobs[key] = Job(work, claimed.packed_bytes, claimed.space_ids)
            job.waiters = self._waiters.pop(key, [])
            job.task = asyncio.create_task(self._run(job))
        else:
            self._repeat(job, claimed.space_ids, lane=own_lane)
        return job

    def note_backlog(self, organization_id: UUID, *lanes: Lane) -> None:
        self.backlogged.setdefault(organization_id, set()).update(lanes)
        self.changed.set()

    def prefer(self, organization_id: UUID, document_ids: Iterable[UUID]) -> None:
        """Let documents found by a search get vectors next, if vectors wait for a claim of this process."""
        for lane in self.backlogged.get(organization_id, ()):
            found = self.found.setdefault((organization_id, lane), {})
            found.update(dict.fromkeys(document_ids))
            for document_id in list(found)[:-MOST_FOUND]:
                del found[document_id]

    def list_waiters(self) -> dict[UUID, list[Waiter]]:
        """Return the requests for documents not claimed by this process, by organization."""
        found: dict[UUID, list[Waiter]] = {}
        for (organization_id, _), waiters in self._waiters.items():
            found.setdefault(organization_id, []).extend(waiters)
        return found

    def answer(self, waiters: Iterable[Waiter], entries: dict[tuple[UUID, int], EntryState]) -> None:
        """Resolve requests already waiting when `entries`, by document and space, were read."""
        for waiter in waiters:
            there = {space_id: entries.get((waiter.key[1], space_id), _GONE) for space_id in waiter.space_ids}
            if not any(each.lacks_words if waiter.half is Half.WORDS else each.is_pending for each in there.values()):
                waiter.answer({key: IndexOutcome(each.chunk_count, 0, each.is_pending) for key, each in there.items()})
                self.drop(waiter)

    def progress(self) -> dict[UUID, list[Progress]]:
        found: dict[UUID, list[Progress]] = {}
        for (organization_id, document_id), job in self._jobs.items():
            for space_id in {*job.space_ids, *job.again}:
                told = Progress(document_id, space_id, job.work.embedded, job.work.expected, both=job.work.both)
                found.setdefault(organization_id, []).append(told)
        return found

    async def close(self) -> None:
        """Stop indexing. Unfinished documents stay requested, and are claimed again after their claims expire."""
        self._closed = True
        if self.meaning is not None:
            await self.meaning.close()
        tasks = [job.task for job in self._jobs.values() if job.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, job: Job) -> None:
        """Index a job's spaces until none is requested again, then hand it to the embedding indexer. Never raises."""
        lacking, made = set[int](), dict[int, Made]()
        job.work.is_followed = self._can_follow(job)
        try:
            while job.space_ids:
                with self.words_awaited() if self.half is Half.WORDS else nullcontext():
                    outcomes = await index_in_spaces(job.work, job.space_ids)
                self._answer(job, outcomes)
                made = job.work.made
                lacking |= {space_id for space_id, each in (outcomes or {}).items() if each.lacks_meaning}
                job.restart()
            if lacking and self.meaning is not None:
                self.meaning.go_on(job, tuple(sorted(lacking)), made)
        except Exception as error:  # noqa: BLE001 - a task has nobody else to tell; the claim runs out
            log_trouble("indexing_given_up", error, document_id=str(job.work.document_id))
        finally:
            del self._jobs[job.key]
            for waiter in (*job.waiters, *job.later):
                waiter.answer(None)
            if self.backlogged:
                self.changed.set()

    def _can_follow(self, job: Job) -> bool:
        organization_id, lane = job.work.organization_id, job.work.turn.lane
        # While vectors wait, only claims take documents: uploads would fill all places, and the oldest never start.
        if self.meaning is None or lane in self.meaning.backlogged.get(organization_id, ()):
            return False
        before = (each.work for each in self.jobs_of(organization_id))
        followed = sum(work.is_followed and work.turn.lane is lane for work in before)
        return self.meaning.room(organization_id, lane) > followed

    def go_on(self, before: Job, space_ids: tuple[int, ...], made: dict[int, Made]) -> None:
        """Take over a job with written words: the waiters, and the document now if followed, else as backlog."""
        organization_id, lane = before.work.organization_id, before.work.turn.lane
        waiters, before.waiters = before.waiters, []
        self._waiters.setdefault(before.key, []).extend(waiters)
        if before.work.is_followed and not self._closed:
            claimed = PendingWork(before.work.document_id, space_ids, before.packed_bytes)
            self.take_up(organization_id, claimed, lane=lane, made=made)
        else:
            self.pressure.add(organization_id, packed_bytes=before.packed_bytes)
            self.note_backlog(organization_id, lane)

    def _answer(self, job: Job, outcomes: Outcomes | None) -> None:
        """Answer the job's waiters with outcomes, None after a failure; others keep waiting for spaces or vectors."""
        waiters, job.waiters = job.waiters, []
        for waiter in [each for each in waiters if not each.future.done()]:
            own = {key: outcomes[key] for key in waiter.space_ids if key in outcomes} if outcomes is not None else {}
            if outcomes is None:
                waiter.answer(None)
            elif len(own) < len(waiter.space_ids):
                self._waiters.setdefault(waiter.key, []).append(waiter)
            elif waiter.half is Half.MEANING and any(each.lacks_meaning for each in own.values()):
                job.waiters.append(waiter)
            else:
                waiter.answer(own)

    def _repeat(self, job: Job, space_ids: Sequence[int], *, lane: Lane) -> None:
        """Request another round of a document's indexing; a rebuild's document changes to this lane."""
        if job.work.turn.lane is Lane.REBUILD:
            job.work.turn.lane = lane
        job.again.update(space_ids)
        job.later += self._waiters.pop(job.key, [])

    def drop(self, waiter: Waiter) -> None:
        """Forget a waiter, also of the embedding indexer; nothing happens to an unknown waiter."""
        with suppress(KeyError, ValueError):
            self._waiters[waiter.key].remove(waiter)
            if not self._waiters[waiter.key]:
                del self._waiters[waiter.key]
        for part in self.parts[1:]:
            part.drop(waiter)

    def _large_that_fit(self, own: int) -> int:
        """Return the number of further large documents that `MOST_BYTES` allows an organization with `own` in work."""
        large = (job.packed_bytes for job in self._jobs.values() if job.work.turn.lane is Lane.LARGE)
        free = MOST_BYTES - sum(min(packed_bytes, MOST_BYTES // 2) for packed_bytes in large)
        if free >= MOST_BYTES // 2:
            return free // (MOST_BYTES // 2)
        return int(not own and free >= -MOST_BYTES // 2)
