"""SQL of evaluation sets, their cases, runs and results."""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any
from uuid import UUID

import sqlalchemy as sa
from pydantic import Field, field_validator
from sqlalchemy.dialects.postgresql import JSONB, JSONPATH, insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.evaluation import AdminEvaluationSetsListRequest, EvaluationCase, EvaluationSet, KeptJudgement
from carrel.wire.evaluation_runs import AskedSettings, EvaluationRun, KeptResult
from service.auth.callers import Caller
from service.domains.agents.definitions.queries import select_collection_ids
from service.identity.queries import user_as
from service.platform import sql
from service.schema.agents import agents, evaluation_cases, evaluation_results, evaluation_runs, evaluation_sets
from service.schema.catalog import collections
from service.schema.identity import principals


class StoredCase(EvaluationCase):
    """A case with its place in the set, made of the grades by external id."""

    case_no: int

    @field_validator("judgements", mode="before")
    @classmethod
    def _best_first(cls, grades: dict[str, int]) -> list[KeptJudgement]:
        ordered = sorted(grades.items(), key=lambda pair: (-pair[1], pair[0]))
        return [KeptJudgement(document_external_id=name, grade=grade) for name, grade in ordered]


SCORES = (
    "ndcg", "recall", "reciprocal_rank", "precision", "answered", "statements_said", "refused", "groundedness",
)  # fmt: skip
"""The columns of results with a mean in each run."""


class StoredResult(KeptResult):
    """Measurements on a case with the case's place in the set, made of the ranks by external id."""

    case_no: int

    @field_validator("found", mode="before")
    @classmethod
    def _best_first(cls, ranks: dict[str, int]) -> list[str]:
        return sorted(ranks, key=ranks.__getitem__)


class AgentSettings(AskedSettings):
    """An agent's settings with its model; None means the service's default."""

    model: Annotated[str | None, Field(exclude=True)]


def _select_sets(organization_id: UUID) -> sa.Select[*tuple[Any, ...]]:
    cases_of_set, runs_of_set = (
        sql.matches(table, organization_id, evaluation_set_id=evaluation_sets.c.evaluation_set_id)
        for table in (evaluation_cases, evaluation_runs)
    )
    collection_name = sa.select(collections.c.name).where(
        sql.matches(collections, organization_id, collection_id=evaluation_sets.c.collection_id)
    )
    agent_name = sa.select(agents.c.name).where(
        sql.matches(agents, organization_id, agent_id=evaluation_sets.c.agent_id), agents.c.deleted_at.is_(None)
    )
    cases = sa.select(sa.func.count()).where(cases_of_set)
    runs = sa.select(sa.func.count()).where(runs_of_set)
    last_run = sa.select(sa.func.max(evaluation_runs.c.at)).where(runs_of_set)
    named = {
        "document_collection_id": evaluation_sets.c.collection_id,
        "target_name": sa.func.coalesce(collection_name.scalar_subquery(), agent_name.scalar_subquery()),
        "case_count": cases.scalar_subquery(),
        "run_count": runs.scalar_subquery(),
        "last_run_at": last_run.scalar_subquery(),
    }
    others = [value.label(name) for name, value in named.items()]
    return sa.select(*sql.columns_of(evaluation_sets, EvaluationSet, *others)).where(
        evaluation_sets.c.organization_id == organization_id
    )


async def count_sets(connection: Connection, organization_id: UUID) -> int:
    return await sql.count_rows(connection, evaluation_sets.c.organization_id == organization_id)


async def insert_set(connection: Connection, caller: Caller, *, row: Mapping[str, object]) -> bool:
    """Add a set; return False when the name is taken in the organization."""
    values = {**row, "organization_id": caller.organization_id, "created_by": caller.principal_id}
    return await sql.insert_new(connection, evaluation_sets, values, unique=["organization_id", "name"])


async def collection_exists(connection: Connection, organization_id: UUID, *, collection_id: UUID) -> bool:
    """Check whether the organization has a collection, regardless of search rights."""
    found = sa.exists().where(sql.matches(collections, organization_id, collection_id=collection_id))
    return (await connection.execute(sa.select(found))).scalar_one()


async def find_set(connection: Connection, organization_id: UUID, *, set_id: UUID) -> EvaluationSet | None:
    statement = _select_sets(organization_id).where(evaluation_sets.c.evaluation_set_id == set_id)
    return await sql.find_row(connection, statement, EvaluationSet)


async def list_sets(
    connection: Connection, organization_id: UUID, window: sql.Window, *, request: AdminEvaluationSetsListRequest
) -> list[EvaluationSet]:
    set_id = evaluation_sets.c.evaluation_set_id
    chosen = sql.optional_in(set_id, request.ids), sql.optional(evaluation_sets.c.agent_id, request.agent_id)
    statement = sql.rows_after(_select_sets(organization_id).where(*chosen), set_id, *window)
    if request.query:
        statement = statement.where(evaluation_sets.c.name.icontains(request.query, autoescape=True))
    return await sql.find_rows(connection, statement, EvaluationSet)


async def lock_set(connection: Connection, organization_id: UUID, *, set_id: UUID) -> bool:
    """Lock a set until the transaction ends; return False when no such set exists."""
    own = sql.matches(evaluation_sets, organization_id, evaluation_set_id=set_id)
    statement = sa.select(evaluation_sets.c.evaluation_set_id).where(own).with_for_update()
    return (await connection.execute(statement)).one_or_none() is not None


async def rename_set(connection: Connection, organization_id: UUID, *, set_id: UUID, name: str) -> bool:
    """Rename a locked set; return False when another set has the name."""
    taken = sa.select(evaluation_sets.c.evaluation_set_id).where(
        sql.matches(evaluation_sets, organization_id, name=name), evaluation_sets.c.evaluation_set_id != set_id
    )
    if (await connection.execute(sa.select(sa.exists(taken)))).scalar_one():
        return False
    await sql.update_rows(connection, evaluation_sets, organization_id, {"name": name}, evaluation_set_id=set_id)
    return True


async def delete_set(connection: Connection, organization_id: UUID, *, set_id: UUID) -> None:
    await sql.delete_rows(connection, evaluation_sets, organization_id, evaluation_set_id=set_id)


async def save_cases(
    connection: Connection, organization_id: UUID, *, set_id: UUID, rows: Sequence[Mapping[str, object]]
) -> set[UUID]:
    """Add cases, or add judgements and notes to existing cases; return the ids of changed cases."""
    of_it = {"organization_id": organization_id, "evaluation_set_id": set_id}
    columns = [column for column in evaluation_cases.columns if column.name != "case_no"]
    given = sql.rows_of(columns, [{**row, **of_it} for row in rows])
    kept = evaluation_cases.alias("kept")
    is_kept = sa.and_(kept.c.case_id == given.c.case_id, kept.c.organization_id == organization_id)
    unless_given = {"statements": sa.literal([], JSONB), "nothing_answers": sa.false()}
    values = {item.name: given.c[item.name] for item in columns} | {
        name: sa.func.coalesce(given.c[name], kept.c[name], otherwise) for name, otherwise in unless_given.items()
    }
    statement = insert(evaluation_cases).from_select(
        list(values), sa.select(*values.values()).select_from(given.outerjoin(kept, is_kept))
    )
    values = {
        "judgements": evaluation_cases.c.judgements.concat(statement.excluded.judgements),
        "note": sa.func.coalesce(statement.excluded.note, evaluation_cases.c.note),
        **{name: statement.excluded[name] for name in unless_given},
    }
    changes = sa.or_(*(value.is_distinct_from(evaluation_cases.c[name]) for name, value in values.items()))
    upsert = statement.on_conflict_do_update(index_elements=["case_id"], set_=values, where=changes)
    return set((await connection.execute(upsert.returning(evaluation_cases.c.case_id))).scalars())


async def count_cases(connection: Connection, organization_id: UUID, *, set_id: UUID) -> int:
    return await sql.count_rows(connection, sql.matches(evaluation_cases, organization_id, evaluation_set_id=set_id))


async def find_overfull_case(
    connection: Connection, organization_id: UUID, *, case_ids: Collection[UUID], most: int
) -> str | None:
    """Find a question with more than `most` judged documents; None without any."""
    keys = sa.func.jsonb_object_keys(evaluation_cases.c.judgements).table_valued("key")
    count = sa.select(sa.func.count()).select_from(keys).correlate(evaluation_cases).scalar_subquery()
    return await _find_case(connection, organization_id, case_ids, count > most)


async def find_contradiction(
    connection: Connection, organization_id: UUID, *, case_ids: Collection[UUID]
) -> str | None:
    """Find a question marked as unanswerable although judgements or statements expect an answer; None without any."""
    is_relevant = sa.func.jsonb_path_exists(evaluation_cases.c.judgements, sa.cast("$.* ? (@ > 0)", JSONPATH))
    answers = sa.or_(is_relevant, sa.func.jsonb_array_length(evaluation_cases.c.statements) > 0)
    return await _find_case(connection, organization_id, case_ids, evaluation_cases.c.nothing_answers & answers)


async def _find_case(
    connection: Connection, organization_id: UUID, case_ids: Collection[UUID], condition: sa.ColumnElement[bool]
) -> str | None:
    of_these = sql.matches(evaluation_cases, organization_id) & sql.in_array(evaluation_cases.c.case_id, case_ids)
    statement = sa.select(evaluation_cases.c.question).where(of_these, condition).limit(1)
    return (await connection.execute(statement)).scalar_one_or_none()


async def remove_judgements(
    connection: Connection, organization_id: UUID, *, set_id: UUID, case_id: UUID, external_ids: Collection[str]
) -> bool:
    judgements, ids = evaluation_cases.c.judgements, sa.literal(list(external_ids), sa.ARRAY(sa.Text))
    is_case = sql.matches(evaluation_cases, organization_id, evaluation_set_id=set_id, case_id=case_id)
    changed = sa.update(evaluation_cases).where(is_case, judgements.has_any(ids))
    return (await connection.execute(changed.values(judgements=judgements.op("-")(ids)))).rowcount > 0


async def delete_case(connection: Connection, organization_id: UUID, *, set_id: UUID, case_id: UUID) -> bool:
    key = {"evaluation_set_id": set_id, "case_id": case_id}
    return await sql.delete_rows(connection, evaluation_cases, organization_id, **key) > 0


async def list_cases(
    connection: Connection,
    organization_id: UUID,
    *,
    set_id: UUID,
    ids: Collection[UUID] | None = None,
    question_contains: str | None = None,
    after: int = 0,
    limit: int | None = None,
) -> list[StoredCase]:
    note = sa.func.nullif(evaluation_cases.c.note, "").label("note")
    statement = sa.select(*sql.columns_of(evaluation_cases, StoredCase, note)).where(
        sql.matches(evaluation_cases, organization_id, evaluation_set_id=set_id),
        evaluation_cases.c.case_no > after,
        sql.optional_in(evaluation_cases.c.case_id, ids),
    )
    if question_contains:
        statement = statement.where(evaluation_cases.c.question.icontains(question_contains, autoescape=True))
    return await sql.find_rows(connection, statement.order_by(evaluation_cases.c.case_no).limit(limit), StoredCase)


async def read_agent_settings(connection: Connection, organization_id: UUID, *, agent_id: UUID) -> AgentSettings:
    """Return an agent's instructions and retrieval settings. Also for a deleted agent, because the row stays."""
    statement = sa.select(*sql.columns_of(agents, AgentSettings, select_collection_ids(organization_id))).where(
        sql.matches(agents, organization_id, agent_id=agent_id)
    )
    return await sql.get_row(connection, statement, AgentSettings)


async def insert_run(connection: Connection, caller: Caller, *, run: Mapping[str, object]) -> None:
    row = {**run, "organization_id": caller.organization_id, "principal_id": caller.principal_id, "case_count": 0}
    await connection.execute(insert(evaluation_runs).values(row))


async def insert_results(
    connection: Connection, organization_id: UUID, *, run_id: UUID, results: Sequence[Mapping[str, object]]
) -> None:
    """Add results of existing cases, locked with their set. Results already saved for a case stay."""
    columns = list(evaluation_results.columns)
    of_run = {"organization_id": organization_id, "evaluation_run_id": run_id}
    given = sql.rows_of(columns, [{**result, **of_run} for result in results])
    names = [column.name for column in columns]
    added = insert(evaluation_results).from_select(names, sa.select(*(given.c[name] for name in names)))
    await connection.execute(added.on_conflict_do_nothing())


async def lower_planned_count(connection: Connection, organization_id: UUID, *, run_id: UUID, by: int) -> None:
    """Subtract cases removed from the set during a run from the run's planned number."""
    lower = {"planned_count": evaluation_runs.c.planned_count - by}
    await sql.update_rows(connection, evaluation_runs, organization_id, lower, evaluation_run_id=run_id)


async def update_means(connection: Connection, organization_id: UUID, *, run_id: UUID) -> None:
    """Recompute a run's means and counts from its results, and set the time to now."""
    of_it = evaluation_results.c
    means: dict[str, sa.ColumnElement[Any]] = {name: sa.func.avg(_number(name)) for name in SCORES}
    # Only questions with an answer count; `refused` counts the correct refusals of questions without an answer.
    means["answered"] = sa.func.avg(_number("answered")).filter(of_it.refused.is_(None))
    means["case_count"] = sa.func.count().filter(of_it.error.is_(None))
    means["failed_count"] = sa.func.count(of_it.error)
    measured = (
        sa.select(of_it.evaluation_run_id, *(value.label(name) for name, value in means.items()))
        .where(of_it.organization_id == organization_id, of_it.evaluation_run_id == run_id)
        .group_by(of_it.evaluation_run_id)
        .subquery()
    )
    values = {"at": sa.func.now(), **{name: measured.c[name] for name in means}}
    key = {"evaluation_run_id": measured.c.evaluation_run_id}
    await sql.update_rows(connection, evaluation_runs, organization_id, values, **key)


def _number(name: str) -> sa.ColumnElement[float]:
    column = evaluation_results.c[name]
    return sa.cast(sa.cast(column, sa.Integer) if name in {"answered", "refused"} else column, sa.Double)


async def list_runs(
    connection: Connection,
    organization_id: UUID,
    *,
    set_id: UUID,
    ids: Collection[UUID] | None = None,
    before: UUID | None = None,
    limit: int | None = None,
) -> list[EvaluationRun]:
    """List runs of a set, newest first, with the people behind them; limited to `ids` if given."""
    run_id = evaluation_runs.c.evaluation_run_id
    agent_id = sa.func.coalesce(evaluation_runs.c.agent_id, evaluation_sets.c.agent_id)
    is_agent = sql.matches(agents, organization_id, agent_id=agent_id)
    agent = (agent_id.label("agent_id"), sa.case((agents.c.deleted_at.is_(None), agents.c.name)).label("agent_name"))
    statement = (
        sa.select(*sql.columns_of(evaluation_runs, EvaluationRun, user_as("ran_by", principals.c.principal_id), *agent))
        .join(evaluation_sets, evaluation_sets.c.evaluation_set_id == evaluation_runs.c.evaluation_set_id)
        .outerjoin(agents, is_agent)
        .join(principals, principals.c.principal_id == evaluation_runs.c.principal_id)
        .where(sql.matches(evaluation_runs, organization_id, evaluation_set_id=set_id), sql.optional_in(run_id, ids))
    )
    if before is not None:
        statement = statement.where(run_id < before)
    return await sql.find_rows(connection, statement.order_by(run_id.desc()).limit(limit), EvaluationRun)


async def list_results(
    connection: Connection, organization_id: UUID, *, run_id: UUID, after: int, limit: int
) -> list[StoredResult]:
    others = (evaluation_cases.c.case_no, evaluation_cases.c.question, evaluation_results.c.ranks.label("found"))
    statement = (
        sa.select(*sql.columns_of(evaluation_results, StoredResult, *others))
        .join(evaluation_cases, evaluation_cases.c.case_id == evaluation_results.c.case_id)
        .where(
            sql.matches(evaluation_results, organization_id, evaluation_run_id=run_id),
            evaluation_cases.c.case_no > after,
        )
    )
    return await sql.find_rows(connection, statement.order_by(evaluation_cases.c.case_no).limit(limit), StoredResult)


async def delete_run(connection: Connection, organization_id: UUID, *, set_id: UUID, run_id: UUID) -> bool:
    """Delete a run of a set with its results; return False when it doesn't exist."""
    key = {"evaluation_set_id": set_id, "evaluation_run_id": run_id}
    return await sql.delete_rows(connection, evaluation_runs, organization_id, **key) > 0
