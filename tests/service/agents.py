"""Short words for agents: to define one, to say who may use it, and to do several things at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from tests.harness.services import RunningService
from tests.service.directory import done

Agent = dict[str, Any]


def an_agent(service: RunningService, *, api_key: str | None = None, **fields: Any) -> Agent:
    """A new agent that is deployed to nobody; its name is like no other unless one is given."""
    return done(service.call("admin/agents/create", {"name": f"Agent {uuid4().hex}", **fields}, api_key=api_key))


def deploy(service: RunningService, agent: Agent, *principals: dict[str, Any], **members: Any) -> dict[str, Any]:
    body = {"agentId": agent["agentId"], "principals": list(principals), **members}
    return done(service.call("admin/agents/deploy", body))


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [one.result(60) for one in [pool.submit(call) for call in calls]]
