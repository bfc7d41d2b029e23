"""Begin and end alerts and notify receivers, in a single transaction; again for a new reason, or after a day."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.alerts import Alert, AlertKind
from carrel.wire.fields import format_instant
from service.alerting import queries
from service.alerting.sending import queries as sending_queries
from service.alerting.sending.queries import Rule
from service.alerting.sending.task import LEFT_OUT, enqueue_deliveries
from service.alerting.wording import text_of
from service.identity.queries import get_organization
from service.platform.identifiers import uuid7
from service.platform.sql import Clock
from service.runtime import Runtime

BEGAN, CONTINUES, ENDED = "alert.began", "alert.continues", "alert.ended"
_MOST_OPEN = 1000
# The workbench page with details for each kind of alert.
_PAGES: Mapping[AlertKind, str] = {
    AlertKind.RUN_FAILED: "ingestion?part=runs",
    AlertKind.RUN_QUARANTINE: "ingestion?part=quarantine",
    AlertKind.SYNC_BEHIND: "syncs",
    AlertKind.SCHEDULE_MISSED: "ingestion?part=schedules",
}
# The members of an alert that a message includes, if the alert has them.
_TOLD = {"flow": "flow", "document_count": "documentCount", "quarantined_count": "quarantinedCount"}


@dataclass(frozen=True, slots=True)
class Telling:
    """Begins and ends an organization's alerts in a transaction, and notifies the receivers of the rules."""

    runtime: Runtime
    connection: Connection
    organization_id: UUID

    async def begin(self, kind: AlertKind, *, subject: str, quiet: bool = False, **values: Any) -> None:
        """Begin an alert about a subject, or update the alert, and notify receivers of news; with `quiet`, only of the
        beginning. `values`: name, code, and other columns of the alert."""
        state = f"{values['code']} {values.setdefault('quarantined_count', None)}"
        await queries.lock_alerts(self.connection, self.organization_id)
        begun = await queries.begin_alert(
            self.connection, self.organization_id, subject=subject, values={"kind": kind, "state": state, **values}
        )
        if begun is not None and (begun[1] or not quiet):
            alert, is_new = begun
            await self._notify(alert, event=BEGAN if is_new else CONTINUES)

    async def end(self, kind: AlertKind, *subjects: str) -> None:
        """End the open alerts of a kind about subjects, and notify receivers of each."""
        await queries.lock_alerts(self.connection, self.organization_id)
        for alert in await queries.end_alerts(self.connection, self.organization_id, kind=kind, subjects=subjects):
            await self._notify(alert, event=ENDED)

    async def end_settled(self) -> None:
        """End alerts about sources and syncs without remaining problems, and notify receivers of each."""
        await queries.lock_alerts(self.connection, self.organization_id)
        for alert in await queries.end_settled(self.connection, self.organization_id):
            await self._notify(alert, event=ENDED)

    async def tell_of_quarantine(self, count: int | None, **values: Any) -> None:
        """Begin or update the alert about failed items (None: an unknown number) unless zero; end settled alerts."""
        if count != 0:
            await self.begin(AlertKind.RUN_QUARANTINE, quarantined_count=count, **values)
        await self.end_settled()

    async def tell_open(self, rule: Rule, *, before: Rule | None = None) -> None:
        """Notify a rule's receivers of open alerts matched by the rule but not by `before`, the earlier rule."""
        await queries.lock_alerts(self.connection, self.organization_id)
        now = await self.runtime.clock.now(self.connection)
        found = await queries.list_alerts(
            self.connection, self.organization_id, is_open=True, before=None, limit=_MOST_OPEN
        )
        for alert in reversed(found):
            is_new = _is_about(rule, alert) and not (before and _is_about(before, alert))
            if is_new and (alert.snoozed_until is None or alert.snoozed_until <= now):
                await self._notify(alert, event=CONTINUES, rule_id=rule.alert_rule_id)

    async def tell_left_out(self) -> None:
        """Make rules with a full hour behind them report how many messages were left out."""
        for rule, left_out in await sending_queries.take_left_out(self.connection, self.organization_id):
            await self.send([rule], event=LEFT_OUT, about={"leftOutCount": left_out, **self._link("health")})

    async def send(
        self, rules: Sequence[Rule], *, event: str, about: Mapping[str, Any], alert_id: UUID | None = None
    ) -> list[UUID]:
        """Enqueue a message from each rule to each of its receivers; return the ids of the deliveries."""
        organization = await get_organization(self.connection, self.organization_id)
        message: dict[str, Any] = {
            "type": event,
            "timestamp": format_instant(await Clock().now(self.connection)),
            "data": {"organization": {"id": str(self.organization_id), "name": organization.name}, **about},
        }
        message["text"] = text_of(message)
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
            await sending_queries.insert_deliveries(self.connection, self.organization_id, rows=rows)
            await enqueue_deliveries(self.runtime, self.connection, self.organization_id, delivery_ids=ids)
        return ids

    def _link(self, page: str) -> dict[str, str]:
        workbench = self.runtime.settings.workbench_url
        return {} if workbench is None else {"link": f"{workbench}/{page}"}

    async def _notify(self, alert: Alert, *, event: str, rule_id: UUID | None = None) -> None:
        rules = await sending_queries.take_rules_about(
            self.connection, self.organization_id, kind=alert.kind, name=alert.name, rule_id=rule_id
        )
        if not rules:
            return
        about = {
            "alertId": str(alert.alert_id),
            "kind": alert.kind,
            "name": alert.name,
            "code": alert.code,
            "beganAt": format_instant(alert.began_at),
            **({} if alert.ended_at is None else {"endedAt": format_instant(alert.ended_at)}),
            **{told: getattr(alert, name) for name, told in _TOLD.items() if getattr(alert, name) is not None},
            **self._link(_page_of(alert)),
        }
        await self.send(rules, event=event, about=about, alert_id=alert.alert_id)


def _is_about(rule: Rule, alert: Alert) -> bool:
    return rule.enabled and alert.kind in rule.kinds and (not rule.names or alert.name in rule.names)


def _page_of(alert: Alert) -> str:
    """Return the workbench page about an alert: the sync or run, else the page for the kind."""
    if alert.sync_id is not None:
        return f"syncs?sync={alert.sync_id}"
    if alert.kind is AlertKind.RUN_FAILED and alert.flow_run_id is not None:
        return f"ingestion?run={alert.flow_run_id}"
    return _PAGES[alert.kind] + (f"&source={alert.source_id}" if alert.source_id else "")
