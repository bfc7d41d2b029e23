"""Rules about who is told of alerts, for admins; and what admins see of alerts and deliveries."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire import alerts as wire
from carrel.wire.common import UserPrincipal
from service.alerting import queries as alert_queries
from service.alerting.sending import queries
from service.alerting.sending.queries import ListedDelivery, Recipient, Rule
from service.alerting.sending.task import TEST
from service.alerting.sending.webhooks import check_url, new_secret
from service.alerting.telling import send
from service.audit.service import record, record_all
from service.audit.versions import change_between, refuse_stale
from service.auth.callers import Caller
from service.identity.principals import find_people
from service.identity.queries import lock_organization
from service.platform.errors import BadRequest, Conflict, FieldError, NotFound
from service.platform.identifiers import uuid7
from service.platform.networks import AllowedHosts
from service.platform.sealing import seal
from service.runtime import Runtime
from service.web.pagination import Cursor

TARGET = "alertRule"
MOST_RULES = 100


async def create_rule(
    runtime: Runtime, connection: AsyncConnection, caller: Caller, *, request: wire.AdminAlertRulesCreateRequest
) -> wire.AdminAlertRulesCreateResponse:
    """Make a rule that posts alerts to a web address, or sends them to people of the organization by mail.

    Raises BadRequest `webhook_not_allowed`, `mail_not_set_up` and `unknown_principal`, Conflict `too_many_alert_rules`.
    """
    organization_id = caller.organization_id
    await lock_organization(connection, organization_id)
    if await queries.count_rules(connection, organization_id) >= MOST_RULES:
        message = f"The organization has {MOST_RULES} alert rules already. Delete those that nobody needs."
        raise Conflict(message, code="too_many_alert_rules")
    rule_id, secret = uuid7(), None
    values: dict[str, Any] = {"alert_rule_id": rule_id, "kinds": _in_order(request.kinds), "recipient_ids": []}
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
    shown = await _to_rule(connection, caller, rule)
    return wire.AdminAlertRulesCreateResponse(
        **dict(shown), webhook_secret=None if secret is None else secret.get_secret_value()
    )


async def list_rules(
    runtime: Runtime, connection: AsyncConnection, caller: Caller, *, request: wire.AdminAlertRulesListRequest
) -> wire.AdminAlertRulesListResponse:
    """List the rules about who is told of alerts."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_ALERT_RULES_LIST.path, request=request)
    rows = await queries.list_rules(connection, caller.organization_id, after=cursor.after_id, limit=cursor.limit)
    page = cursor.page(rows, position=lambda row: [str(row.alert_rule_id)])
    people = await _people_of(connection, caller, page.items)
    return wire.AdminAlertRulesListResponse(
        alert_rules=[_describe(row, people) for row in page.items],
        next_page_token=page.next_page_token,
        mail_enabled=runtime.settings.smtp_url is not None,
    )


async def update_rule(
    runtime: Runtime, connection: AsyncConnection, caller: Caller, *, request: wire.AdminAlertRulesUpdateRequest
) -> wire.AdminAlertRulesUpdateResponse:
    """Change what a rule is about, or to whom it sends mail, or let it rest.

    Raises NotFound, and BadRequest as `create_rule`, or `not_a_mail_rule`.
    """
    rule = await _require_rule(connection, caller, request.alert_rule_id, lock=True)
    before = await _to_rule(connection, caller, rule)
    await refuse_stale(connection, caller, request.version, before, target_id=rule.alert_rule_id)
    values: dict[str, Any] = {}
    if request.kinds is not None:
        values["kinds"] = _in_order(request.kinds)
    if request.enabled is not None:
        values["enabled"] = request.enabled
    if request.emails is not None:
        if rule.webhook_url is not None:
            message = "This rule posts to a web address. Make another one for mail."
            raise BadRequest(message, code="not_a_mail_rule", details=[FieldError("emails", message)])
        values["recipient_ids"] = await _recipient_ids(runtime, connection, caller, request.emails)
    if values:
        await queries.update_rule(connection, caller.organization_id, rule_id=rule.alert_rule_id, values=values)
        rule = await _require_rule(connection, caller, rule.alert_rule_id)
    after = await _to_rule(connection, caller, rule)
    if values:
        about = ("alertRule.update", TARGET, rule.alert_rule_id)
        await record_all(connection, caller, changes=[change_between(*about, before, after, details=_details(rule))])
    return wire.AdminAlertRulesUpdateResponse(**dict(after))


async def delete_rule(
    connection: AsyncConnection, caller: Caller, *, request: wire.AdminAlertRulesDeleteRequest
) -> wire.AdminAlertRulesDeleteResponse:
    """Delete a rule with its secret and its deliveries."""
    rule_id = request.alert_rule_id
    rule = await _require_rule(connection, caller, rule_id, lock=True)
    await _record(connection, caller, "delete", rule)
    await queries.delete_rule(connection, caller.organization_id, rule_id=rule_id)
    return wire.AdminAlertRulesDeleteResponse(alert_rule_id=request.alert_rule_id)


async def test_rule(
    runtime: Runtime, connection: AsyncConnection, caller: Caller, *, request: wire.AdminAlertRulesTestRequest
) -> wire.AdminAlertRulesTestResponse:
    """Send a test message by a rule, now and once."""
    rule = await _require_rule(connection, caller, request.alert_rule_id, lock=True)
    await _record(connection, caller, "test", rule)
    return wire.AdminAlertRulesTestResponse(
        delivery_ids=await send(runtime, connection, caller.organization_id, [rule], what=TEST, about={})
    )


async def list_deliveries(
    connection: AsyncConnection, caller: Caller, *, request: wire.AdminAlertRulesListDeliveriesRequest
) -> wire.AdminAlertRulesListDeliveriesResponse:
    """List the deliveries of the last 30 days, newest first, with what came of each attempt."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_ALERT_RULES_LIST_DELIVERIES.path, request=request)
    if request.alert_rule_id is not None:
        await _require_rule(connection, caller, request.alert_rule_id)
    before = cursor.after_id if cursor.after else None
    rows = await queries.list_deliveries(
        connection, caller.organization_id, rule_id=request.alert_rule_id, before=before, limit=cursor.limit
    )
    page = cursor.page(rows, position=lambda row: [str(row.delivery_id)])
    return wire.AdminAlertRulesListDeliveriesResponse(
        deliveries=[_to_delivery(row) for row in page.items], next_page_token=page.next_page_token
    )


async def list_alerts(
    connection: AsyncConnection, caller: Caller, *, request: wire.AdminAlertsListRequest
) -> wire.AdminAlertsListResponse:
    """List what is wrong now, and what was in the last 30 days, newest first."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_ALERTS_LIST.path, request=request)
    before = cursor.after_id if cursor.after else None
    rows = await alert_queries.list_alerts(
        connection, caller.organization_id, is_open=request.only_open, before=before, limit=cursor.limit
    )
    page = cursor.page(rows, position=lambda row: [str(row.alert_id)])
    return wire.AdminAlertsListResponse(
        alerts=[wire.Alert.model_validate(row, from_attributes=True) for row in page.items],
        next_page_token=page.next_page_token,
    )


async def end_alert(
    connection: AsyncConnection, caller: Caller, *, request: wire.AdminAlertsEndRequest
) -> wire.AdminAlertsEndResponse:
    """End an alert whose subject nobody runs any more; nobody is told."""
    alert_id = request.alert_id
    ended = await alert_queries.end_alert(connection, caller.organization_id, alert_id=alert_id)
    alert = await alert_queries.find_alert(connection, caller.organization_id, alert_id=alert_id)
    if alert is None:
        raise NotFound("There is no such alert in this organization.", code="alert_not_found")
    if ended:
        details = {"kind": alert.kind, "code": alert.code}
        await record(connection, caller, "alert.end", "alert", alert_id, details=details)
    return wire.AdminAlertsEndResponse.model_validate(alert, from_attributes=True)


def _in_order(kinds: Collection[wire.AlertKind]) -> list[str]:
    return [str(kind) for kind in wire.AlertKind if kind in kinds]


async def _require_rule(connection: AsyncConnection, caller: Caller, rule_id: UUID, *, lock: bool = False) -> Rule:
    rule = await queries.find_rule(connection, caller.organization_id, rule_id=rule_id, lock=lock)
    if rule is None:
        raise NotFound("There is no such alert rule in this organization.", code="alert_rule_not_found")
    return rule


async def _recipient_ids(
    runtime: Runtime, connection: AsyncConnection, caller: Caller, emails: Collection[str]
) -> list[UUID]:
    """Return the ids of people of the organization, so that nobody else is ever sent mail."""
    if runtime.settings.smtp_url is None:
        message = "The service has no mail server: an operator sets CARREL_SMTP_URL and CARREL_MAIL_FROM."
        raise BadRequest(message, code="mail_not_set_up", details=[FieldError("emails", message)])
    ids = await find_people(connection, caller.organization_id, emails=emails, field="emails")
    people = await queries.list_recipients(connection, caller.organization_id, ids=ids)
    if len(people) < len(ids):
        message = "Mail goes to people, and one of these addresses is a service account's."
        raise BadRequest(message, code="unknown_principal", details=[FieldError("emails", message)])
    return [one.principal_id for one in people]


async def _people_of(connection: AsyncConnection, caller: Caller, rules: Sequence[Rule]) -> dict[UUID, Recipient]:
    ids = {one for rule in rules for one in rule.recipient_ids}
    if not ids:
        return {}
    found = await queries.list_recipients(connection, caller.organization_id, ids=ids)
    return {one.principal_id: one for one in found}


async def _to_rule(connection: AsyncConnection, caller: Caller, rule: Rule) -> wire.AlertRule:
    return _describe(rule, await _people_of(connection, caller, [rule]))


def _describe(rule: Rule, people: dict[UUID, Recipient]) -> wire.AlertRule:
    recipients = [people[one] for one in rule.recipient_ids if one in people]
    return wire.AlertRule(
        alert_rule_id=rule.alert_rule_id,
        kinds=[wire.AlertKind(kind) for kind in rule.kinds],
        webhook_url=rule.webhook_url,
        recipients=[_principal(one.principal_id, one.name, one.email) for one in recipients],
        enabled=rule.enabled,
        created_at=rule.created_at,
    )


def _to_delivery(row: ListedDelivery) -> wire.AlertDelivery:
    has_recipient = row.principal_id is not None and row.email is not None
    recipient = _principal(row.principal_id, row.name or "", row.email or "") if has_recipient else None
    return wire.AlertDelivery.model_validate(asdict(row) | {"recipient": recipient, "next_attempt_at": row.due_at})


def _principal(principal_id: UUID | None, name: str, email: str) -> UserPrincipal:
    return UserPrincipal(id=str(principal_id), name=name, email=email)


async def _record(connection: AsyncConnection, caller: Caller, what: str, rule: Rule) -> None:
    await record(connection, caller, f"alertRule.{what}", TARGET, rule.alert_rule_id, details=_details(rule))


def _details(rule: Rule) -> dict[str, Any]:
    """Describe a rule for the audit log: of a webhook the host alone, since its path may be a secret."""
    host = None if rule.webhook_url is None else urlsplit(rule.webhook_url).hostname
    return {
        "kinds": rule.kinds,
        "enabled": rule.enabled,
        **({"recipientIds": [str(one) for one in rule.recipient_ids]} if host is None else {"host": host}),
    }
