"""Every statement about agents and the collections they retrieve from."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, ColumnElement, Label, Select, Uuid, delete, exists, func, literal, select, update
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.agents import Agent
from service.auth.callers import Caller
from service.permissions.queries import Reader, classes_of, readable_classes
from service.platform.sql import columns_of, find_row, find_rows, in_array, optional_in, rows_of
from service.schema.agents import agent_collections, agents
from service.schema.collections import collections
from service.schema.indexing import space_documents
from service.schema.permissions import resources

_collection_resources = resources.alias("collection_resources")
_document_resources = resources.alias("document_resources")


@dataclass(frozen=True, slots=True)
class StoredAgent:
    """An agent that is not deleted; `model` is None for the service's default, `collection_ids` are in their order."""

    agent_id: UUID
    name: str
    description: str
    instructions: str
    model: str | None
    api_access_enabled: bool
    retrieval: Mapping[str, bool]
    created_at: datetime
    updated_at: datetime
    collection_ids: Sequence[UUID]


@dataclass(frozen=True, slots=True)
class AgentWithoutSearch:
    """An agent that can search nothing, with the number of all such."""

    name: str
    total: int


def select_collection_ids(organization_id: UUID) -> Label[Any]:
    """Select the collections of the agent at hand, as an array."""
    ids = func.array_agg(aggregate_order_by(agent_collections.c.collection_id, agent_collections.c.collection_id))
    return (
        select(func.coalesce(ids, literal([], ARRAY(Uuid()))))
        .where(
            agent_collections.c.organization_id == organization_id,
            agent_collections.c.agent_id == agents.c.agent_id,
        )
        .scalar_subquery()
        .label("collection_ids")
    )


def _agents(organization_id: UUID) -> Select[*tuple[Any, ...]]:
    return select(*columns_of(agents, StoredAgent, select_collection_ids(organization_id))).where(
        agents.c.organization_id == organization_id, agents.c.deleted_at.is_(None)
    )


def _deployed_conditions(caller: Reader) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of agents that the caller may use, their resources joined."""
    return (
        agents.c.organization_id == caller.organization_id,
        agents.c.deleted_at.is_(None),
        resources.c.access_class.in_(classes_of(caller)),
    )


async def get_agent(connection: AsyncConnection, organization_id: UUID, *, agent_id: UUID) -> StoredAgent | None:
    """Return an agent without a check of rights; None when it doesn't exist (any more)."""
    statement = _agents(organization_id).where(agents.c.agent_id == agent_id)
    return await find_row(connection, statement, StoredAgent)


async def get_deployed_agent(connection: AsyncConnection, caller: Caller, *, agent_id: UUID) -> StoredAgent | None:
    """Return an agent that is deployed to the caller; None when it isn't, or doesn't exist (any more)."""
    statement = (
        _agents(caller.organization_id)
        .join(resources, resources.c.object_id == agents.c.agent_id)
        .where(*_deployed_conditions(caller), agents.c.agent_id == agent_id)
    )
    return await find_row(connection, statement, StoredAgent)


async def list_agents(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    name_contains: str | None,
    ids: Collection[UUID] | None,
    after: UUID,
    limit: int,
) -> list[StoredAgent]:
    """Return agents (of these ids, if any are given) whoever they are deployed to, by id."""
    page = _agents(organization_id).where(agents.c.agent_id > after).order_by(agents.c.agent_id).limit(limit)
    statement = page.where(optional_in(agents.c.agent_id, ids))
    if name_contains:
        statement = statement.where(agents.c.name.icontains(name_contains, autoescape=True))
    return await find_rows(connection, statement, StoredAgent)


async def list_deployed_agents(
    connection: AsyncConnection, caller: Reader, *, among_ids: Collection[UUID] | None, after: UUID, limit: int
) -> list[Agent]:
    """Return the agents (of these ids, if any are given) that are deployed to the caller, by id."""
    statement = (
        select(*columns_of(agents, Agent))
        .join(resources, resources.c.object_id == agents.c.agent_id)
        .where(*_deployed_conditions(caller), agents.c.agent_id > after)
        .order_by(agents.c.agent_id)
        .limit(limit)
    )
    if among_ids is not None:
        statement = statement.where(in_array(agents.c.agent_id, among_ids))
    return await find_rows(connection, statement, Agent)


async def count_documents_through_agents(connection: AsyncConnection, caller: Caller) -> int:
    """Count the documents that agents can retrieve for a program that acts as the caller, each once.

    They are documents that the caller may READ, in a collection that the caller may search, of an agent that is
    deployed to the caller and open to programs.
    """
    statement = (
        select(func.count(space_documents.c.document_id.distinct()))
        .join(_document_resources, _document_resources.c.object_id == space_documents.c.document_id)
        .where(
            space_documents.c.organization_id == caller.organization_id,
            space_documents.c.space_id.in_(_select_searchable(caller).with_only_columns(collections.c.space_id)),
            _document_resources.c.access_class.in_(readable_classes(caller)),
        )
    )
    return (await connection.execute(statement)).scalar_one()


async def list_agents_without_search(
    connection: AsyncConnection, caller: Caller, *, limit: int
) -> list[AgentWithoutSearch]:
    """List the first agents that a program may message as the caller and that can search nothing for it.

    They have collections, none of which the caller may search. They are ordered by id.
    """
    having_some = select(agent_collections.c.agent_id).where(
        agent_collections.c.organization_id == caller.organization_id
    )
    statement = (
        select(agents.c.name, func.count().over().label("total"))
        .join(resources, resources.c.object_id == agents.c.agent_id)
        .where(
            *_deployed_conditions(caller),
            agents.c.api_access_enabled,
            agents.c.agent_id.in_(having_some),
            agents.c.agent_id.not_in(_select_searchable(caller)),
        )
        .order_by(agents.c.agent_id)
        .limit(limit)
    )
    return await find_rows(connection, statement, AgentWithoutSearch)


def _select_searchable(caller: Caller) -> Select[UUID]:
    """Select the agents that a program may message as the caller, once per collection that the caller may search."""
    messaged = (
        select(agents.c.agent_id)
        .join(resources, resources.c.object_id == agents.c.agent_id)
        .where(*_deployed_conditions(caller), agents.c.api_access_enabled)
    )
    return (
        select(agent_collections.c.agent_id)
        .join(collections, collections.c.collection_id == agent_collections.c.collection_id)
        .join(_collection_resources, _collection_resources.c.object_id == collections.c.collection_id)
        .where(
            agent_collections.c.organization_id == caller.organization_id,
            agent_collections.c.agent_id.in_(messaged),
            _collection_resources.c.access_class.in_(readable_classes(caller)),
        )
    )


async def insert_agent(connection: AsyncConnection, caller: Caller, *, row: Mapping[str, object]) -> bool:
    """Add an agent; False when its name is taken in the organization."""
    statement = (
        insert(agents)
        .values({**row, "organization_id": caller.organization_id, "created_by": caller.principal_id})
        .on_conflict_do_nothing(
            index_elements=[agents.c.organization_id, agents.c.name], index_where=agents.c.deleted_at.is_(None)
        )
        .returning(agents.c.agent_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def is_name_taken(connection: AsyncConnection, organization_id: UUID, *, name: str, but: UUID) -> bool:
    """Check whether another agent has the name."""
    other = select(agents.c.agent_id).where(
        agents.c.organization_id == organization_id,
        agents.c.name == name,
        agents.c.agent_id != but,
        agents.c.deleted_at.is_(None),
    )
    return (await connection.execute(select(exists(other)))).scalar_one()


async def update_agent(
    connection: AsyncConnection, organization_id: UUID, *, agent_id: UUID, values: Mapping[str, object]
) -> None:
    """Change an agent's row, if only the time of its last change."""
    statement = (
        update(agents)
        .where(
            agents.c.organization_id == organization_id, agents.c.agent_id == agent_id, agents.c.deleted_at.is_(None)
        )
        .values({**values, "updated_at": func.now()})
    )
    await connection.execute(statement)


async def mark_deleted(connection: AsyncConnection, organization_id: UUID, *, agent_id: UUID) -> bool:
    """Delete an agent but for its row; False when there is none (any more)."""
    statement = (
        update(agents)
        .where(
            agents.c.organization_id == organization_id, agents.c.agent_id == agent_id, agents.c.deleted_at.is_(None)
        )
        .values(deleted_at=func.now())
        .returning(agents.c.agent_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def lock_collections(
    connection: AsyncConnection, organization_id: UUID, *, collection_ids: Collection[UUID]
) -> set[UUID]:
    """Lock collections against deletion until the transaction ends, in one order; return the existing ones."""
    statement = (
        select(collections.c.collection_id)
        .where(collections.c.organization_id == organization_id, in_array(collections.c.collection_id, collection_ids))
        .order_by(collections.c.collection_id)
        .with_for_update(read=True, key_share=True)
    )
    return set((await connection.execute(statement)).scalars())


async def set_collections(
    connection: AsyncConnection, organization_id: UUID, *, agent_id: UUID, collection_ids: Collection[UUID]
) -> None:
    """Replace the collections an agent retrieves from; the new ones are locked."""
    gone = delete(agent_collections).where(
        agent_collections.c.organization_id == organization_id,
        agent_collections.c.agent_id == agent_id,
        ~in_array(agent_collections.c.collection_id, collection_ids),
    )
    await connection.execute(gone)
    columns = [agent_collections.c[name] for name in ("agent_id", "collection_id", "organization_id")]
    rows = [
        {"agent_id": agent_id, "collection_id": collection_id, "organization_id": organization_id}
        for collection_id in collection_ids
    ]
    wanted = insert(agent_collections).from_select(columns, select(rows_of(columns, rows)))
    await connection.execute(wanted.on_conflict_do_nothing())
