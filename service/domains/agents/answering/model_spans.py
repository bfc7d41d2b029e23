"""The spans of what a model is asked: which model, where, and how much it read and wrote; nothing of what was said."""

from typing import Any
from urllib.parse import urlsplit

from opentelemetry.trace import SpanKind
from pydantic_ai import ModelResponse, RunContext
from pydantic_ai.capabilities import AbstractCapability, WrapModelRequestHandler
from pydantic_ai.models import Model, ModelRequestContext

from service.platform import traces


class ModelSpans(AbstractCapability[Any]):
    """Measures each turn of a model, its retries included, under the names of the GenAI conventions."""

    async def wrap_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - the hook's signature
        *,
        request_context: ModelRequestContext,
        handler: WrapModelRequestHandler,
    ) -> ModelResponse:
        """Let the model answer, and note how much that took."""
        model = request_context.model
        with traces.span(f"chat {model.model_name}", _describe(model), kind=SpanKind.CLIENT) as span:
            response = await handler(request_context)
            span.set_attributes(
                {
                    "gen_ai.usage.input_tokens": response.usage.input_tokens,
                    "gen_ai.usage.output_tokens": response.usage.output_tokens,
                }
            )
        return response


def _describe(model: Model[Any]) -> dict[str, str]:
    told = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model.model_name}
    host = urlsplit(model.base_url or "").hostname
    return told if host is None else told | {"server.address": host}
