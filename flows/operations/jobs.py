"""A run cut into batches: what a batch needs to know, and how it is done, wherever it runs."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from carrel import AsyncCarrel
from carrel.wire.catalog import PlannedUpload
from flows.operations.apply import apply_batch
from flows.operations.ledger import Ledger
from flows.operations.patience import Patience
from flows.operations.plan import Plan
from flows.operations.scan import Scanned
from flows.operations.sending import adder, uploader
from flows.operations.summary import Summary
from flows.settings import FlowSettings


@dataclass(frozen=True, slots=True)
class Job:
    """A planned run: plain values, so that a batch of it can be handed to another thread or process."""

    kind: Literal["upload", "collection"]
    ledger: str
    run_key: str
    partitions: int
    upload_as: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    summary: Summary
    plan: Plan
    scanned: Scanned
    seconds: float
    ledger: Path


RunBatches = Callable[[Job], Awaitable[None]]
OnEnd = Callable[[], Awaitable[None]]
OnPlan = Callable[[Ledger, Scanned, Plan], Awaitable[None]]


@asynccontextmanager
async def open_client(settings: FlowSettings) -> AsyncGenerator[AsyncCarrel]:
    """Open a client of the service that the settings name. It is made where it is used, never handed on."""
    key = None if settings.api_key is None else settings.api_key.get_secret_value()
    async with AsyncCarrel(api_key=key, base_url=settings.base_url) as client:
        yield client


def patience_of(client: AsyncCarrel, settings: FlowSettings) -> Patience:
    """Return the patience of a run; its probe is a plan for a document that nobody has."""
    nothing = PlannedUpload(document_external_id="carrel-flows-probe", fingerprint="-")

    async def probe() -> None:
        await client.catalog.plan_upload(documents=[nothing])

    return Patience(seconds=settings.flows_outage_seconds, probe=probe)


def partitions_of(documents: int, *, batch_size: int) -> int:
    """Return how many batches of about `batch_size` documents these are."""
    return max(1, -(-documents // batch_size))


async def run_batch(job: Job, partition: int, *, settings: FlowSettings, concurrency: int) -> int:
    """Do one batch with a client and a ledger of its own; return how many documents it held.

    Doing it again does what is left of it. Raises RefusedError or ServiceDownError.
    """
    async with open_client(settings) as client:
        send = uploader(client, upload_as=job.upload_as) if job.kind == "upload" else adder(client)
        with Ledger.join(Path(job.ledger), job.run_key) as ledger:
            return await apply_batch(
                ledger,
                partition=partition,
                partitions=job.partitions,
                send=send,
                patience=patience_of(client, settings),
                concurrency=concurrency,
            )


async def run_in_turn(job: Job, *, settings: FlowSettings) -> None:
    """Do a run's batches one after the other in this process, without Prefect."""
    for partition in range(job.partitions):
        await run_batch(job, partition, settings=settings, concurrency=settings.flows_concurrency)


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds until now."""
        return time.perf_counter() - self._start
