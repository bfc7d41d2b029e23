"""SQL of term statistics: counting the chunks with a term, appending changes, and folding changes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection
from sqlalchemy.types import TypeEngine

from service.platform.batches import Answer, Batch
from service.platform.sql import ORGANIZATION, count_of, delete_rows, in_array, param, params, unnest_rows
from service.schema.indexing import term_deltas, term_statistics

_TERMS: Any = sa.bindparam("param_terms", type_=sa.ARRAY(sa.Integer()))
_counted = sa.union_all(
    *(
        sa.select(table.c.term, amount.label("amount")).where(
            table.c.organization_id == ORGANIZATION,
            table.c.space_id == param(term_statistics.c.space_id),
            table.c.term == sa.any_(_TERMS),
        )
        for table, amount in ((term_statistics, term_statistics.c.frequency), (term_deltas, term_deltas.c.delta))
    )
).subquery()
_FREQUENCIES = sa.select(
    _counted.c.term, sa.cast(sa.func.sum(_counted.c.amount), sa.BigInteger()).label("chunks")
).group_by(_counted.c.term)


class Frequency(NamedTuple):
    """A term, and the number of chunks with the term."""

    term: int
    chunks: int


def ask_frequencies(batch: Batch, organization_id: UUID, *, space_id: int, terms: Iterable[int]) -> Answer[Frequency]:
    """Count in a batch the chunks of a space with each of these terms, including deltas not yet folded."""
    return batch.ask(_FREQUENCIES, Frequency, params(organization_id, space_id=space_id, terms=list(terms)))


async def read_frequencies(
    connection: Connection, organization_id: UUID, *, space_id: int, terms: Iterable[int]
) -> dict[int, int]:
    batch = Batch()
    counted = ask_frequencies(batch, organization_id, space_id=space_id, terms=terms)
    await batch.run(connection)
    return dict(counted.rows)


OF_DELTAS: dict[str, TypeEngine[Any]] = {"term": sa.Integer(), "delta": sa.Integer()}
_deltas = unnest_rows("deltas", OF_DELTAS)
_values = (sa.cast(_deltas.c[name], each) for name, each in OF_DELTAS.items())
ADD_DELTAS = sa.insert(term_deltas).from_select(
    ["organization_id", "space_id", *OF_DELTAS], sa.select(ORGANIZATION, param(term_deltas.c.space_id), *_values)
)


def sum_changes(changes: Sequence[Mapping[int, int]]) -> list[tuple[int, int]]:
    """Return the summed changes of several documents in order, with a single row for each term."""
    total = Counter[int]()
    for each in changes:
        total.update(each)
    return sorted((term, delta) for term, delta in total.items() if delta)


async def try_lock_statistics(connection: Connection, organization_id: UUID) -> bool:
    """Lock the folding of an organization's deltas until the transaction ends; False when already locked."""
    key = sa.func.hashtextextended(f"carrel.term_statistics {organization_id}", 0)
    return bool((await connection.execute(sa.select(sa.func.pg_try_advisory_xact_lock(key)))).scalar_one())


async def fold_deltas(
    connection: Connection, organization_id: UUID, *, limit: int
) -> tuple[int, Mapping[int, Sequence[int]]]:
    """Fold up to `limit` deltas into statistics, in a single statement, so a reader sees each delta once. Return the
    number of folded deltas, and the terms no longer in any chunk, by space."""
    keys = (term_deltas.c.space_id, term_deltas.c.term, term_deltas.c.delta_id)
    own = term_deltas.c.organization_id == organization_id
    first = sa.tuple_(*keys).in_(sa.select(*keys).where(own).order_by(*keys).limit(limit))
    removed = sa.delete(term_deltas).where(own, first)
    taken = removed.returning(term_deltas.c.space_id, term_deltas.c.term, term_deltas.c.delta).cte("taken")
    term = taken.c.space_id, taken.c.term
    sums = sa.select(*term, sa.literal(organization_id), sa.func.sum(taken.c.delta)).group_by(*term).order_by(*term)
    folding = upsert(term_statistics).from_select(["space_id", "term", "organization_id", "frequency"], sums)
    folded = (
        folding.on_conflict_do_update(
            index_elements=["space_id", "term"],
            set_={"frequency": term_statistics.c.frequency + folding.excluded.frequency},
        )
        .returning(term_statistics.c.space_id, term_statistics.c.term, term_statistics.c.frequency)
        .cte("folded")
    )
    counted = sa.select(count_of(taken).label("deltas")).subquery()
    with_unused = counted.outerjoin(folded, folded.c.frequency == 0)
    statement = sa.select(counted.c.deltas, folded.c.space_id, folded.c.term).select_from(with_unused)
    rows = (await connection.execute(statement)).all()
    unused: dict[int, list[int]] = {}
    for row in rows:
        if row.space_id is not None:
            unused.setdefault(row.space_id, []).append(row.term)
    return rows[0].deltas, unused


async def delete_unused_terms(
    connection: Connection, organization_id: UUID, *, space_id: int, terms: Sequence[int]
) -> None:
    given = in_array(term_statistics.c.term, terms)
    await delete_rows(connection, term_statistics, organization_id, given, space_id=space_id, frequency=0)
