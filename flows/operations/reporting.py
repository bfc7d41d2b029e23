"""Reports of runs to the service: heartbeats, and the quarantine at the end. A failed report never fails a run."""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Container, Iterable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, astuple, dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from uuid import UUID, uuid4

from pydantic import ValidationError

from carrel import AsyncCarrel
from carrel.errors import CarrelError, ConflictError, PermissionDeniedError
from carrel.wire.alerts import RunOutcome
from carrel.wire.sources import ReportedItem, Source, holds_credential
from flows.errors import FlowError, RefusedError, SourceBusyError, SourceError
from flows.operations.backlog import notes_of
from flows.operations.jobs import open_client
from flows.operations.ledger import quarantine
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import LONGEST_TEXT, Failure
from flows.operations.outages import OutagePolicy
from flows.operations.sources.reading import source_identity
from flows.operations.summary import Summary
from flows.settings import FlowSettings

_AGAIN_SECONDS, _TELL_SECONDS = 60.0, 15.0
_END_SECONDS, _STOPPED_SECONDS = 60.0, 5.0
_BATCH = 1000  # the most that reportSourceItems takes
_MARKS = 500  # the most items whose marks a ledger receives at once
_SECONDS, _INTERRUPTED_SECONDS = 600.0, 10.0
_REQUEST_SECONDS = 60.0
_NO_ROOM = "The service had no room for {:,} of the items in quarantine, and shows the others."
# Set by flows that Prefect runs.
reported_run_id: ContextVar[UUID | None] = ContextVar("reported_run_id", default=None)


@dataclass
class RunReport:
    """The result of a run; `code`: why it failed; `has_begun`: whether the source was read or the object found."""

    outcome: RunOutcome = RunOutcome.COMPLETED
    has_begun: bool = False
    code: str | None = None
    document_count: int | None = None
    quarantined_count: int | None = None
    ledger: str | None = None
    is_partial: bool = False

    def take(self, summary: Summary) -> None:
        self.has_begun = True
        self.document_count, self.quarantined_count = summary.documents + summary.problems, summary.quarantined
        if not summary.complete:
            self.outcome = RunOutcome.INCOMPLETE if summary.held_back else RunOutcome.QUARANTINE

    def take_problems(self, *, found: bool) -> None:
        """Report that the work has begun; with `found`, report problems, so incomplete work."""
        self.has_begun = True
        if found:
            self.outcome = RunOutcome.INCOMPLETE


async def _tell(client: AsyncCarrel, report: RunReport, *, seconds: float, **run: Any) -> None:
    """Send a run's state to the service within `seconds`; a failure is ignored."""
    with suppress(CarrelError, ValidationError, TimeoutError):
        async with asyncio.timeout(seconds):
            await client.with_options(timeout=_TELL_SECONDS).alerts.report_run(**run, **asdict(report))


async def _tell_again(client: AsyncCarrel, report: RunReport, **run: Any) -> None:
    while True:
        await _tell(client, replace(report, outcome=RunOutcome.RUNNING), seconds=_AGAIN_SECONDS, **run)
        await asyncio.sleep(_AGAIN_SECONDS)


@asynccontextmanager
async def report_run(
    settings: FlowSettings, *, flow: str, source: str, within: str = "", is_partial: bool = False
) -> AsyncGenerator[RunReport]:
    """Report every minute while the block runs, and the result at the end; `within` distinguishes runs on a source."""
    told_by = f"{settings.base_url}\n{flow}\n{source}\n{within}".encode(errors="backslashreplace")
    subject = hashlib.sha256(told_by).hexdigest()[:24]
    async with open_client(settings) as client:
        run: dict[str, Any] = {"run_id": uuid4(), "flow": flow, "subject": subject, "source": _name_of(source)}
        run["flow_run_id"] = reported_run_id.get()
        report, seconds = RunReport(is_partial=is_partial), _END_SECONDS
        going_on = asyncio.create_task(_tell_again(client, report, **run))
        try:
            yield report
        except BaseException as exc:
            if isinstance(exc, SourceBusyError) or not isinstance(exc, Exception):
                report.outcome = RunOutcome.STOPPED  # another run is active, or a person has stopped this run
            else:
                report.outcome = RunOutcome.FAILED
                report.code = exc.code if isinstance(exc, FlowError) else "unexpected"
            seconds = _END_SECONDS if isinstance(exc, Exception) else _STOPPED_SECONDS
            raise
        finally:
            going_on.cancel()
            await _tell(client, report, seconds=seconds, **run)


def name_source(source: str) -> str:
    """Return a source's name in reports: the normal form, or the given text if invalid."""
    try:
        # Also for a missing folder, so that the run that finds it again ends the alert.
        return source_identity(source).removesuffix("::.").replace("::", "/")
    except (SourceError, OSError, ValueError):
        return source.encode(errors="backslashreplace").decode()


def _name_of(source: str) -> str:
    """Return a run's object, without the user and the query of a URL, which may hold secrets."""
    if holds_credential(source):
        scheme, _, rest = source.partition("?")[0].partition("://")
        source = f"{scheme}://{rest.rpartition('@')[2]}"
    return source[:LONGEST_TEXT] or "-"


async def take_ignored(client: AsyncCarrel, ledger: Ledger, *, settings: FlowSettings, outages: OutagePolicy) -> None:
    """Mark the service's ignored items in the ledger; a refusal becomes a remark. Raises other FlowErrors."""
    known = await asyncio.to_thread(quarantine.read_source, ledger.address)

    async def take() -> None:
        async for source in client.sources.list_sources(ledger=ledger.address.name, own=True):
            if known is not None:
                same = 0
                if source.ignored_count:
                    same = await _mark(client, source, known, settings=settings, ignored=True)
                if await asyncio.to_thread(quarantine.count_ignored, settings, known) > same:
                    await _mark(client, source, known, settings=settings, ignored=False)

    try:
        await outages.call(take)
    except (CarrelError, RefusedError) as exc:
        remark = f"The service did not report the ignored items of this source ({exc})."
        notes_of(ledger.address.name).remarks.append(remark)


async def _mark(
    client: AsyncCarrel, source: Source, known: quarantine.KnownSource, *, settings: FlowSettings, ignored: bool
) -> int:
    """Mark the service's `ignored` (or other) items alike in the ledger; return how many the ledger has."""
    number = 0
    listing = client.sources.list_source_items(source.source_id, ignored=ignored, page_size=_MARKS)
    async for page in listing.pages():
        marks = {(item.document_external_id or item.place, item.fingerprint) for item in page.items}
        number += await asyncio.to_thread(quarantine.mark_ignored, settings, known, marks, ignored=ignored)
    return number


@asynccontextmanager
async def report_at_end(client: AsyncCarrel, ledger: Ledger, *, settings: FlowSettings) -> AsyncGenerator[None]:
    """Report the quarantine of a run's ledger when the block ends, also by an error; a failure to report becomes a
    remark. Without items, no source is created."""
    notes_of(ledger.address.name).remarks.clear()
    seconds, remark = _SECONDS, ""
    try:
        yield
    except BaseException as exc:
        seconds = _SECONDS if isinstance(exc, Exception) else _INTERRUPTED_SECONDS
        raise
    finally:
        try:
            async with asyncio.timeout(seconds):
                known = await asyncio.to_thread(quarantine.read_source, ledger.address)
                if known is not None and not await _is_new(client, known, settings=settings):
                    remark = await report(client, known, settings=settings)
        except (CarrelError, FlowError, ValidationError, TimeoutError) as exc:
            remark = f"The quarantine was not reported to the service ({_reason(exc)}). The next run reports it."
        if remark:
            notes_of(ledger.address.name).remarks.append(remark)


async def _is_new(client: AsyncCarrel, known: quarantine.KnownSource, *, settings: FlowSettings) -> bool:
    """Return whether a source has an empty quarantine and was never reported; False if the caller can't read that."""
    if await asyncio.to_thread(next, quarantine.read_quarantine(settings, known), None) is not None:
        return False
    try:
        return not [source async for source in client.sources.list_sources(ledger=known.ledger, own=True)]
    except PermissionDeniedError:  # without permission to read, repaired items must still be reported
        return False


def find_unreported(settings: FlowSettings, *, reported: Container[str]) -> list[quarantine.KnownSource]:
    """Return the sources with an unreported quarantine, such as from older versions. Raises LedgerError."""
    return [
        known
        for known in quarantine.list_sources(settings)
        if known.target == settings.base_url
        and known.ledger not in reported
        and next(quarantine.read_quarantine(settings, known), None) is not None
    ]


async def report_ledgers(client: AsyncCarrel, *, settings: FlowSettings, outages: OutagePolicy) -> list[str]:
    """Report the unreported quarantines of local ledgers; return a sentence for each failure."""
    remarks: list[str] = []

    async def list_reported() -> set[str]:
        return {source.ledger async for source in client.sources.list_sources(page_size=_BATCH)}

    for known in await asyncio.to_thread(find_unreported, settings, reported=await outages.call(list_reported)):
        said = f"The quarantine of {known.source} was not reported to the service"
        try:
            if remark := await report(client, known, settings=settings):
                remarks.append(f"The quarantine of {known.source}: {remark}")
        except (FlowError, ValidationError) as exc:
            remarks.append(f"{said} ({_reason(exc)}).")
        except CarrelError as exc:  # the others would be refused too
            return [*remarks, f"{said} ({_reason(exc)}). Later ones were not reported either."]
    return remarks


async def report(client: AsyncCarrel, known: quarantine.KnownSource, *, settings: FlowSettings) -> str:
    """Report a source's quarantine; return a remark, if any. Raises CarrelError, ValidationError and LedgerError."""
    try:
        return await _report(client.with_options(timeout=_REQUEST_SECONDS), known, settings=settings)
    except ConflictError as exc:
        if exc.code != "source_report_over":
            raise
    return ""


async def _report(client: AsyncCarrel, known: quarantine.KnownSource, *, settings: FlowSettings) -> str:
    digest = hashlib.sha256()
    async for batch in _batches(known, settings=settings):  # a stopped run waits for at most one batch
        _update_digest(digest, batch)
    # Without an address's query, which may contain a secret.
    loaded_from = known.source.partition("?")[0] if holds_credential(known.source) else known.source
    begun = await client.sources.report_source(
        known.ledger,
        loaded_from[:LONGEST_TEXT],
        document_collection_id=known.collection,
        fingerprint=digest.hexdigest(),
    )
    if begun.report_no is None:
        return ""
    sent, left_out = await _send(client, known, begun.source_id, begun.report_no, settings=settings)
    if sent != digest.hexdigest():  # another run is active, and reports at its end
        return ""
    await client.sources.end_source_report(begun.source_id, begun.report_no)
    return _NO_ROOM.format(left_out) if left_out else ""


async def _send(
    client: AsyncCarrel, known: quarantine.KnownSource, source_id: UUID, report_no: int, *, settings: FlowSettings
) -> tuple[str, int]:
    digest, left_out = hashlib.sha256(), 0
    async for batch in _batches(known, settings=settings):
        _update_digest(digest, batch)
        try:
            if not left_out:
                await client.sources.report_source_items(source_id, report_no, map(_item_of, batch))
                continue
        except ConflictError as exc:
            if exc.code != "too_many_source_items":
                raise
        left_out += len(batch)
    return digest.hexdigest(), left_out


async def _batches(known: quarantine.KnownSource, *, settings: FlowSettings) -> AsyncGenerator[list[Failure]]:
    failures = quarantine.read_quarantine(settings, known)
    while batch := await asyncio.to_thread(lambda: list(islice(failures, _BATCH))):
        yield batch


def _update_digest(digest: Any, failures: Iterable[Failure]) -> None:
    for failure in failures:
        digest.update(json.dumps(astuple(replace(failure, ignored=False))).encode())


def _item_of(failure: Failure) -> ReportedItem:
    """Return an item for the service: by place if the external id is too long."""
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


def _reason(error: Exception) -> str:
    return "it took too long" if isinstance(error, TimeoutError) else str(error)
