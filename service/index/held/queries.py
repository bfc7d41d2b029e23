"""SQL of held codes: all codes of a space, and those that have changed since."""

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.index.held.codes import ClassPages
from service.index.spaces.queries import Space
from service.platform.batches import Answer, Batch
from service.platform.sql import ORGANIZATION, param, params
from service.schema.indexing import CHUNKS_PER_PAGE, INDEX_TABLES

# So many pages of an access class are sent as one value, at most.
PAGES_AT_ONCE = 1024
_NOTHING: sa.ColumnElement[bytes] = sa.literal_column("''::bytea", sa.LargeBinary())
_SNAPSHOT = sa.cast(sa.func.txid_current_snapshot(), sa.Text()).label("snapshot")
# A number that no transaction has here yet comes from another server, with a backup: such a page has not changed since.
_IS_NEW = (
    "changed_in >= txid_snapshot_xmin(CAST(:since AS txid_snapshot))"
    " AND changed_in < txid_snapshot_xmax(txid_current_snapshot())"
    " AND NOT txid_visible_in_snapshot(changed_in, CAST(:since AS txid_snapshot))"
)


@lru_cache(8)
def _build(dimensions: int, *, is_changed: bool = False) -> sa.Select[*tuple[Any, ...]]:
    """Build the statement of a space's pages as `ClassPages`, in the order of their classes: of all, or of at most
    `most` that this snapshot sees and an earlier one, `since`, doesn't."""
    pages = INDEX_TABLES[dimensions].code_pages
    number = sa.func.row_number().over(order_by=pages.c.access_class)
    own = pages.c.organization_id == ORGANIZATION, pages.c.space_id == param(pages.c.space_id)
    chosen = sa.select(pages, (number // PAGES_AT_ONCE).label("portion")).where(*own)
    if is_changed:
        chosen = chosen.where(sa.text(_IS_NEW)).limit(sa.bindparam("most", type_=sa.Integer()))
    of_page = chosen.subquery("chosen").c
    codes = [of_page[f"c{slot}"] for slot in range(1, CHUNKS_PER_PAGE + 1)]
    numbers = sa.func.int4send(of_page.page_no), sa.func.int4send(sa.func.num_nonnulls(*codes))
    places = _join([sa.func.uuid_send(of_page.document_id), *numbers]).label("places")
    codes = _join([sa.func.coalesce(sa.func.bit_send(code), _NOTHING) for code in codes]).label("codes")
    order = of_page.access_class, of_page.portion
    return sa.select(of_page.access_class, places, codes, _SNAPSHOT).group_by(*order).order_by(*order)


def _join(values: Sequence[Any]) -> sa.ColumnElement[bytes]:
    return sa.func.string_agg(reduce(lambda joined, value: joined.op("||")(value), values), _NOTHING)


def ask_changes(batch: Batch, organization_id: UUID, space: Space, *, since: str, most: int) -> Answer[ClassPages]:
    """Ask for at most `most` code pages of a space that this snapshot sees and an earlier snapshot doesn't."""
    given = params(organization_id, space_id=space.space_id) | {"since": since, "most": most}
    return batch.ask(_build(space.dimensions, is_changed=True), ClassPages, given)


async def read_pages(connection: Connection, organization_id: UUID, *, space: Space) -> list[ClassPages]:
    """Read all code pages of a space."""
    given = params(organization_id, space_id=space.space_id)
    async with connection.stream(_build(space.dimensions), given) as rows:
        return [ClassPages(*row) async for row in rows]


async def notes_changes(connection: Connection, *, dimensions: int) -> bool:
    """Tell whether a trigger notes which transaction wrote a code page; not so on several servers."""
    statement = sa.text(
        "SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = CAST(:table AS regclass) AND tgname = 'note_change'"
        " AND tgenabled = 'O')"
    )
    table = INDEX_TABLES[dimensions].code_pages.name
    return (await connection.execute(statement, {"table": table})).scalar_one()
