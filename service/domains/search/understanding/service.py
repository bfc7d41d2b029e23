"""Reading a query with known values from readable documents: by the language model, or by rules."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.collections import FieldType
from carrel.wire.search import CollectionSearchOptions, DrawnFilter, FilterOperator
from service.auth.callers import Caller
from service.domains.documents.collections.filters import Condition, parse_as
from service.domains.documents.collections.queries import StoredCollection
from service.domains.search.snapshot import Snapshot
from service.domains.search.understanding import checking
from service.domains.search.understanding.drawing import Values, draw_conditions, keys_of
from service.domains.search.understanding.extraction import extract_questions
from service.domains.search.understanding.folding import fold
from service.domains.search.understanding.queries import ask_values
from service.domains.search.understanding.query_texts import read_query
from service.identity.queries import ask_organization
from service.platform.batches import Batch
from service.platform.sql import Clock
from service.runtime import Runtime

LONGEST_READ = 2000  # characters of a query for the language model; from a longer text, rules take the questions

_TOO_LONG = f"Read by rules: the query has more than {LONGEST_READ:,} characters."
_LEFT_OUT = (
    "Some conditions from the language model were left out. Their field or value does not exist, or the query "
    "does not clearly ask for them. Set these filters yourself."
)


@dataclass(frozen=True, slots=True)
class Understood:
    """The reading of a query before the search. `conditions` are None if rules draw conditions in the snapshot,
    `questions` empty if the query is searched for as it is. `note` reports the parts left to the rules."""

    questions: Sequence[str] = ()
    conditions: Sequence[DrawnFilter] | None = None
    note: str | None = None

    @property
    def by_model(self) -> bool | None:
        """True when the language model read the query."""
        return True if self.conditions is not None else None


@dataclass(frozen=True, slots=True)
class Filtering:
    """The question that may state filters, with fields (types by name); `conditions` if already read."""

    question: str
    fields: Mapping[str, str]
    conditions: Sequence[DrawnFilter] | None = None


def ask_whether_model(batch: Batch, runtime: Runtime, organization_id: UUID) -> Callable[[], bool]:
    """Decide in a batch whether the model reads queries: if configured, and enabled by the organization."""
    if runtime.models.default is None:
        return bool
    settings = ask_organization(batch, organization_id)
    return lambda: settings.row is not None and settings.row.enable_query_model


async def understand(
    runtime: Runtime,
    caller: Caller,
    query: str,
    collection: StoredCollection,
    options: CollectionSearchOptions,
    *,
    own: Collection[str],
    asks_model: bool,
) -> Understood:
    """Return a query's conditions (not on the request's `own` fields) and questions, without a transaction."""
    by_rules = Understood(extract_questions(query) if options.enable_query_extraction else ())
    model = runtime.models.default
    if model is None or not asks_model:
        return by_rules
    if len(query) > LONGEST_READ:
        return replace(by_rules, note=_TOO_LONG)
    wants_filters = bool(options.enable_smart_filtering)
    fields = {name: kind for name, kind in collection.fields.items() if name not in own} if wants_filters else {}
    keys = checking.keys_to_find(query, fields)
    async with runtime.database.transaction(caller.organization_id, read_only=True) as connection:
        today = (await runtime.clock.now(connection)).date()
        values = await _find_values(connection, caller, collection.space_id, keys, fields)
    if not _load_by_model.cache_info().currsize:
        await asyncio.to_thread(_load_by_model)
    from service.domains.search.understanding import by_model  # noqa: PLC0415 - see `_load_by_model`

    try:
        reading = await by_model.read_by_model(model, query, fields=fields, values=values, today=today)
    except by_model.NotReadError as error:
        return replace(by_rules, note=str(error))
    conditions = checking.check_conditions(reading.conditions, query, fields=fields, values=values, today=today)
    questions = checking.check_questions(reading.questions, query) if options.enable_query_extraction else ()
    applied = {_said(each) for each in conditions}
    note = _LEFT_OUT if any(_said(each) not in applied for each in reading.conditions) else None
    return Understood(questions, conditions, note)


@cache
def _load_by_model() -> None:
    """Import the code for models, a slow step. The first query in need does so, off the event loop."""
    import_module("service.domains.search.understanding.by_model")


def _said(each: DrawnFilter | checking.StatedCondition) -> tuple[str, str, str]:
    """Return a condition in a normal form: "not true" is "false"."""
    value = fold(each.value)
    if each.operator is FilterOperator.NOT_EQUAL and value == "true":
        return each.field, FilterOperator.EQUAL, "false"
    return each.field, each.operator, value


async def draw_readable(read: Snapshot, caller: Caller, filtering: Filtering, *, clock: Clock) -> list[DrawnFilter]:
    """Return the conditions of a query, from values readable by the caller; none for several questions."""
    if len(read.search_queries) > 1:
        return []
    if filtering.conditions is not None:
        return list(filtering.conditions)
    asked = read_query(filtering.question, filtering.fields) if filtering.fields else None
    if asked is None:
        return []
    today = (await clock.now(read.connection)).date()
    values = await _find_values(read.connection, caller, read.space.space_id, keys_of(asked), filtering.fields)
    return draw_conditions(asked, today=today, values=values)


async def _find_values(
    connection: Connection, caller: Caller, space_id: int, keys: list[str], fields: Mapping[str, str]
) -> Values:
    texts = [name for name, kind in fields.items() if kind == FieldType.STRING]
    if not keys or not texts:
        return {}
    batch = Batch()
    answer = ask_values(batch, caller, space_id=space_id, keys=keys, fields=texts)
    await batch.run(connection)
    values: dict[str, list[tuple[str, str]]] = {}
    for row in answer.rows:
        values.setdefault(row.key, []).append((row.field, row.value))
    return values


def conditions_of(drawn: Iterable[DrawnFilter], fields: Mapping[str, str]) -> tuple[Condition, ...]:
    typed = ((each, FieldType(fields[each.field])) for each in drawn)
    parsed = ((each, kind, parse_as(kind, each.value)) for each, kind in typed)
    return tuple(Condition(each.field, each.operator, kind, value) for each, kind, value in parsed if value is not None)
