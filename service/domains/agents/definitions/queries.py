"""Every statement about agents and the collections they retrieve from."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Label, Select, Text, Uuid, func, literal, select
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.agents import AgentDefinition, AgentVersion
from service.auth.callers import Caller
from service.permissions.queries import is_deployed
from service.platform import sql
from service.schema.agents import agent_collections, agent_versions, agents
from service.schema.catalog import collections
from service.schema.identity import principals, resources

MOST_VERSIONS = 50


def select_collection_ids(organization_id: UUID) -> Label[Any]:
    ids = func.array_agg(aggregate_order_by(agent_collections.c.collection_id, agent_collections.c.collection_id))
    return (
        select(func.coalesce(ids, literal([], ARRAY(Uuid()))))
        .where(sql.matches(agent_collections, organization_id, agent_id=agents.c.agent_id))
        .scalar_subquery()
        .label("collection_ids")
    )


def _agents(organization_id: UUID) -> Select[*tuple[Any, ...]]:
    starters = func.coalesce(agents.c.starter_questions, literal([], ARRAY(Text()))).label("starter_questions")
    columns = sql.columns_of(agents, AgentDefinition, select_collection_ids(organization_id), starters)
    return select(*columns).where(agents.c.organization_id == organization_id, agents.c.deleted_at.is_(None))


async def get_agent(connection: Connection, organization_id: UUID, *, agent_id: UUID) -> AgentDefinition | None:
    """Return an agent without a check of rights; None when it doesn't exist or is deleted."""
    statement = _agents(organization_id).where(agents.c.agent_id == agent_id)
    return await sql.find_row(connection, statement, AgentDefinition)


async def get_deployed_agent(connection: Connection, caller: Caller, *, agent_id: UUID) -> AgentDefinition | None:
    """Return an agent deployed to the caller; None when the agent isn't deployed, doesn't exist or is deleted."""
    statement = (
        _agents(caller.organization_id)
        .join(resources, resources.c.object_id == agents.c.agent_id)
        .where(*is_deployed(caller), agents.c.agent_id == agent_id)
    )
    return await sql.find_row(connection, statement, AgentDefinition)


async def list_agents(
    connection: Connection,
    organization_id: UUID,
    window: sql.Window,
    *,
    name_contains: str | None,
    ids: Collection[UUID] | None,
) -> list[AgentDefinition]:
    """List agents by id, without a check of rights, limited to `ids` and to names that contain a text if given."""
    chosen = _agents(organization_id).where(sql.optional_in(agents.c.agent_id, ids))
    statement = sql.rows_after(chosen, agents.c.agent_id, *window)
    if name_contains:
        statement = statement.where(agents.c.name.icontains(name_contains, autoescape=True))
    return await sql.find_rows(connection, statement, AgentDefinition)


async def insert_agent(connection: Connection, caller: Caller, *, row: Mapping[str, object]) -> None:
    own = {"organization_id": caller.organization_id, "created_by": caller.principal_id}
    await connection.execute(insert(agents).values({**row, **own}))


async def is_name_taken(connection: Connection, organization_id: UUID, *, name: str, but: UUID) -> bool:
    other = select(agents.c.agent_id).where(
        sql.matches(agents, organization_id, name=name), agents.c.agent_id != but, agents.c.deleted_at.is_(None)
    )
    return (await connection.execute(select(other.exists()))).scalar_one()


async def update_agent(
    connection: Connection, organization_id: UUID, *, agent_id: UUID, values: Mapping[str, object]
) -> None:
    """Change an agent's row; empty `values` change only the time of the last change."""
    values, is_kept = {**values, "updated_at": func.now()}, agents.c.deleted_at.is_(None)
    await sql.update_rows(connection, agents, organization_id, values, is_kept, agent_id=agent_id)


async def mark_deleted(connection: Connection, organization_id: UUID, *, agent_id: UUID) -> bool:
    """Delete an agent, but keep the row; return False when the agent doesn't exist or is already deleted."""
    values, is_kept = {"deleted_at": func.now()}, agents.c.deleted_at.is_(None)
    return await sql.update_rows(connection, agents, organization_id, values, is_kept, agent_id=agent_id) > 0


async def lock_collections(
    connection: Connection, organization_id: UUID, *, collection_ids: Collection[UUID]
) -> set[UUID]:
    """Lock collections against deletion until the transaction ends, in a fixed order; return the existing ids."""
    statement = (
        select(collections.c.collection_id)
        .where(
            collections.c.organization_id == organization_id, sql.in_array(collections.c.collection_id, collection_ids)
        )
        .order_by(collections.c.collection_id)
        .with_for_update(read=True, key_share=True)
    )
    return set((await connection.execute(statement)).scalars())


async def set_collections(
    connection: Connection, organization_id: UUID, *, agent_id: UUID, collection_ids: Collection[UUID]
) -> None:
    is_gone = ~sql.in_array(agent_collections.c.collection_id, collection_ids)
    await sql.delete_rows(connection, agent_collections, organization_id, is_gone, agent_id=agent_id)
    columns = [agent_collections.c[name] for name in ("agent_id", "collection_id", "organization_id")]
    rows = [
        {"agent_id": agent_id, "collection_id": collection_id, "organization_id": organization_id}
        for collection_id in collection_ids
    ]
    wanted = insert(agent_collections).from_select(columns, select(sql.rows_of(columns, rows)))
    await connection.execute(wanted.on_conflict_do_nothing())


async def insert_versions(
    connection: Connection, organization_id: UUID, *, agent_id: UUID, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Add an agent's newest versions, and delete the oldest above the limit."""
    about = {"organization_id": organization_id, "agent_id": agent_id}
    await connection.execute(insert(agent_versions), [{**about, **row} for row in rows])
    is_old = agent_versions.c.version_no <= rows[-1]["version_no"] - MOST_VERSIONS
    await sql.delete_rows(connection, agent_versions, organization_id, is_old, agent_id=agent_id)


async def list_versions(
    connection: Connection, organization_id: UUID, *, agent_id: UUID, before: int | None, limit: int
) -> list[AgentVersion]:
    """List versions of an agent, newest first, before a number if given."""
    statement = (
        select(
            agent_versions.c.settings,
            agent_versions.c.version_no.label("number"),
            agent_versions.c.saved_at,
            principals.c.name.label("saved_by"),
        )
        .outerjoin(principals, principals.c.principal_id == agent_versions.c.saved_by)
        .where(sql.matches(agent_versions, organization_id, agent_id=agent_id))
        .order_by(agent_versions.c.version_no.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.where(agent_versions.c.version_no < before)
    return await sql.find_rows(connection, statement, _to_version)


def _to_version(*, settings: Mapping[str, Any], **columns: Any) -> AgentVersion:
    return AgentVersion(**settings, **columns)


async def delete_versions(
    connection: Connection, organization_id: UUID, *, agent_id: UUID | None = None, saved_by: UUID | None = None
) -> int:
    """Delete an agent's versions, or the versions saved by a person; return their number."""
    about = {"agent_id": agent_id} if saved_by is None else {"saved_by": saved_by}
    return await sql.delete_rows(connection, agent_versions, organization_id, **about)
