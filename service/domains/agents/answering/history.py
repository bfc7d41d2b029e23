"""The conversation so far, as far as the model is shown it again."""

import asyncio
import re
from collections.abc import Sequence

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart

from service.domains.agents.answering.models import Exchange
from service.text.embedding import WordPieces

_CITED = re.compile(r"[ \t]?\[\d+\]")


async def select_history(history: Sequence[Exchange], *, tokenizer: WordPieces, most_tokens: int) -> list[Exchange]:
    """Return the newest exchanges, oldest first, that have at most so many tokens together.

    The tokens are those of the embedding model, of which other models have about as many.
    """
    newest_first = [Exchange(each.message, _CITED.sub("", each.reply)) for each in reversed(history)]
    counts = await asyncio.to_thread(tokenizer.count, [f"{each.message}\n{each.reply}" for each in newest_first])
    kept: list[Exchange] = []
    for exchange, tokens in zip(newest_first, counts, strict=True):
        most_tokens -= tokens
        if most_tokens < 0:
            break
        kept.append(exchange)
    return kept[::-1]


def as_messages(history: Sequence[Exchange]) -> list[ModelMessage]:
    """Return exchanges as a model's messages; the numbers of citations mean nothing any more and are left out."""
    messages: list[ModelMessage] = []
    for exchange in history:
        messages.append(ModelRequest(parts=[UserPromptPart(exchange.message)]))
        messages.append(ModelResponse(parts=[TextPart(exchange.reply)]))
    return messages
