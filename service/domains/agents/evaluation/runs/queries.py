"""SQL of runs over evaluation sets, and of their results."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Double, Integer, and_, case, cast, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.auth.callers import Caller
from service.domains.agents.definitions.queries import select_collection_ids
from service.domains.agents.evaluation.queries import is_of_set, is_run
from service.platform.sql import columns_of, find_rows, get_row, in_array, optional_in, rows_of
from service.schema.agents import agents
from service.schema.evaluation import evaluation_cases, evaluation_results, evaluation_runs, evaluation_sets
from service.schema.identity import principals

SCORES = (
    "ndcg", "recall", "reciprocal_rank", "precision", "answered", "statements_said", "refused", "groundedness",
)  # fmt: skip
"""The columns of results whose means a run has."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run, with who ran it, and the name of the agent that it asked, None once that is deleted."""

    evaluation_run_id: UUID
    evaluation_set_id: UUID
    at: datetime
    principal_id: UUID
    principal_name: str
    principal_email: str
    mode: str | None
    model: str | None
    instructions_digest: str | None
    note: str | None
    case_count: int
    ndcg: float | None
    recall: float | None
    reciprocal_rank: float | None
    precision: float | None
    answered: float | None
    statements_said: float | None
    refused: float | None
    groundedness: float | None
    failed_count: int
    planned_count: int | None
    settings: dict[str, Any] | None
    agent_id: UUID | None
    agent_name: str | None


@dataclass(frozen=True, slots=True)
class StoredResult:
    """What a run measured on a case; `ranks` are the places of documents by external id."""

    case_id: UUID
    case_no: int
    question: str
    ndcg: float | None
    recall: float | None
    reciprocal_rank: float | None
    precision: float | None
    answered: bool | None
    message_id: UUID | None
    ranks: dict[str, int]
    statements_said: float | None
    refused: bool | None
    groundedness: float | None
    error: str | None


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What an agent is told and how it looks things up; `model` is None for the service's default."""

    model: str | None
    instructions: str
    retrieval: dict[str, Any]
    collection_ids: list[UUID]


async def existing_cases(
    connection: AsyncConnection, organization_id: UUID, *, set_id: UUID, case_ids: Collection[UUID]
) -> set[UUID]:
    """Return which of these ids are those of cases of a set."""
    statement = select(evaluation_cases.c.case_id).where(
        is_of_set(organization_id, set_id), in_array(evaluation_cases.c.case_id, case_ids)
    )
    return set((await connection.execute(statement)).scalars())


async def read_agent_settings(connection: AsyncConnection, organization_id: UUID, *, agent_id: UUID) -> AgentSettings:
    """Return what an agent is told, or was told until it was deleted: its row stays."""
    statement = select(*columns_of(agents, AgentSettings, select_collection_ids(organization_id))).where(
        agents.c.organization_id == organization_id, agents.c.agent_id == agent_id
    )
    return await get_row(connection, statement, AgentSettings)


async def insert_run(connection: AsyncConnection, caller: Caller, *, run: Mapping[str, object]) -> None:
    """Add a run of the caller's, without results."""
    row = {**run, "organization_id": caller.organization_id, "principal_id": caller.principal_id, "case_count": 0}
    await connection.execute(insert(evaluation_runs).values(row))


async def insert_results(
    connection: AsyncConnection, organization_id: UUID, *, run_id: UUID, results: Sequence[Mapping[str, object]]
) -> None:
    """Add results of cases that exist and are locked with their set; what the run has of a case already stays."""
    columns = list(evaluation_results.columns)
    of_run = {"organization_id": organization_id, "evaluation_run_id": run_id}
    given = rows_of(columns, [{**result, **of_run} for result in results])
    names = [one.name for one in columns]
    added = insert(evaluation_results).from_select(names, select(*(given.c[name] for name in names)))
    await connection.execute(added.on_conflict_do_nothing())


async def lower_planned_count(connection: AsyncConnection, organization_id: UUID, *, run_id: UUID, by: int) -> None:
    """Subtract cases that were removed from the set during a run from what it is to have."""
    statement = (
        update(evaluation_runs)
        .where(evaluation_runs.c.organization_id == organization_id, evaluation_runs.c.evaluation_run_id == run_id)
        .values(planned_count=evaluation_runs.c.planned_count - by)
    )
    await connection.execute(statement)


async def update_means(connection: AsyncConnection, organization_id: UUID, *, run_id: UUID) -> None:
    """Bring the means and counts of a run to its results, and its time to now."""
    of_it = evaluation_results.c
    means: dict[str, ColumnElement[Any]] = {name: func.avg(_number(name)) for name in SCORES}
    # A question that nothing answers should not be answered: `refused` says how many were not.
    means["answered"] = func.avg(_number("answered")).filter(of_it.refused.is_(None))
    means["case_count"] = func.count().filter(of_it.error.is_(None))
    means["failed_count"] = func.count(of_it.error)
    measured = (
        select(of_it.evaluation_run_id, *(value.label(name) for name, value in means.items()))
        .where(of_it.organization_id == organization_id, of_it.evaluation_run_id == run_id)
        .group_by(of_it.evaluation_run_id)
        .subquery()
    )
    statement = (
        update(evaluation_runs)
        .where(
            evaluation_runs.c.organization_id == organization_id,
            evaluation_runs.c.evaluation_run_id == measured.c.evaluation_run_id,
        )
        .values({"at": func.now(), **{name: measured.c[name] for name in means}})
    )
    await connection.execute(statement)


def _number(name: str) -> ColumnElement[float]:
    """Return a score as a number: 1 and 0 for true and false."""
    column = evaluation_results.c[name]
    return cast(cast(column, Integer) if name in {"answered", "refused"} else column, Double)


async def list_runs(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    set_id: UUID,
    ids: Collection[UUID] | None,
    before: UUID | None,
    limit: int,
) -> list[StoredRun]:
    """Return runs of a set (of these ids, if any are given), newest first, with who ran them."""
    run_id = evaluation_runs.c.evaluation_run_id
    people = (principals.c.name.label("principal_name"), principals.c.email.label("principal_email"))
    agent_id = func.coalesce(evaluation_runs.c.agent_id, evaluation_sets.c.agent_id)
    is_agent = and_(agents.c.organization_id == organization_id, agents.c.agent_id == agent_id)
    agent = (agent_id.label("agent_id"), case((agents.c.deleted_at.is_(None), agents.c.name)).label("agent_name"))
    statement = (
        select(*columns_of(evaluation_runs, StoredRun, *people, *agent))
        .join(evaluation_sets, evaluation_sets.c.evaluation_set_id == evaluation_runs.c.evaluation_set_id)
        .outerjoin(agents, is_agent)
        .join(principals, principals.c.principal_id == evaluation_runs.c.principal_id)
        .where(is_run(organization_id, set_id), optional_in(run_id, ids))
    )
    if before is not None:
        statement = statement.where(run_id < before)
    return await find_rows(connection, statement.order_by(run_id.desc()).limit(limit), StoredRun)


async def list_results(
    connection: AsyncConnection, organization_id: UUID, *, run_id: UUID, after: int, limit: int
) -> list[StoredResult]:
    """Return what a run measured, in the order of the cases."""
    cases = (evaluation_cases.c.case_no, evaluation_cases.c.question)
    statement = (
        select(*columns_of(evaluation_results, StoredResult, *cases))
        .join(evaluation_cases, evaluation_cases.c.case_id == evaluation_results.c.case_id)
        .where(
            evaluation_results.c.organization_id == organization_id,
            evaluation_results.c.evaluation_run_id == run_id,
            evaluation_cases.c.case_no > after,
        )
    )
    return await find_rows(connection, statement.order_by(evaluation_cases.c.case_no).limit(limit), StoredResult)


async def delete_run(connection: AsyncConnection, organization_id: UUID, *, set_id: UUID, run_id: UUID) -> bool:
    """Delete a run of a set with its results; False when there is none."""
    statement = delete(evaluation_runs).where(
        is_run(organization_id, set_id), evaluation_runs.c.evaluation_run_id == run_id
    )
    return (
        await connection.execute(statement.returning(evaluation_runs.c.evaluation_run_id))
    ).one_or_none() is not None
