"""Agents: admin/agents/* (extensions, for admins), and GET /api/v1/agents, which lists the caller's agents."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire import common
from carrel.wire.admin import NamedPrincipal
from carrel.wire.fields import NO_NUL, Description, Instant, Label, StrictFlag
from carrel.wire.operations import ADMIN, CONFLICT, KEYED, MESSAGE, NOT_FOUND, ApiOperation

Instructions = Annotated[str, Field(max_length=20_000), NO_NUL]
"""Instructions for the model, used in every conversation."""

BUILT_IN_MODEL = "carrel-extractive"
"""The built-in model of every deployment: quotes the passages that answer, and ignores instructions."""

CollectionIds = Annotated[list[UUID], Field(max_length=100)]
StarterQuestions = Annotated[list[Label], Field(max_length=6)]


class RetrievalOptions(common.RequestModel):
    """How an agent looks up passages, with the options of searches."""

    enable_smart_filtering: StrictFlag | None = None
    """Whether filters are drawn from the message: "finance reports since March 2025"; false unless given."""
    enable_query_extraction: StrictFlag | None = None
    """Whether the questions of a long message are looked up in place of the message; false unless given."""
    enable_reranking: StrictFlag | None = None
    """Whether a reranking model reorders the best passages; default: the organization's setting."""


class AgentRetrieval(common.ResponseModel):
    """How an agent looks up passages; absent options have their defaults for searches."""

    enable_smart_filtering: bool | None = None
    """Whether filters are drawn from the message; a warning of the reply names them."""
    enable_query_extraction: bool | None = None
    """Whether the questions of a long message are looked up in place of the message."""
    enable_reranking: bool | None = None
    """Whether a reranking model orders the best passages again."""


class AdminAgentsCreateRequest(common.RequestModel):
    """Define an agent; usable only after `deploy`."""

    name: Label
    """Name of the agent, unique in the organization."""
    description: Description = ""
    """Purpose of the agent, shown to people; default: empty."""
    instructions: Instructions = ""
    """Instructions for the language model in every conversation; default: empty."""
    model: Label | None = None
    """Language model, from the list in `admin/agents/list`; absent: the service's default."""
    collection_ids: CollectionIds = Field(default_factory=list[UUID])
    """Collections that the agent searches, at most 100; without collections, the agent searches nothing."""
    api_access_enabled: StrictFlag = False
    """Whether programs may message the agent on v0; false unless given."""
    retrieval: RetrievalOptions | None = None
    """How the agent looks passages up; absent: as searches without options."""
    starter_questions: StarterQuestions | None = None
    """Questions offered to begin with, at most 6; default: none."""
    answers_searches: StrictFlag | None = None
    """Whether the Search page shows the agent's answers to its users; default: false."""


class AgentSettings(common.Versioned):
    """An agent's settings by admins."""

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
    description: str
    """Purpose of the agent, shown to people."""
    instructions: str
    model: str | None = None
    """Language model; absent: the service's default."""
    collection_ids: list[UUID]
    """Collections that the agent searches; without collections, the agent searches nothing."""
    api_access_enabled: bool
    retrieval: AgentRetrieval = Field(default_factory=AgentRetrieval)
    """How the agent looks passages up."""
    starter_questions: list[str] = Field(default_factory=list[str])
    """Questions offered to begin with."""
    answers_searches: bool = False
    """Whether the Search page shows the agent's answers to its users."""


class AgentDefinition(AgentSettings):
    """An agent, for admins."""

    agent_id: UUID
    created_at: Instant
    updated_at: Instant


class AdminAgentsCreateResponse(AgentDefinition):
    """The new agent."""


class AdminAgentsUpdateRequest(common.VersionedRequest):
    """Change an agent from the next message on; omitted settings stay."""

    agent_id: UUID
    name: Label | None = None
    """New name of the agent; absent: unchanged."""
    description: Description | None = None
    """Purpose of the agent, shown to people; absent: unchanged."""
    instructions: Instructions | None = None
    """Instructions for the language model in every conversation; absent: unchanged."""
    model: Label | None = None
    """Language model; null: the service's default; absent: unchanged."""
    collection_ids: CollectionIds | None = None
    """Collections that the agent searches, at most 100; absent: unchanged."""
    api_access_enabled: StrictFlag | None = None
    """Whether programs may message the agent on v0; absent: unchanged."""
    retrieval: RetrievalOptions | None = None
    """How the agent looks up passages; replaces all options; absent: unchanged."""
    starter_questions: StarterQuestions | None = None
    """Questions offered to begin with, at most 6; replaces all questions; absent: unchanged."""
    answers_searches: StrictFlag | None = None
    """Whether the Search page shows the agent's answers to its users; absent: unchanged."""

    def to_json(self) -> bytes:
        """Return the JSON body: the given values, including a `model` of None."""
        return self.__pydantic_serializer__.to_json(self, by_alias=True, exclude_unset=True)


class AdminAgentsUpdateResponse(AgentDefinition):
    """The agent after the change."""


class AdminAgentsListRequest(common.NarrowedRequest):
    """List agents."""

    query: Annotated[str, Field(max_length=200), NO_NUL] | None = None


class AdminAgentsListResponse(common.PagedResponse):
    """A page of agents, and the available models."""

    agents: list[AgentDefinition]
    models: list[str]
    """Available language models."""


class AdminAgentsListVersionsRequest(common.PagedRequest):
    """List the current and earlier settings of an agent."""

    agent_id: UUID


class AgentVersion(AgentSettings):
    """Current or earlier settings of an agent."""

    number: int
    """Number of the version, counted from 1."""
    saved_at: Instant
    """When the settings were saved."""
    saved_by: str | None = None
    """Name of the user who saved the settings; absent: unknown."""


class AdminAgentsListVersionsResponse(common.PagedResponse):
    """A page of versions."""

    versions: list[AgentVersion]


class AdminAgentsDeleteRequest(common.RequestModel):
    """Delete an agent and stop its messages. People keep their conversations."""

    agent_id: UUID


class AdminAgentsDeleteResponse(common.ResponseModel):
    """The deleted agent."""

    agent_id: UUID


class DeploymentChange(StrEnum):
    """How a deployment changes an agent's users."""

    REPLACE = "REPLACE"
    """Only the named principals may use the agent."""
    ADD = "ADD"
    """The named principals may use the agent as well."""
    REMOVE = "REMOVE"
    """The named principals lose the agent; other principals keep access."""


class AdminAgentsDeployRequest(common.VersionedRequest):
    """Change who may use an agent."""

    agent_id: UUID
    principals: Annotated[list[common.PrincipalReference], Field(max_length=10_000)]
    """The users, groups and service accounts to add, remove or set, at most 10,000."""
    organization_wide: StrictFlag = False
    """Whether the change is about every active user, too; false unless given."""
    change: DeploymentChange | None = None
    """How the principals are applied; default: REPLACE."""


class AdminAgentsDeployResponse(common.Versioned):
    """The agent's current users."""

    agent_id: UUID
    principals: list[NamedPrincipal]
    """The principals who may use the agent."""
    organization_wide: bool
    """Whether every active user may use the agent."""


class ListAgentsRequest(common.PagedParameters):
    """The parameters of GET /api/v1/agents."""


class Agent(common.ResponseModel):
    """An agent, for people with access."""

    agent_id: UUID
    name: str
    description: str
    """Purpose of the agent."""
    starter_questions: list[str] | None = None
    """Questions to begin with; absent: none."""
    answers_searches: bool | None = None
    """Whether the Search page shows the agent's answers; absent: false."""


class ListAgentsResponse(common.PagedResponse):
    """A page of the agents that the caller may message, by id."""

    agents: list[Agent]
    """The agents, ordered by id."""


ADMIN_AGENTS_CREATE = ApiOperation(
    "admin/agents/create", AdminAgentsCreateRequest, AdminAgentsCreateResponse, ADMIN, KEYED
)
"""Define an agent; usable only after `deploy`. The agent searches its collections, limited to documents that
the message's sender may read; without collections, it searches nothing. `api_access_enabled` lets programs
message it on v0. `model` is a model named by `list` (None: the service's default). `retrieval` are search
options for its look-ups, such as `{"enable_smart_filtering": True}`. `starter_questions` are offered at the
beginning of a conversation. `answers_searches` shows the agent's answer on the Search page."""
ADMIN_AGENTS_UPDATE = ApiOperation(
    "admin/agents/update", AdminAgentsUpdateRequest, AdminAgentsUpdateResponse, ADMIN, NOT_FOUND | CONFLICT
)
ADMIN_AGENTS_LIST_VERSIONS = ApiOperation(
    "admin/agents/listVersions", AdminAgentsListVersionsRequest, AdminAgentsListVersionsResponse, ADMIN, NOT_FOUND
)
"""List the newest 50 versions of an agent's settings, newest first. `update` can restore any of them."""
ADMIN_AGENTS_LIST = ApiOperation("admin/agents/list", AdminAgentsListRequest, AdminAgentsListResponse, ADMIN)
"""List the agents; `ids` (at most 1000) and `query` (part of a name) filter. `pages()` also have the models."""
ADMIN_AGENTS_DELETE = ApiOperation(
    "admin/agents/delete", AdminAgentsDeleteRequest, AdminAgentsDeleteResponse, ADMIN, KEYED | NOT_FOUND
)
"""Delete an agent and stop its messages. People keep their conversations."""
ADMIN_AGENTS_DEPLOY = ApiOperation(
    "admin/agents/deploy",
    AdminAgentsDeployRequest,
    AdminAgentsDeployResponse,
    ADMIN,
    NOT_FOUND | CONFLICT,
    by_position=("agent_id", "principals"),
)
"""Change who may use an agent: users, groups, service accounts, or every active user. They replace the current
users unless `change` is ADD or REMOVE. Deploying gives no access to collections or documents."""
LIST_AGENTS = ApiOperation("agents", ListAgentsRequest, ListAgentsResponse, MESSAGE, method="GET", version="v1")
