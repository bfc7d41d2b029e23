"""Reading a query with the values that occur in what the caller may read."""

from collections.abc import Iterable, Mapping

from service.auth.callers import Caller
from service.domains.search.filters import Condition, Kind, parse_as
from service.domains.search.snapshot import Snapshot
from service.domains.search.understanding.drawing import DrawnCondition, Values, draw_conditions, keys_of
from service.domains.search.understanding.queries import ask_values
from service.domains.search.understanding.query_texts import read_query
from service.platform.batches import Batch
from service.platform.clock import Clock


async def draw_readable(
    read: Snapshot, caller: Caller, question: str, fields: Mapping[str, str], *, clock: Clock
) -> list[DrawnCondition]:
    """Return the conditions that a question states on a collection's fields (types by name).

    Values are those of documents that the caller may read in this snapshot: of others nobody learns that they occur.
    """
    asked = read_query(question, fields) if fields else None
    if asked is None:
        return []
    today = (await clock.now(read.connection)).date()
    texts = [name for name, kind in fields.items() if kind == Kind.STRING]
    values = await _find_values(read, caller, keys_of(asked), texts)
    return draw_conditions(asked, today=today, values=values)


async def _find_values(read: Snapshot, caller: Caller, keys: list[str], fields: list[str]) -> Values:
    if not keys:
        return {}
    batch = Batch()
    answer = ask_values(batch, caller, space_id=read.space.space_id, keys=keys, fields=fields)
    await batch.run(read.connection)
    values: dict[str, list[tuple[str, str]]] = {}
    for row in answer.rows:
        values.setdefault(row.key, []).append((row.field, row.value))
    return values


def conditions_of(drawn: Iterable[DrawnCondition], fields: Mapping[str, str]) -> tuple[Condition, ...]:
    """Return drawn conditions as a search takes them."""
    conditions: list[Condition] = []
    for each in drawn:
        kind = Kind(fields[each.field])
        value = parse_as(kind, each.value)
        if value is not None:
            conditions.append(Condition(each.field, each.operator, kind, value))
    return tuple(conditions)
