"""A run divided into batches: the description of a batch, and execution in any process."""

import asyncio
import signal
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import httpx

from carrel import AsyncCarrel
from carrel.wire.uploads import PlannedUpload
from flows.operations.backlog import BusyNotice
from flows.operations.deletions import skip_modified
from flows.operations.index_waits import wait_until_indexed
from flows.operations.ledger.addresses import Address
from flows.operations.ledger.ledger import Ledger
from flows.operations.outages import OutagePolicy
from flows.operations.plan import Plan
from flows.operations.scan import Scanned
from flows.operations.sending import adder, apply_batch, deleter, uploader
from flows.operations.summary import Summary, summarize
from flows.settings import FlowSettings

# The service answers an upload when it has read the file, perhaps after all other uploads; indexing is waited for at
# the end. A slower upload is tried once more, and then becomes that document's own problem.
_TIMEOUT = httpx.Timeout(180.0, connect=5.0)

Kind = Literal["upload", "collection", "deletion"]


@dataclass(frozen=True, slots=True)
class Job:
    """A planned run, as plain values: a batch can be handed to another thread or process."""

    kind: Kind
    ledger: str
    claim: str
    partitions: int
    upload_as: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    summary: Summary
    plan: Plan
    scanned: Scanned
    ledger: Address


RunBatches = Callable[[Job], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Hooks:
    """Functions called by a run: `run_batches` carries out the batches (by default in turn, in this process), `on_plan`
    receives the plan before anything is sent, `on_end` the end while the ledger is still open."""

    run_batches: RunBatches | None = None
    on_plan: Callable[[Ledger, Scanned, Plan], Awaitable[None]] | None = None
    on_end: Callable[[], Awaitable[None]] | None = None


NO_HOOKS = Hooks()


@dataclass(frozen=True, slots=True)
class Planned:
    """A run with its plan; a `dry_run` ends here."""

    kind: Literal["upload", "collection"]
    scanned: Scanned
    plan: Plan
    wait_for_index: bool
    upload_as: str | None = None
    dry_run: bool = False


@asynccontextmanager
async def open_client(settings: FlowSettings) -> AsyncGenerator[AsyncCarrel]:
    """Open a client of the service in the settings. Each thread or process opens its own."""
    key = None if settings.api_key is None else settings.api_key.get_secret_value()
    async with AsyncCarrel(api_key=key, base_url=settings.base_url, timeout=_TIMEOUT) as client:
        yield client


def outage_policy_of(client: AsyncCarrel, settings: FlowSettings, *, ledger: str = "") -> OutagePolicy:
    """Return a run's outage policy, which probes with a plan for no document, and notes waits for the `ledger`."""
    nothing = PlannedUpload(document_external_id="carrel-flows-probe", fingerprint="-")
    probe = partial(client.with_options(timeout=30.0).catalog.plan_upload, documents=[nothing])
    notice = BusyNotice(client, ledger) if ledger else None
    return OutagePolicy(seconds=settings.flows_outage_seconds, probe=probe, notice=notice)


async def run_batch(job: Job, partition: int, *, settings: FlowSettings, concurrency: int) -> int:
    """Send or delete the documents of a job's partition; return their number."""
    async with open_client(settings) as client:
        with await asyncio.to_thread(Ledger.join, settings.ledger(job.ledger), job.claim) as ledger:
            outages = outage_policy_of(client, settings, ledger=job.ledger)
            # Each attempt's answer sets the pace, so the client must not retry by itself.
            once = client.with_options(max_retries=0)
            send = adder(once) if job.kind == "collection" else uploader(once, upload_as=job.upload_as)
            deleting = job.kind == "deletion"
            batch: dict[str, Any] = {"partition": partition, "partitions": job.partitions, "deleting": deleting}
            if deleting:
                send = deleter(once, ledger, upload_as=job.upload_as)
                doomed = await asyncio.to_thread(ledger.pending, **batch)
                await skip_modified(client, ledger, doomed, upload_as=job.upload_as, outages=outages)
            return await apply_batch(ledger, **batch, send=send, outages=outages, concurrency=concurrency)


async def carry_out(
    planned: Planned,
    client: AsyncCarrel,
    ledger: Ledger,
    *,
    settings: FlowSettings,
    outages: OutagePolicy,
    hooks: Hooks,
) -> Outcome:
    """Do a planned run to the end: all batches, and the wait for the index. Return the outcome."""
    if hooks.on_plan is not None:
        await hooks.on_plan(ledger, planned.scanned, planned.plan)
    if not planned.dry_run:
        for job in _jobs(planned, ledger, settings=settings):
            await (hooks.run_batches(job) if hooks.run_batches else run_in_turn(job, settings=settings))
        if planned.wait_for_index:
            await wait_until_indexed(client, ledger, outages=outages, user_email=planned.upload_as)
        else:
            await asyncio.to_thread(ledger.leave_unasked)
        await asyncio.to_thread(ledger.finish)
    if hooks.on_end is not None:
        await hooks.on_end()
    return Outcome(await asyncio.to_thread(summarize, ledger), planned.plan, planned.scanned, ledger.address)


def _jobs(planned: Planned, ledger: Ledger, *, settings: FlowSettings) -> list[Job]:
    """Return the jobs in order: first all sending, then deleting, so that moved documents are never missing."""
    name, claim, size = ledger.address.name, ledger.run.claim, settings.flows_batch_size
    numbers: dict[Kind, int] = {planned.kind: planned.plan.sends, "deletion": planned.plan.delete}
    return [Job(kind, name, claim, -(-n // size), planned.upload_as) for kind, n in numbers.items() if n]


async def run_in_turn(job: Job, *, settings: FlowSettings) -> None:
    for partition in range(job.partitions):
        await run_batch(job, partition, settings=settings, concurrency=settings.flows_concurrency)


@contextmanager
def cancel_on_sigterm() -> Generator[None]:
    """Have SIGTERM cancel this task (only in the main thread): a handler that raises could hang the event loop."""
    task = asyncio.current_task()
    if task is None or threading.current_thread() is not threading.main_thread():  # signals can't be handled here
        yield
        return
    before, loop = signal.getsignal(signal.SIGTERM), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before)
