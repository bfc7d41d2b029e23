"""Agents: admin/agents/* (extensions, for admins), and GET /api/v1/agents, which shows people theirs."""

from typing import Annotated, ClassVar
from uuid import UUID

from pydantic import Field

from carrel.wire.admin import NamedPrincipal, StrictFlag
from carrel.wire.common import (
    NO_NUL,
    Description,
    Instant,
    Label,
    NarrowedRequest,
    PagedParameters,
    PagedResponse,
    PrincipalReference,
    RequestModel,
    ResponseModel,
)

Instructions = Annotated[str, Field(max_length=20_000), NO_NUL]
"""What the model is told before every conversation."""

CollectionIds = Annotated[list[UUID], Field(max_length=100)]


class AdminAgentsCreateRequest(RequestModel):
    """Define an agent; nobody may use it before it is deployed.

    `model` is one of those the service has (absent: its default); without `collection_ids` it retrieves nothing.
    `api_access_enabled`: whether it may be messaged on v0, by programs.
    """

    name: Label
    description: Description = ""
    instructions: Instructions = ""
    model: Label | None = None
    collection_ids: CollectionIds = Field(default_factory=list[UUID])
    api_access_enabled: StrictFlag = False


class AgentDefinition(ResponseModel):
    """An agent as its admins see it; `model` is None for the service's default."""

    agent_id: UUID
    name: str
    description: str
    instructions: str
    model: str | None = None
    collection_ids: list[UUID]
    api_access_enabled: bool
    created_at: Instant
    updated_at: Instant


class AdminAgentsCreateResponse(AgentDefinition):
    """The new agent."""


class AdminAgentsUpdateRequest(RequestModel):
    """Change an agent from the next message on; what is left out stays. A `model` of null: the service's default."""

    agent_id: UUID
    name: Label | None = None
    description: Description | None = None
    instructions: Instructions | None = None
    model: Label | None = None
    collection_ids: CollectionIds | None = None
    api_access_enabled: StrictFlag | None = None

    def to_json(self) -> bytes:
        """Return the body as it goes over the wire: what was given, a `model` of None too."""
        return self.__pydantic_serializer__.to_json(self, by_alias=True, exclude_unset=True)


class AdminAgentsUpdateResponse(AgentDefinition):
    """The agent as it is now."""


class AdminAgentsListRequest(NarrowedRequest):
    """List agents; `query` is part of a name."""

    query: Annotated[str, Field(max_length=200), NO_NUL] | None = None


class AdminAgentsListResponse(PagedResponse):
    """One page of agents, and the models they may be given."""

    rows_in: ClassVar[str] = "agents"
    agents: list[AgentDefinition]
    models: list[str]


class AdminAgentsDeleteRequest(RequestModel):
    """Delete an agent: nobody can message it any more. People keep their conversations with it."""

    agent_id: UUID


class AdminAgentsDeleteResponse(ResponseModel):
    """The agent that is gone."""

    agent_id: UUID


class AdminAgentsDeployRequest(RequestModel):
    """Replace who may use an agent; `organization_wide`: every active user."""

    agent_id: UUID
    principals: Annotated[list[PrincipalReference], Field(max_length=10_000)]
    organization_wide: StrictFlag = False


class AdminAgentsDeployResponse(ResponseModel):
    """Who may use the agent now."""

    agent_id: UUID
    principals: list[NamedPrincipal]
    organization_wide: bool


class ListAgentsRequest(PagedParameters):
    """The parameters of GET /api/v1/agents."""


class Agent(ResponseModel):
    """An agent as those see it to whom it is deployed."""

    agent_id: UUID
    name: str
    description: str


class ListAgentsResponse(PagedResponse):
    """One page of the agents that the caller may message, by id."""

    rows_in: ClassVar[str] = "agents"
    agents: list[Agent]
