"""Labels of alerts, deliveries and rules."""

from collections.abc import Mapping

from app.formatting import ago, one_line
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
}


def alert_row(alert: Alert) -> tuple[str, str, str, str]:
    """Return an alert as a table row: what failed, of what, why, and since when."""
    count = alert.quarantined_count
    why = alert.code if count is None else f"{count_text(count, 'item')} not loaded"
    return KINDS[alert.kind], one_line(alert.name), why, ago(alert.began_at)


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
