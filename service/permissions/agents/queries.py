"""SQL of the agents deployed to a reader, and of the documents and collections reachable by a program through them."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import Select, case, func, select
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.agents import Agent
from service.auth.callers import Caller
from service.auth.queries import get_acting_principal
from service.permissions.queries import Reader, is_deployed, readable_classes
from service.platform.identifiers import NIL
from service.platform.sql import Window, columns_of, find_rows, matches, optional_in, rows_after
from service.schema.agents import agent_collections, agents
from service.schema.catalog import collections
from service.schema.identity import resources
from service.schema.indexing import space_documents

_collection_resources = resources.alias("collection_resources")
_document_resources = resources.alias("document_resources")


async def list_deployed_agents(
    connection: Connection, caller: Reader, window: Window, *, among_ids: Collection[UUID] | None
) -> list[Agent]:
    """Return the agents deployed to the caller, optionally only `among_ids`, ordered by id."""
    answers = case((agents.c.answers_searches, True)).label("answers_searches")
    deployed = select(*columns_of(agents, Agent, answers)).join(resources, resources.c.object_id == agents.c.agent_id)
    chosen = *is_deployed(caller), optional_in(agents.c.agent_id, among_ids)
    statement = rows_after(deployed.where(*chosen), agents.c.agent_id, *window)
    return await find_rows(connection, statement, Agent)


async def count_documents_through_agents(connection: Connection, caller: Caller) -> int:
    """Count documents that the caller may READ in searchable collections of agents open to programs."""
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


async def list_agents_without_search(connection: Connection, caller: Caller, *, limit: int) -> list[tuple[str, int]]:
    """Name the first agents, by id, that a program may message as the caller and whose collections are all closed to
    the caller; each with the number of all such agents. Agents without a collection are left out."""
    having_some = select(agent_collections.c.agent_id).where(matches(agent_collections, caller.organization_id))
    statement = (
        select(agents.c.name, func.count().over().label("total"))
        .join(resources, resources.c.object_id == agents.c.agent_id)
        .where(
            *is_deployed(caller),
            agents.c.api_access_enabled,
            agents.c.agent_id.in_(having_some),
            agents.c.agent_id.not_in(_select_searchable(caller)),
        )
        .order_by(agents.c.agent_id)
        .limit(limit)
    )
    return [(row.name, row.total) for row in await connection.execute(statement)]


def _select_searchable(caller: Caller) -> Select[UUID]:
    messaged = (
        select(agents.c.agent_id)
        .join(resources, resources.c.object_id == agents.c.agent_id)
        .where(*is_deployed(caller), agents.c.api_access_enabled)
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


async def read_deployed_names(
    connection: Connection, organization_id: UUID, *, principal_id: UUID, agent_ids: Collection[UUID]
) -> dict[UUID, str]:
    """Return by id the names of these agents that are deployed to a principal."""
    person = await get_acting_principal(connection, organization_id, principal_id=principal_id)
    if person is None or not agent_ids:
        return {}
    rows = await list_deployed_agents(connection, person, Window(NIL, len(agent_ids)), among_ids=agent_ids)
    return {row.agent_id: row.name for row in rows}
