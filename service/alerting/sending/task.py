"""The job of a delivery: an attempt, then retries after pauses for about a day."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.alerts import DeliveryStatus
from carrel.wire.fields import format_instant
from service.alerting.sending import queries
from service.alerting.sending.queries import Delivery
from service.alerting.sending.webhooks import Attempt, post
from service.alerting.wording import one_line, subject_of, text_of
from service.platform import mail
from service.platform.logs import logger
from service.platform.networks import AllowedHosts
from service.platform.secrets import try_unseal
from service.platform.settings import Settings
from service.runtime import Runtime
from service.runtime.jobs.models import Task
from service.runtime.jobs.running import refuse_deadly

# Deliveries have their own queue, so that an unresponsive receiver delays neither replies nor syncs.
ALERTS = "alerts"
WORKERS = 4
# Pauses between attempts: 23.5 hours in all.
PAUSES = tuple(timedelta(seconds=seconds) for seconds in (5, 60, 300, 1800, 3600, 7200, 21_600, 50_000))
KEPT_ATTEMPTS = 10
# A delivery that is overdue by this time has lost its job; at most AT_ONCE of these are retried together.
OVERDUE = timedelta(hours=1)
AT_ONCE = 100
TEST, LEFT_OUT = "alert.test", "alert.left_out"
# The members that a mail shows of an alert, with their labels.
_LABELS: Mapping[str, str] = {
    "name": "What",
    "flow": "Run",
    "documentCount": "Documents",
    "quarantinedCount": "Not loaded",
    "beganAt": "Since",
    "endedAt": "Until",
    "link": "Look at it",
}


async def deliver(runtime: Runtime, *, organization_id: UUID, delivery_id: UUID) -> None:
    """Attempt a delivery, save the result, and schedule a retry after a failure."""
    async with runtime.database.transaction(organization_id) as connection:
        delivery = await queries.find_delivery(connection, organization_id, delivery_id=delivery_id)
    if delivery is None:
        return
    try:
        refuse_deadly()
        attempt = await _attempt(runtime, organization_id, delivery)
    except Exception:  # noqa: BLE001 - whatever it is, the delivery must not stay pending without a job
        logger.exception("alert_delivery_defect", delivery_id=str(delivery_id))
        attempt = Attempt(error="The service failed on this message. Tell an operator.")
    number = delivery.attempt_count + 1
    # An admin waits for a test message, so it is never retried.
    is_over = attempt.is_last or number > len(PAUSES) or delivery.message["type"] == TEST
    pause = None if attempt.error is None or is_over else PAUSES[number - 1]
    async with runtime.database.transaction(organization_id) as connection:
        now = await runtime.clock.now(connection)
        attempts = await queries.read_attempts(connection, organization_id, delivery_id=delivery_id)
        values = {
            "attempts": [*attempts, _to_json(attempt, at=now)][-KEPT_ATTEMPTS:],
            "status": _status(attempt, pause),
            "due_at": None if pause is None else now + pause,
        }
        saved = await queries.save_attempt(
            connection, organization_id, delivery_id=delivery_id, attempt_count=number, values=values
        )
        if saved and pause is not None:
            again = [delivery_id]
            await enqueue_deliveries(runtime, connection, organization_id, delivery_ids=again, pause=pause)
    if attempt.error is not None:
        logger.warning("alert_not_delivered", delivery_id=str(delivery_id), attempt=number, reason=attempt.error)


DELIVER = Task("deliver_alert", deliver, queue=ALERTS)


async def enqueue_deliveries(
    runtime: Runtime,
    connection: Connection,
    organization_id: UUID,
    *,
    delivery_ids: Sequence[UUID],
    pause: timedelta | None = None,
) -> None:
    """Enqueue attempts at deliveries. Organizations take turns, so that few deliveries don't wait for many."""
    before = await queries.count_pending(connection, organization_id) - len(delivery_ids)
    for number, delivery_id in enumerate(delivery_ids, start=before):
        await runtime.jobs.enqueue(
            connection, DELIVER, organization_id=organization_id, pause=pause, priority=-number, delivery_id=delivery_id
        )


async def enqueue_overdue(runtime: Runtime, connection: Connection, organization_id: UUID) -> None:
    """Enqueue up to AT_ONCE deliveries overdue by OVERDUE: they lost their job, as in an outage of the database."""
    ids = await queries.take_overdue(connection, organization_id, overdue=OVERDUE, limit=AT_ONCE)
    if ids:
        await enqueue_deliveries(runtime, connection, organization_id, delivery_ids=ids)


async def _attempt(runtime: Runtime, organization_id: UUID, delivery: Delivery) -> Attempt:
    if not delivery.enabled and delivery.message["type"] != TEST:
        return Attempt(error="The rule is paused.", is_last=True)
    if delivery.webhook_url is None:
        if delivery.email is None or not delivery.active:
            return Attempt(error="This person is no longer active.", is_last=True)
        return await send_mail(runtime.settings, delivery.message, to=delivery.email, delivery_id=delivery.delivery_id)
    key = runtime.keys.webhook_key(organization_id)
    secret = try_unseal(key, row_id=delivery.alert_rule_id, sealed=delivery.sealed_secret)
    if secret is None:
        message = "The webhook's secret was lost with the service's secret key. Delete the rule and create it again."
        return Attempt(error=message, is_last=True)
    body = json.dumps(delivery.message, ensure_ascii=False, separators=(",", ":")).encode()
    allowed = AllowedHosts.of(runtime.settings.webhook_allowed_hosts)
    return await post(delivery.webhook_url, body, message_id=delivery.delivery_id, secret=secret, allowed=allowed)


def _status(attempt: Attempt, pause: timedelta | None) -> DeliveryStatus:
    if attempt.error is None:
        return DeliveryStatus.DELIVERED
    return DeliveryStatus.FAILED if pause is None else DeliveryStatus.PENDING


def _to_json(attempt: Attempt, *, at: datetime) -> Mapping[str, Any]:
    members = {"at": format_instant(at), "statusCode": attempt.status_code, "error": attempt.error}
    members["answer"] = attempt.answer
    return {name: value for name, value in members.items() if value is not None}


async def send_mail(settings: Settings, message: Mapping[str, Any], *, to: str, delivery_id: UUID) -> Attempt:
    subject = one_line(subject_of(message), most=200)
    data = message["data"]
    lines = [f"{label}: {one_line(str(data[name]), most=4096)}" for name, label in _LABELS.items() if name in data]
    why = f"{one_line(data['organization']['name'], most=200)} sends you this mail under an alert rule."
    text = "\n".join([text_of(message), "", *lines, "", why, ""])
    error = await mail.send(settings, to=to, subject=subject, text=text, mail_id=delivery_id)
    return Attempt(error=error, is_last=error == mail.UNFIT)
