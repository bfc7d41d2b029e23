"""Rules of agents. An agent retrieves only documents readable by the sender, so an admin may add any collection."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import agents as wire
from carrel.wire.common import ResourceType
from service.audit.service import record, record_all
from service.audit.versions import change_between, refuse_stale
from service.auth.authorization import messageable_agents
from service.auth.callers import Caller
from service.domains.agents.definitions import queries
from service.identity.principals import resolve, to_named_principal
from service.identity.queries import lock_organization
from service.permissions.access import Access, roles_by_id
from service.permissions.agents.queries import list_deployed_agents as list_agents_of
from service.permissions.queries import delete_resources, get_resource, list_grants, lock_resource
from service.permissions.service import access_of, register_resource, set_access
from service.platform.errors import BadRequest, Conflict, FieldError, NotFound, require
from service.platform.identifiers import uuid7
from service.runtime import Runtime
from service.web.pagination import Cursor

# The members of an agent's definition that are columns of its row.
_ROW = tuple(name for name in wire.AgentSettings.edited if name != "collection_ids")


def unknown_agent() -> NotFound:
    return NotFound(
        "You have no such agent. Check the agentId, or ask an admin to deploy the agent to you.", code="agent_not_found"
    )


async def require_agent(connection: Connection, organization_id: UUID, *, agent_id: UUID) -> wire.AgentDefinition:
    """Return an agent of the organization, for admins; NotFound when it doesn't exist or is deleted."""
    return require(await queries.get_agent(connection, organization_id, agent_id=agent_id), unknown_agent())


async def create_agent(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminAgentsCreateRequest
) -> wire.AdminAgentsCreateResponse:
    """Define an agent, unavailable to everyone until deployed. 400 for model or collections, 409 `agent_name_taken`."""
    _refuse_unknown_model(request.model, runtime.settings.agent_models)
    await lock_organization(connection, caller.organization_id)
    await _lock_collections(connection, caller, request.collection_ids)
    agent_id = uuid7()
    await _refuse_taken_name(connection, caller, request.name, but=agent_id)
    await queries.insert_agent(connection, caller, row={"agent_id": agent_id, **_select_row(request)})
    await queries.set_collections(
        connection, caller.organization_id, agent_id=agent_id, collection_ids=set(request.collection_ids)
    )
    await register_resource(
        connection,
        caller.organization_id,
        object_id=agent_id,
        resource_type=ResourceType.AGENT,
        resource_id=str(agent_id),
        access=Access(owner_id=None),
    )
    made = await require_agent(connection, caller.organization_id, agent_id=agent_id)
    await record(connection, caller, "agent.create", "agent", agent_id, details=_settings(made))
    await _keep_version(connection, caller, made)
    return wire.AdminAgentsCreateResponse(**dict(made))


async def update_agent(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminAgentsUpdateRequest
) -> wire.AdminAgentsUpdateResponse:
    """Change an agent from the next message on; omitted settings stay. 404, 400, 409 if stale or for a taken name."""
    _refuse_unknown_model(request.model, runtime.settings.agent_models)
    await lock_organization(connection, caller.organization_id)
    before = await require_agent(connection, caller.organization_id, agent_id=request.agent_id)
    await refuse_stale(connection, caller, request.version, before, target_id=request.agent_id)
    await _lock_collections(connection, caller, request.collection_ids or ())
    given = request.model_dump(include={*_ROW}, by_alias=False, exclude_none=True)
    if "model" in request.model_fields_set:
        given["model"] = request.model
    if request.collection_ids is not None:
        given["collection_ids"] = sorted(set(request.collection_ids))
    after = wire.AgentDefinition.model_validate(dict(before) | given)
    if after == before:
        return wire.AdminAgentsUpdateResponse(**dict(before))
    await _refuse_taken_name(connection, caller, after.name, but=after.agent_id)
    await queries.update_agent(connection, caller.organization_id, agent_id=after.agent_id, values=_select_row(after))
    await queries.set_collections(
        connection, caller.organization_id, agent_id=after.agent_id, collection_ids=after.collection_ids
    )
    now = await require_agent(connection, caller.organization_id, agent_id=after.agent_id)
    change = change_between("agent.update", "agent", now.agent_id, before, now, details=_settings(after))
    await record_all(connection, caller, changes=[change])
    await _keep_version(connection, caller, now, before=before)
    return wire.AdminAgentsUpdateResponse(**dict(now))


async def list_agents(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminAgentsListRequest
) -> wire.AdminAgentsListResponse:
    """List a page of the organization's agents, by id, and the available models."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_AGENTS_LIST.path, request=request)
    found = await queries.list_agents(
        connection, caller.organization_id, cursor.window, name_contains=request.query, ids=request.ids
    )
    return cursor.answer(wire.AdminAgentsListResponse, found, "agent_id", models=list(runtime.settings.agent_models))


async def list_versions(
    connection: Connection, caller: Caller, *, request: wire.AdminAgentsListVersionsRequest
) -> wire.AdminAgentsListVersionsResponse:
    """List an agent's earlier settings, newest first. To restore a version, call `update` with those settings."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_AGENTS_LIST_VERSIONS.path, request=request)
    await require_agent(connection, caller.organization_id, agent_id=request.agent_id)
    rows = await queries.list_versions(
        connection,
        caller.organization_id,
        agent_id=request.agent_id,
        before=int(cursor.after[0]) if cursor.after else None,
        limit=cursor.limit,
    )
    return cursor.answer(wire.AdminAgentsListVersionsResponse, rows, "number")


async def delete_agent(
    connection: Connection, caller: Caller, *, request: wire.AdminAgentsDeleteRequest
) -> wire.AdminAgentsDeleteResponse:
    """Delete an agent with its versions and deployment; conversations stay. NotFound if unknown or deleted."""
    agent_id = request.agent_id
    await lock_organization(connection, caller.organization_id)
    if not await queries.mark_deleted(connection, caller.organization_id, agent_id=agent_id):
        raise unknown_agent()
    await delete_resources(connection, caller.organization_id, object_ids=[agent_id])
    await queries.delete_versions(connection, caller.organization_id, agent_id=agent_id)
    await record(connection, caller, "agent.delete", "agent", agent_id)
    return wire.AdminAgentsDeleteResponse(agent_id=request.agent_id)


def _refuse_unknown_model(model: str | None, models: Sequence[str]) -> None:
    if model is not None and model not in models:
        message = f"There is no such model. Choose one of: {', '.join(models)}."
        raise BadRequest(message, code="unknown_model", details=[FieldError("model", message)])


async def _refuse_taken_name(connection: Connection, caller: Caller, name: str, *, but: UUID) -> None:
    # The organization is locked, so no other agent can take the name.
    if await queries.is_name_taken(connection, caller.organization_id, name=name, but=but):
        raise Conflict("Another agent has this name. Choose another name.", code="agent_name_taken")


async def _lock_collections(connection: Connection, caller: Caller, collection_ids: Sequence[UUID]) -> None:
    """Lock collections until the transaction ends; BadRequest names the ids unknown in the organization."""
    known = await queries.lock_collections(connection, caller.organization_id, collection_ids=collection_ids)
    unknown = [
        FieldError(f"collectionIds.{place}", f"{collection_id} is unknown in this organization")
        for place, collection_id in enumerate(collection_ids)
        if collection_id not in known
    ]
    if unknown:
        raise BadRequest(
            f"There is no such collection: {', '.join(error.field for error in unknown)}. Create it first, "
            "or leave it out.",
            code="unknown_collection",
            details=unknown,
        )


def _select_row(settings: wire.AdminAgentsCreateRequest | wire.AgentDefinition) -> dict[str, Any]:
    row = settings.model_dump(include={*_ROW}, by_alias=False, exclude_none=True)
    return row | {"model": settings.model, "starter_questions": settings.starter_questions or None}


def _settings(agent: wire.AgentDefinition) -> dict[str, Any]:
    """Return an agent's settings for the audit log, without any free text."""
    return {
        "model": agent.model,
        "apiAccessEnabled": agent.api_access_enabled,
        "answersSearches": agent.answers_searches,
        "collectionIds": [str(collection_id) for collection_id in agent.collection_ids],
        "retrieval": agent.retrieval.model_dump(exclude_none=True),
    }


async def _keep_version(
    connection: Connection, caller: Caller, now: wire.AgentDefinition, *, before: wire.AgentDefinition | None = None
) -> None:
    """Save a locked agent's settings as a version, after the earlier settings if the newest version lacks them."""
    organization_id, agent_id = caller.organization_id, now.agent_id
    newest = await queries.list_versions(connection, organization_id, agent_id=agent_id, before=None, limit=1)
    rows: list[dict[str, object]] = [
        {"settings": _dump(now), "saved_by": caller.acting_through or caller.principal_id, "saved_at": now.updated_at}
    ]
    # Settings from an older release lack newer members.
    if before is not None and _dump(before) not in [_dump(version) for version in newest]:
        rows.insert(0, {"settings": _dump(before), "saved_by": None, "saved_at": before.updated_at})
    numbered = [{**row, "version_no": number} for number, row in enumerate(rows, newest[0].number + 1 if newest else 1)]
    await queries.insert_versions(connection, organization_id, agent_id=agent_id, rows=numbered)


def _dump(agent: wire.AgentSettings) -> dict[str, Any]:
    return agent.model_dump(mode="json", by_alias=False, include={*agent.edited})


async def deploy_agent(
    connection: Connection, caller: Caller, *, request: wire.AdminAgentsDeployRequest
) -> wire.AdminAgentsDeployResponse:
    """Change the users of an agent when the transaction commits. 400 names principals unknown in the organization."""
    agent = await require_agent(connection, caller.organization_id, agent_id=request.agent_id)
    if await lock_resource(connection, caller.organization_id, agent.agent_id) is None:
        raise unknown_agent()
    before = await access_of(connection, caller.organization_id, agent.agent_id)
    if request.version is not None:
        shown = await _show(connection, caller, agent.agent_id, before)
        await refuse_stale(connection, caller, request.version, shown, target_id=agent.agent_id)
    after = await _desired_access(connection, caller, before, request=request)
    # Also without a visible change: then a group in the trash does not get the agent back.
    await set_access(connection, caller.organization_id, object_id=agent.agent_id, access=after)
    if after != before:
        await record(
            connection,
            caller,
            "agent.deploy",
            "agent",
            agent.agent_id,
            details={"before": roles_by_id(before.grants()), "after": roles_by_id(after.grants())},
        )
    return await _show(connection, caller, agent.agent_id, after)


async def list_deployed_agents(
    connection: Connection, caller: Caller, *, request: wire.ListAgentsRequest
) -> wire.ListAgentsResponse:
    """List the agents open to both the person and the token."""
    cursor = Cursor.read(caller, operation=wire.LIST_AGENTS.path, request=request)
    rows = await list_agents_of(connection, caller, cursor.window, among_ids=messageable_agents(caller))
    return cursor.answer(wire.ListAgentsResponse, rows, "agent_id")


async def _desired_access(
    connection: Connection, caller: Caller, before: Access, *, request: wire.AdminAgentsDeployRequest
) -> Access:
    references = [(f"principals.{place}", principal) for place, principal in enumerate(request.principals)]
    named = await resolve(connection, caller.organization_id, references=references)
    everyone = {caller.organization_id} if request.organization_wide else set[UUID]()
    viewers = frozenset({item.principal_id for item in named} | everyone)
    match request.change:
        case None | wire.DeploymentChange.REPLACE:
            return Access(owner_id=None, viewers=viewers)
        case wire.DeploymentChange.ADD:
            return replace(before, viewers=before.viewers | viewers)
        case wire.DeploymentChange.REMOVE:
            return replace(before, viewers=before.viewers - viewers)


async def _show(
    connection: Connection, caller: Caller, agent_id: UUID, access: Access
) -> wire.AdminAgentsDeployResponse:
    resource = require(await get_resource(connection, caller.organization_id, object_id=agent_id), unknown_agent())
    rows = await list_grants(connection, caller.organization_id, access_class=resource.access_class)
    return wire.AdminAgentsDeployResponse(
        agent_id=agent_id,
        principals=[to_named_principal(row) for row in rows],
        organization_wide=caller.organization_id in access.viewers,
        version=access.version,
    )
