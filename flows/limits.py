"""A limit on concurrent batches, shared by all runs and machines of a Prefect server."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterable
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import UUID

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.concurrency.asyncio import concurrency
from prefect.concurrency.context import ConcurrencyContext
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound, PrefectException

from flows.settings import FlowSettings

BATCHES = "carrel-batches"
_keeping = threading.Lock()  # the batches of a run, which share a file, are in one process
_LEASE_SECONDS = 60.0  # the shortest there is: the server takes a killed batch's slot back after so long


async def set_limits(settings: FlowSettings) -> None:
    """Set the limit on the server to the value in the settings."""
    async with get_client() as client:
        await client.upsert_global_concurrency_limit_by_name(BATCHES, settings.flows_batches_at_once)


async def ensure_limits(settings: FlowSettings) -> None:
    """Create the limit if there is none; an existing one stays, because a single run doesn't know better."""
    async with get_client() as client:
        try:
            await client.read_global_concurrency_limit_by_name(BATCHES)
        except ObjectNotFound:
            with suppress(ObjectAlreadyExists):  # another run has been quicker
                new = GlobalConcurrencyLimitCreate(name=BATCHES, limit=settings.flows_batches_at_once)
                await client.create_global_concurrency_limit(new)


def slots_file(settings: FlowSettings, ledger: str) -> Path:
    """Return where this machine keeps which slots the run on a ledger has taken."""
    return settings.ledgers / f"{ledger}.slots"


async def give_slots_back(kept: Path) -> None:
    """Give back at once what an earlier run on the same ledger had taken and could not give back, since it was killed.

    Only for who holds the lock on the source: nobody else is at it then.
    """
    leases = await asyncio.to_thread(_read_leases, kept)
    async with get_client() as client:
        for lease in leases:
            with suppress(httpx.HTTPError, PrefectException):  # what the server has taken back already is gone
                await client.release_concurrency_slots_with_lease(lease_id=lease)
    await asyncio.to_thread(kept.unlink, missing_ok=True)


def _read_leases(kept: Path) -> list[UUID]:
    found: list[UUID] = []
    with suppress(FileNotFoundError, ValueError):  # a line that was cut short is the last one
        found.extend(UUID(line) for line in kept.read_text(encoding="ascii").splitlines())
    return found


@asynccontextmanager
async def one_of_the_batches(kept: Path) -> AsyncGenerator[None]:
    """Wait for a slot of the limit, and hold it until the block ends. Raises when the limit doesn't exist.

    The slot is recorded in the file `kept`, for `give_slots_back`, until it is released. A server that goes away
    meanwhile doesn't stop the batch.
    """
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
        file.write(_lines(leases))


def _forget_leases(kept: Path, given_back: AbstractSet[UUID]) -> None:
    with _keeping:
        left = [lease for lease in _read_leases(kept) if lease not in given_back]
        if left:
            kept.write_text(_lines(left), encoding="ascii")
        else:
            kept.unlink(missing_ok=True)


def _lines(leases: Iterable[UUID]) -> str:
    return "".join(f"{lease}\n" for lease in leases)
