"""Labels of alerts, deliveries and rules."""

from collections.abc import Mapping

from app.formatting import ago, one_line
from app.ui.links import LinkedText, address
from carrel.wire.alerts import Alert, AlertDelivery, AlertKind, AlertRule, DeliveryStatus
from flows.operations.formatting import count_text

KINDS: Mapping[AlertKind, str] = {
    AlertKind.RUN_FAILED: "A run failed",
    AlertKind.RUN_QUARANTINE: "A run could not load everything",
    AlertKind.SYNC_BEHIND: "A sync is behind",
    AlertKind.SCHEDULE_MISSED: "A schedule was missed",
}
STATUSES: Mapping[DeliveryStatus, str] = {
    DeliveryStatus.PENDING: "Will be tried again",
    DeliveryStatus.DELIVERED: "Delivered",
    DeliveryStatus.FAILED: "Not delivered",
}
MESSAGES: Mapping[str, str] = {
    "alert.began": "Something failed",
    "alert.continues": "It still fails",
    "alert.ended": "It works again",
    "alert.test": "Test",
    "alert.left_out": "Messages were left out",
}


def alert_row(alert: Alert) -> tuple[LinkedText | str, str, str, str]:
    """Return an alert as a table row: what failed, with a link to it, of what, why, and since when."""
    count = alert.quarantined_count
    why = alert.code if count is None else f"{count_text(count, 'item')} not loaded"
    return _link(alert), one_line(about(alert)), why, ago(alert.began_at)


def about(alert: Alert) -> str:
    """Return what an alert is about: a source with the kind of its run and its documents, a sync or a schedule."""
    documents = None if alert.document_count is None else count_text(alert.document_count, "document")
    return " · ".join(part for part in (alert.name, alert.flow, documents) if part)


def _link(alert: Alert) -> LinkedText | str:
    """Return what failed, as a link to the sync or to the run."""
    kind = KINDS[alert.kind]
    if alert.sync_id is not None:
        return LinkedText(kind, address("syncs", sync=str(alert.sync_id)))
    return kind if alert.flow_run_id is None else LinkedText(kind, address("ingestion", run=str(alert.flow_run_id)))


def delivery_row(delivery: AlertDelivery) -> tuple[str, str, str, str]:
    """Return a delivery as a table row: when, what it tells, to whom, and how far it is."""
    last = delivery.attempts[-1] if delivery.attempts else None
    why = f": {last.error}" if last is not None and last.error else ""
    to = "webhook" if delivery.recipient is None else one_line(delivery.recipient.email)
    status = "On its way" if last is None else STATUSES[delivery.status]
    return ago(delivery.created_at), MESSAGES.get(delivery.type, delivery.type), to, f"{status}{why}"


def target_of(rule: AlertRule) -> str:
    """Return where a rule's messages go."""
    return rule.webhook_url or one_line(", ".join(one.email for one in rule.recipients)) or "nobody any more"


def kinds_of(rule: AlertRule) -> str:
    """Return which alerts a rule is about."""
    return "Every alert" if len(rule.kinds) == len(AlertKind) else "; ".join(KINDS[kind] for kind in rule.kinds)
