"""Telling the service how a run goes, so that it tells people when one fails, leaves something out, or is lost.

A run says every minute that it has not ended. A run whose process is killed says nothing any more, which the service
takes for its end. Nothing of this makes a run fail: a service that can't be told now finds out by the silence.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from uuid import UUID, uuid4

from pydantic import ValidationError

from carrel import AsyncCarrel
from carrel.errors import CarrelError
from carrel.wire.alerts import RunOutcome
from carrel.wire.sources import holds_credential
from flows.errors import FlowError, SourceBusyError, SourceError
from flows.operations.jobs import open_client
from flows.operations.sources.reading import source_identity
from flows.operations.summary import Summary
from flows.settings import FlowSettings

_AGAIN_SECONDS = 60.0
_REQUEST_SECONDS = 15.0
_END_SECONDS, _INTERRUPTED_SECONDS = 60.0, 5.0
_LONGEST_NAME = 4096
# Set by flows that Prefect runs.
flow_run_id: ContextVar[UUID | None] = ContextVar("flow_run_id", default=None)


@dataclass
class RunReport:
    """How a run went, as it finds out; `code` is the reason of one that failed.

    `has_begun`: it has read its source, or found what it is over. Who mistypes a path has begun nothing.
    """

    outcome: RunOutcome = RunOutcome.COMPLETED
    has_begun: bool = False
    code: str | None = None
    documents: int | None = None
    quarantined: int | None = None

    def take(self, summary: Summary) -> None:
        """Take the result of a run over a source."""
        self.has_begun = True
        self.documents, self.quarantined = summary.documents, summary.quarantined
        if not summary.complete:
            self.outcome = RunOutcome.QUARANTINE if summary.quarantined else RunOutcome.INCOMPLETE

    def take_problems(self, *, found: bool) -> None:
        """Take whether a run left something undone."""
        self.has_begun = True
        if found:
            self.outcome = RunOutcome.INCOMPLETE


@dataclass(frozen=True, slots=True)
class _Run:
    client: AsyncCarrel
    run_id: UUID
    flow: str
    subject: str
    source: str
    flow_run_id: UUID | None

    async def tell(self, report: RunReport, *, seconds: float) -> None:
        """Report to the service, in at most so many seconds; a service that can't be told is left alone."""
        with suppress(CarrelError, ValidationError, TimeoutError):
            async with asyncio.timeout(seconds):
                await self.client.with_options(timeout=_REQUEST_SECONDS).alerts.report_run(
                    self.run_id,
                    report.outcome,
                    subject=self.subject,
                    flow=self.flow,
                    source=self.source,
                    code=report.code,
                    document_count=report.documents,
                    quarantined_count=report.quarantined,
                    flow_run_id=self.flow_run_id,
                    has_begun=report.has_begun,
                )

    async def tell_again(self, report: RunReport) -> None:
        """Say every minute that the run has not ended, until cancelled."""
        while True:
            await self.tell(RunReport(RunOutcome.RUNNING, report.has_begun), seconds=_AGAIN_SECONDS)
            await asyncio.sleep(_AGAIN_SECONDS)


@asynccontextmanager
async def report_run(settings: FlowSettings, *, flow: str, source: str, within: str = "") -> AsyncGenerator[RunReport]:
    """Report every minute that the run of the block has not ended, and at its end how it went, however it ends.

    `within`: of runs that have a source in common, the collection that tells them apart.
    """
    told_by = f"{settings.base_url}\n{flow}\n{source}\n{within}".encode(errors="backslashreplace")
    subject = hashlib.sha256(told_by).hexdigest()[:24]
    async with open_client(settings) as client:
        run = _Run(client, uuid4(), flow, subject, _name_of(source), flow_run_id.get())
        report, seconds = RunReport(), _END_SECONDS
        going_on = asyncio.create_task(run.tell_again(report))
        try:
            yield report
        except BaseException as exc:
            report.outcome, report.code = _end_of(exc)
            seconds = _END_SECONDS if isinstance(exc, Exception) else _INTERRUPTED_SECONDS
            raise
        finally:
            going_on.cancel()
            await run.tell(report, seconds=seconds)


def name_source(source: str) -> str:
    """Return the name of a source in reports: its normal form, so that one that is spelled otherwise is the same.

    What can't be a source, and so fails, is named as it was given.
    """
    try:
        # Of a folder that is missing, too, so that the run that finds it again ends the alert.
        return source_identity(source).removesuffix("::.").replace("::", "/")
    except (SourceError, OSError, ValueError):
        return source.encode(errors="backslashreplace").decode()


def _end_of(error: BaseException) -> tuple[RunOutcome, str | None]:
    """Return the outcome of a run that an error has ended, and the reason's code."""
    if isinstance(error, SourceBusyError) or not isinstance(error, Exception):
        return RunOutcome.STOPPED, None  # another run is at it, or somebody has stopped this one
    return RunOutcome.FAILED, error.code if isinstance(error, FlowError) else "unexpected"


def _name_of(source: str) -> str:
    """Return what a run is over, without the user and the query of an address, which may hold secrets."""
    if holds_credential(source):
        scheme, _, rest = source.partition("?")[0].partition("://")
        source = f"{scheme}://{rest.rpartition('@')[2]}"
    return source[:_LONGEST_NAME] or "-"
