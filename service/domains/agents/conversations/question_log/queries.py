"""SQL of the question log, a row for each turn. The row stays when the turn and its words are erased."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import question_log as wire
from carrel.wire.messages import Verdict
from service.domains.agents.answering.phrases import PHRASES
from service.identity.queries import user_as
from service.platform.sql import as_member, count_where, find_row, find_rows, in_array, matches, optional_in
from service.schema.agents import agents
from service.schema.conversations import COMPLETED, conversations, questions, turns
from service.schema.identity import group_members, principals
from service.schema.search import audit_entries, free_texts

MOST_RANKED = 100


Query = wire.AdminQuestionLogQueryRequest
Filters = Query | wire.AdminQuestionLogSummarizeRequest | wire.AdminQuestionLogRankRequest
"""The requests that say which questions are meant. `from_` is inclusive, `to` exclusive."""


@dataclass(frozen=True, slots=True)
class Position:
    at: datetime
    turn_id: UUID


async def log_turn(connection: Connection, organization_id: UUID, *, turn_id: UUID) -> None:
    """Write a turn's current outcome and feedback into its row of the question log, adding the row if needed."""
    closest = (turns.c.reply.startswith(phrase.closest, autoescape=True) for phrase in PHRASES.values())
    cites_nothing = sa.or_(sa.func.jsonb_array_length(turns.c.citations) == 0, *closest)
    outcome = sa.case(
        (turns.c.status != COMPLETED, turns.c.status),
        (cites_nothing, wire.Outcome.UNANSWERED.value),
        else_=wire.Outcome.ANSWERED.value,
    )
    row = {
        "turn_id": turns.c.turn_id,
        "organization_id": turns.c.organization_id,
        "conversation_id": turns.c.conversation_id,
        "agent_id": conversations.c.agent_id,
        "principal_id": conversations.c.principal_id,
        "at": turns.c.created_at,
        "outcome": outcome,
        "feedback": turns.c.feedback,
    }
    asked = (
        sa.select(*row.values())
        .join(conversations, conversations.c.conversation_id == turns.c.conversation_id)
        .where(matches(turns, organization_id, turn_id=turn_id))
    )
    statement = insert(questions).from_select(list(row), asked)
    changed = {name: statement.excluded[name] for name in ("outcome", "feedback")}
    await connection.execute(statement.on_conflict_do_update(index_elements=["turn_id"], set_=changed))


async def end_erased(connection: Connection, organization_id: UUID, *, conversation_ids: Collection[UUID]) -> None:
    """Record that questions of erased conversations will get no reply."""
    statement = (
        sa.update(questions)
        .where(
            matches(questions, organization_id, outcome=wire.Outcome.RUNNING.value),
            in_array(questions.c.conversation_id, conversation_ids),
        )
        .values(outcome=wire.Outcome.FAILED.value)
    )
    await connection.execute(statement)


async def list_questions(
    connection: Connection, organization_id: UUID, *, filters: Query, before: Position | None, limit: int
) -> list[wire.LoggedQuestion]:
    """List questions before a position, newest first. A search by words covers only the next MOST_LOOKED_THROUGH."""
    looked_through = limit if filters.query is None else wire.MOST_LOOKED_THROUGH
    page = _newest(organization_id, filters, before).limit(looked_through).subquery("page")
    statement = (
        sa.select(
            page.c.turn_id.label("message_id"),
            *(page.c[name] for name in ("conversation_id", "at", "agent_id")),
            agents.c.name.label("agent_name"),
            user_as("actor", page.c.principal_id),
            as_member(page.c.outcome, wire.Outcome),
            as_member(page.c.feedback, Verdict),
            _last_feedback_text(organization_id, page.c.turn_id).label("feedback_text"),
            sa.false().label("withheld"),
        )
        .join(agents, agents.c.agent_id == page.c.agent_id)
        .join(principals, principals.c.principal_id == page.c.principal_id)
        .order_by(page.c.at.desc(), page.c.turn_id.desc())
        .limit(limit)
    )
    if filters.query is not None:
        # A look-up for each row: a join may read the messages of all questions.
        message = sa.select(turns.c.message).where(matches(turns, organization_id, turn_id=page.c.turn_id))
        statement = statement.where(message.scalar_subquery().icontains(filters.query, autoescape=True))
    return await find_rows(connection, statement, wire.LoggedQuestion)


async def find_last_searched(
    connection: Connection, organization_id: UUID, *, filters: Query, before: Position | None
) -> Position | None:
    """Find the last question that a page of a word search examines; None if the page reaches the end."""
    statement = _newest(organization_id, filters, before).offset(wire.MOST_LOOKED_THROUGH - 1).limit(1)
    return await find_row(connection, statement.with_only_columns(questions.c.at, questions.c.turn_id), Position)


async def count_by_bucket(
    connection: Connection, organization_id: UUID, *, filters: Filters, by: tuple[str, str]
) -> list[wire.QuestionsInBucket]:
    """Count questions by `day` or `week` in a time zone; empty buckets are left out."""
    start = sa.func.date_trunc(by[0], questions.c.at, by[1]).label("from_")
    statement = sa.select(start, *_counts(questions)).where(*_conditions(organization_id, filters))
    return await find_rows(connection, statement.group_by(sa.literal_column("from_")), wire.QuestionsInBucket)


async def count_askers(connection: Connection, organization_id: UUID, *, filters: Filters) -> int:
    statement = sa.select(_count_askers(questions)).where(*_conditions(organization_id, filters))
    return (await connection.execute(statement)).scalar_one()


async def rank_agents(connection: Connection, organization_id: UUID, *, filters: Filters) -> list[wire.RankedQuestions]:
    """Count questions by agent, the MOST_RANKED highest counts first."""
    statement = (
        sa.select(agents.c.agent_id.label("id"), agents.c.name, *_counts(questions))
        .join_from(questions, agents, agents.c.agent_id == questions.c.agent_id)
        .where(*_conditions(organization_id, filters))
        .group_by(agents.c.agent_id)
    )
    return await find_rows(connection, _highest_first(statement), wire.RankedQuestions)


async def rank_groups(connection: Connection, organization_id: UUID, *, filters: Filters) -> list[wire.RankedQuestions]:
    """Count questions by each group of the askers, also nested, the MOST_RANKED highest counts first."""
    counts = _counts(questions)
    askers = (
        sa.select(questions.c.principal_id, *counts)
        .where(*_conditions(organization_id, filters))
        .group_by(questions.c.principal_id)
        .cte("askers")
    )
    around = _groups_around(organization_id, askers)
    sums = (sa.cast(sa.func.sum(askers.c[count.key]), sa.BigInteger).label(count.key) for count in counts)
    statement = (
        sa.select(principals.c.principal_id.label("id"), principals.c.name, *sums)
        .join_from(askers, around, around.c.principal_id == askers.c.principal_id)
        .join(principals, principals.c.principal_id == around.c.group_id)
        .where(principals.c.organization_id == organization_id)
        .group_by(principals.c.principal_id)
    )
    return await find_rows(connection, _highest_first(statement), wire.RankedQuestions)


def _highest_first(ranked: sa.Select[*tuple[Any, ...]]) -> sa.Select[*tuple[Any, ...]]:
    return ranked.order_by(sa.desc("questions"), "id").limit(MOST_RANKED)


def _counts(rows: sa.FromClause) -> list[sa.Label[int]]:
    return [
        sa.func.count().label("questions"),
        count_where(rows.c.outcome == wire.Outcome.UNANSWERED.value, "unanswered"),
        count_where(rows.c.outcome == wire.Outcome.FAILED.value, "failed"),
        count_where(rows.c.feedback == Verdict.POSITIVE.value, "thumbs_up"),
        count_where(rows.c.feedback == Verdict.NEGATIVE.value, "thumbs_down"),
        _count_askers(rows),
    ]


def _count_askers(rows: sa.FromClause) -> sa.Label[int]:
    return sa.func.count(rows.c.principal_id.distinct()).label("askers")


def _newest(organization_id: UUID, filters: Filters, before: Position | None) -> sa.Select[Any]:
    order = (questions.c.at, questions.c.turn_id)
    statement = sa.select(questions).where(*_conditions(organization_id, filters))
    if before is not None:
        statement = statement.where(sa.tuple_(*order) < (before.at, before.turn_id))
    return statement.order_by(*(column.desc() for column in order))


def _conditions(organization_id: UUID, filters: Filters) -> list[sa.ColumnElement[bool]]:
    conditions = [questions.c.organization_id == organization_id]
    equal: dict[str, object] = {"agent_id": filters.agent_id}
    if isinstance(filters, Query):
        conditions.append(optional_in(questions.c.turn_id, filters.ids))
        equal |= {name: getattr(filters, name) for name in ("conversation_id", "outcome", "feedback")}
    conditions += [questions.c[name] == getattr(one, "value", one) for name, one in equal.items() if one is not None]
    if filters.group_id is not None:
        conditions.append(questions.c.principal_id.in_(_members_of(organization_id, filters.group_id)))
    if filters.from_ is not None:
        conditions.append(questions.c.at >= filters.from_)
    if filters.to is not None:
        conditions.append(questions.c.at < filters.to)
    return conditions


def _members_of(organization_id: UUID, group_id: UUID) -> sa.Select[UUID]:
    """Select the direct and inherited members of a group; UNION ends cycles."""
    inside = sa.select(sa.literal(group_id, sa.Uuid).label("group_id")).cte("inside", recursive=True)
    nested = (
        sa.select(group_members.c.member_id)
        .join(inside, inside.c.group_id == group_members.c.group_id)
        .where(group_members.c.organization_id == organization_id, group_members.c.member_is_group)
    )
    inside = inside.union(nested)
    return sa.select(group_members.c.member_id).where(
        group_members.c.organization_id == organization_id, group_members.c.group_id.in_(sa.select(inside.c.group_id))
    )


def _groups_around(organization_id: UUID, askers: sa.CTE) -> sa.CTE:
    """Select each asker with every direct and inherited group; UNION ends cycles."""
    start = (
        sa.select(group_members.c.member_id.label("principal_id"), group_members.c.group_id)
        .join(askers, askers.c.principal_id == group_members.c.member_id)
        .where(group_members.c.organization_id == organization_id)
    )
    around = start.cte("around", recursive=True)
    above = (
        sa.select(around.c.principal_id, group_members.c.group_id)
        .join(around, around.c.group_id == group_members.c.member_id)
        .where(group_members.c.organization_id == organization_id)
    )
    return around.union(above)


def _last_feedback_text(organization_id: UUID, turn_id: sa.ColumnElement[UUID]) -> sa.ScalarSelect[str]:
    return (
        sa.select(free_texts.c.text)
        .select_from(audit_entries)
        .outerjoin(free_texts, free_texts.c.subject_id == audit_entries.c.audit_log_id)
        .where(matches(audit_entries, organization_id, target_id=sa.cast(turn_id, sa.Text), action="agent.feedback"))
        .order_by(audit_entries.c.at.desc(), audit_entries.c.audit_log_id.desc())
        .limit(1)
        .scalar_subquery()
    )
