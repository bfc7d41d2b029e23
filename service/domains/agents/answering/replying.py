"""From an assignment to a reply: a model's run within its limits, and the checks of what it says."""

import asyncio
import re
from collections.abc import AsyncIterable, Sequence
from typing import Any

from psycopg import Error as DriverError
from pydantic_ai import RunContext
from pydantic_ai.messages import (
    AgentStreamEvent,
    FunctionToolResultEvent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    UserPromptPart,
)
from pydantic_ai.models import Model
from sqlalchemy.exc import SQLAlchemyError

from service.domains.agents.answering import failures
from service.domains.agents.answering.agent import AGENT, LIMITS, AgentDeps
from service.domains.agents.answering.citations import CITATION_DROPPED
from service.domains.agents.answering.extractive import extractive_model
from service.domains.agents.answering.models import Assignment, Exchange, ModelFailure, Progress, Reply
from service.domains.agents.answering.phrases import drop_greeting
from service.domains.agents.answering.providers import BUILT_IN, model_names
from service.domains.agents.answering.streaming import Draft
from service.platform.errors import Forbidden, NotFound, Unavailable
from service.runtime import Runtime
from service.text.embedding import WordPieces

LONGEST_REPLY = 40_000
"""Characters that a model may write for one reply, its thoughts and searches included."""

CUT_SHORT = "The reply was cut short: the model reached its longest length."

_CITED = re.compile(r"[ \t]?\[\d+\]")
_SETTINGS: Any = {"max_retries": 0}  # `Retries` does that, within the deadline and as it can be tested


async def reply_to(runtime: Runtime, assignment: Assignment, *, progress: Progress) -> Reply:
    """Answer a message (see `service.domains.agents.answering.answer`)."""
    seconds = runtime.settings.model_seconds
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            return await _reply(runtime, assignment, progress)
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise failures.model_timed_out(seconds) from error


async def _reply(runtime: Runtime, assignment: Assignment, progress: Progress) -> Reply:
    name = assignment.model or model_names(runtime.settings)[0]
    model = _model(runtime, name)
    history = await select_history(
        assignment.history,
        tokenizer=runtime.embedders.default.tokenizer,
        most_tokens=runtime.settings.model_history_tokens,
    )
    deps = AgentDeps(
        runtime,
        assignment.sender,
        assignment.collection_ids,
        assignment.instructions,
        messages=[drop_greeting(each) for each in (*(one.message for one in history), assignment.message)],
        retrieval=assignment.retrieval,
    )
    known = [
        assignment.message,
        assignment.instructions,
        *(part for each in history for part in (each.message, each.reply)),
    ]
    draft = Draft(progress, passages=deps.passages, known=known, searches=deps.may_search)
    warnings = await _run(model, assignment.message, deps=deps, draft=draft, history=history, name=name)
    checked = await draft.finish()
    if not checked.text:
        raise failures.empty_reply()
    return Reply(
        text=checked.text,
        model=name,
        passages=tuple(deps.passages),
        citations=tuple(checked.citations),
        warnings=(*checked.warnings, *warnings, *deps.warnings),
        # What lost its citation would rest on nothing.
        quotes_only=name == BUILT_IN and CITATION_DROPPED not in checked.warnings,
    )


def _model(runtime: Runtime, name: str) -> Model[Any]:
    model = extractive_model(runtime.embedders) if name == BUILT_IN else runtime.models.get(name)
    if model is None:
        raise failures.model_not_configured()
    return model


async def _run(
    model: Model[Any], message: str, *, deps: AgentDeps, draft: Draft, history: list[Exchange], name: str
) -> list[str]:
    try:
        result = await AGENT.run(
            message,
            model=model,
            deps=deps,
            message_history=_as_messages(history),
            model_settings=_SETTINGS,
            usage_limits=LIMITS,
            event_stream_handler=_Listener(draft).listen,
            infer_name=False,
        )
    # The sender may ask no more; and the database, which the caller knows.
    except (ModelFailure, Forbidden, NotFound, SQLAlchemyError, DriverError):
        raise
    except Unavailable as error:  # the embeddings endpoint
        after = int(error.headers.get("Retry-After", failures.SOON))
        raise ModelFailure(error.message, code=error.code, retry_after=after) from error
    except Exception as error:  # noqa: BLE001 - an endpoint may answer anything, and whatever breaks on it is told as one
        # Not `from error`: what the provider said would be in every trace of it.
        raise failures.failure_of(error, model=name) from None
    return [CUT_SHORT] if result.response.finish_reason == "length" else []


class _Listener:
    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._heard = 0

    async def listen(self, _context: RunContext[AgentDeps], events: AsyncIterable[AgentStreamEvent]) -> None:
        self._draft.begin()
        async for event in events:
            match event:
                case (
                    PartStartEvent(part=TextPart(content=words))
                    | PartDeltaEvent(delta=TextPartDelta(content_delta=words))
                ):
                    self._count(words)
                    await self._draft.add(words)
                case PartStartEvent(part=ThinkingPart(content=words)):
                    self._count(words)
                case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=words)):
                    self._count(words)
                case (
                    PartStartEvent(part=ToolCallPart(args=words))
                    | PartDeltaEvent(delta=ToolCallPartDelta(args_delta=words))
                ):
                    self._count(words)
                case FunctionToolResultEvent():
                    self._draft.discard_preface()
                case _:
                    pass

    def _count(self, words: object) -> None:
        self._heard += len(words) if isinstance(words, str) else 0
        if self._heard > LONGEST_REPLY:
            raise failures.endless_reply()


async def select_history(history: Sequence[Exchange], *, tokenizer: WordPieces, most_tokens: int) -> list[Exchange]:
    """Return the newest exchanges, oldest first, with at most this many of the embedding model's tokens together."""
    newest_first = [Exchange(each.message, _CITED.sub("", each.reply)) for each in reversed(history)]
    counts = await asyncio.to_thread(tokenizer.count, [f"{each.message}\n{each.reply}" for each in newest_first])
    kept: list[Exchange] = []
    for exchange, tokens in zip(newest_first, counts, strict=True):
        most_tokens -= tokens
        if most_tokens < 0:
            break
        kept.append(exchange)
    return kept[::-1]


def _as_messages(history: Sequence[Exchange]) -> list[ModelMessage]:
    """Return exchanges as a model's messages; the numbers of citations mean nothing any more and are left out."""
    messages: list[ModelMessage] = []
    for exchange in history:
        messages.append(ModelRequest(parts=[UserPromptPart(exchange.message)]))
        messages.append(ModelResponse(parts=[TextPart(exchange.reply)]))
    return messages
