"""Rules for sending alerts, for admins; and admins' view of alerts and deliveries."""

from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import alerts as wire
from carrel.wire.fields import format_instant
from service.alerting import queries as alert_queries
from service.alerting.sending import queries
from service.alerting.sending.queries import Rule
from service.alerting.sending.task import TEST, enqueue_deliveries
from service.alerting.sending.webhooks import check_url, new_secret
from service.alerting.telling import Telling
from service.audit.service import record, record_all
from service.audit.versions import change_between, refuse_stale
from service.auth.callers import Caller
from service.identity.principals import find_people
from service.identity.queries import lock_organization
from service.platform.errors import BadRequest, Conflict, FieldError, NotFound, require
from service.platform.identifiers import uuid7
from service.platform.networks import AllowedHosts
from service.platform.secrets import seal
from service.runtime import Runtime
from service.web.pagination import Cursor

TARGET = "alertRule"
MOST_RULES = 100


async def create_rule(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminAlertRulesCreateRequest
) -> wire.AdminAlertRulesCreateResponse:
    """Create a rule for sending alerts to a web address or by mail, and send the open alerts. 400, 409 at the limit."""
    organization_id = caller.organization_id
    await lock_organization(connection, organization_id)
    if await queries.count_rules(connection, organization_id) >= MOST_RULES:
        message = f"The organization has {MOST_RULES} alert rules, which is the limit. Delete unused rules."
        raise Conflict(message, code="too_many_alert_rules")
    rule_id, secret = uuid7(), None
    values: dict[str, Any] = {"alert_rule_id": rule_id, "kinds": _in_order(request.kinds), "recipient_ids": []}
    values["names"] = sorted(set(request.names))
    if request.webhook_url is not None:
        check_url(request.webhook_url, AllowedHosts.of(runtime.settings.webhook_allowed_hosts))
        secret = new_secret()
        sealed = seal(runtime.keys.webhook_key(organization_id), row_id=rule_id, secret=secret)
        values |= {"webhook_url": request.webhook_url, "sealed_secret": sealed}
    else:
        values["recipient_ids"] = await _recipient_ids(runtime, connection, caller, request.emails or ())
    await queries.insert_rule(connection, organization_id, values=values)
    rule = await _require_rule(connection, caller, rule_id)
    await _record(connection, caller, "create", rule)
    await Telling(runtime, connection, organization_id).tell_open(rule)
    shown = await _describe(connection, caller, rule)
    return wire.AdminAlertRulesCreateResponse(
        **dict(shown), webhook_secret=None if secret is None else secret.get_secret_value()
    )


async def list_rules(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminAlertRulesListRequest
) -> wire.AdminAlertRulesListResponse:
    """List the rules for sending alerts."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_ALERT_RULES_LIST.path, request=request)
    rows = await queries.list_rules(connection, caller.organization_id, *cursor.window)
    mail_enabled = runtime.settings.smtp_url is not None
    return cursor.answer(wire.AdminAlertRulesListResponse, rows, "alert_rule_id", mail_enabled=mail_enabled)


async def update_rule(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminAlertRulesUpdateRequest
) -> wire.AdminAlertRulesUpdateResponse:
    """Change or pause a rule, and send the newly covered open alerts. 404, 400, 409 for a stale version."""
    rule = await _require_rule(connection, caller, request.alert_rule_id, lock=True)
    before = await _describe(connection, caller, rule)
    await refuse_stale(connection, caller, request.version, before, target_id=rule.alert_rule_id)
    values: dict[str, Any] = {}
    if request.kinds is not None:
        values["kinds"] = _in_order(request.kinds)
    if request.enabled is not None:
        values["enabled"] = request.enabled
    if request.names is not None:
        values["names"] = sorted(set(request.names))
    if request.webhook_url is not None:
        if rule.webhook_url is None:
            message = "This rule sends mail. Create another rule for a web address."
            raise BadRequest(message, code="not_a_webhook_rule", details=[FieldError("webhookUrl", message)])
        check_url(request.webhook_url, AllowedHosts.of(runtime.settings.webhook_allowed_hosts))
        values["webhook_url"] = request.webhook_url
    if request.emails is not None:
        if rule.webhook_url is not None:
            message = "This rule posts to a web address. Create another rule for mail."
            raise BadRequest(message, code="not_a_mail_rule", details=[FieldError("emails", message)])
        values["recipient_ids"] = await _recipient_ids(runtime, connection, caller, request.emails)
    if values:
        await queries.update_rule(connection, caller.organization_id, rule_id=rule.alert_rule_id, values=values)
        former, rule = rule, await _require_rule(connection, caller, rule.alert_rule_id)
        await Telling(runtime, connection, caller.organization_id).tell_open(rule, before=former)
    after = await _describe(connection, caller, rule)
    if values:
        about = ("alertRule.update", TARGET, rule.alert_rule_id)
        await record_all(connection, caller, changes=[change_between(*about, before, after, details=_details(rule))])
    return wire.AdminAlertRulesUpdateResponse(**dict(after))


async def delete_rule(
    connection: Connection, caller: Caller, *, request: wire.AdminAlertRulesDeleteRequest
) -> wire.AdminAlertRulesDeleteResponse:
    """Delete a rule with its secret and its deliveries; 404 if unknown."""
    rule_id = request.alert_rule_id
    await _record(connection, caller, "delete", await _require_rule(connection, caller, rule_id, lock=True))
    await queries.delete_rule(connection, caller.organization_id, rule_id=rule_id)
    return wire.AdminAlertRulesDeleteResponse(alert_rule_id=request.alert_rule_id)


async def test_rule(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminAlertRulesTestRequest
) -> wire.AdminAlertRulesTestResponse:
    """Send a test message by a rule, once and immediately; 404 for an unknown rule."""
    rule = await _require_rule(connection, caller, request.alert_rule_id, lock=True)
    await _record(connection, caller, "test", rule)
    to = Telling(runtime, connection, caller.organization_id)
    return wire.AdminAlertRulesTestResponse(delivery_ids=await to.send([rule], event=TEST, about={}))


async def send_again(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminAlertRulesSendAgainRequest
) -> wire.AdminAlertRulesSendAgainResponse:
    """Send a message again, delivered or not; 404 for an unknown delivery."""
    organization_id, delivery_id = caller.organization_id, request.delivery_id
    message = "There is no such delivery. List the deliveries with admin/alertRules/listDeliveries."
    unknown = NotFound(message, code="alert_delivery_not_found")
    rule_id = require(await queries.send_again(connection, organization_id, delivery_id=delivery_id), unknown)
    await enqueue_deliveries(runtime, connection, organization_id, delivery_ids=[delivery_id])
    await _record(connection, caller, "send_again", await _require_rule(connection, caller, rule_id))
    return wire.AdminAlertRulesSendAgainResponse(delivery_id=delivery_id)


async def list_deliveries(
    connection: Connection, caller: Caller, *, request: wire.AdminAlertRulesListDeliveriesRequest
) -> wire.AdminAlertRulesListDeliveriesResponse:
    """List the deliveries of the last 30 days, newest first, with the outcome of each attempt."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_ALERT_RULES_LIST_DELIVERIES.path, request=request)
    if request.alert_rule_id is not None:
        await _require_rule(connection, caller, request.alert_rule_id)
    before = cursor.after_id if cursor.after else None
    rows = await queries.list_deliveries(
        connection, caller.organization_id, rule_id=request.alert_rule_id, before=before, limit=cursor.limit
    )
    return cursor.answer(wire.AdminAlertRulesListDeliveriesResponse, rows, "delivery_id")


async def list_alerts(
    connection: Connection, caller: Caller, *, request: wire.AdminAlertsListRequest
) -> wire.AdminAlertsListResponse:
    """List open alerts, and alerts of the last 30 days, newest first."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_ALERTS_LIST.path, request=request)
    before = cursor.after_id if cursor.after else None
    rows = await alert_queries.list_alerts(
        connection, caller.organization_id, is_open=request.only_open, before=before, limit=cursor.limit
    )
    return cursor.answer(wire.AdminAlertsListResponse, rows, "alert_id")


async def end_alert(
    connection: Connection, caller: Caller, *, request: wire.AdminAlertsEndRequest
) -> wire.AdminAlertsEndResponse:
    """End an open alert for a subject no longer run by anyone, without notification; 404 if unknown."""
    values = {"ended_at": func.now()}
    return wire.AdminAlertsEndResponse(**await _change_alert(connection, caller, request.alert_id, "end", values))


async def update_alert(
    connection: Connection, caller: Caller, *, request: wire.AdminAlertsUpdateRequest
) -> wire.AdminAlertsUpdateResponse:
    """Acknowledge or snooze an open alert: no notifications until then. An ended alert stays; 404 if unknown."""
    values: dict[str, Any] = {}
    if request.acknowledged is not None:
        values["acknowledged_at"] = func.now() if request.acknowledged else None
        values["acknowledged_by"] = caller.principal_id
    if request.snoozed_until is not None:
        values["snoozed_until"] = request.snoozed_until
    return wire.AdminAlertsUpdateResponse(**await _change_alert(connection, caller, request.alert_id, "update", values))


async def _change_alert(
    connection: Connection, caller: Caller, alert_id: UUID, action: str, values: dict[str, Any]
) -> dict[str, Any]:
    """Change an open alert, with audit, and return its members; an ended alert stays. NotFound if unknown."""
    organization_id = caller.organization_id
    changed = values and await alert_queries.update_alert(connection, organization_id, alert_id=alert_id, values=values)
    found = await alert_queries.find_alert(connection, organization_id, alert_id=alert_id)
    message = "There is no such alert. List the alerts with admin/alerts/list."
    alert = require(found, NotFound(message, code="alert_not_found"))
    if changed:
        details = {"kind": alert.kind, "code": alert.code}
        if action == "update":
            details |= {
                "acknowledged": alert.acknowledged_at is not None,
                "snoozedUntil": alert.snoozed_until and format_instant(alert.snoozed_until),
            }
        await record(connection, caller, f"alert.{action}", "alert", alert_id, details=details)
    return dict(alert)


def _in_order(kinds: Collection[wire.AlertKind]) -> list[str]:
    return [str(kind) for kind in wire.AlertKind if kind in kinds]


async def _require_rule(connection: Connection, caller: Caller, rule_id: UUID, *, lock: bool = False) -> Rule:
    rule = await queries.find_rule(connection, caller.organization_id, rule_id=rule_id, lock=lock)
    message = "There is no such alert rule. List the rules with admin/alertRules/list."
    return require(rule, NotFound(message, code="alert_rule_not_found"))


async def _recipient_ids(
    runtime: Runtime, connection: Connection, caller: Caller, emails: Collection[str]
) -> list[UUID]:
    """Return the ids of people in the organization, so no mail goes outside; BadRequest for others, or without mail."""
    if runtime.settings.smtp_url is None:
        message = "The service has no mail server. Ask an operator to set CARREL_SMTP_URL and CARREL_MAIL_FROM."
        raise BadRequest(message, code="mail_not_set_up", details=[FieldError("emails", message)])
    ids = await find_people(connection, caller.organization_id, emails=emails, field="emails")
    people = await queries.list_people(connection, caller.organization_id, ids=ids)
    if len(people) < len(ids):
        message = "An address belongs to a service account, which gets no mail. Use addresses of people."
        raise BadRequest(message, code="unknown_principal", details=[FieldError("emails", message)])
    return list(people)


async def _describe(connection: Connection, caller: Caller, rule: Rule) -> wire.AlertRule:
    [shown] = await queries.list_rules(connection, caller.organization_id, rule_id=rule.alert_rule_id)
    return shown


async def _record(connection: Connection, caller: Caller, what: str, rule: Rule) -> None:
    await record(connection, caller, f"alertRule.{what}", TARGET, rule.alert_rule_id, details=_details(rule))


def _details(rule: Rule) -> dict[str, Any]:
    """Describe a rule for the audit log. For a webhook, give only the host, because the path may be a secret."""
    host = None if rule.webhook_url is None else urlsplit(rule.webhook_url).hostname
    return {
        "kinds": rule.kinds,
        "names": rule.names,
        "enabled": rule.enabled,
        **({"recipientIds": [str(item) for item in rule.recipient_ids]} if host is None else {"host": host}),
    }
