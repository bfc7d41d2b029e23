"""Asking an agent of the organization: `ask_agent`."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from fastapi import Response
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncConnection as Connection
from starlette.requests import ClientDisconnect

from carrel.wire.agents import Agent, ListAgentsRequest
from carrel.wire.fields import Label
from carrel.wire.messages import SEND_AGENT_MESSAGE, CompletedJob, FailedJob, MessageText, SendAgentMessageResponse
from service.auth.authorization import authorize
from service.auth.callers import Caller
from service.domains.agents.conversations.messages import begin_turn
from service.domains.agents.conversations.models import Message
from service.domains.agents.conversations.reading.turns import job_of, see_job
from service.domains.agents.conversations.streaming import RETRY_SECONDS, wait_until_done
from service.domains.agents.definitions.queries import get_deployed_agent
from service.domains.agents.definitions.service import list_deployed_agents
from service.mcp.documents import DATA_ALONE, url_of
from service.mcp.tools import Arguments, Call, Result, tool
from service.platform.errors import BadRequest, FieldError, Unavailable
from service.web.dependencies import reauthenticate
from service.web.idempotency import Attempt

MOST_NAMES = 50
AGENTS_AT_ONCE = 1000


class AskArguments(Arguments):
    """The agent and the question."""

    question: Annotated[MessageText, Field(description="The person's question.")]
    agent: Annotated[
        Label | None, Field(description="Name or id of the agent. Not needed if the person has only a single agent.")
    ] = None
    conversation_id: Annotated[
        UUID | None, Field(description="Conversation to continue, from an earlier answer; default: a new conversation.")
    ] = None


class Source(Result):
    """A document behind the answer; `[1]` in the answer is the first."""

    id: str = Field(description="Id of the document; `fetch` reads it.")
    title: str = Field(description="Name of the document.")
    url: str = Field(description="Address to cite.")
    quote: str = Field(description="The quoted passage that supports the answer.")


class AgentAnswer(Result):
    """The answer of an agent."""

    answer: str = Field(description="The agent's answer.")
    sources: list[Source] = Field(description="The passages that support the answer.")
    warnings: list[str] = Field(description="Notes for the reader of the answer.")
    conversation_id: str = Field(description="Conversation to continue.")


@tool(
    title="Ask an agent",
    description="Ask one of the organization's own agents, which answers from the documents that the person may read, "
    f"with quotes. It can take a minute. Names the agents there are when it needs to know which one. {DATA_ALONE}",
    operations=(SEND_AGENT_MESSAGE,),
    only_reads=False,
)
async def ask_agent(call: Call, arguments: AskArguments) -> AgentAnswer:
    agent_id = await call.read(lambda connection: _find_agent(connection, call.caller, arguments.agent))
    message = Message(agent_id, arguments.question, arguments.conversation_id)
    with call.runtime.disk.room_for(len(message.text)):
        async with call.runtime.database.transaction(call.caller.organization_id) as connection:
            attempt = Attempt(call.request, Response(), connection, None)
            begun = await begin_turn(call.runtime, attempt, call.caller, message=message, by_program=False)
    try:
        await wait_until_done(
            call.runtime, call.request, organization_id=call.caller.organization_id, turn_id=begun.job_id
        )
    except (Unavailable, ClientDisconnect) as error:
        raise _late(begun) from error
    return await _read_answer(call, begun, agent_id)


async def _find_agent(connection: Connection, caller: Caller, wanted: str | None) -> UUID:
    """Return the id of the wanted, or only, deployed agent. Raises BadRequest with the names."""
    request, agents = ListAgentsRequest(page_size=AGENTS_AT_ONCE), list[Agent]()
    while True:
        page = await list_deployed_agents(connection, caller, request=request)
        agents += page.agents
        if page.next_page_token is None:
            break
        request = request.model_copy(update={"page_token": page.next_page_token})
    asked = wanted and wanted.casefold()
    named = [agent for agent in agents if asked is None or asked in {str(agent.agent_id), agent.name.casefold()}]
    if len(named) != 1:
        raise _no_single_agent(agents)
    return named[0].agent_id


def _no_single_agent(agents: Sequence[Agent]) -> BadRequest:
    if not agents:
        message = "No agent is deployed to this person. Ask an admin to deploy an agent. `search` works without agents."
        return BadRequest(message, code="no_agents")
    names = ", ".join(repr(agent.name) for agent in agents[:MOST_NAMES])
    message = f"Choose an agent that the person may ask: {names}."
    return BadRequest(message, code="which_agent", details=[FieldError("agent", "is none of them")])


async def _read_answer(call: Call, begun: SendAgentMessageResponse, agent_id: UUID) -> AgentAnswer:
    async with reauthenticate(call.request, call.runtime) as (connection, caller):
        authorize(caller, SEND_AGENT_MESSAGE.requires)
        job = job_of(await see_job(call.runtime, connection, caller, job_id=begun.job_id))
        narrowed = await _warn_of_narrowing(connection, caller, agent_id)
    if isinstance(job, FailedJob):
        message = f"The agent didn't answer. {job.error_message} ({job.error_code})"
        raise Unavailable(message, retry_after=RETRY_SECONDS, code="agent_failed")
    if not isinstance(job, CompletedJob):
        raise _late(begun)
    return AgentAnswer(
        answer=job.result.agent_response_text,
        sources=[
            Source(id=str(source.id), title=source.name, url=url_of(call, source.url, source.id), quote=source.quote)
            for source in job.result.referenced_sources
        ],
        warnings=[*job.result.warnings, *narrowed],
        conversation_id=str(begun.conversation_id),
    )


async def _warn_of_narrowing(connection: Connection, caller: Caller, agent_id: UUID) -> list[str]:
    """Return a warning, or none, if the agent answers from collections that the person doesn't let this client read."""
    agent = await get_deployed_agent(connection, caller, agent_id=agent_id)
    if caller.collection_ids is None or agent is None or caller.collection_ids.issuperset(agent.collection_ids):
        return []
    if caller.collection_ids.isdisjoint(agent.collection_ids):
        said = "This agent answers from none of the collections that the person lets this client read"
        return [f"{said}, so it finds nothing. `search` finds documents in those collections."]
    said = "This agent also answers from collections that the person doesn't let this client read"
    return [f"{said}. Documents only in those collections are not found."]


def _late(begun: SendAgentMessageResponse) -> Unavailable:
    return Unavailable(
        f"The answer is not ready yet. Ask again in a minute, in the conversation {begun.conversation_id}.",
        retry_after=RETRY_SECONDS,
        code="reply_delayed",
    )
