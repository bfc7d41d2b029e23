"""The language models for agents: an HTTP client for their endpoint, opened and closed with the service."""

import re
from typing import TYPE_CHECKING

from service.platform.settings import Settings

if TYPE_CHECKING:
    from httpx2 import Response
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

_REFUSED = {
    "too_long": r"413 |[45]\d\d .*context (?:size|length|window)",
    "no_tools": r"[45]\d\d .*(?:support (?:tool|function)|tools? (?:choice|param) requires|tool calling is not supp)",
}
_PAGES = ("text/html", "application/xhtml")


class LanguageModels:
    """The configured models, by name; none without an endpoint. Creating this object sends no request."""

    def __init__(self, settings: Settings) -> None:
        self._names = settings.model_names
        self._provider = None if settings.model_url is None else _provider(settings, settings.model_url)

    @property
    def default(self) -> "OpenAIChatModel | None":
        return self.get(self._names[0]) if self._names else None

    def get(self, name: str) -> "OpenAIChatModel | None":
        """Return a configured model; None for another name or without an endpoint."""
        if self._provider is None or name not in self._names:
            return None
        from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415

        return OpenAIChatModel(name, provider=self._provider)

    async def close(self) -> None:
        if self._provider is not None:
            await self._provider.client.close()


def refusal_of(error: Exception) -> str | None:
    """Return "too_long" for a request beyond the model's context, "no_tools" for a model that can't call tools."""
    if type(error).__name__ == "ModelContextWindowExceededError":
        return "too_long"
    said = f"{getattr(error, 'status_code', '')} {getattr(error, 'body', '')}"
    return next((name for name, words in _REFUSED.items() if re.match(words, said, re.IGNORECASE | re.DOTALL)), None)


class WebPageError(Exception):
    """An endpoint answered with a web page, such as a proxy's sign-in page."""


async def _refuse_page(response: "Response") -> None:
    if response.is_success and response.headers.get("Content-Type", "").lower().startswith(_PAGES):
        raise WebPageError


def _provider(settings: Settings, url: str) -> "OpenAICompatibleProvider":
    # Imported here: without an endpoint it is not needed, and a start would take a third longer.
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient  # noqa: PLC0415
    from pydantic_ai.profiles.openai import OpenAIModelProfile  # noqa: PLC0415
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider  # noqa: PLC0415

    key = settings.model_api_key
    return OpenAICompatibleProvider(
        "configured",
        openai_client=AsyncOpenAI(
            base_url=url,
            api_key=key.get_secret_value() if key else "none",
            http_client=DefaultAsyncHttpxClient(follow_redirects=False, event_hooks={"response": [_refuse_page]}),
        ),
        # A reply is complete only when the model says so: a stream that merely ends was cut off. Thoughts in tags stay
        # in the text and are removed later, however the stream divides the tags.
        profile=OpenAIModelProfile(
            openai_chat_streaming_requires_finish_reason=True, thinking_tags=("\ue000", "\ue001")
        ),
    )
