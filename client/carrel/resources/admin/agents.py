"""admin/agents: what agents there are, and whom they are deployed to."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._connect import UNCHANGED, Unchanged
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, Members, as_any, as_list
from carrel.wire import agents as wire
from carrel.wire.common import PrincipalReference

M = TypeVar("M")


class AgentDefinitions(Resource[M]):
    """Agents: what they are told, which collections they retrieve from, and who may use them."""

    @property
    def with_raw_response(self) -> "AgentDefinitions[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return AgentDefinitions(self._session.as_raw())

    @Operation
    def create(
        self,
        name: str,
        *,
        description: str = "",
        instructions: str = "",
        model: str | None = None,
        collection_ids: Iterable[Id] = (),
        api_access_enabled: bool = False,
        retrieval: wire.RetrievalOptions | Members | None = None,
    ) -> Call[wire.AdminAgentsCreateResponse]:
        """Define an agent; nobody may use it before `deploy`.

        It retrieves from the collections what the sender of a message may read there; without any, nothing.
        `api_access_enabled` lets programs message it on v0. `model` is one of those that `list` tells (None: the
        service's default). `retrieval` are options of searches for what it looks up, such as
        `{"enable_smart_filtering": True}`.
        """
        request = wire.AdminAgentsCreateRequest(
            name=name,
            description=description,
            instructions=instructions,
            model=model,
            collection_ids=as_list(UUID, collection_ids),
            api_access_enabled=api_access_enabled,
            retrieval=as_any(wire.RetrievalOptions, retrieval),
        )
        return Call(wire.ADMIN_AGENTS_CREATE, request)

    @Operation
    def update(
        self,
        agent_id: Id,
        *,
        name: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
        model: str | Unchanged | None = UNCHANGED,
        collection_ids: Iterable[Id] | None = None,
        api_access_enabled: bool | None = None,
        retrieval: wire.RetrievalOptions | Members | None = None,
    ) -> Call[wire.AdminAgentsUpdateResponse]:
        """Change an agent from the next message on; what is left out stays. `model=None` is the service's default.

        `retrieval` replaces all of its options.
        """
        given: dict[str, Any] = {
            "name": name,
            "description": description,
            "instructions": instructions,
            "collection_ids": as_list(UUID, collection_ids),
            "api_access_enabled": api_access_enabled,
            "retrieval": as_any(wire.RetrievalOptions, retrieval),
        }
        changes = {member: value for member, value in given.items() if value is not None}
        if model is not UNCHANGED:
            changes["model"] = model
        request = wire.AdminAgentsUpdateRequest(agent_id=as_any(UUID, agent_id), **changes)
        return Call(wire.ADMIN_AGENTS_UPDATE, request)

    @ListOperation
    def list(
        self,
        *,
        query: str | None = None,
        ids: Iterable[Id] | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.AgentDefinition, wire.AdminAgentsListResponse]:
        """Walk the agents, those of `ids` (at most 1000) or with `query` in their name if these are given.

        `pages()` also have the models.
        """
        request = wire.AdminAgentsListRequest(
            query=query, ids=as_list(UUID, ids), page_size=page_size, page_token=page_token
        )
        return Listing(wire.ADMIN_AGENTS_LIST, request, lambda page: page.agents)

    @Operation
    def delete(self, agent_id: Id) -> Call[wire.AdminAgentsDeleteResponse]:
        """Delete an agent: nobody can message it any more. People keep their conversations with it."""
        request = wire.AdminAgentsDeleteRequest(agent_id=as_any(UUID, agent_id))
        return Call(wire.ADMIN_AGENTS_DELETE, request)

    @Operation
    def deploy(
        self,
        agent_id: Id,
        principals: Sequence[PrincipalReference | Members] = (),
        *,
        organization_wide: bool = False,
    ) -> Call[wire.AdminAgentsDeployResponse]:
        """Replace the access to an agent: these users, groups and service accounts, and perhaps every active user.

        It opens no collection and no document to them.
        """
        request = wire.AdminAgentsDeployRequest(
            agent_id=as_any(UUID, agent_id),
            principals=as_any(list[PrincipalReference], [*principals]),
            organization_wide=organization_wide,
        )
        return Call(wire.ADMIN_AGENTS_DEPLOY, request)
