"""The fourth step of a run: wait until what the service has taken can be searched."""

import asyncio
import time

from carrel import AsyncCarrel
from carrel.errors import CarrelError
from carrel.wire.catalog import GetDocumentResponse, IndexingStatus
from flows.errors import ServiceDownError
from flows.operations.apply import IndexingFailedError, quarantine, run_workers
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import FIRST, Entry
from flows.operations.ledger.states import State
from flows.operations.patience import Patience
from flows.operations.sources.fingerprint import key_of

_WORKERS = 4
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0
STALLED_SECONDS = 900.0


async def settle(
    client: AsyncCarrel,
    ledger: Ledger,
    *,
    patience: Patience,
    user_email: str | None = None,
) -> None:
    """Ask after every uploaded document until its index is there or has failed.

    `user_email` names the user it was uploaded as, who alone may be able to read it. Raises ServiceDownError when
    nothing at all has become searchable for `STALLED_SECONDS`.
    """
    pause, moved = _FIRST_PAUSE, time.monotonic()
    while True:
        waiting, done = await _ask_all(client, ledger, patience=patience, user_email=user_email)
        if not waiting:
            return
        if time.monotonic() - moved > STALLED_SECONDS:
            msg = (
                f"The service has made nothing searchable for {STALLED_SECONDS:.0f} s, and {waiting} documents wait."
                " Run again: the run goes on from here."
            )
            raise ServiceDownError(msg)
        if done:
            pause, moved = _FIRST_PAUSE, time.monotonic()
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


async def _ask_all(
    client: AsyncCarrel, ledger: Ledger, *, patience: Patience, user_email: str | None
) -> tuple[int, int]:
    """Ask after each document once; return how many still wait and how many no longer do."""
    waiting = done = 0
    after = FIRST
    while page := await asyncio.to_thread(ledger.page, State.UPLOADED, after=after):
        after = key_of(page[-1].document.external_id)
        settled = await _ask_once(client, ledger, page, patience=patience, user_email=user_email)
        waiting, done = waiting + len(page) - settled, done + settled
    return waiting, done


async def _ask_once(
    client: AsyncCarrel, ledger: Ledger, waiting: list[Entry], *, patience: Patience, user_email: str | None
) -> int:
    """Ask after each document of a page; return how many no longer wait."""
    queue = iter(waiting)
    done = 0

    async def work() -> None:
        nonlocal done
        for entry in queue:
            done += await _one(client, ledger, entry, patience=patience, user_email=user_email)

    await run_workers(work, number=min(_WORKERS, len(waiting)))
    return done


async def _one(
    client: AsyncCarrel, ledger: Ledger, entry: Entry, *, patience: Patience, user_email: str | None
) -> bool:
    document_id = entry.document_id or ""
    try:
        document = await patience.call(lambda: client.catalog.get_document(document_id, user_email=user_email))
    except CarrelError as exc:  # deleted meanwhile, or nothing that can be asked after: the others go on
        await asyncio.to_thread(quarantine, ledger, entry, exc)
        return True
    statuses = {place.status for place in document.indexed_in}
    if IndexingStatus.FAILED in statuses:
        await asyncio.to_thread(quarantine, ledger, entry, IndexingFailedError(_why(document)))
    elif IndexingStatus.RUNNING not in statuses:
        await asyncio.to_thread(ledger.settled, entry.document.external_id)
    else:
        return False
    return True


def _why(document: GetDocumentResponse) -> str:
    failed = [place for place in document.indexed_in if place.status is IndexingStatus.FAILED]
    return "; ".join(f"{place.collection_name or 'catalog'}: {place.error or 'indexing failed'}" for place in failed)
