"""SQL of evaluation sets, their cases, runs and results."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Select,
    Text,
    and_,
    cast,
    delete,
    exists,
    false,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, JSONPATH, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.auth.callers import Caller
from service.platform.sql import columns_of, find_row, find_rows, in_array, optional_in, rows_of
from service.schema.agents import agents
from service.schema.collections import collections
from service.schema.evaluation import evaluation_cases, evaluation_runs, evaluation_sets


@dataclass(frozen=True, slots=True)
class StoredSet:
    """An evaluation set with its counts; `target_name` is that of its collection or agent, None once it is deleted."""

    evaluation_set_id: UUID
    name: str
    collection_id: UUID | None
    agent_id: UUID | None
    target_name: str | None
    case_count: int
    run_count: int
    last_run_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class StoredCase:
    """A case; `judgements` are the grades by external id, `statements` what the reply must say."""

    case_id: UUID
    case_no: int
    question: str
    note: str | None
    judgements: dict[str, int]
    statements: list[str]
    nothing_answers: bool


def _is_set(organization_id: UUID, set_id: UUID) -> ColumnElement[bool]:
    return and_(evaluation_sets.c.organization_id == organization_id, evaluation_sets.c.evaluation_set_id == set_id)


def is_of_set(organization_id: UUID, set_id: UUID | ColumnElement[UUID]) -> ColumnElement[bool]:
    """Build the condition that a case belongs to a set."""
    return and_(evaluation_cases.c.organization_id == organization_id, evaluation_cases.c.evaluation_set_id == set_id)


def is_run(organization_id: UUID, set_id: UUID | ColumnElement[UUID]) -> ColumnElement[bool]:
    """Build the condition that a run is of a set."""
    return and_(evaluation_runs.c.organization_id == organization_id, evaluation_runs.c.evaluation_set_id == set_id)


def _select_sets(organization_id: UUID) -> Select[*tuple[Any, ...]]:
    set_id = evaluation_sets.c.evaluation_set_id
    collection_name = select(collections.c.name).where(
        collections.c.organization_id == organization_id,
        collections.c.collection_id == evaluation_sets.c.collection_id,
    )
    agent_name = select(agents.c.name).where(
        agents.c.organization_id == organization_id,
        agents.c.agent_id == evaluation_sets.c.agent_id,
        agents.c.deleted_at.is_(None),
    )
    cases = select(func.count()).where(is_of_set(organization_id, set_id))
    runs = select(func.count()).where(is_run(organization_id, set_id))
    last_run = select(func.max(evaluation_runs.c.at)).where(is_run(organization_id, set_id))
    named = {
        "target_name": func.coalesce(collection_name.scalar_subquery(), agent_name.scalar_subquery()),
        "case_count": cases.scalar_subquery(),
        "run_count": runs.scalar_subquery(),
        "last_run_at": last_run.scalar_subquery(),
    }
    others = [value.label(name) for name, value in named.items()]
    return select(*columns_of(evaluation_sets, StoredSet, *others)).where(
        evaluation_sets.c.organization_id == organization_id
    )


async def count_sets(connection: AsyncConnection, organization_id: UUID) -> int:
    """Count an organization's sets."""
    statement = select(func.count()).where(evaluation_sets.c.organization_id == organization_id)
    return (await connection.execute(statement)).scalar_one()


async def insert_set(connection: AsyncConnection, caller: Caller, *, row: Mapping[str, object]) -> bool:
    """Add a set; False when its name is taken."""
    values = {**row, "organization_id": caller.organization_id, "created_by": caller.principal_id}
    statement = (
        insert(evaluation_sets)
        .values(values)
        .on_conflict_do_nothing(index_elements=["organization_id", "name"])
        .returning(evaluation_sets.c.evaluation_set_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def collection_exists(connection: AsyncConnection, organization_id: UUID, *, collection_id: UUID) -> bool:
    """Check whether the organization has a collection, whoever may search it."""
    found = exists().where(
        collections.c.organization_id == organization_id, collections.c.collection_id == collection_id
    )
    return (await connection.execute(select(found))).scalar_one()


async def find_set(connection: AsyncConnection, organization_id: UUID, *, set_id: UUID) -> StoredSet | None:
    """Find a set; None when there is none."""
    return await find_row(connection, _select_sets(organization_id).where(_is_set(organization_id, set_id)), StoredSet)


async def list_sets(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    name_contains: str | None,
    agent_id: UUID | None,
    ids: Collection[UUID] | None,
    after: UUID,
    limit: int,
) -> list[StoredSet]:
    """Return sets (of these ids, if any are given) by id."""
    set_id = evaluation_sets.c.evaluation_set_id
    statement = _select_sets(organization_id).where(set_id > after, optional_in(set_id, ids))
    if name_contains:
        statement = statement.where(evaluation_sets.c.name.icontains(name_contains, autoescape=True))
    if agent_id is not None:
        statement = statement.where(evaluation_sets.c.agent_id == agent_id)
    return await find_rows(connection, statement.order_by(set_id).limit(limit), StoredSet)


async def lock_set(connection: AsyncConnection, organization_id: UUID, *, set_id: UUID) -> bool:
    """Lock a set until the transaction ends; False when there is none."""
    statement = select(evaluation_sets.c.evaluation_set_id).where(_is_set(organization_id, set_id)).with_for_update()
    return (await connection.execute(statement)).one_or_none() is not None


async def rename_set(connection: AsyncConnection, organization_id: UUID, *, set_id: UUID, name: str) -> bool:
    """Rename a set that is locked; False when another one has the name."""
    taken = select(evaluation_sets.c.evaluation_set_id).where(
        evaluation_sets.c.organization_id == organization_id,
        evaluation_sets.c.name == name,
        evaluation_sets.c.evaluation_set_id != set_id,
    )
    if (await connection.execute(select(exists(taken)))).scalar_one():
        return False
    await connection.execute(update(evaluation_sets).where(_is_set(organization_id, set_id)).values(name=name))
    return True


async def delete_set(connection: AsyncConnection, organization_id: UUID, *, set_id: UUID) -> None:
    """Delete a set with its cases, runs and results."""
    await connection.execute(delete(evaluation_sets).where(_is_set(organization_id, set_id)))


async def save_cases(
    connection: AsyncConnection, organization_id: UUID, *, set_id: UUID, rows: Sequence[Mapping[str, object]]
) -> set[UUID]:
    """Add cases, or their judgements and notes to those that are there; return the ids of those that changed."""
    of_it = {"organization_id": organization_id, "evaluation_set_id": set_id}
    columns = [one for one in evaluation_cases.columns if one.name != "case_no"]
    given = rows_of(columns, [{**row, **of_it} for row in rows])
    kept = evaluation_cases.alias("kept")
    is_kept = and_(kept.c.case_id == given.c.case_id, kept.c.organization_id == organization_id)
    unless_given = {"statements": literal([], JSONB), "nothing_answers": false()}
    values = {one.name: given.c[one.name] for one in columns} | {
        name: func.coalesce(given.c[name], kept.c[name], otherwise) for name, otherwise in unless_given.items()
    }
    statement = insert(evaluation_cases).from_select(
        list(values), select(*values.values()).select_from(given.outerjoin(kept, is_kept))
    )
    values = {
        "judgements": evaluation_cases.c.judgements.concat(statement.excluded.judgements),
        "note": func.coalesce(statement.excluded.note, evaluation_cases.c.note),
        **{name: statement.excluded[name] for name in unless_given},
    }
    changes = or_(*(value.is_distinct_from(evaluation_cases.c[name]) for name, value in values.items()))
    upsert = statement.on_conflict_do_update(index_elements=["case_id"], set_=values, where=changes)
    result = await connection.execute(upsert.returning(evaluation_cases.c.case_id))
    return set(result.scalars())


async def count_cases(connection: AsyncConnection, organization_id: UUID, *, set_id: UUID) -> int:
    """Count the cases of a set."""
    statement = select(func.count()).where(is_of_set(organization_id, set_id))
    return (await connection.execute(statement)).scalar_one()


async def find_overfull_case(
    connection: AsyncConnection, organization_id: UUID, *, case_ids: Collection[UUID], most: int
) -> str | None:
    """Find the question of one of these cases that has more judgements than `most`; None without any."""
    keys = func.jsonb_object_keys(evaluation_cases.c.judgements).table_valued("key")
    count = select(func.count()).select_from(keys).correlate(evaluation_cases).scalar_subquery()
    statement = select(evaluation_cases.c.question).where(
        evaluation_cases.c.organization_id == organization_id,
        in_array(evaluation_cases.c.case_id, case_ids),
        count > most,
    )
    return (await connection.execute(statement.limit(1))).scalar_one_or_none()


async def find_contradiction(
    connection: AsyncConnection, organization_id: UUID, *, case_ids: Collection[UUID]
) -> str | None:
    """Find the question of one of these cases that nothing answers, and yet something should; None without any."""
    is_relevant = func.jsonb_path_exists(evaluation_cases.c.judgements, cast("$.* ? (@ > 0)", JSONPATH))
    statement = select(evaluation_cases.c.question).where(
        evaluation_cases.c.organization_id == organization_id,
        in_array(evaluation_cases.c.case_id, case_ids),
        evaluation_cases.c.nothing_answers,
        or_(is_relevant, func.jsonb_array_length(evaluation_cases.c.statements) > 0),
    )
    return (await connection.execute(statement.limit(1))).scalar_one_or_none()


async def remove_judgements(
    connection: AsyncConnection, organization_id: UUID, *, set_id: UUID, case_id: UUID, external_ids: Collection[str]
) -> bool:
    """Remove judgements of a case; False when there were none of these."""
    without = evaluation_cases.c.judgements.op("-")(literal(list(external_ids), ARRAY(Text)))
    statement = (
        update(evaluation_cases)
        .where(
            is_of_set(organization_id, set_id),
            evaluation_cases.c.case_id == case_id,
            evaluation_cases.c.judgements.has_any(literal(list(external_ids), ARRAY(Text))),
        )
        .values(judgements=without)
        .returning(evaluation_cases.c.case_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def delete_case(connection: AsyncConnection, organization_id: UUID, *, set_id: UUID, case_id: UUID) -> bool:
    """Delete a case with its results; False when there is none."""
    statement = delete(evaluation_cases).where(
        is_of_set(organization_id, set_id), evaluation_cases.c.case_id == case_id
    )
    return (await connection.execute(statement.returning(evaluation_cases.c.case_id))).one_or_none() is not None


async def list_cases(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    set_id: UUID,
    question_contains: str | None,
    after: int,
    limit: int,
) -> list[StoredCase]:
    """Return cases of a set in the order of their addition."""
    statement = select(*columns_of(evaluation_cases, StoredCase)).where(
        is_of_set(organization_id, set_id), evaluation_cases.c.case_no > after
    )
    if question_contains:
        statement = statement.where(evaluation_cases.c.question.icontains(question_contains, autoescape=True))
    return await find_rows(connection, statement.order_by(evaluation_cases.c.case_no).limit(limit), StoredCase)
