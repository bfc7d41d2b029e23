"""Agents as their admins define them: instructions, collections, and who may use them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from uuid import UUID

import streamlit as st

from app import api
from app.auth.current import person_client
from app.formatting import one_line
from app.labels import COLLECTION, GROUP, types_of
from app.lookup import Principal, Resource, by_id
from app.permissions.grants import ConflictError, Grants, grants_on
from carrel.wire.agents import BUILT_IN_MODEL, AgentDefinition, RetrievalOptions
from carrel.wire.common import Action, ResourceReference, ResourceType, UserReference

DEFAULT_MODEL = ""
"""What stands for the model that the service has at the time."""
INSTRUCTIONS_IGNORED = (
    f"The built-in model, {BUILT_IN_MODEL}, quotes documents and follows no instructions: other ones change no reply."
)
MOST_LOOKED_AT = 10
"""Of so many of those who may use an agent, the page looks whether it has anything for them."""
_MANY = 1000


@dataclass(frozen=True)
class Writing:
    """The settings of an agent as its form has them."""

    name: str
    description: str
    instructions: str
    model: str
    collection_ids: tuple[str, ...]
    open_to_programs: bool
    retrieval: RetrievalOptions


def find_agent(address: str) -> AgentDefinition | None:
    """Return the agent of this id as it is now; None when there is none."""
    return by_id(api.client().admin.agents.list, address)


@st.cache_data(ttl=60, show_spinner=False, scope="session")
def models() -> list[str]:
    """Return the models that an agent may have, the service's default first."""
    return next(api.client().admin.agents.list(page_size=1).pages()).models


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def all_collections() -> dict[str, str]:
    """Return the names of the organization's collections by id, a thousand at most; an agent may have any of them."""
    listing = api.client().admin.access.list_resources(resource_types=types_of([COLLECTION]), page_size=_MANY)
    found = next(listing.pages()).resources
    return dict(
        sorted(((str(one.object_id), one_line(one.name or "")) for one in found), key=lambda pair: pair[1].lower())
    )


def as_resource(agent: AgentDefinition) -> Resource:
    """Return an agent as a resource for grants."""
    return Resource(ResourceType.AGENT, str(agent.agent_id), agent.name, agent.agent_id)


def save(agent: AgentDefinition, writing: Writing) -> None:
    """Save an agent's settings; raises ConflictError when the agent was changed meanwhile."""
    now = find_agent(str(agent.agent_id))
    if now is None or now.updated_at != agent.updated_at:
        raise ConflictError
    api.client().admin.agents.update(
        agent.agent_id,
        name=writing.name,
        description=writing.description,
        instructions=writing.instructions,
        model=writing.model or None,
        collection_ids=writing.collection_ids,
        api_access_enabled=writing.open_to_programs,
        retrieval=writing.retrieval,
    )


def deploy(agent: AgentDefinition, *, before: Grants, who: Mapping[str, Principal], everybody: bool) -> None:
    """Replace the grants on an agent; raises ConflictError when they were changed meanwhile."""
    if grants_on(api.client(), as_resource(agent)) != before:
        raise ConflictError
    references = [one.reference for one in who.values()]
    api.client().admin.agents.deploy(agent.agent_id, references, organization_wide=everybody)


def deploy_to_me(agent: AgentDefinition) -> None:
    """Give the signed-in person access to an agent; other people's access stays."""
    now = grants_on(api.client(), as_resource(agent))
    references = [*(one.reference for one in now.who.values()), UserReference(email=api.me().email)]
    api.client().admin.agents.deploy(agent.agent_id, references, organization_wide=now.everybody)


def is_mine(agent_id: UUID) -> bool:
    """Return whether the signed-in person may use an agent."""
    resource = ResourceReference(resource_id=str(agent_id), resource_type=ResourceType.AGENT)
    permissions = person_client().permissions
    return permissions.check_resource_authorization_for_user(resource, action=Action.READ).authorized


def without_sources(agent: AgentDefinition, who: Iterable[Principal]) -> list[Principal]:
    """Return which of these principals may search none of an agent's collections, so that it can't answer them.

    Only the first `MOST_LOOKED_AT` people and service accounts are checked; members of groups differ.
    """
    if not agent.collection_ids:
        return []
    looked_at = islice((one for one in who if one.kind != GROUP), MOST_LOOKED_AT)
    return [one for one in looked_at if not _searches_any(agent.collection_ids, one)]


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def _searches_any(collection_ids: Sequence[UUID], who: Principal) -> bool:
    """Return whether a principal may search one of the collections; cached, because every key press draws the page."""
    readable = api.client().admin.access.count_resources(object_ids=collection_ids, readable_by=who.reference)
    return readable.total > 0


def gains_and_losses(before: Grants, after: Mapping[str, Principal], *, everybody: bool) -> list[str]:
    """Return a sentence for each change of the people who may use an agent: who may now, and who may no more."""
    said: list[str] = []
    if everybody and not before.everybody:
        said.append("Everybody in the organization may use it, people who come later too.")
    if before.everybody and not everybody:
        said.append("It is not open to everybody in the organization any more.")
    gained = [one.label for key, one in after.items() if key not in before.who]
    lost = [one.label for key, one in before.who.items() if key not in after]
    said += [f"May use it from now on: {join_names(gained)}."] if gained else []
    said += [f"May not use it any more: {join_names(lost)}."] if lost else []
    if lost and everybody:
        said.append("Being open to everybody, it stays in the reach of the people among them all the same.")
    return said


def join_names(labels: list[str]) -> str:
    """Name several in a line, or the first ten of them."""
    more = f" and {len(labels) - 10:,} more" if len(labels) > 10 else ""
    return f"{'; '.join(labels[:10])}{more}"
