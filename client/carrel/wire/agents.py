"""Agents: admin/agents/* (extensions, for admins), and GET /api/v1/agents, which shows people theirs."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire import common
from carrel.wire.admin import NamedPrincipal
from carrel.wire.fields import NO_NUL, Description, Instant, Label, StrictFlag
from carrel.wire.operations import ADMIN, CONFLICT, KEYED, MESSAGE, NOT_FOUND, ApiOperation

Instructions = Annotated[str, Field(max_length=20_000), NO_NUL]
"""What the model is told before every conversation."""

BUILT_IN_MODEL = "carrel-extractive"
"""The model of every deployment: it quotes the passages that answer, and follows no instructions."""

CollectionIds = Annotated[list[UUID], Field(max_length=100)]
StarterQuestions = Annotated[list[Label], Field(max_length=6)]


class RetrievalOptions(common.RequestModel):
    """How an agent looks passages up, by the options that searches have."""

    enable_smart_filtering: StrictFlag | None = None
    """Whether filters are drawn from the message: "finance reports since March 2025"; false unless given."""
    enable_query_extraction: StrictFlag | None = None
    """Whether the questions of a long message are looked up in place of the message; false unless given."""
    enable_reranking: StrictFlag | None = None
    """Whether a reranking model orders the best passages again; absent: as the organization has it."""


class AgentRetrieval(common.ResponseModel):
    """How an agent looks passages up; what is absent is as for searches without the option."""

    enable_smart_filtering: bool | None = None
    """Whether filters are drawn from the message; a warning of the reply says which."""
    enable_query_extraction: bool | None = None
    """Whether the questions of a long message are looked up in place of the message."""
    enable_reranking: bool | None = None
    """Whether a reranking model orders the best passages again."""


class AdminAgentsCreateRequest(common.RequestModel):
    """Define an agent; nobody may use it before it is deployed."""

    name: Label
    """Name of the agent, unique in the organization."""
    description: Description = ""
    """What the agent is for, as people see it; empty unless given."""
    instructions: Instructions = ""
    """What the language model is told before every conversation; empty unless given."""
    model: Label | None = None
    """Language model, one of those that `admin/agents/list` names; absent: the service's default."""
    collection_ids: CollectionIds = Field(default_factory=list[UUID])
    """Collections that the agent retrieves from, at most 100; none: it retrieves nothing."""
    api_access_enabled: StrictFlag = False
    """Whether programs may message the agent on v0; false unless given."""
    retrieval: RetrievalOptions | None = None
    """How the agent looks passages up; absent: as searches without options."""
    starter_questions: StarterQuestions | None = None
    """Questions that people are offered to begin with, at most 6; none unless given."""
    answers_searches: StrictFlag | None = None
    """Whether the Search page shows the agent's answers to people who may use it; false unless given."""


class AgentSettings(common.Versioned):
    """What admins set of an agent."""

    edited = (
        "name",
        "description",
        "instructions",
        "model",
        "collection_ids",
        "api_access_enabled",
        "retrieval",
        "starter_questions",
        "answers_searches",
    )
    worded = ("starter_questions",)

    name: str
    """Name of the agent."""
    description: str
    """What the agent is for, as people see it."""
    instructions: str
    """What the language model is told before every conversation."""
    model: str | None = None
    """Language model; absent: the service's default."""
    collection_ids: list[UUID]
    """Collections that the agent retrieves from; none: it retrieves nothing."""
    api_access_enabled: bool
    """Whether programs may message the agent on v0."""
    retrieval: AgentRetrieval = Field(default_factory=AgentRetrieval)
    """How the agent looks passages up."""
    starter_questions: list[str] = Field(default_factory=list[str])
    """Questions that people are offered to begin with."""
    answers_searches: bool = False
    """Whether the Search page shows the agent's answers to people who may use it."""


class AgentDefinition(AgentSettings):
    """An agent as its admins see it."""

    agent_id: UUID
    created_at: Instant
    updated_at: Instant


class AdminAgentsCreateResponse(AgentDefinition):
    """The new agent."""


class AdminAgentsUpdateRequest(common.VersionedRequest):
    """Change an agent from the next message on; what is left out stays."""

    agent_id: UUID
    name: Label | None = None
    """New name of the agent; absent: unchanged."""
    description: Description | None = None
    """What the agent is for, as people see it; absent: unchanged."""
    instructions: Instructions | None = None
    """What the language model is told before every conversation; absent: unchanged."""
    model: Label | None = None
    """Language model; null: the service's default; absent: unchanged."""
    collection_ids: CollectionIds | None = None
    """Collections that the agent retrieves from, at most 100; absent: unchanged."""
    api_access_enabled: StrictFlag | None = None
    """Whether programs may message the agent on v0; absent: unchanged."""
    retrieval: RetrievalOptions | None = None
    """How the agent looks passages up, all of it; absent: unchanged."""
    starter_questions: StarterQuestions | None = None
    """Questions that people are offered to begin with, all of them, at most 6; absent: unchanged."""
    answers_searches: StrictFlag | None = None
    """Whether the Search page shows the agent's answers to people who may use it; absent: unchanged."""

    def to_json(self) -> bytes:
        """Return the body as it goes over the wire: what was given, a `model` of None too."""
        return self.__pydantic_serializer__.to_json(self, by_alias=True, exclude_unset=True)


class AdminAgentsUpdateResponse(AgentDefinition):
    """The agent as it is now."""


class AdminAgentsListRequest(common.NarrowedRequest):
    """List agents."""

    query: Annotated[str, Field(max_length=200), NO_NUL] | None = None
    """Part of a name, in any case."""


class AdminAgentsListResponse(common.PagedResponse):
    """One page of agents, and the models they may be given."""

    agents: list[AgentDefinition]
    """The agents."""
    models: list[str]
    """Language models that an agent may be given."""


class AdminAgentsListVersionsRequest(common.PagedRequest):
    """List the settings that an agent has had."""

    agent_id: UUID


class AgentVersion(AgentSettings):
    """Settings that an agent has had, or has."""

    number: int
    """Number of the version, counted from 1."""
    saved_at: Instant
    """When the settings were saved."""
    saved_by: str | None = None
    """Name of who saved them; absent when that is unknown."""


class AdminAgentsListVersionsResponse(common.PagedResponse):
    """One page of versions."""

    versions: list[AgentVersion]
    """The versions, newest first."""


class AdminAgentsDeleteRequest(common.RequestModel):
    """Delete an agent: nobody can message it any more. People keep their conversations with it."""

    agent_id: UUID


class AdminAgentsDeleteResponse(common.ResponseModel):
    """The agent that is gone."""

    agent_id: UUID


class DeploymentChange(StrEnum):
    """How a deployment changes who may use an agent."""

    REPLACE = "REPLACE"
    """Those named may use it, and others may not."""
    ADD = "ADD"
    """Those named may use it too."""
    REMOVE = "REMOVE"
    """Those named may not use it any more; others still may."""


class AdminAgentsDeployRequest(common.VersionedRequest):
    """Change who may use an agent."""

    agent_id: UUID
    principals: Annotated[list[common.PrincipalReference], Field(max_length=10_000)]
    """The users, groups and service accounts that `change` is about, at most 10,000."""
    organization_wide: StrictFlag = False
    """Whether the change is about every active user, too; false unless given."""
    change: DeploymentChange | None = None
    """What becomes of those named; REPLACE unless given."""


class AdminAgentsDeployResponse(common.Versioned):
    """Who may use the agent now."""

    agent_id: UUID
    principals: list[NamedPrincipal]
    """Who may use the agent."""
    organization_wide: bool
    """Whether every active user may use the agent."""


class ListAgentsRequest(common.PagedParameters):
    """The parameters of GET /api/v1/agents."""


class Agent(common.ResponseModel):
    """An agent as those see it to whom it is deployed."""

    agent_id: UUID
    name: str
    """Name of the agent."""
    description: str
    """What the agent is for."""
    starter_questions: list[str] | None = None
    """Questions to begin with; absent when there are none."""
    answers_searches: bool | None = None
    """Whether the Search page shows the agent's answers; absent when it doesn't."""


class ListAgentsResponse(common.PagedResponse):
    """One page of the agents that the caller may message, by id."""

    agents: list[Agent]
    """The agents, ordered by id."""


ADMIN_AGENTS_CREATE = ApiOperation(
    "admin/agents/create", AdminAgentsCreateRequest, AdminAgentsCreateResponse, ADMIN, KEYED
)
"""Define an agent; nobody may use it before `deploy`.

It retrieves from the collections what the sender of a message may read there; without any, nothing.
`api_access_enabled` lets programs message it on v0. `model` is one of those that `list` tells (None: the
service's default). `retrieval` are options of searches for what it looks up, such as
`{"enable_smart_filtering": True}`. `starter_questions` are offered to people who begin a conversation.
`answers_searches` shows the agent's answer above the results of the Search page."""
ADMIN_AGENTS_UPDATE = ApiOperation(
    "admin/agents/update", AdminAgentsUpdateRequest, AdminAgentsUpdateResponse, ADMIN, NOT_FOUND | CONFLICT
)
ADMIN_AGENTS_LIST_VERSIONS = ApiOperation(
    "admin/agents/listVersions", AdminAgentsListVersionsRequest, AdminAgentsListVersionsResponse, ADMIN, NOT_FOUND
)
"""Walk the newest 50 versions of an agent's settings, newest first. `update` can restore each of them."""
ADMIN_AGENTS_LIST = ApiOperation("admin/agents/list", AdminAgentsListRequest, AdminAgentsListResponse, ADMIN)
"""Walk the agents, those of `ids` (at most 1000) or with `query` in their name if these are given.

`pages()` also have the models."""
ADMIN_AGENTS_DELETE = ApiOperation(
    "admin/agents/delete", AdminAgentsDeleteRequest, AdminAgentsDeleteResponse, ADMIN, KEYED | NOT_FOUND
)
"""Delete an agent: nobody can message it any more. People keep their conversations with it."""
ADMIN_AGENTS_DEPLOY = ApiOperation(
    "admin/agents/deploy",
    AdminAgentsDeployRequest,
    AdminAgentsDeployResponse,
    ADMIN,
    NOT_FOUND | CONFLICT,
    by_position=("agent_id", "principals"),
)
"""Change who may use an agent: these users, groups and service accounts, and perhaps every active user.

They replace the former ones unless `change` is ADD or REMOVE. It opens no collection and no document to them."""
LIST_AGENTS = ApiOperation("agents", ListAgentsRequest, ListAgentsResponse, MESSAGE, method="GET", version="v1")
