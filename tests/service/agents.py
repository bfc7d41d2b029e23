"""Short words for agents: to define one, and to say who may use it."""

from typing import Any
from uuid import uuid4

from tests.harness.services import RunningService
from tests.service.directory import done

Agent = dict[str, Any]


def an_agent(service: RunningService, *, api_key: str | None = None, **fields: Any) -> Agent:
    """A new agent that is deployed to nobody; its name is like no other unless one is given."""
    body = {"name": f"Agent {uuid4().hex}", **fields}
    return done(service.call("admin/agents/create", body, api_key=api_key))


def deploy(service: RunningService, agent: Agent, *principals: dict[str, Any], **members: Any) -> dict[str, Any]:
    """Deploy an agent to these principals and nobody else; the answer."""
    body = {"agentId": agent["agentId"], "principals": list(principals), **members}
    return done(service.call("admin/agents/deploy", body))
