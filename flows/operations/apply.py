"""The third step of a run: send a batch of documents, several at a time; each one's outcome is kept at once.

One bad document costs its own row in the quarantine and nothing else. What stops a batch is about all of it: the
service refuses the caller, or stays away.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from carrel.errors import APIConnectionError, APIError, CarrelError
from flows.errors import FlowError
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import Entry
from flows.operations.ledger.states import State
from flows.operations.outages import OutagePolicy
from flows.operations.pacing import Pace
from flows.operations.sent import Send
from flows.operations.sources.contents import ChangingFileError

_log = logging.getLogger(__name__)
# What these say stays true until the document changes, so that later runs need not send it again.
_FOR_GOOD = frozenset({413, 415})
_FOR_GOOD_PREFIX = "file_"


class IndexingFailedError(Exception):
    """The service accepted the document and then could not index it."""

    code = "indexing_failed"


async def apply_batch(
    ledger: Ledger,
    *,
    partition: int,
    partitions: int,
    send: Send,
    outages: OutagePolicy,
    concurrency: int,
    deleting: bool = False,
) -> int:
    """Send (or delete) what is planned in one partition and return how many documents that was.

    At most `concurrency` are on their way at a time, and fewer while the service is busy. `send` must be safe to
    repeat. Raises RefusedError, StorageFullError or ServiceDownError; what was done until then is kept.
    """
    entries = await asyncio.to_thread(ledger.pending, partition=partition, partitions=partitions, deleting=deleting)
    queue, pace = iter(entries), Pace(most=concurrency)

    async def work() -> None:
        for entry in queue:
            await _one(entry, ledger=ledger, send=send, outages=outages, pace=pace)

    await run_workers(work, number=min(concurrency, len(entries)))
    return len(entries)


async def run_workers(work: Callable[[], Awaitable[None]], *, number: int) -> None:
    """Run `number` workers to their end; the first FlowError stops the others and is raised."""

    async def worker() -> None:
        await work()

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(number):
                group.create_task(worker())
    except BaseExceptionGroup as failures:
        stops = failures.subgroup(FlowError)
        raise (stops or failures).exceptions[0] from failures


async def _one(entry: Entry, *, ledger: Ledger, send: Send, outages: OutagePolicy, pace: Pace) -> None:
    try:
        sent = await outages.call(lambda: pace.run(lambda: send(entry)))
    except FlowError:
        raise
    except Exception as exc:  # noqa: BLE001 - whatever is wrong with one document, the others go on
        await asyncio.to_thread(quarantine, ledger, entry, exc)
        return
    if sent.state is State.DELETED:
        await asyncio.to_thread(ledger.mark_deleted, entry.document.external_id)
        return
    await asyncio.to_thread(ledger.mark_sent, entry.document.external_id, sent)


def quarantine(ledger: Ledger, entry: Entry, exc: Exception) -> None:
    """Put a document that could not be sent into quarantine, with the reason."""
    code, message, status = _reason(exc)
    if code == "unexpected":
        _log.warning("%s could not be sent", entry.document.external_id, exc_info=exc)
    forbidden = status == 403
    for_good = status in _FOR_GOOD or (status == 400 and code.startswith(_FOR_GOOD_PREFIX))
    state = State.FORBIDDEN if forbidden else State.FAILED
    ledger.mark_failed(entry, state=state, code=code, message=message, for_good=for_good)


def _reason(exc: Exception) -> tuple[str, str, int]:
    """Return (code, message, HTTP status or 0)."""
    if isinstance(exc, APIConnectionError):
        return "connection_lost", f"The connection broke each time this document was sent: {exc}", 0
    if isinstance(exc, APIError):
        return exc.code, str(exc), exc.status
    if isinstance(exc, ChangingFileError | IndexingFailedError):
        return exc.code, str(exc), 0
    if isinstance(exc, CarrelError):
        return "invalid_request", str(exc), 0
    if isinstance(exc, OSError):
        return "file_unreadable", f"The file can't be read: {exc.strerror or exc}", 0
    return "unexpected", f"{type(exc).__name__}: {exc}", 0
