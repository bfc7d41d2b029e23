"""SQL of rules and deliveries."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, any_, case, func, literal, null, or_, select, text, update
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.alerts import AlertDelivery, AlertKind, AlertRule, DeliveryStatus
from service.alerting.queries import KEPT
from service.identity.queries import user_as
from service.platform import sql
from service.platform.identifiers import NIL
from service.platform.sql import columns_of, count_rows, find_row, find_rows, in_array, matches, optional, rows_after
from service.schema.alerts import alert_deliveries, alert_rules
from service.schema.identity import principals

# The most messages that a rule sends in an hour, each to all its receivers. A last message says how many were left out.
MOST_MESSAGES = 20
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. Messages go to `webhook_url`, or by mail to the people in `recipient_ids`."""

    alert_rule_id: UUID
    kinds: list[str]
    names: list[str]
    webhook_url: str | None
    sealed_secret: bytes | None
    recipient_ids: list[UUID]
    enabled: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery to attempt, with facts of the rule and recipient."""

    delivery_id: UUID
    message: dict[str, Any]
    attempt_count: int
    created_at: datetime
    alert_rule_id: UUID
    webhook_url: str | None
    sealed_secret: bytes | None
    enabled: bool
    email: str | None
    active: bool | None


def _is_delivery(organization_id: UUID, delivery_id: UUID) -> ColumnElement[bool]:
    return matches(alert_deliveries, organization_id, delivery_id=delivery_id, status=DeliveryStatus.PENDING)


async def count_rules(connection: Connection, organization_id: UUID) -> int:
    return await count_rows(connection, alert_rules.c.organization_id == organization_id)


async def insert_rule(connection: Connection, organization_id: UUID, *, values: Mapping[str, Any]) -> None:
    await connection.execute(insert(alert_rules).values({**values, "organization_id": organization_id}))


async def find_rule(connection: Connection, organization_id: UUID, *, rule_id: UUID, lock: bool = False) -> Rule | None:
    own = matches(alert_rules, organization_id, alert_rule_id=rule_id)
    statement = select(*columns_of(alert_rules, Rule)).where(own)
    return await find_row(connection, statement.with_for_update() if lock else statement, Rule)


async def list_rules(
    connection: Connection, organization_id: UUID, after: UUID = NIL, limit: int = 1, *, rule_id: UUID | None = None
) -> list[AlertRule]:
    """List rules, oldest first, with recipients; or only the rule with id `rule_id`."""
    ids = alert_rules.c.recipient_ids
    recipient = user_as("recipient", principals.c.principal_id)
    order = func.array_position(ids, principals.c.principal_id)
    people = select(func.coalesce(func.jsonb_agg(aggregate_order_by(recipient.element, order)), text("'[]'::jsonb")))
    own = principals.c.organization_id == organization_id
    people = people.where(own, principals.c.principal_id == any_(ids)).scalar_subquery().label("recipients")
    chosen = alert_rules.c.organization_id == organization_id, optional(alert_rules.c.alert_rule_id, rule_id)
    statement = select(*columns_of(alert_rules, AlertRule, people)).where(*chosen)
    statement = rows_after(statement, alert_rules.c.alert_rule_id, after=after, limit=limit)
    return await find_rows(connection, statement, AlertRule)


async def take_rules_about(
    connection: Connection, organization_id: UUID, *, kind: AlertKind, name: str, rule_id: UUID | None
) -> list[Rule]:
    """Return enabled rules for an alert with a message left this hour, and count a message. Needs `lock_alerts`."""
    rule = alert_rules.c
    is_over = rule.hour_began_at.is_(None) | ((rule.hour_began_at < func.now() - HOUR) & (rule.left_out_count == 0))
    may_send = or_(is_over, rule.sent_count < MOST_MESSAGES)
    statement = (
        update(alert_rules)
        .where(
            rule.organization_id == organization_id,
            rule.enabled,
            literal(str(kind)) == any_(rule.kinds),
            or_(func.cardinality(rule.names) == 0, literal(name) == any_(rule.names)),
            *([] if rule_id is None else [rule.alert_rule_id == rule_id]),
        )
        .values(
            hour_began_at=case((is_over, func.now()), else_=rule.hour_began_at),
            sent_count=case((is_over, 1), (may_send, rule.sent_count + 1), else_=rule.sent_count),
            left_out_count=case((may_send, rule.left_out_count), else_=rule.left_out_count + 1),
        )
        .returning(*columns_of(alert_rules, Rule), rule.left_out_count)
    )
    rows = (await connection.execute(statement)).mappings().all()
    # Send the notice about left-out messages first, once the rule's hour is over.
    sending = [dict(row) for row in rows if not row["left_out_count"]]
    return [_to_rule(**row)[0] for row in sorted(sending, key=lambda row: row["alert_rule_id"])]


async def take_left_out(connection: Connection, organization_id: UUID) -> list[tuple[Rule, int]]:
    """Return the rules that left messages out during a past hour, with the number. A new hour begins for each."""
    rule = alert_rules.c
    found = (
        select(*columns_of(alert_rules, Rule), rule.left_out_count)
        .where(
            rule.organization_id == organization_id,
            rule.enabled,
            rule.left_out_count > 0,
            rule.hour_began_at < func.now() - HOUR,
        )
        .order_by(rule.alert_rule_id)
        .with_for_update(key_share=True, skip_locked=True)
    )
    rules = await find_rows(connection, found, _to_rule)
    statement = update(alert_rules).where(
        rule.organization_id == organization_id, in_array(rule.alert_rule_id, [item.alert_rule_id for item, _ in rules])
    )
    await connection.execute(statement.values(hour_began_at=func.now(), sent_count=1, left_out_count=0))
    return rules


def _to_rule(*, left_out_count: int, **columns: Any) -> tuple[Rule, int]:
    return Rule(**columns), left_out_count


async def update_rule(
    connection: Connection, organization_id: UUID, *, rule_id: UUID, values: Mapping[str, Any]
) -> None:
    await sql.update_rows(connection, alert_rules, organization_id, values, alert_rule_id=rule_id)


async def delete_rule(connection: Connection, organization_id: UUID, *, rule_id: UUID) -> None:
    await sql.delete_rows(connection, alert_rules, organization_id, alert_rule_id=rule_id)


async def list_people(connection: Connection, organization_id: UUID, *, ids: Collection[UUID]) -> Sequence[UUID]:
    """Return those of the ids that belong to users, active or not, in the order of addresses."""
    own = matches(principals, organization_id, kind="user"), in_array(principals.c.principal_id, ids)
    statement = select(principals.c.principal_id).where(*own).order_by(principals.c.email)
    return (await connection.execute(statement)).scalars().all()


async def insert_deliveries(
    connection: Connection, organization_id: UUID, *, rows: Sequence[Mapping[str, Any]]
) -> None:
    of_them = {"organization_id": organization_id, "due_at": func.now()}
    await connection.execute(insert(alert_deliveries).values([{**row, **of_them} for row in rows]))


async def count_pending(connection: Connection, organization_id: UUID) -> int:
    return await count_rows(connection, matches(alert_deliveries, organization_id, status=DeliveryStatus.PENDING))


async def find_delivery(connection: Connection, organization_id: UUID, *, delivery_id: UUID) -> Delivery | None:
    """Return a delivery to attempt; None after its end, or if the rule was deleted."""
    statement = (
        select(
            *columns_of(
                alert_deliveries,
                Delivery,
                alert_rules.c.webhook_url,
                alert_rules.c.sealed_secret,
                alert_rules.c.enabled,
                principals.c.email,
                principals.c.active,
            )
        )
        .join(alert_rules, alert_rules.c.alert_rule_id == alert_deliveries.c.alert_rule_id)
        .outerjoin(principals, principals.c.principal_id == alert_deliveries.c.recipient_id)
        .where(_is_delivery(organization_id, delivery_id))
    )
    return await find_row(connection, statement, Delivery)


async def send_again(connection: Connection, organization_id: UUID, *, delivery_id: UUID) -> UUID | None:
    """Make a delivery due now, even after success. Return its rule; None if the delivery doesn't exist."""
    condition = matches(alert_deliveries, organization_id, delivery_id=delivery_id)
    statement = update(alert_deliveries).where(condition).values(status=DeliveryStatus.PENDING, due_at=func.now())
    return (await connection.execute(statement.returning(alert_deliveries.c.alert_rule_id))).scalar_one_or_none()


async def take_overdue(
    connection: Connection, organization_id: UUID, *, overdue: timedelta, limit: int
) -> Sequence[UUID]:
    """Return deliveries overdue by `overdue`, once each, and make them due now."""
    found = (
        select(alert_deliveries.c.delivery_id)
        .where(
            matches(alert_deliveries, organization_id, status=DeliveryStatus.PENDING),
            alert_deliveries.c.due_at < func.now() - overdue,
        )
        .order_by(alert_deliveries.c.delivery_id)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    statement = (
        update(alert_deliveries)
        .where(alert_deliveries.c.organization_id == organization_id, alert_deliveries.c.delivery_id.in_(found))
        .values(due_at=func.now())
    )
    return (await connection.execute(statement.returning(alert_deliveries.c.delivery_id))).scalars().all()


async def save_attempt(
    connection: Connection, organization_id: UUID, *, delivery_id: UUID, attempt_count: int, values: Mapping[str, Any]
) -> bool:
    """Save the result of attempt number `attempt_count`. Return False if already saved, or if the delivery is gone."""
    values = {"attempt_count": attempt_count, **values}
    is_next = _is_delivery(organization_id, delivery_id), alert_deliveries.c.attempt_count == attempt_count - 1
    return await sql.update_rows(connection, alert_deliveries, organization_id, values, *is_next) > 0


async def read_attempts(connection: Connection, organization_id: UUID, *, delivery_id: UUID) -> list[dict[str, Any]]:
    """Return the recorded attempts at a pending delivery, oldest first; empty for another delivery."""
    statement = select(alert_deliveries.c.attempts).where(_is_delivery(organization_id, delivery_id))
    return (await connection.execute(statement)).scalar_one_or_none() or []


async def list_deliveries(
    connection: Connection, organization_id: UUID, *, rule_id: UUID | None, before: UUID | None, limit: int
) -> list[AlertDelivery]:
    """List deliveries, newest first, each with the recipient."""
    recipient_id = alert_deliveries.c.recipient_id
    named = (
        alert_deliveries.c.message["type"].astext.label("type"),
        case((recipient_id.is_not(None), user_as("recipient", recipient_id)), else_=null()).label("recipient"),
        alert_deliveries.c.due_at.label("next_attempt_at"),
    )
    statement = (
        select(*columns_of(alert_deliveries, AlertDelivery, *named))
        .outerjoin(principals, principals.c.principal_id == alert_deliveries.c.recipient_id)
        .where(alert_deliveries.c.organization_id == organization_id)
        .where(optional(alert_deliveries.c.alert_rule_id, rule_id))
        .order_by(alert_deliveries.c.delivery_id.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.where(alert_deliveries.c.delivery_id < before)
    return await find_rows(connection, statement, AlertDelivery)


async def delete_old_deliveries(connection: Connection, organization_id: UUID) -> None:
    is_old = alert_deliveries.c.created_at < func.now() - KEPT
    await sql.delete_rows(connection, alert_deliveries, organization_id, is_old)
