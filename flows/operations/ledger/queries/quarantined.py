"""What did not get into the catalog, over all runs."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    delete,
    func,
    or_,
    select,
    update,
)

from flows.operations.ledger.queries.common import AnyRow, Values, insert_into
from flows.operations.ledger.tables import quarantine


def quarantine_items(connection: Connection, values: Sequence[Values]) -> None:
    """Keep items; what is ignored stays so while its fingerprint is the same."""
    statement = insert_into(connection, quarantine)
    new = statement.excluded
    same = quarantine.c.fingerprint == new.fingerprint
    fresh = {
        name: new[name]
        for name in ("scan", "position", "place", "external_id", "code", "message", "fingerprint", "for_good")
    }
    fresh |= {
        "ignored": and_(quarantine.c.ignored, same),
        "since": case((same, quarantine.c.since), else_=new.since),
    }
    connection.execute(statement.on_conflict_do_update(index_elements=["source_id", "part", "key"], set_=fresh), values)


def release(connection: Connection, source_id: int, *, part: int, key: bytes) -> None:
    """Take one item out of the quarantine."""
    which = and_(quarantine.c.source_id == source_id, quarantine.c.part == part, quarantine.c.key == key)
    connection.execute(delete(quarantine).where(which))


def release_unseen(connection: Connection, source_id: int, *, scan: int) -> None:
    """Take out what this scan has not come upon: it is gone from the source, or it is well."""
    connection.execute(delete(quarantine).where(quarantine.c.source_id == source_id, quarantine.c.scan != scan))


def failures(
    connection: Connection, source_id: int, *, scan: int, after: tuple[int, int, str] | None, limit: int
) -> Sequence[AnyRow]:
    """Return what this scan has in quarantine: problems in the source's order, then documents by external id."""
    name = func.coalesce(quarantine.c.external_id, "")
    found = select(quarantine).where(
        quarantine.c.source_id == source_id, quarantine.c.scan == scan, quarantine.c.ignored.is_(False)
    )
    return connection.execute(
        _behind(found, after, [quarantine.c.part, quarantine.c.position, name]).limit(limit)
    ).all()


def _behind(found: Select[Any], after: Sequence[Any] | None, order: Sequence[ColumnElement[Any]]) -> Select[Any]:
    """Order by these columns and, when `after` is given, begin behind it."""
    if after is not None:
        part, position, name = order
        at_part, at_position, at_name = after
        found = found.where(
            or_(
                part > at_part,
                and_(part == at_part, position > at_position),
                and_(part == at_part, position == at_position, name > at_name),
            )
        )
    return found.order_by(*order)


def find_quarantined(connection: Connection, source_id: int, *, keys: Sequence[bytes]) -> set[bytes]:
    """Return which of these keys are in quarantine, of documents or of places, ignored or not."""
    found = select(quarantine.c.key).where(quarantine.c.source_id == source_id, quarantine.c.key.in_(keys))
    return set(connection.execute(found).scalars())


def list_quarantine(
    connection: Connection, source_id: int, *, after: tuple[int, int, str] | None, limit: int
) -> Sequence[AnyRow]:
    """Return what of a source is in quarantine, ignored or not: problems first, then documents by external id."""
    name = func.coalesce(quarantine.c.external_id, quarantine.c.place)
    found = select(quarantine, name.label("name")).where(quarantine.c.source_id == source_id)
    return connection.execute(
        _behind(found, after, [quarantine.c.part, quarantine.c.position, name]).limit(limit)
    ).all()


def keys_of_name(connection: Connection, source_id: int, *, name: str, key: bytes) -> list[bytes]:
    """Return the keys of what is in quarantine under an external id or a place (whose own key is `key`)."""
    named = or_(quarantine.c.key == key, and_(quarantine.c.part == 0, quarantine.c.external_id == name))
    found = select(quarantine.c.key).where(quarantine.c.source_id == source_id, named)
    return list(connection.execute(found).scalars())


def set_ignored(connection: Connection, source_id: int, *, keys: Sequence[bytes], ignored: bool) -> None:
    """Ignore what is in quarantine under these keys, or ignore it no more."""
    which = and_(quarantine.c.source_id == source_id, quarantine.c.key.in_(keys))
    connection.execute(update(quarantine).where(which).values(ignored=ignored))


def count_codes(connection: Connection, source_id: int, *, scan: int) -> Sequence[AnyRow]:
    """Return (code, number) of what this scan has in quarantine."""
    found = select(quarantine.c.code, func.count().label("number")).where(
        quarantine.c.source_id == source_id, quarantine.c.scan == scan, quarantine.c.ignored.is_(False)
    )
    return connection.execute(found.group_by(quarantine.c.code)).all()


def count_problems(connection: Connection, source_id: int, *, scan: int) -> Sequence[AnyRow]:
    """Return (ignored, number) of what this scan found that can't be a document."""
    found = select(quarantine.c.ignored, func.count().label("number")).where(
        quarantine.c.source_id == source_id, quarantine.c.scan == scan, quarantine.c.part == 0
    )
    return connection.execute(found.group_by(quarantine.c.ignored)).all()


def problems_named(connection: Connection, source_id: int, *, scan: int, names: Sequence[str]) -> set[str]:
    """Return which of these external ids the scan has come upon as what can't be a document."""
    found = select(quarantine.c.external_id).where(
        quarantine.c.source_id == source_id,
        quarantine.c.part == 0,
        quarantine.c.scan == scan,
        quarantine.c.external_id.in_(names),
    )
    return {str(name) for name in connection.execute(found).scalars()}


def problems_hiding(connection: Connection, source_id: int, *, scan: int, codes: Sequence[str]) -> Sequence[AnyRow]:
    """Return (number, one place) of what this scan could not see into: without an external id, or of these codes."""
    found = select(func.count().label("number"), func.min(quarantine.c.place).label("place")).where(
        quarantine.c.source_id == source_id,
        quarantine.c.part == 0,
        quarantine.c.scan == scan,
        or_(quarantine.c.external_id.is_(None), quarantine.c.code.in_(codes)),
    )
    return connection.execute(found).all()
