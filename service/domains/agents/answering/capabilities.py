"""Trace each request to a model, without any text, and retry until the first words of a reply have arrived."""

import asyncio
import random
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.trace import SpanKind
from pydantic_ai import ModelResponse, RetryModelRequest, RunContext
from pydantic_ai.capabilities import AbstractCapability, WrapModelRequestHandler
from pydantic_ai.exceptions import ModelConnectionError, ModelRateLimitError, ModelServerError, ModelUnavailableError
from pydantic_ai.models import ModelRequestContext

from service.platform import traces
from service.platform.logs import logger

ATTEMPTS = 4
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 20.0

_PASSING = (ModelConnectionError, ModelRateLimitError, ModelServerError, ModelUnavailableError)


class ModelSpans(AbstractCapability[Any]):
    """Measures each turn of a model, including retries, under the names of the GenAI conventions."""

    async def wrap_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - the hook's signature
        *,
        request_context: ModelRequestContext,
        handler: WrapModelRequestHandler,
    ) -> ModelResponse:
        model = request_context.model
        told = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model.model_name}
        if host := urlsplit(model.base_url or "").hostname:
            told["server.address"] = host
        with traces.span(f"chat {model.model_name}", told, kind=SpanKind.CLIENT) as span:
            response = await handler(request_context)
            span.set_attributes(
                {
                    "gen_ai.usage.input_tokens": response.usage.input_tokens,
                    "gen_ai.usage.output_tokens": response.usage.output_tokens,
                }
            )
        return response


class Retries(AbstractCapability[Any]):
    """Retries temporary errors after the wait requested by the endpoint; gives up if the wait is over 20 s."""

    async def on_model_request_error(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - the hook's signature
        *,
        request_context: ModelRequestContext,
        error: Exception,
    ) -> ModelResponse:
        """Wait, then raise RetryModelRequest. After the last attempt, or if a retry is no use, raises `error`."""
        attempt = request_context.attempt
        pause = pause_after(error, attempt=attempt)
        if pause is None or attempt >= ATTEMPTS:
            raise error
        logger.warning("model_retried", attempt=attempt, kind=type(error).__name__, seconds=round(pause, 1))
        await asyncio.sleep(pause)
        raise RetryModelRequest


def pause_after(error: Exception, *, attempt: int) -> float | None:
    """Return seconds before a retry: the endpoint's, or doubling with jitter. None: a lasting error, or a long wait."""
    if not isinstance(error, _PASSING):
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= LONGEST_PAUSE_SECONDS else None
    longest = min(FIRST_PAUSE_SECONDS * 2 ** (attempt - 1), LONGEST_PAUSE_SECONDS)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - nothing secret hangs on it
