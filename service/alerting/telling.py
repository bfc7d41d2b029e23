"""Begin and end alerts and tell receivers, in one transaction; told again for a new reason, or after a day."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.alerts import AlertKind
from carrel.wire.fields import format_instant
from service.alerting import queries
from service.alerting.queries import StoredAlert
from service.alerting.sending import queries as sending_queries
from service.alerting.sending.queries import Rule
from service.alerting.sending.task import LEFT_OUT, enqueue_deliveries
from service.identity.queries import get_organization
from service.platform.clock import Clock
from service.platform.identifiers import uuid7
from service.runtime import Runtime

BEGAN, CONTINUES, ENDED = "alert.began", "alert.continues", "alert.ended"
# Where people see more of it, in the workbench.
_PAGES: Mapping[AlertKind, str] = {
    AlertKind.RUN_FAILED: "ingestion?part=runs",
    AlertKind.RUN_QUARANTINE: "ingestion?part=quarantine",
    AlertKind.SYNC_BEHIND: "syncs",
    AlertKind.SCHEDULE_MISSED: "ingestion?part=schedules",
}


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """What a run has told of itself: its kind, its id on the Prefect server, and how many documents its source has."""

    flow: str | None = None
    flow_run_id: UUID | None = None
    document_count: int | None = None


async def begin_alert(
    runtime: Runtime,
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    kind: AlertKind,
    subject: str,
    name: str,
    code: str,
    quarantined_count: int | None = None,
    run: ReportedRun | None = None,
) -> None:
    """Begin an alert about a subject, or note that it is still so, and tell of it where that is news."""
    values = {
        "kind": kind,
        "name": name,
        "code": code,
        "state": f"{code} {quarantined_count}",
        "quarantined_count": quarantined_count,
        **asdict(run or ReportedRun()),
    }
    alert = await queries.begin_alert(connection, organization_id, subject=subject, values=values)
    if alert is not None:
        is_new = alert.told_at == alert.began_at
        await _tell(runtime, connection, organization_id, alert, what=BEGAN if is_new else CONTINUES)


async def end_alerts(
    runtime: Runtime,
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    kinds: Sequence[AlertKind],
    subjects: Sequence[str],
) -> None:
    """End the alerts of these kinds about these subjects, and tell of each."""
    for alert in await queries.end_alerts(connection, organization_id, kinds=kinds, subjects=subjects):
        await _tell(runtime, connection, organization_id, alert, what=ENDED)


async def send(
    runtime: Runtime,
    connection: AsyncConnection,
    organization_id: UUID,
    rules: Sequence[Rule],
    *,
    what: str,
    about: Mapping[str, Any],
    alert_id: UUID | None = None,
) -> list[UUID]:
    """Have a message sent by each of the rules, to each of its receivers; return the ids of the deliveries."""
    organization = await get_organization(connection, organization_id)
    message = {
        "type": what,
        "timestamp": format_instant(await Clock().now(connection)),
        "data": {"organization": {"id": str(organization_id), "name": organization.name}, **about},
    }
    rows = [
        {
            "delivery_id": uuid7(),
            "alert_rule_id": rule.alert_rule_id,
            "alert_id": alert_id,
            "recipient_id": recipient_id,
            "message": message,
        }
        for rule in rules
        for recipient_id in ([None] if rule.webhook_url is not None else rule.recipient_ids)
    ]
    ids = [UUID(str(row["delivery_id"])) for row in rows]
    if rows:
        await sending_queries.insert_deliveries(connection, organization_id, rows=rows)
        await enqueue_deliveries(runtime, connection, organization_id, delivery_ids=ids)
    return ids


async def tell_left_out(runtime: Runtime, connection: AsyncConnection, organization_id: UUID) -> None:
    """Have each rule that sent all it may in an hour that is over say how many messages it left out."""
    for rule, left_out in await sending_queries.take_left_out(connection, organization_id):
        workbench = runtime.settings.workbench_url
        about = {"leftOutCount": left_out, **({} if workbench is None else {"link": f"{workbench}/health"})}
        await send(runtime, connection, organization_id, [rule], what=LEFT_OUT, about=about)


async def _tell(
    runtime: Runtime, connection: AsyncConnection, organization_id: UUID, alert: StoredAlert, *, what: str
) -> None:
    rules = await sending_queries.take_rules_about(connection, organization_id, kind=alert.kind)
    if not rules:
        return
    workbench = runtime.settings.workbench_url
    about = {
        "alertId": str(alert.alert_id),
        "kind": alert.kind,
        "name": alert.name,
        "code": alert.code,
        "beganAt": format_instant(alert.began_at),
        **({} if alert.ended_at is None else {"endedAt": format_instant(alert.ended_at)}),
        **({} if alert.quarantined_count is None else {"quarantinedCount": alert.quarantined_count}),
        **({} if alert.flow is None else {"flow": alert.flow}),
        **({} if alert.document_count is None else {"documentCount": alert.document_count}),
        **({} if workbench is None else {"link": f"{workbench}/{_page_of(alert)}"}),
    }
    await send(runtime, connection, organization_id, rules, what=what, about=about, alert_id=alert.alert_id)


def _page_of(alert: StoredAlert) -> str:
    """Return the page of the workbench about an alert: of its sync, or its run if what failed to load isn't shown."""
    if alert.sync_id is not None:
        return f"syncs?sync={alert.sync_id}"
    if alert.kind is AlertKind.RUN_FAILED and alert.flow_run_id is not None:
        return f"ingestion?run={alert.flow_run_id}"
    return _PAGES[alert.kind]
