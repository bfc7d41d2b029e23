"""Drafts of agents: copies that nobody may use, to try other settings with and compare them (`carrel.evaluation`).

A draft is an agent like any other, deployed to nobody.
"""

from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING
from uuid import UUID

from carrel.errors import ConflictError, InvalidArgumentError
from carrel.wire.agents import AgentDefinition, RetrievalOptions

if TYPE_CHECKING:
    from carrel import Carrel

__all__ = ["copy_agent", "is_draft", "lend_draft"]

_LONGEST_NAME = 200
_MOST_COPIES = 100


def copy_agent(client: "Carrel", agent_id: UUID | str, *, name: str | None = None) -> AgentDefinition:
    """Create an agent with the settings of another one, deployed to nobody, and return it.

    It is called "Name (copy)" unless a name is given, "Name (copy 2)" where that is taken.
    Raises InvalidArgumentError for an agent that isn't there, ConflictError `agent_name_taken` of a given name.
    """
    agent = next(iter(client.admin.agents.list(ids=[agent_id])), None)
    if agent is None:
        msg = f"agent_id: there is no agent {agent_id}"
        raise InvalidArgumentError(msg)
    for number in count(1):
        try:
            return client.admin.agents.create(
                name or _name_copy(agent.name, number),
                description=agent.description,
                instructions=agent.instructions,
                model=agent.model,
                collection_ids=agent.collection_ids,
                api_access_enabled=agent.api_access_enabled,
                retrieval=RetrievalOptions.model_validate(agent.retrieval.model_dump()),
            )
        except ConflictError as error:
            if name or error.code != "agent_name_taken" or number == _MOST_COPIES:
                raise
    raise AssertionError


def _name_copy(name: str, number: int) -> str:
    end = " (copy)" if number == 1 else f" (copy {number})"
    return name[: _LONGEST_NAME - len(end)] + end


def is_draft(client: "Carrel", agent_id: UUID | str) -> bool:
    """Return whether an agent is deployed to nobody; the client is an admin's."""
    return not _users_of(client, agent_id)


@contextmanager
def lend_draft(client: "Carrel", agent_id: UUID | str, *, email: str) -> Generator[None]:
    """Deploy an agent that is deployed to nobody to one person, for as long as the block lasts.

    One that is deployed to anybody stays as it is; so does one that is deployed to others before the block ends.
    The client is an admin's. Killed within the block, it stays deployed to that person alone. The end of the block ends
    other blocks over the same draft, too; so lend it once at a time.
    """
    if _users_of(client, agent_id):
        yield
        return
    person = {"type": "user", "email": email}
    client.admin.agents.deploy(agent_id, [person])
    lent_to = _users_of(client, agent_id)
    try:
        yield
    finally:
        if _users_of(client, agent_id) == lent_to:
            client.admin.agents.deploy(agent_id, [])


def _users_of(client: "Carrel", agent_id: UUID | str) -> set[str]:
    """Return the ids of all who hold a grant on an agent; `everybody` when every active user may use it."""
    pages = client.admin.grants.list({"resource_id": str(agent_id), "resource_type": "AGENT"}, page_size=1000).pages()
    users: set[str] = set()
    for page in pages:
        users |= {str(grant.principal.id) for grant in page.grants}
        users |= {"everybody"} if page.organization_wide else set()
    return users
