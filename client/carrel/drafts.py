"""Drafts of agents, for comparing settings (`carrel.evaluation`), and agents lent to an admin for a test."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING
from uuid import UUID

from carrel.errors import ConflictError, InvalidArgumentError, NotFoundError
from carrel.wire.agents import AgentDefinition, RetrievalOptions
from carrel.wire.common import UserReference

if TYPE_CHECKING:
    from carrel import Carrel

__all__ = ["copy_agent", "is_draft", "lend_draft", "may_ask"]

_LONGEST_NAME = 200
_MOST_COPIES = 100
_lock = Lock()
_blocks: Counter[tuple[str, str]] = Counter()
"""Number of active `lend_draft` blocks in this program, by agent id and the person's email address."""


def copy_agent(client: "Carrel", agent_id: UUID | str, *, name: str | None = None) -> AgentDefinition:
    """Create a copy of an agent, deployed to no user. Raises InvalidArgumentError and ConflictError."""
    if (agent := next(iter(client.admin.agents.list(ids=[agent_id])), None)) is None:
        raise InvalidArgumentError(f"agent_id: there is no agent {agent_id}")
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
                starter_questions=agent.starter_questions,
                answers_searches=agent.answers_searches,
            )
        except ConflictError as error:
            if name or error.code != "agent_name_taken" or number == _MOST_COPIES:
                raise
    raise AssertionError


def _name_copy(name: str, number: int) -> str:
    end = " (copy)" if number == 1 else f" (copy {number})"
    return name[: _LONGEST_NAME - len(end)] + end


def is_draft(client: "Carrel", agent_id: UUID | str) -> bool:
    """Return whether an agent is deployed to no user. Needs an admin's client."""
    page = next(client.admin.grants.list(_resource(agent_id), page_size=1).pages())
    return not page.grants and not page.organization_wide


def may_ask(client: "Carrel", agent_id: UUID | str, email: str | None = None) -> bool:
    """Return whether an agent is deployed to the caller, or to the user with this address (admins only)."""
    if email is None:
        return client.permissions.check_resource_authorization_for_user(_resource(agent_id)).authorized
    reader = UserReference(email=email)
    return client.admin.access.count_resources(object_ids=[agent_id], readable_by=reader).total > 0


def _resource(agent_id: UUID | str) -> dict[str, str]:
    return {"resource_id": str(agent_id), "resource_type": "AGENT"}


@contextmanager
def lend_draft(client: "Carrel", agent_id: UUID | str, *, email: str | None = None) -> Generator[None]:
    """Deploy a draft, or an agent of other people, to a person for the duration of the block. Needs an admin's client.
    The person is the client's own (of its access token or API key) unless an email address is given; the access of
    other people doesn't change. The person loses the agent at the end, even if another admin has deployed it to them
    within the block. Lending changes the version of the agent's grants. Blocks of a program may overlap: the last block
    takes the agent back. If the program is killed within the block, the agent stays deployed."""
    with _lock:
        person = _lend(client, str(agent_id), email)
    try:
        yield
    finally:
        if person is not None:
            with _lock:
                _give_back(client, str(agent_id), person)


def _lend(client: "Carrel", agent_id: str, email: str | None) -> str | None:
    may = may_ask(client, agent_id, email)
    if may and not any(count for (other, _), count in _blocks.items() if other == agent_id):
        return None
    person = (email or _find_person(client)).casefold()
    if not may:
        client.admin.agents.deploy(agent_id, [UserReference(email=person)], change="ADD")
    elif not _blocks[agent_id, person]:
        return None  # another person has it
    _blocks[agent_id, person] += 1
    return person


def _give_back(client: "Carrel", agent_id: str, person: str) -> None:
    _blocks[agent_id, person] -= 1
    if not _blocks[agent_id, person]:
        del _blocks[agent_id, person]
        with suppress(NotFoundError):  # the agent was deleted
            client.admin.agents.deploy(agent_id, [UserReference(email=person)], change="REMOVE")


def _find_person(client: "Carrel") -> str:
    connection = client._session.connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return client.permissions.who_am_i().email if connection.tokens is None else client.me().email
