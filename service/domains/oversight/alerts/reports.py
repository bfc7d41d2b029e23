"""Reports renew the lease of an unfinished run or a served schedule; a watch alerts about expired leases."""

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import alerts as wire
from service.alerting import queries
from service.alerting.sending import queries as sending_queries
from service.alerting.telling import Telling
from service.auth.callers import Caller
from service.identity.queries import organization_ids
from service.platform.background import for_each_organization
from service.platform.errors import Conflict
from service.runtime import Runtime

AGAIN_SECONDS = 60
LEASE = timedelta(seconds=5 * AGAIN_SECONDS)
# A schedule is missed if it has not started this long after its time.
GRACE = timedelta(minutes=15)
MOST_LEASES = 10_000
# The most expired leases in one transaction.
AT_ONCE = 100
LOST, MISSED = "run_lost", "schedule_missed"
_CODES: Mapping[wire.RunOutcome, str] = {
    wire.RunOutcome.FAILED: "run_failed",
    wire.RunOutcome.INCOMPLETE: "run_incomplete",
    wire.RunOutcome.QUARANTINE: "run_quarantine",
}


async def report_run(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.ReportRunRequest
) -> wire.ReportRunResponse:
    """Report a run as still in progress or ended, so failures raise an alert. 409 `too_many_reports`."""
    goes_on = request.outcome is wire.RunOutcome.RUNNING
    await _refuse_too_many(connection, caller, kind=wire.AlertKind.RUN_FAILED, subjects=[request.subject])
    values = {
        "name": request.source,
        "run_id": request.run_id,
        "flow": request.flow,
        "flow_run_id": request.flow_run_id,
    }
    lasts = LEASE if goes_on else None
    is_new = request.is_partial or await queries.save_run(
        connection, caller, subject=request.subject, values=values, lasts=lasts
    )
    if is_new and not goes_on:
        await _end_run(Telling(runtime, connection, caller.organization_id), caller, request)
    return wire.ReportRunResponse(run_id=request.run_id, report_again_seconds=AGAIN_SECONDS if goes_on else None)


async def report_schedules(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.ReportSchedulesRequest
) -> wire.ReportSchedulesResponse:
    """Report the due times of schedules, so missed starts raise an alert. 409 `too_many_reports`."""
    subjects = [schedule.subject for schedule in request.schedules]
    await _refuse_too_many(connection, caller, kind=wire.AlertKind.SCHEDULE_MISSED, subjects=subjects)
    now = await runtime.clock.now(connection)
    rows = [
        {"subject": one.subject, "name": one.name, "expires_at": _missed_at(one.due_at)} for one in request.schedules
    ]
    forgotten = await queries.delete_other_schedules(connection, caller, subjects=subjects)
    await queries.save_schedules(connection, caller, rows=rows)
    on_time = [item.subject for item in request.schedules if _missed_at(item.due_at) > now]
    ended = [_subject(caller.principal_id, item) for item in (*on_time, *forgotten)]
    await Telling(runtime, connection, caller.organization_id).end(wire.AlertKind.SCHEDULE_MISSED, *ended)
    return wire.ReportSchedulesResponse(report_again_seconds=AGAIN_SECONDS)


async def _end_run(to: Telling, caller: Caller, request: wire.ReportRunRequest) -> None:
    """Begin or end the alerts about an ended run and about its source's quarantine."""
    subject, outcome, whole = _subject(caller.principal_id, request.subject), request.outcome, not request.is_partial
    # A retry of some items says nothing about the whole source, so an open alert keeps its members.
    run = {name: getattr(request, name) for name in ("flow", "flow_run_id", "document_count") if whole}
    run["name"] = request.source
    if whole and outcome in {wire.RunOutcome.COMPLETED, wire.RunOutcome.QUARANTINE}:
        await to.end(wire.AlertKind.RUN_FAILED, subject)
    elif whole and outcome in _CODES:
        await to.begin(wire.AlertKind.RUN_FAILED, subject=subject, code=request.code or _CODES[outcome], **run)
    found = await queries.find_quarantine(to.connection, caller, ledger=request.ledger)
    count = request.quarantined_count if whole and outcome is wire.RunOutcome.QUARANTINE else 0
    if found is not None and (found[1] or count == 0):  # else the run could not report its quarantine
        source = f"{queries.SOURCE}{found[0]}"
        if found[1]:
            await queries.move_alert(
                to.connection, to.organization_id, kind=wire.AlertKind.RUN_QUARANTINE, subject=subject, to=source
            )
        else:
            await to.end(wire.AlertKind.RUN_QUARANTINE, subject)
        subject, count = source, found[1]
    elif whole and outcome in {wire.RunOutcome.COMPLETED, wire.RunOutcome.INCOMPLETE}:
        await to.end(wire.AlertKind.RUN_QUARANTINE, subject)
    await to.tell_of_quarantine(count, subject=subject, code=_CODES[wire.RunOutcome.QUARANTINE], **run)


def _missed_at(due_at: datetime) -> datetime:
    """Return the time when a schedule counts as missed; the calendar ends with the year 9999."""
    return due_at + min(GRACE, datetime.max.replace(tzinfo=UTC) - due_at)


async def _refuse_too_many(
    connection: Connection, caller: Caller, *, kind: wire.AlertKind, subjects: Collection[str]
) -> None:
    """Refuse reports of new subjects beyond the limit; known subjects are never refused."""
    others = await queries.count_other_leases(connection, caller, kind=kind, subjects=subjects)
    if others + len(subjects) > MOST_LEASES:
        message = f"The organization has {MOST_LEASES:,} reported runs and schedules, which is the limit."
        raise Conflict(message, code="too_many_reports")


def _subject(principal_id: object, subject: str) -> str:
    """Return a subject's name, unique per caller, so no caller can end another caller's alerts."""
    return f"{principal_id}/{subject}"


async def begin_expired(runtime: Runtime, connection: Connection, organization_id: UUID) -> None:
    """Begin alerts for up to AT_ONCE expired leases, once until the next report."""
    for lease in await queries.take_expired(connection, organization_id, limit=AT_ONCE):
        await Telling(runtime, connection, organization_id).begin(
            lease.kind,
            subject=_subject(lease.principal_id, lease.subject),
            name=lease.name,
            code=LOST if lease.kind is wire.AlertKind.RUN_FAILED else MISSED,
            flow=lease.flow,
            flow_run_id=lease.flow_run_id,
        )


EVERY_SECONDS = 30
# After an outage of the service or its database, every reporter gets this much longer.
_PATIENCE_SECONDS = 2.5 * AGAIN_SECONDS
_GAP_SECONDS = 3 * EVERY_SECONDS

Check = Callable[[Runtime, Connection, UUID], Awaitable[None]]
"""Begins an organization's alerts for overdue reports, or sends overdue messages."""


class Watch:
    """Makes checks in every organization, after the service has run long enough for reports to arrive."""

    def __init__(self, runtime: Runtime, *, checks: Sequence[Check]) -> None:
        self._runtime = runtime
        self._checks = checks
        self._looked_at = self._since = time.monotonic()

    async def look(self) -> None:
        """Make each check in a transaction of its own, unless the service just started or was paused."""
        runtime = self._runtime

        async def look_in(organization_id: UUID) -> None:
            for check in self._checks:
                async with runtime.database.transaction(organization_id) as connection:
                    await check(runtime, connection, organization_id)

        ids = await organization_ids(runtime.database)
        now = time.monotonic()
        if now - self._looked_at > _GAP_SECONDS:
            self._since = now
        self._looked_at = now
        if now - self._since >= _PATIENCE_SECONDS:
            await for_each_organization(ids, look_in)


async def purge(connection: Connection, organization_id: UUID) -> None:
    """Delete deliveries over 30 days old, and alerts ended more than 30 days ago."""
    await sending_queries.delete_old_deliveries(connection, organization_id)
    await queries.delete_old(connection, organization_id)
