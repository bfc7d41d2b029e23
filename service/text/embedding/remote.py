"""An OpenAI-compatible `/v1/embeddings` endpoint instead of the local model."""

import asyncio
import random
from collections.abc import Sequence

import httpx
import numpy as np
from numpy.typing import NDArray
from opentelemetry.trace import SpanKind
from pydantic import BaseModel, SecretStr, ValidationError

from service.platform import traces
from service.platform.errors import Unavailable
from service.platform.logs import logger
from service.text.embedding.models import MAX_PIECES, EmbeddingModel, WordPieces

TEXTS_A_REQUEST = 64
# The most requests of all workers together; each worker has an equal part, at least one.
_REQUESTS_AT_ONCE = 4
_FEW_TEXTS = 8
"""Requests with up to this many texts, as from searches and short documents, never wait for long documents."""
_ATTEMPTS = 4
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 20.0
_TIMEOUT = httpx.Timeout(60.0, connect=10.0)
_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_REFUSED_KEY = frozenset({401, 403})


class _Row(BaseModel):
    index: int
    embedding: list[float]


class _Answer(BaseModel):
    data: list[_Row]


class _TryAgain(Exception):  # noqa: N818 - never leaves this module
    """The attempt failed for a possibly temporary reason; `after` is the endpoint's Retry-After in seconds."""

    def __init__(self, reason: str, *, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


class RemoteEmbedder:
    """Gets vectors of `dimensions` (a parameter if `ask_for_dimensions`) for texts cut by the local model's pieces."""

    def __init__(
        self,
        *,
        url: str,
        api_key: SecretStr | None,
        model: str,
        dimensions: int,
        ask_for_dimensions: bool,
        tokenizer: WordPieces,
        workers: int = 1,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        # The cloud's centre is unknown, and a guess that changed later would spoil the codes stored before.
        self.model: EmbeddingModel = EmbeddingModel(model, dimensions, np.zeros(dimensions, np.float32))
        self.tokenizer = tokenizer
        self.texts_embedded = 0
        self._endpoint = endpoint(url)
        self._host = httpx.URL(self._endpoint).host
        self._parameters = {"dimensions": dimensions} if ask_for_dimensions else {}
        headers = {"Authorization": f"Bearer {api_key.get_secret_value()}"} if api_key else {}
        self._client = httpx.AsyncClient(headers=headers, timeout=_TIMEOUT, transport=transport)
        turns = max(1, _REQUESTS_AT_ONCE // workers)
        self._turns, self._turns_of_queries = asyncio.Semaphore(turns), asyncio.Semaphore(turns)

    async def embed(self, texts: Sequence[str], *, in_background: bool = False) -> NDArray[np.float32]:
        """Return a unit row per text, up to 254 word pieces. Raises Unavailable for a failed or wrong answer."""
        del in_background  # the number of texts decides instead
        if not texts:
            return np.empty((0, self.model.dimensions), np.float32)
        cut = await asyncio.to_thread(lambda: [self.tokenizer.cut(text, MAX_PIECES) for text in texts])
        slices = [cut[start : start + TEXTS_A_REQUEST] for start in range(0, len(cut), TEXTS_A_REQUEST)]
        told = {"carrel.model": self.model.name, "carrel.texts": len(texts), "server.address": self._host}
        try:
            with traces.span("embed", told, kind=SpanKind.CLIENT):
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(self._embed_slice(part)) for part in slices]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        self.texts_embedded += len(texts)
        return np.concatenate([task.result() for task in tasks])

    async def close(self) -> None:
        await self._client.aclose()

    async def _embed_slice(self, texts: Sequence[str]) -> NDArray[np.float32]:
        async with self._turns_of_queries if len(texts) <= _FEW_TEXTS else self._turns:
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    return self._rows(await self._ask(texts), len(texts))
                except _TryAgain as error:
                    logger.warning("embeddings_endpoint_failed", attempt=attempt, reason=str(error))
                    if attempt == _ATTEMPTS or (error.after or 0) > _LONGEST_PAUSE_SECONDS:
                        seconds = max(1, round(error.after or _LONGEST_PAUSE_SECONDS))
                        message = f"The embeddings endpoint doesn't answer. Try again in {seconds} s."
                        raise Unavailable(message, code="embeddings_unavailable", retry_after=seconds) from error
                    pause = min(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1), _LONGEST_PAUSE_SECONDS)
                    await asyncio.sleep(pause * random.uniform(0.5, 1.0) if error.after is None else error.after)  # noqa: S311
        raise AssertionError("the last attempt returns or raises")

    async def _ask(self, texts: Sequence[str]) -> httpx.Response:
        """Request vectors. Raises _TryAgain for a failure that may pass, otherwise Unavailable."""
        # Endpoints refuse an empty string; a blank has the same meaning.
        body = {"model": self.model.name, "input": [text or " " for text in texts], "encoding_format": "float"}
        try:
            response = await self._client.post(self._endpoint, json=body | self._parameters)
        except httpx.TransportError as exc:
            raise _TryAgain(type(exc).__name__) from exc
        if response.status_code in _RETRIED:
            raise _TryAgain(f"HTTP {response.status_code}", after=_retry_after(response))
        if response.status_code in _REFUSED_KEY:
            raise _misconfigured("refused its key: check CARREL_EMBEDDINGS_API_KEY", response)
        if response.is_error or response.is_redirect:
            raise _misconfigured("refused the request: check CARREL_EMBEDDINGS_URL and _MODEL", response)
        return response

    def _rows(self, response: httpx.Response, count: int) -> NDArray[np.float32]:
        """Return an answer's unit rows. Raises Unavailable without a usable vector of each text."""
        try:
            data = sorted(_Answer.model_validate_json(response.content).data, key=lambda row: row.index)
        except ValidationError as exc:
            raise _misconfigured("didn't answer with embeddings: check CARREL_EMBEDDINGS_URL", response) from exc
        if [row.index for row in data] != list(range(count)):
            raise _misconfigured("answered with embeddings of other texts", response)
        lengths = {len(row.embedding) for row in data}
        if lengths != {self.model.dimensions}:
            raise _misconfigured(
                f"answers with vectors of {max(lengths)} numbers, not {self.model.dimensions}:"
                " check CARREL_EMBEDDINGS_MODEL and _DIMENSIONS",
                response,
            )
        rows = np.array([row.embedding for row in data], np.float64)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        if not np.all(np.isfinite(norms) & (norms > 0)):
            raise _misconfigured("answered with vectors that have no direction", response)
        return (rows / norms).astype(np.float32)


def endpoint(url: str) -> str:
    """Return the address for requests: `/embeddings` under the API's base address, unless it is already included."""
    base = url.rstrip("/")
    return base if base.endswith("/embeddings") else base + "/embeddings"


def _retry_after(response: httpx.Response) -> float | None:
    """Return Retry-After in seconds; None for a date, because the clocks may differ."""
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.replace(".", "", 1).isdigit() else None


def _misconfigured(what: str, response: httpx.Response) -> Unavailable:
    logger.error("embeddings_endpoint_refused", status=response.status_code, body=response.text[:500])
    return Unavailable(
        f"The embeddings endpoint {what}.", code="embeddings_misconfigured", retry_after=int(_LONGEST_PAUSE_SECONDS)
    )
