"""What runs tell the service of a source's quarantine, and take from it: the service keeps what people ignore.

A run takes what is ignored before it plans, and reports its quarantine as a whole at its end. A quarantine that is as
it was reported last costs one request. Nothing of this makes a run fail: what goes wrong is a remark in the run's
words, and the next run reports again.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Container, Iterable
from contextlib import asynccontextmanager
from dataclasses import astuple, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from uuid import UUID

from pydantic import ValidationError

from carrel import AsyncCarrel
from carrel.errors import CarrelError, ConflictError, PermissionDeniedError
from carrel.wire.sources import ReportedItem, Source, holds_credential
from flows.errors import FlowError, RefusedError
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.registry import (
    KnownSource,
    count_ignored,
    list_sources,
    mark_ignored,
    read_quarantine,
    read_source,
)
from flows.operations.ledger.rows import LONGEST_TEXT, Failure, ItemMark
from flows.operations.notes import notes_of
from flows.operations.outages import OutagePolicy
from flows.settings import FlowSettings

_BATCH = 1000  # the most that reportSourceItems takes
_MARKS = 500  # items whose marks a ledger takes at a time
_SECONDS, _INTERRUPTED_SECONDS = 600.0, 10.0
_REQUEST_SECONDS = 60.0
_NO_ROOM = "{:,} of the items in quarantine found no room at the service, which shows the others."


async def take_ignored(client: AsyncCarrel, ledger: Ledger, *, settings: FlowSettings, outages: OutagePolicy) -> None:
    """Ignore in a run's ledger what people ignore at the service, and count again what they have restored.

    An item is the same while its fingerprint is. What the service does not know, as in a ledger that was never
    reported, stays as it is. Raises ServiceDownError and LedgerError.
    """
    known = await asyncio.to_thread(read_source, ledger.address)

    async def take() -> None:
        async for source in client.sources.list_sources(ledger=ledger.address.name, own=True):
            if known is not None:
                await _take_from(client, source, known, settings=settings)

    try:
        await outages.call(take)
    except (CarrelError, RefusedError) as exc:
        notes_of(ledger.address.name).remarks.append(
            f"The service did not tell what is ignored of this source ({exc})."
        )


async def _take_from(client: AsyncCarrel, source: Source, known: KnownSource, *, settings: FlowSettings) -> None:
    same = await _mark(client, source, known, settings=settings, ignored=True) if source.ignored_count else 0
    if await asyncio.to_thread(count_ignored, settings, known) > same:
        await _mark(client, source, known, settings=settings, ignored=False)


async def _mark(
    client: AsyncCarrel, source: Source, known: KnownSource, *, settings: FlowSettings, ignored: bool
) -> int:
    """Bring to the ledger what is ignored, or what is not; return how many of these items it has as they are."""
    number = 0
    listing = client.sources.list_source_items(source.source_id, ignored=ignored, page_size=_MARKS)
    async for page in listing.pages():
        marks = [ItemMark(item.place, item.document_external_id, item.fingerprint) for item in page.items]
        number += await asyncio.to_thread(mark_ignored, settings, known, marks, ignored=ignored)
    return number


@asynccontextmanager
async def report_at_end(client: AsyncCarrel, ledger: Ledger, *, settings: FlowSettings) -> AsyncGenerator[None]:
    """Report the quarantine of a run's ledger at the end of the block, however that ends."""
    notes_of(ledger.address.name).remarks.clear()
    try:
        yield
    except BaseException as exc:
        seconds = _SECONDS if isinstance(exc, Exception) else _INTERRUPTED_SECONDS
        await _report_run(client, ledger, settings=settings, seconds=seconds)
        raise
    await _report_run(client, ledger, settings=settings, seconds=_SECONDS)


async def _report_run(client: AsyncCarrel, ledger: Ledger, *, settings: FlowSettings, seconds: float) -> None:
    """Report for a run, in at most so many seconds; what goes wrong is a remark of the run.

    Where there is nothing to report, and never was, no source is made: files that are dropped, and paths that are
    mistyped, each have a ledger of their own, and the service takes so many sources and no more.
    """
    remark = ""
    try:
        async with asyncio.timeout(seconds):
            known = await asyncio.to_thread(read_source, ledger.address)
            if known is not None and not await _is_new(client, known, settings=settings):
                remark = await report(client, known, settings=settings)
    except (CarrelError, FlowError, ValidationError, TimeoutError) as exc:
        remark = f"What is in quarantine was not reported to the service ({_reason(exc)}). The next run reports it."
    if remark:
        notes_of(ledger.address.name).remarks.append(remark)


async def _is_new(client: AsyncCarrel, known: KnownSource, *, settings: FlowSettings) -> bool:
    """Return whether nothing of a source is in quarantine, and nothing of it was ever reported."""
    if await asyncio.to_thread(next, read_quarantine(settings, known), None) is not None:
        return False
    try:
        return not [source async for source in client.sources.list_sources(ledger=known.ledger, own=True)]
    except PermissionDeniedError:  # a key that may only write: what is mended is to be reported all the same
        return False


def find_unreported(settings: FlowSettings, *, reported: Container[str]) -> list[KnownSource]:
    """Return the sources with something in quarantine whose ledgers (names) nobody has `reported` to the service.

    Such are those of versions that kept quarantines in ledgers alone. Raises LedgerError for a ledger that can't be
    read.
    """
    return [
        known
        for known in list_sources(settings)
        if known.target == settings.base_url
        and known.ledger not in reported
        and next(read_quarantine(settings, known), None) is not None
    ]


async def list_reported(client: AsyncCarrel) -> set[str]:
    """Return the names of the ledgers that the service knows, as far as it shows them to the caller."""
    return {source.ledger async for source in client.sources.list_sources(page_size=_BATCH)}


async def report_ledgers(client: AsyncCarrel, *, settings: FlowSettings, outages: OutagePolicy) -> list[str]:
    """Report what is in quarantine in ledgers here that were never reported; return a sentence for each that failed.

    Waits for a service that is away, and ends where the service refuses. Raises CarrelError and FlowError.
    """
    remarks: list[str] = []
    reported = await outages.call(partial(list_reported, client))
    for known in await asyncio.to_thread(find_unreported, settings, reported=reported):
        said = f"The quarantine of {known.source} was not reported to the service"
        try:
            if remark := await report(client, known, settings=settings):
                remarks.append(f"The quarantine of {known.source}: {remark}")
        except (FlowError, ValidationError) as exc:
            remarks.append(f"{said} ({_reason(exc)}).")
        except CarrelError as exc:  # the others would be refused alike
            return [*remarks, f"{said} ({_reason(exc)}), nor were those after it."]
    return remarks


async def report(client: AsyncCarrel, known: KnownSource, *, settings: FlowSettings) -> str:
    """Report the quarantine of a source as its ledger has it; return what is to be said of that, or nothing.

    Of a report that a newer one overtakes nothing is to be said. Raises CarrelError, ValidationError and LedgerError.
    """
    try:
        return await _report(client.with_options(timeout=_REQUEST_SECONDS), known, settings=settings)
    except ConflictError as exc:
        if exc.code != "source_report_over":
            raise
    return ""


async def _report(client: AsyncCarrel, known: KnownSource, *, settings: FlowSettings) -> str:
    fingerprint = await _fingerprint(known, settings=settings)
    begun = await client.sources.report_source(
        known.ledger, _text_of(known), document_collection_id=known.collection, fingerprint=fingerprint
    )
    if begun.report_no is None:
        return ""
    sent, left_out = await _send(client, known, begun.source_id, begun.report_no, settings=settings)
    if sent != fingerprint:  # a run goes on, which reports at its end
        return ""
    await client.sources.end_source_report(begun.source_id, begun.report_no)
    return _NO_ROOM.format(left_out) if left_out else ""


async def _send(
    client: AsyncCarrel, known: KnownSource, source_id: UUID, report_no: int, *, settings: FlowSettings
) -> tuple[str, int]:
    """Send the items of a report; return the fingerprint of all that were there, and how many found no room."""
    digest, left_out = _Digest(), 0
    async for batch in _batches(known, settings=settings):
        digest.add(batch)
        try:
            if not left_out:
                await client.sources.report_source_items(source_id, report_no, map(_item_of, batch))
                continue
        except ConflictError as exc:
            if exc.code != "too_many_source_items":
                raise
        left_out += len(batch)
    return digest.text, left_out


async def _fingerprint(known: KnownSource, *, settings: FlowSettings) -> str:
    """Return the digest of a quarantine as it is now; a run that is stopped waits for one batch of it at most."""
    digest = _Digest()
    async for batch in _batches(known, settings=settings):
        digest.add(batch)
    return digest.text


async def _batches(known: KnownSource, *, settings: FlowSettings) -> AsyncGenerator[list[Failure]]:
    failures = read_quarantine(settings, known)
    while batch := await asyncio.to_thread(lambda: list(islice(failures, _BATCH))):
        yield batch


class _Digest:
    """A digest of a quarantine, without what is ignored: the service keeps that."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, failures: Iterable[Failure]) -> None:
        for failure in failures:
            self._hash.update(json.dumps(astuple(replace(failure, ignored=False))).encode())

    @property
    def text(self) -> str:
        return self._hash.hexdigest()


def _item_of(failure: Failure) -> ReportedItem:
    """Return an item as the service takes it: one whose external id is too long for it goes by its place."""
    name = failure.external_id
    return ReportedItem(
        document_external_id=name if name and len(name) <= LONGEST_TEXT else None,
        place=failure.place[:LONGEST_TEXT] or name or "-",
        code=failure.code,
        message=failure.message[:LONGEST_TEXT],
        fingerprint=failure.fingerprint or "-",
        since=datetime.fromtimestamp(failure.since, UTC),
        ignored=failure.ignored,
    )


def _text_of(known: KnownSource) -> str:
    """Return what a source was loaded from, without the query of an address, which may hold a secret."""
    text = known.source
    return (text.partition("?")[0] if holds_credential(text) else text)[:LONGEST_TEXT]


def _reason(error: Exception) -> str:
    return "it took too long" if isinstance(error, TimeoutError) else str(error)
