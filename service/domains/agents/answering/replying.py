"""From an assignment to a reply: a model's run within limits, and the checks of the text."""

import asyncio
import re
from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from psycopg import Error as DriverError
from pydantic_ai import RunContext, messages
from pydantic_ai.models import Model
from sqlalchemy.exc import SQLAlchemyError

from carrel.wire.agents import BUILT_IN_MODEL
from service.domains.agents.answering import failures, grounding
from service.domains.agents.answering.agent import AGENT, LIMITS, MOST_CHARACTERS, AgentDeps, search_first
from service.domains.agents.answering.citations import CITATION_DROPPED, NUMBER_DROPPED, Checked
from service.domains.agents.answering.extractive import extractive_model
from service.domains.agents.answering.hidden import CALL_REMOVED
from service.domains.agents.answering.models import Assignment, Citation, Exchange, ModelFailure, Progress, Reply
from service.domains.agents.answering.phrases import drop_greeting
from service.domains.agents.answering.streaming import LONGEST_REPLY, Draft, Ended
from service.platform.errors import Forbidden, NotFound, Unavailable
from service.runtime import Runtime
from service.text.embedding import WordPieces

OPPOSED = "Its passage says the opposite: “{0}” Check this before you rely on it."
UNSUPPORTED = "In none of the passages that the reply cites for it: {0}. Check this before you rely on it."
UNCITED = "The reply names no source: nothing shows that a document says this."
ONLY_CALLED = "The model tried to look something up in a way that does not work, and said nothing else."
OTHER_LANGUAGE = "The reply is in another language than the question."
TOO_SLOW = "The reply was cut short: the model took longer than it may."
CUT_SHORT = {
    "length": "The reply was cut short: the model reached its longest length.",
    "content_filter": "The reply was cut short: the model's endpoint refused to go on.",
}
_SAYS = re.compile(r"[^\W_]|[\u2600-\u27bf\U0001f000-\U0001faff]")  # at least an emoji
_MOST_NAMED = 12

_CITED = re.compile(r"[ \t]?\[\d+\]")
_SETTINGS: Any = {"max_retries": 0}  # `Retries` retries within the deadline instead


async def reply_to(runtime: Runtime, assignment: Assignment, *, progress: Progress) -> Reply:
    """Answer a message with a model, and check the text. Raises ModelFailure, and the errors of `sender`."""
    name = assignment.model or runtime.settings.agent_models[0]
    model = extractive_model(runtime.embedders) if name == BUILT_IN_MODEL else runtime.models.get(name)
    if model is None:
        raise failures.failure("not_configured")
    settings = runtime.settings
    context = MOST_CHARACTERS if name == BUILT_IN_MODEL else settings.model_context_tokens
    history = await select_history(
        assignment.history,
        tokenizer=runtime.embedders.default.tokenizer,
        most_tokens=min(settings.model_history_tokens, context // 4),
    )
    deps = AgentDeps(
        runtime,
        assignment,
        messages=[drop_greeting(each) for each in (*(exchange.message for exchange in history), assignment.message)],
        calls_tools=name not in settings.model_without_tools,
        # Half of the model's context at three characters a token; the rest is for rules, conversation and reply.
        most_characters=min(MOST_CHARACTERS, context * 3 // 2),
    )
    before = [part for each in history for part in (each.message, each.reply)]
    known = [assignment.message, assignment.instructions, *before]
    draft = Draft(progress, passages=deps.passages, known=known, searches=deps.calls_tools and deps.may_search)
    warnings = await _run(model, deps, draft=draft, history=history, name=name)
    checked = await draft.finish()
    if not checked.text and CALL_REMOVED in checked.warnings:
        checked = replace(checked, text=ONLY_CALLED)
    if not _SAYS.search(checked.text):
        raise failures.failure("endless" if warnings else "empty")
    citations, doubts = list(checked.citations), []
    if name != BUILT_IN_MODEL:
        citations, doubts = await asyncio.to_thread(_doubt, checked, deps, [deps.messages[-1], assignment.instructions])
    return Reply(
        text=checked.text,
        model=name,
        passages=tuple(deps.passages),
        citations=tuple(citations),
        warnings=(*checked.warnings, *doubts, *warnings, *deps.warnings),
        # A statement without its citation has no source.
        quotes_only=name == BUILT_IN_MODEL and CITATION_DROPPED not in checked.warnings,
    )


def _doubt(checked: Checked, deps: AgentDeps, asked: Sequence[str]) -> tuple[list[Citation], list[str]]:
    """Return citations with the reply's unsupported parts, and warnings (support, missing citations, language)."""
    named = "\n".join([asked[0], *(passage.document_name for passage in deps.passages)])
    passages = {number: deps.passages[citation.passage_no].text for number, citation in enumerate(checked.citations, 1)}
    lacking = grounding.find_unsupported(checked.text, passages, uncited=checked.uncited, known=named)
    citations = [replace(item, unsupported=tuple(lacking.get(at, ()))) for at, item in enumerate(checked.citations, 1)]
    opposed = grounding.find_contradicted(checked.text, passages)
    words = [f"“{word}”" for each in lacking.values() for word in each]
    if len(words) > _MOST_NAMED:
        words[_MOST_NAMED:] = [f"{len(words) - _MOST_NAMED} more"]
    doubts = [UNSUPPORTED.format(", ".join(words))] if words else []
    doubts += [OPPOSED.format(sentence[:200]) for each in opposed.values() for sentence in each[:1]]
    removed = {CITATION_DROPPED, NUMBER_DROPPED} & set(checked.warnings)
    if deps.searches and not citations and not removed and grounding.needs_source(checked.text):
        doubts.append(UNCITED)
    if grounding.is_in_another_language(checked.text, asked=asked):
        doubts.append(OTHER_LANGUAGE)
    return citations, doubts


async def _run(model: Model[Any], deps: AgentDeps, *, draft: Draft, history: list[Exchange], name: str) -> list[str]:
    """Run a model into the draft, and return warnings. ModelFailure, or the database's and the sender's own errors."""
    deadline = asyncio.timeout(deps.runtime.settings.model_seconds)
    try:
        async with deadline:
            result = await AGENT.run(
                deps.assignment.message if deps.calls_tools else await search_first(deps),
                model=model,
                deps=deps,
                message_history=_as_messages(history),
                model_settings=_SETTINGS,
                usage_limits=LIMITS,
                event_stream_handler=_Listener(draft).listen,
                infer_name=False,
            )
    except Ended as ended:
        return [str(ended)]
    # The sender has lost access, or the database failed, which the caller handles.
    except (ModelFailure, Forbidden, NotFound, SQLAlchemyError, DriverError):
        raise
    except Unavailable as error:  # the embeddings endpoint
        after = int(error.headers.get("Retry-After", failures.SOON))
        raise ModelFailure(error.message, code=error.code, retry_after=after) from error
    except Exception as error:  # noqa: BLE001 - an endpoint may answer anything, and whatever breaks on it is told as one
        if deadline.expired():
            if draft.end_at_sentence():
                return [TOO_SLOW]
            raise failures.failure("timeout", seconds=deps.runtime.settings.model_seconds) from None
        # Not `from error`: each traceback would contain the provider's text.
        raise failures.failure_of(error, model=name) from None
    return [CUT_SHORT[each] for each in [result.response.finish_reason] if each in CUT_SHORT]


@dataclass(slots=True)
class _Listener:
    """Adds a model's words to a draft; ModelFailure when it thinks without end."""

    draft: Draft
    heard: int = 0

    async def listen(self, _context: RunContext[AgentDeps], events: AsyncIterable[messages.AgentStreamEvent]) -> None:
        self.draft.begin()
        async for event in events:
            match event:
                case (
                    messages.PartStartEvent(part=messages.TextPart(content=words))
                    | messages.PartDeltaEvent(delta=messages.TextPartDelta(content_delta=words))
                ):
                    await self.draft.add(words)
                case (
                    messages.PartStartEvent(
                        part=messages.ThinkingPart(content=words) | messages.ToolCallPart(args=words)
                    )
                    | messages.PartDeltaEvent(
                        delta=messages.ThinkingPartDelta(content_delta=words)
                        | messages.ToolCallPartDelta(args_delta=words)
                    )
                ):
                    self.heard += len(words) if isinstance(words, str) else 0
                    if self.heard > LONGEST_REPLY:
                        raise failures.failure("endless")
                case messages.FunctionToolResultEvent():
                    self.draft.discard_preface()
                case _:
                    pass


async def select_history(history: Sequence[Exchange], *, tokenizer: WordPieces, most_tokens: int) -> list[Exchange]:
    """Return the newest exchanges within `most_tokens` of the tokenizer, oldest first, without citation numbers."""
    newest_first = [Exchange(each.message, _CITED.sub("", each.reply)) for each in reversed(history)]
    counts = await asyncio.to_thread(tokenizer.count, [f"{each.message}\n{each.reply}" for each in newest_first])
    return [item for item, tokens in zip(newest_first, accumulate(counts), strict=True) if tokens <= most_tokens][::-1]


def _as_messages(history: Sequence[Exchange]) -> list[messages.ModelMessage]:
    """Return exchanges as a model's messages: for each, a request and a response."""
    asked = (messages.ModelRequest.user_text_prompt(each.message) for each in history)
    said = (messages.ModelResponse(parts=[messages.TextPart(each.reply)]) for each in history)
    return [message for exchange in zip(asked, said, strict=True) for message in exchange]
