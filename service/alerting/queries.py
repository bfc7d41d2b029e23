"""SQL of alerts and of expected reports; `sending.queries` has the SQL of rules and deliveries."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Uuid, and_, case, cast, delete, exists, func, null, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.alerts import Alert, AlertKind
from service.alerting.wording import reason_of
from service.auth.callers import Caller
from service.platform import sql
from service.platform.identifiers import to_uuid, uuid7
from service.platform.sql import as_member, columns_of, count_rows, delete_rows, find_row, find_rows, in_array, matches
from service.schema.alerts import alert_leases, alerts
from service.schema.catalog import docstore_failures, docstore_syncs, sources
from service.schema.identity import principals

# People are reminded of an unchanged alert after this time.
TOLD_AGAIN_AFTER = timedelta(days=1)
# How long ended alerts, deliveries and leases are kept.
KEPT = timedelta(days=30)
# The subject of an alert about a source's quarantine is this prefix and the source's id.
SOURCE = "source/"
_SUBJECT_ID = f"^(?:{SOURCE})?([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})$"


@dataclass(frozen=True, slots=True)
class Lease:
    """An expected report, now overdue."""

    principal_id: UUID
    kind: AlertKind
    subject: str
    name: str
    expires_at: datetime
    flow: str | None
    flow_run_id: UUID | None


_ALERT = (
    *(alerts.c[name] for name in Alert.model_fields if name in alerts.c and name not in {"kind", "acknowledged_by"}),
    alerts.c.subject,
    as_member(alerts.c.kind, AlertKind),
    select(principals.c.name)
    .where(
        matches(principals, alerts.c.organization_id, principal_id=alerts.c.acknowledged_by),
        alerts.c.acknowledged_at.is_not(None),
    )
    .correlate(alerts)
    .scalar_subquery()
    .label("acknowledged_by"),
)


def _to_alert(*, subject: str, **columns: Any) -> Alert:
    # Other subjects belong to runs (see `reports`) and schedules.
    source_id = to_uuid(subject.removeprefix(SOURCE)) if subject.startswith(SOURCE) else None
    reason = reason_of(columns["code"], columns["quarantined_count"])
    return Alert(**columns, text=reason, sync_id=to_uuid(subject), source_id=source_id)


async def begin_alert(
    connection: Connection, organization_id: UUID, *, subject: str, values: Mapping[str, Any]
) -> tuple[Alert, bool] | None:
    """Begin or update the alert about a subject. Return the alert, and whether it is new, if people must be notified;
    otherwise None. People are notified of a new state, and a day after the last message unless the alert is
    acknowledged; never while it is snoozed. A new state clears the acknowledgement."""
    row = {"alert_id": uuid7(), "organization_id": organization_id, "subject": subject, **values}
    statement = insert(alerts).values(row)
    new = statement.excluded
    changed, is_known = alerts.c.state != new.state, alerts.c.acknowledged_at.is_not(None)
    is_due = and_(alerts.c.told_at < func.now() - TOLD_AGAIN_AFTER, ~is_known)
    is_told = and_(or_(changed, is_due), func.coalesce(alerts.c.snoozed_until, func.now()) <= func.now())
    upsert = statement.on_conflict_do_update(
        index_elements=["organization_id", "kind", "subject"],
        index_where=text("ended_at IS NULL"),
        set_={
            **{name: new[name] for name in values if name not in {"kind", "state"}},
            "state": case((is_told, new.state), else_=alerts.c.state),
            "told_at": case((is_told, func.now()), else_=alerts.c.told_at),
            "acknowledged_at": case((changed, null()), else_=alerts.c.acknowledged_at),
        },
    ).returning(
        *_ALERT,
        (alerts.c.told_at == func.now()).label("is_told"),
        (alerts.c.told_at == alerts.c.began_at).label("is_new"),
    )
    row = dict((await connection.execute(upsert)).mappings().one())
    is_told, is_new = row.pop("is_told"), row.pop("is_new")
    return (_to_alert(**row), is_new) if is_told else None


async def end_alerts(
    connection: Connection, organization_id: UUID, *, kind: AlertKind, subjects: Collection[str]
) -> list[Alert]:
    condition = matches(alerts, organization_id, kind=kind), in_array(alerts.c.subject, subjects)
    statement = update(alerts).where(*condition, alerts.c.ended_at.is_(None)).values(ended_at=func.now())
    return await find_rows(connection, statement.returning(*_ALERT), _to_alert)


async def move_alert(connection: Connection, organization_id: UUID, *, kind: AlertKind, subject: str, to: str) -> None:
    """Move the open alert to another subject; end the alert if the new subject already has an open alert."""
    await lock_alerts(connection, organization_id)
    other, is_open = alerts.alias(), alerts.c.ended_at.is_(None)
    is_taken = exists().where(matches(other, organization_id, kind=kind, subject=to), other.c.ended_at.is_(None))
    about = matches(alerts, organization_id, kind=kind, subject=subject)
    await connection.execute(update(alerts).where(about, is_open, ~is_taken).values(subject=to))
    await end_alerts(connection, organization_id, kind=kind, subjects=[subject])


async def lock_alerts(connection: Connection, organization_id: UUID) -> None:
    """Serialize changes to an organization's alerts until the transaction ends, to prevent deadlocks."""
    key = func.hashtextextended(f"carrel.alerts {organization_id}", 0)
    await connection.execute(select(func.pg_advisory_xact_lock(key)))


async def end_settled(connection: Connection, organization_id: UUID) -> list[Alert]:
    """End and return the open alerts about sources and syncs with everything loaded, or deleted."""
    own, subject = alerts.c.organization_id == organization_id, alerts.c.subject
    is_source, is_sync = subject.startswith(SOURCE), ~subject.contains("/")
    # Compare ids as UUIDs, so that PostgreSQL uses the tables' indexes.
    subject_id = cast(func.substring(subject, _SUBJECT_ID), Uuid)
    source = exists().where(sources.c.source_id == subject_id, sources.c.item_count > 0)
    source = source.where(sources.c.organization_id == organization_id)
    failure, sync = (
        exists().where(matches(table, organization_id), table.c.sync_id == subject_id)
        for table in (docstore_failures, docstore_syncs)
    )
    settled = or_(
        and_(is_source, ~source),
        and_(is_sync, alerts.c.kind == AlertKind.RUN_QUARANTINE, ~failure),
        and_(is_sync, alerts.c.kind == AlertKind.SYNC_BEHIND, ~sync),
    )
    statement = update(alerts).where(own, alerts.c.ended_at.is_(None), settled).values(ended_at=func.now())
    return await find_rows(connection, statement.returning(*_ALERT), _to_alert)


async def find_quarantine(connection: Connection, caller: Caller, *, ledger: str | None) -> tuple[UUID, int] | None:
    """Return the id of the caller's source with this ledger, and the number of its quarantined items."""
    own = matches(sources, caller.organization_id, principal_id=caller.principal_id, ledger=ledger)
    row = (await connection.execute(select(sources.c.source_id, sources.c.item_count).where(own))).one_or_none()
    return None if row is None else (row.source_id, row.item_count)


async def update_alert(
    connection: Connection, organization_id: UUID, *, alert_id: UUID, values: Mapping[str, Any]
) -> bool:
    """Set columns of an open alert. Return False if the alert was not open."""
    is_open = alerts.c.ended_at.is_(None)
    return await sql.update_rows(connection, alerts, organization_id, values, is_open, alert_id=alert_id) > 0


async def find_alert(connection: Connection, organization_id: UUID, *, alert_id: UUID) -> Alert | None:
    statement = select(*_ALERT).where(matches(alerts, organization_id, alert_id=alert_id))
    return await find_row(connection, statement, _to_alert)


async def list_alerts(
    connection: Connection, organization_id: UUID, *, is_open: bool, before: UUID | None, limit: int
) -> list[Alert]:
    """List alerts, newest first; with `is_open`, only open alerts."""
    statement = select(*_ALERT).where(alerts.c.organization_id == organization_id)
    if is_open:
        statement = statement.where(alerts.c.ended_at.is_(None))
    if before is not None:
        statement = statement.where(alerts.c.alert_id < before)
    return await find_rows(connection, statement.order_by(alerts.c.alert_id.desc()).limit(limit), _to_alert)


async def delete_old(connection: Connection, organization_id: UUID) -> None:
    """Delete alerts `KEPT` after their end, or after the last message if open; and leases of runs ended as long ago."""
    old = func.now() - KEPT
    await delete_rows(connection, alerts, organization_id, func.coalesce(alerts.c.ended_at, alerts.c.told_at) < old)
    done = alert_leases.c.expires_at.is_(None), alert_leases.c.reported_at < old
    await delete_rows(connection, alert_leases, organization_id, *done)


def _is_own(caller: Caller, kind: AlertKind) -> ColumnElement[bool]:
    return matches(alert_leases, caller.organization_id, principal_id=caller.principal_id, kind=kind)


async def count_other_leases(
    connection: Connection, caller: Caller, *, kind: AlertKind, subjects: Collection[str]
) -> int:
    """Count the organization's leases, except the caller's leases of this kind about these subjects."""
    own = and_(_is_own(caller, kind), in_array(alert_leases.c.subject, subjects))
    return await count_rows(connection, alert_leases.c.organization_id == caller.organization_id, ~own)


async def save_run(
    connection: Connection, caller: Caller, *, subject: str, values: Mapping[str, Any], lasts: timedelta | None
) -> bool:
    """Save a run's deadline, or (None) its end; False if it had ended. `values`: name, run_id, flow, flow_run_id."""
    row = {
        "organization_id": caller.organization_id,
        "principal_id": caller.principal_id,
        "kind": AlertKind.RUN_FAILED,
        "subject": subject,
        **values,
        "expires_at": null() if lasts is None else func.now() + lasts,
    }
    statement = insert(alert_leases).values(row)
    new = statement.excluded
    upsert = statement.on_conflict_do_update(
        index_elements=["principal_id", "kind", "subject"],
        set_={**{name: new[name] for name in values}, "expires_at": new.expires_at, "reported_at": func.now()},
        where=or_(alert_leases.c.run_id.is_distinct_from(new.run_id), alert_leases.c.expires_at.is_not(None)),
    )
    return (await connection.execute(upsert.returning(alert_leases.c.subject))).one_or_none() is not None


async def save_schedules(connection: Connection, caller: Caller, *, rows: Sequence[Mapping[str, Any]]) -> None:
    """Save the start times expected of schedules (rows: subject, name, expires_at)."""
    of_them = {
        "organization_id": caller.organization_id,
        "principal_id": caller.principal_id,
        "kind": AlertKind.SCHEDULE_MISSED,
    }
    if not rows:
        return
    statement = insert(alert_leases).values([{**of_them, **row} for row in rows])
    new = statement.excluded
    # An expired lease stays expired until its work starts: only a later time replaces it.
    expires_at = case(
        (and_(alert_leases.c.expires_at.is_(None), new.expires_at < func.now()), null()), else_=new.expires_at
    )
    await connection.execute(
        statement.on_conflict_do_update(
            index_elements=["principal_id", "kind", "subject"],
            set_={"name": new.name, "expires_at": expires_at, "reported_at": func.now()},
        )
    )


async def delete_other_schedules(connection: Connection, caller: Caller, *, subjects: Collection[str]) -> Sequence[str]:
    """Delete the leases of the caller's schedules, except of these subjects; return the subjects of the deleted."""
    statement = delete(alert_leases).where(
        _is_own(caller, AlertKind.SCHEDULE_MISSED), ~in_array(alert_leases.c.subject, subjects)
    )
    return (await connection.execute(statement.returning(alert_leases.c.subject))).scalars().all()


async def take_expired(connection: Connection, organization_id: UUID, *, limit: int) -> list[Lease]:
    """Return up to `limit` expired leases, once each until the next report."""
    expired = (
        select(alert_leases.c.principal_id, alert_leases.c.kind, alert_leases.c.subject, alert_leases.c.expires_at)
        .where(alert_leases.c.organization_id == organization_id, alert_leases.c.expires_at < func.now())
        .order_by(alert_leases.c.expires_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte("expired")
    )
    statement = (
        update(alert_leases)
        .where(
            matches(
                alert_leases,
                organization_id,
                principal_id=expired.c.principal_id,
                kind=expired.c.kind,
                subject=expired.c.subject,
            )
        )
        .values(expires_at=null(), run_id=null())
        .returning(
            *columns_of(
                alert_leases, Lease, as_member(alert_leases.c.kind, AlertKind), expired.c.expires_at.label("expires_at")
            )
        )
    )
    return await find_rows(connection, statement, Lease)
