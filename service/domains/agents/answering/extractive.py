"""The built-in model: it quotes and cites the sentences that answer. It needs neither key nor network."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import PurePath
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from service.domains.agents.answering.phrases import Phrases, answer_small_talk, drop_greeting, phrases_of
from service.domains.agents.answering.providers import BUILT_IN
from service.domains.agents.answering.scoring import Quotable, choose_quotes
from service.domains.agents.answering.segments import segments_of
from service.domains.search.understanding.following import complete_question, find_new_words
from service.text.embedding import MINILM, Embedders

LONGEST_NAME = 120
_BRACKETS = str.maketrans("[]<>", "()()")
MOST_QUOTABLE = 160
"""Segments that are compared with the question, the best passages' first."""


def extractive_model(embedders: Embedders) -> FunctionModel:
    """Return the model; the local embedding model tells it what is near to a question."""
    return FunctionModel(stream_function=partial(_write, embedders), model_name=BUILT_IN)


async def _write(
    embedders: Embedders, messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls]:
    """Search once, if there is anything to search; then reply. Small talk is answered without a search."""
    written = _read_messages(messages)
    if written and (reply := answer_small_talk(written[-1])):
        yield reply
        return
    question = complete_question([drop_greeting(message) for message in written])
    last = messages[-1]
    returns = (
        [part for part in last.parts if isinstance(part, ToolReturnPart)] if isinstance(last, ModelRequest) else []
    )
    found = json.loads(str(returns[-1].content)) if returns else None
    if found is None and info.function_tools:
        call = DeltaToolCall(info.function_tools[0].name, json.dumps({"query": question}), tool_call_id="search")
        yield {0: call}
        return
    new = find_new_words(drop_greeting(written[-1])) if len(written) > 1 else []
    quotes = await choose_quotes(embedders.get(MINILM), question, _quotable(found or []), having=new)
    phrases = await asyncio.to_thread(phrases_of, written[-1] if written else "")
    nothing = phrases.nothing_about.format(_line(" ".join(new))) if new else phrases.nothing_answers
    yield _reply(quotes, phrases) if quotes else nothing


def _read_messages(messages: Sequence[ModelMessage]) -> list[str]:
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    parts = [part for request in requests for part in request.parts if isinstance(part, UserPromptPart)]
    return [part.content for part in parts if isinstance(part.content, str)]


def _quotable(found: Sequence[dict[str, Any]]) -> list[Quotable]:
    quotable = [
        Quotable(passage["n"], passage["document"], segment.headings, segment.text, segment.section)
        for passage in found
        for segment in segments_of(passage["text"], document=passage["document"])
    ]
    return quotable[:MOST_QUOTABLE]


def _reply(quotes: Sequence[Quotable], phrases: Phrases) -> str:
    """Write the quotes down by document and section: words can mean something else under another heading."""
    parts = [
        f"{place}\n\n" + "\n\n".join(_format_quote(quote) for quote in group)
        for place, group in groupby(quotes, key=partial(_describe_source, phrases=phrases))
    ]
    return "\n\n".join(parts)


def _describe_source(quote: Quotable, phrases: Phrases) -> str:
    """Say where a quote stands: its document, and the section unless that is called like the document."""
    name, section = _line(quote.document), _line(quote.section)
    titled = section and section.casefold() != PurePath(name).stem.casefold()
    return (phrases.section if titled else phrases.source).format(name, section)


def _line(name: str) -> str:
    """Return a name as one line; its brackets are no citation and no link."""
    return " ".join(name.translate(_BRACKETS).split())[:LONGEST_NAME]


def _format_quote(quote: Quotable) -> str:
    lines = "\n".join(f"> {line}" for line in quote.text.splitlines())
    return f'{lines} [[{quote.number}: "{quote.text}"]]'
