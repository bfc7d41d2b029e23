"""Drafts of agents: copies deployed to nobody, to compare other settings with (`carrel.evaluation`)."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING
from uuid import UUID

from carrel.errors import ConflictError, InvalidArgumentError, NotFoundError
from carrel.wire.admin import GrantInfo, NamedPrincipal, NamedUser
from carrel.wire.agents import AgentDefinition, RetrievalOptions
from carrel.wire.api_keys import CredentialStatus
from carrel.wire.common import UserReference

if TYPE_CHECKING:
    from carrel import Carrel

__all__ = ["copy_agent", "is_draft", "lend_draft"]

_LONGEST_NAME = 200
_MOST_COPIES = 100
_lock = Lock()
_blocks: Counter[tuple[str, str]] = Counter()
"""How many blocks of this program a draft is lent for, by its id and the person's email address."""


def copy_agent(client: "Carrel", agent_id: UUID | str, *, name: str | None = None) -> AgentDefinition:
    """Create an agent like another one, deployed to nobody. Raises InvalidArgumentError and ConflictError."""
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
    grants, organization_wide = _read_grants(client, agent_id)
    return not grants and not organization_wide


@contextmanager
def lend_draft(client: "Carrel", agent_id: UUID | str, *, email: str | None = None) -> Generator[None]:
    """Deploy an agent that is deployed to nobody to one person, for as long as the block lasts.
    The person is the client's own unless an email address is given: whom its access token acts for, or the user of its
    API key. An agent that is deployed to anybody stays as it is, and all others who are given access before the block
    ends keep it. Blocks of a program may overlap: the last block takes the draft back. Killed within the block, the
    draft stays deployed to that person alone. The client is an admin's. Raises InvalidArgumentError when it isn't clear
    whose the API key is."""
    with _lock:
        person = _lend(client, str(agent_id), email)
    try:
        yield
    finally:
        if person is not None:
            with _lock:
                _give_back(client, str(agent_id), person)


def _lend(client: "Carrel", agent_id: str, email: str | None) -> str | None:
    lent = any(count for (other, _), count in _blocks.items() if other == agent_id)
    if not lent and not is_draft(client, agent_id):
        return None
    person = (email or _find_person(client)).casefold()
    if lent and not _blocks[agent_id, person]:
        return None  # it is lent to another person
    if not lent:
        client.admin.agents.deploy(agent_id, [UserReference(email=person)])
    _blocks[agent_id, person] += 1
    return person


def _give_back(client: "Carrel", agent_id: str, person: str) -> None:
    """End a block over a draft; after the last one take the draft back, and nothing from anybody else."""
    _blocks[agent_id, person] -= 1
    if _blocks[agent_id, person]:
        return
    del _blocks[agent_id, person]
    try:
        grants, organization_wide = _read_grants(client, agent_id)
    except NotFoundError:  # the agent was deleted
        return
    others = [one for one in grants if getattr(one.principal, "email", "").casefold() != person]
    if len(others) < len(grants):
        resource = {"resource_id": agent_id, "resource_type": "AGENT"}
        kept = [{"principal": _refer_to(one.principal), "role": one.role} for one in others]
        client.admin.grants.set(resource, kept, organization_wide=organization_wide)


def _find_person(client: "Carrel") -> str:
    """Return the email address of the client's person; of an API key by the last characters of it."""
    connection = client._session.connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    if connection.tokens is not None:
        return client.me().email
    key = connection.headers["Authorization"]
    keys = [one for one in client.admin.api_keys.list(page_size=1000) if key.endswith(one.hint)]
    owners = {one.owner_email for one in keys if one.status == CredentialStatus.ACTIVE}
    if len(owners) != 1:
        msg = "agent_id: nobody may use this agent. Deploy it to the user of the API key, or use an access token"
        raise InvalidArgumentError(msg)
    return owners.pop()


def _refer_to(principal: NamedPrincipal) -> dict[str, str]:
    if isinstance(principal, NamedUser):
        return {"type": "user", "email": principal.email}
    return {"type": principal.type, "id": str(principal.id)}


def _read_grants(client: "Carrel", agent_id: UUID | str) -> tuple[list[GrantInfo], bool]:
    resource = {"resource_id": str(agent_id), "resource_type": "AGENT"}
    pages = list(client.admin.grants.list(resource, page_size=1000).pages())
    return [one for page in pages for one in page.grants], any(page.organization_wide for page in pages)
