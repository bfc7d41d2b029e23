"""Shared parts of the flows: batches as Prefect tasks within a limit, the final state, and artifacts of progress."""

import asyncio
import json
import logging
import threading
import time
import zlib
from base64 import b64encode
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec
from uuid import UUID

import httpx
from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate, GlobalConcurrencyLimitCreate
from prefect.client.schemas.objects import State
from prefect.concurrency.asyncio import concurrency
from prefect.concurrency.context import ConcurrencyContext
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound, PrefectException
from prefect.runtime import flow_run
from prefect.states import Completed

from flows.errors import FlowError, ServiceDownError, SourceBusyError
from flows.operations.backlog import notes_of
from flows.operations.deletions import mark_of_deletions
from flows.operations.formatting import capitalize
from flows.operations.jobs import Hooks, Job, Outcome, cancel_on_sigterm, run_batch
from flows.operations.ledger.ledger import Ledger
from flows.operations.named import name_documents, names_as_csv
from flows.operations.plan import Plan
from flows.operations.quarantine import failure_rows
from flows.operations.reporting import reported_run_id
from flows.operations.scan import Scanned
from flows.operations.sending import run_workers
from flows.operations.summary import SHOWN, Summary, summarize
from flows.runs import COUNTS, CSV, FAILURES, NAMES, PLAN, PLANNED, PROGRESS, SKIPPED
from flows.settings import FlowSettings

_log = logging.getLogger(__name__)

_SECONDS = 2.0
_WINDOW = 8  # the updates that the current rate is measured over
_SHOWN = 200
_NAMED_OFTEN = 20_000  # documents: above this number, names are read only at the plan and at the end


class Progress:
    """Publishes one run's progress. A Prefect server that does not answer costs an update, never the run."""

    def __init__(self, client: PrefectClient, flow_run_id: UUID) -> None:
        self._client = client
        self._flow_run_id = flow_run_id
        self._artifacts: dict[str, UUID] = {}
        self._published: dict[str, object] = {}
        self._began = time.perf_counter()
        self._marks: deque[tuple[float, int]] = deque([(0.0, 0)], maxlen=_WINDOW)
        self._ledger: Ledger | None = None
        self._gone = ""
        self.phase = "scanning"

    @property
    def _seconds(self) -> float:
        return time.perf_counter() - self._began

    async def on_plan(self, ledger: Ledger, scanned: Scanned, plan: Plan) -> None:
        """Publish the plan, its numbers and its documents, and use the ledger for the counts from now on."""
        self._ledger = ledger
        problems = await asyncio.to_thread(ledger.problem_count)
        remarks = "".join(f"\n{remark}\n" for remark in notes_of(ledger.address.name).remarks)
        await self.publish(PLAN, kind="markdown", data=plan_markdown(scanned, plan, problems=problems) + remarks)
        numbers = {name: number for name, number in asdict(plan).items() if isinstance(number, int)}
        await self.publish_table(PLANNED, [{**numbers, "problems": problems}])
        has_gone = plan.delete or plan.gone or plan.held_back
        self._gone = await asyncio.to_thread(mark_of_deletions, ledger) if has_gone else ""
        await self.end()
        self.phase = "sending"

    async def update(self) -> None:
        """Publish the counts, the first names and the quarantine; before the plan, do nothing. Raises LedgerError."""
        if self._ledger is None:
            return
        summary = await asyncio.to_thread(summarize, self._ledger)
        await self.publish_summary(summary)
        if summary.documents <= _NAMED_OFTEN or self.phase != "sending":
            named = name_documents(self._ledger, limit=SHOWN)
            await self.publish_table(NAMES, await asyncio.to_thread(list[dict[str, str]], named))
        if summary.quarantined:
            rows = await asyncio.to_thread(failure_rows, self._ledger, limit=_SHOWN)
            await self.publish_table(FAILURES, rows)

    async def end(self) -> None:
        """Publish the present state, and the names of all documents as compressed CSV. Raises LedgerError."""
        await self.update()
        if self._ledger is not None:
            text = await asyncio.to_thread(names_as_csv, self._ledger)
            packed = await asyncio.to_thread(zlib.compress, text.encode("utf-8-sig", errors="backslashreplace"))
            await self.publish(CSV, kind="text", data=b64encode(packed).decode())

    async def publish_summary(self, summary: Summary) -> None:
        counts = {
            **summary.as_json(),
            "phase": self.phase,
            "gone_mark": self._gone,
            "seconds": round(self._seconds, 1),
            "documentsPerSecond": round(self._rate(summary.sent), 4),
            "waitingFor": "" if self._ledger is None else notes_of(self._ledger.address.name).newest_wait,
        }
        await self.publish_counts(counts)

    async def publish_average(self, counts: Mapping[str, Any], *, phase: str, progress: float, done: int) -> None:
        """Publish a run's counts, with the average pace: `done` since the beginning."""
        seconds = self._seconds
        rate = round(done / seconds, 4) if seconds else 0.0
        pace = {"phase": phase, "progress": progress, "seconds": round(seconds, 1), "documentsPerSecond": rate}
        await self.publish_counts({**counts, **pace})

    async def publish_counts(self, counts: Mapping[str, Any]) -> None:
        """Publish a run's counts as a row, and the member `progress` (percent) as a progress artifact."""
        await self.publish_table(COUNTS, [counts])
        await self.publish(PROGRESS, kind="progress", data=counts["progress"])

    async def publish_table(self, key: str, rows: Sequence[Mapping[str, Any]]) -> None:
        await self.publish(key, kind="table", data=json.dumps(rows))

    def _rate(self, sent: int) -> float:
        """Remember the number sent so far; return the documents a second over the last few updates."""
        then, before = self._marks[0]
        now = self._seconds
        self._marks.append((now, sent))
        return max(0, sent - before) / (now - then) if now > then else 0.0

    async def publish(self, key: str, *, kind: str, data: str | float) -> None:
        """Publish or update an artifact, unless its data are unchanged; a failure is only logged."""
        if self._published.get(key) == data:
            return
        try:
            if key in self._artifacts:
                await self._client.update_artifact(self._artifacts[key], ArtifactUpdate(data=data))
            else:
                new = ArtifactCreate(key=key, type=kind, data=data, flow_run_id=self._flow_run_id)
                self._artifacts[key] = (await self._client.create_artifact(new)).id
            self._published[key] = data
        except (httpx.HTTPError, PrefectException) as exc:
            _log.warning("The run's progress could not be published: %s", exc)

    async def follow(self) -> None:
        """Publish every two seconds until cancelled; an error of the ledger is only logged."""
        while True:
            await asyncio.sleep(_SECONDS)
            try:
                await self.update()
            except FlowError as exc:
                _log.warning("The run's progress could not be read: %s", exc)


@asynccontextmanager
async def publish_progress() -> AsyncGenerator[Progress]:
    """Publish this flow run's progress until the block ends, also by SIGTERM; alerts link to this run."""
    flow_run_id = UUID(str(flow_run.get_id()))
    reported_run_id.set(flow_run_id)
    with cancel_on_sigterm():
        async with get_client() as client:
            progress = Progress(client, flow_run_id)
            follower = asyncio.create_task(progress.follow())
            try:
                yield progress
            finally:
                follower.cancel()
                with suppress(asyncio.CancelledError):
                    await follower


def plan_markdown(scanned: Scanned, plan: Plan, *, problems: int) -> str:
    """Return the plan as a page for people; `problems` counts items that can't be a document and aren't ignored."""
    numbers = {**plan.numbers(), "unusable items": problems}
    rows = [f"| {words} | {number} |" for words, number in numbers.items()]
    lines = ["| planned | documents |", "|---|---|", *rows, ""]
    if plan.held_back:
        lines += [f"**{plan.held_back}**", ""]
    if plan.unread:
        lines += [f"**{plan.unread_text()}.**", ""]
    lines += [f"{capitalize(line)}." for line in scanned.left_out()]
    return "\n".join(lines)


BATCHES = "carrel-batches"
_keeping = threading.Lock()  # the batches of a run share a file and a process
_LEASE_SECONDS = 60.0  # the shortest possible: the server takes a killed batch's slot back after this time


async def set_batch_limit(settings: FlowSettings) -> None:
    async with get_client() as client:
        await client.upsert_global_concurrency_limit_by_name(BATCHES, settings.flows_batches_at_once)


async def ensure_batch_limit(settings: FlowSettings) -> None:
    """Create the limit of batches if missing; an existing limit stays, because a single run doesn't know better."""
    async with get_client() as client:
        try:
            await client.read_global_concurrency_limit_by_name(BATCHES)
        except ObjectNotFound:
            with suppress(ObjectAlreadyExists):  # another run has created it
                new = GlobalConcurrencyLimitCreate(name=BATCHES, limit=settings.flows_batches_at_once)
                await client.create_global_concurrency_limit(new)


def slots_file(settings: FlowSettings, ledger: str) -> Path:
    return settings.ledgers / f"{ledger}.slots"


async def give_slots_back(kept: Path) -> None:
    """Release a killed run's slots, recorded in the file `kept`, and delete the file; only with the source's lock."""
    leases = await asyncio.to_thread(_read_leases, kept)
    async with get_client() as client:
        for lease in leases:
            with suppress(httpx.HTTPError, PrefectException):  # the server may have taken the slot back already
                await client.release_concurrency_slots_with_lease(lease_id=lease)
    await asyncio.to_thread(kept.unlink, missing_ok=True)


def _read_leases(kept: Path) -> list[UUID]:
    found: list[UUID] = []
    with suppress(FileNotFoundError, ValueError):  # the last line may be cut short
        found.extend(UUID(line) for line in kept.read_text(encoding="ascii").splitlines())
    return found


@asynccontextmanager
async def batch_slot(kept: Path) -> AsyncGenerator[None]:
    """Wait for a slot of the limit, and hold it until the block ends. Raises when the limit doesn't exist. The slot is
    recorded in the file `kept`, for `give_slots_back`. A server outage in the block doesn't stop the batch."""
    leases = list[UUID]()
    with ConcurrencyContext() as context:
        slot = concurrency(BATCHES, strict=True, lease_duration=_LEASE_SECONDS, raise_on_lease_renewal_failure=False)
        try:
            async with slot:
                leases += context.cleanup_lease_ids
                await asyncio.to_thread(_note_leases, kept, leases)
                yield
        finally:
            given_back = set(leases) - set(context.cleanup_lease_ids)
            await asyncio.to_thread(_forget_leases, kept, given_back)


def _note_leases(kept: Path, leases: list[UUID]) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _keeping, kept.open("a", encoding="ascii") as file:
        file.writelines(f"{lease}\n" for lease in leases)


def _forget_leases(kept: Path, given_back: AbstractSet[UUID]) -> None:
    with _keeping:
        left = [lease for lease in _read_leases(kept) if lease not in given_back]
        if left:
            kept.write_text("".join(f"{lease}\n" for lease in left), encoding="ascii")
        else:
            kept.unlink(missing_ok=True)


def _remove_own_traceback(record: logging.LogRecord) -> bool:
    """Remove the traceback of a FlowError from a log record, because its message says what to do; return True."""
    if record.exc_info and isinstance(record.exc_info[1], FlowError):
        record.exc_info = None
    return True


for _name in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(_name).addFilter(_remove_own_traceback)

_AT_ONCE = 2  # batches: while the last documents of one finish, the other keeps the service busy


def _is_worth_retrying(_task: object, _run: object, state: State[Any]) -> bool:
    """Return whether a failed task is retried: after an outage or an unexpected error, but not another FlowError."""
    error: object = state.data
    return isinstance(error, ServiceDownError) or not isinstance(error, FlowError)


@task(
    task_run_name="batch-{partition}",
    retries=3,
    retry_delay_seconds=[5, 30, 120],
    retry_condition_fn=_is_worth_retrying,
    cache_policy=NO_CACHE,
    persist_result=False,
)
async def send_batch(job: Job, partition: int, concurrency: int) -> int:
    """Send a batch, without documents sent by an earlier try; return the number of documents."""
    settings = FlowSettings()
    async with batch_slot(slots_file(settings, job.ledger)):
        return await run_batch(job, partition, settings=settings, concurrency=concurrency)


def _hooks_of(progress: Progress, *, source: str, settings: FlowSettings) -> Hooks:
    """Return the hooks of a flow's run: publish the plan, do the batches as task runs, two at a time, sharing the set
    concurrency, and publish the end."""

    async def on_plan(ledger: Ledger, scanned: Scanned, plan: Plan) -> None:
        get_run_logger().info("The plan for %s: %s", source, plan.text())
        await progress.on_plan(ledger, scanned, plan)

    async def run_batches(job: Job) -> None:
        at_once = min(_AT_ONCE, job.partitions)
        concurrency = max(1, settings.flows_concurrency // at_once)
        queue = iter(range(job.partitions))
        await ensure_batch_limit(settings)
        await give_slots_back(slots_file(settings, job.ledger))

        async def work() -> None:
            for partition in queue:
                await send_batch(job, partition, concurrency)

        await run_workers(work, number=at_once)
        progress.phase = "indexing"

    return Hooks(run_batches, on_plan, progress.end)


Parameters = ParamSpec("Parameters")
Ended = State[dict[str, Any]]


def skip_while_busy(work: Callable[Parameters, Awaitable[Ended]]) -> Callable[Parameters, Awaitable[Ended]]:
    """Let a flow end as skipped, not as failed, while another run works on the source."""

    @wraps(work)
    async def run(*arguments: Parameters.args, **named: Parameters.kwargs) -> Ended:
        try:
            return await work(*arguments, **named)
        except SourceBusyError as exc:
            return complete(f"Skipped: {exc}", {SKIPPED: str(exc)}, name=SKIPPED)

    return run


async def run_to_end(run: Callable[..., Awaitable[Outcome]], source: str, *, dry_run: bool = False) -> Ended:
    """Do a run as a flow: publish its progress, log its remarks, and return the final state with the counts as data."""
    settings = FlowSettings()
    async with publish_progress() as progress:
        hooks = _hooks_of(progress, source=source, settings=settings)
        outcome = await run(source, settings=settings, hooks=hooks)
        progress.phase = "done"
        await progress.publish_summary(outcome.summary)
        state = _state_of(outcome, dry_run=dry_run)
        for remark in notes_of(outcome.ledger.name).remarks:
            get_run_logger().warning(remark)
        return state


def _state_of(outcome: Outcome, *, dry_run: bool) -> Ended:
    summary = outcome.summary
    if dry_run:  # documents in quarantine don't fail it
        text = outcome.plan.text()
        get_run_logger().info("Nothing was sent: %s", text)
        return Completed(message=text, data=summary.as_json())
    name = "Completed" if summary.complete else "CompletedWithProblems"
    if summary.quarantined:
        name = "CompletedWithQuarantine"
    return complete(summary.text(), summary.as_json(), name=name)


def complete(text: str, data: dict[str, Any], *, name: str = "Completed") -> Ended:
    """Log the text, and return a completed state with the text as message."""
    get_run_logger().info(text)
    return Completed(name=name, message=text, data=data)
