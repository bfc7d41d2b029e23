"""Score texts for a query with a reranking endpoint (`POST …/rerank`). Cohere, Jina, vLLM and most other servers accept
`documents` and `top_n`, and return `results` with `index` and `relevance_score`. Text Embeddings Inference accepts
`texts`, and returns a list with `index` and `score`. After a server refuses the first format, the second is used."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import httpx
from opentelemetry.trace import SpanKind
from pydantic import AliasChoices, BaseModel, Field, TypeAdapter, ValidationError

from service.platform import traces
from service.platform.bodies import read_at_most
from service.platform.logs import logger
from service.platform.settings import Settings
from service.platform.sharing import Figure, Share

LONGEST_QUERY = 1000
LONGEST_TEXT = 2000
"""Characters sent per text: reranking models take 512 word pieces of query and text, and cut off or refuse the rest."""

LARGEST_ANSWER = 4 * 1024 * 1024  # bytes read from an answer: some endpoints repeat the texts

REST_SECONDS = 5.0  # pause for an unavailable or slow endpoint, in seconds, to slow down few searches

# The most connections of all workers together; waiting for a connection counts as part of a request's time.
_CONNECTIONS = 16
_LEAST_CONNECTIONS = 2
# The default limit of Text Embeddings Inference.
_TEXTS_A_REQUEST = 32
_OTHER_SHAPE = frozenset({400, 422})
# Errors of a single request: the next request may succeed.
_OF_ONE_REQUEST = frozenset({400, 413, 422})


class Outcome(StrEnum):
    ANSWERED = "answered"
    TIMED_OUT = "timed_out"
    FAILED = "failed"


class NotReranked(Exception):  # noqa: N818 - not an error of the request, which continues without
    """The endpoint gave no scores; `outcome` is the reason in a word, with details in the log."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class _Failed(Exception):  # noqa: N818 - never leaves this module
    """The endpoint failed; `passes` if possibly unavailable, to pause further requests."""

    def __init__(self, reason: str, *, status: int | None = None, passes: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.passes = passes


class _Score(BaseModel):
    index: int
    score: Annotated[float, Field(allow_inf_nan=False, validation_alias=AliasChoices("relevance_score", "score"))]


class _Scores(BaseModel):
    results: Annotated[list[_Score], Field(validation_alias=AliasChoices("results", "data"))]


_ANSWER: TypeAdapter[_Scores | list[_Score]] = TypeAdapter(_Scores | list[_Score])


class Reranker:
    """Asks the endpoint in time and without retries, pauses for a slow or absent endpoint, and counts requests."""

    def __init__(self, url: str, settings: Settings, *, share: Share) -> None:
        self.outcomes: dict[Outcome, int] = dict.fromkeys(Outcome, 0)
        self.seconds = 0.0
        self.model = settings.reranking_model
        self._endpoint = _endpoint(url)
        self._share = share
        self._limit = settings.reranking_seconds
        key = settings.reranking_api_key
        headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
        connections = max(_LEAST_CONNECTIONS, _CONNECTIONS // settings.workers)
        self._client = httpx.AsyncClient(
            headers={"Accept-Encoding": "identity", **headers},
            timeout=None,  # noqa: S113 - `score` has one for all of it
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        )
        self._takes_documents = True
        self._rests_until = 0.0
        self._rests_for = Outcome.FAILED

    async def score(self, query: str, texts: Sequence[str]) -> dict[int, float]:
        """Return scores, higher is better, of some texts by index. Raises NotReranked for a late or unusable answer."""
        if not self.in_service:
            raise NotReranked(self._rests_for)
        told = {"carrel.texts": len(texts), "server.address": self._endpoint.host}
        began = time.monotonic()
        with traces.span("rerank", told | ({"carrel.model": self.model} if self.model else {}), kind=SpanKind.CLIENT):
            outcome, scores = await self._try(query, texts)
            if outcome is not Outcome.ANSWERED:
                traces.fail()
        self.seconds += time.monotonic() - began
        self.outcomes[outcome] += 1
        answered = outcome is Outcome.ANSWERED
        self._share.tell(Figure.RERANKED_AT if answered else Figure.NOT_RERANKED_AT, time.time())
        if not answered:
            raise NotReranked(outcome)
        return scores

    @property
    def in_service(self) -> bool:
        return time.monotonic() >= self._rests_until

    async def close(self) -> None:
        await self._client.aclose()

    async def _try(self, query: str, texts: Sequence[str]) -> tuple[Outcome, dict[int, float]]:
        """Ask the endpoint once, with query and texts cut; rest it after a time-out or a failure that passes."""
        try:
            async with asyncio.timeout(self._limit):
                return Outcome.ANSWERED, await self._ask(query[:LONGEST_QUERY], [text[:LONGEST_TEXT] for text in texts])
        except TimeoutError:
            logger.warning("reranking_endpoint_slow", seconds=self._limit)
            self._pause(Outcome.TIMED_OUT)
            return Outcome.TIMED_OUT, {}
        except _Failed as error:
            logger.warning("reranking_endpoint_failed", reason=str(error), status=error.status)
            if error.passes:
                self._pause(Outcome.FAILED)
            return Outcome.FAILED, {}

    def _pause(self, outcome: Outcome) -> None:
        self._rests_until = time.monotonic() + REST_SECONDS
        self._rests_for = outcome

    async def _ask(self, query: str, texts: Sequence[str]) -> dict[int, float]:
        """Ask in the form that the endpoint took last, else in the other, which is then remembered. Raises _Failed."""
        takes_documents = self._takes_documents
        try:
            return await self._ask_in(query, texts, takes_documents=takes_documents)
        except _Failed as error:
            if error.status not in _OTHER_SHAPE:
                raise
            # If both shapes are refused, report the first refusal.
            try:
                scores = await self._ask_in(query, texts, takes_documents=not takes_documents)
            except _Failed:
                raise error from None
        self._takes_documents = not takes_documents
        return scores

    async def _ask_in(self, query: str, texts: Sequence[str], *, takes_documents: bool) -> dict[int, float]:
        if takes_documents:
            body = {"query": query, "documents": list(texts), "top_n": len(texts)}
            named = {"model": self.model} if self.model else {}
            return _scores(await self._post(named | body), len(texts))
        parts = [list(texts[start : start + _TEXTS_A_REQUEST]) for start in range(0, len(texts), _TEXTS_A_REQUEST)]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._post({"query": query, "texts": part, "truncate": True})) for part in parts
                ]
        except* _Failed as failures:
            raise failures.exceptions[0] from None
        found: dict[int, float] = {}
        for number, (task, part) in enumerate(zip(tasks, parts, strict=True)):
            scores = _scores(task.result(), len(part))
            found |= {number * _TEXTS_A_REQUEST + place: score for place, score in scores.items()}
        return found

    async def _post(self, body: Mapping[str, object]) -> bytes:
        try:
            async with self._client.stream("POST", self._endpoint, json=body) as response:
                status = response.status_code
                if not response.is_success:
                    raise _Failed("refused", status=status, passes=status not in _OF_ONE_REQUEST)
                content = await read_at_most(response.aiter_bytes(), most_bytes=LARGEST_ANSWER)
                if content is None:
                    raise _Failed("answer too large", status=status)
                return content
        except httpx.HTTPError as error:
            raise _Failed(type(error).__name__, passes=True) from error


def _endpoint(url: str) -> httpx.URL:
    """Return the address for requests: `/rerank` under the API's base address, unless already included."""
    base = httpx.URL(url)
    path = base.path.rstrip("/")
    return base.copy_with(path=path if path.endswith("/rerank") else path + "/rerank")


def _scores(content: bytes, count: int) -> dict[int, float]:
    """Return an answer's scores by the texts' indexes. Raises _Failed for any other answer."""
    try:
        answer = _ANSWER.validate_json(content)
    except ValidationError as error:
        raise _Failed("answered with something else than scores") from error
    rows = answer.results if isinstance(answer, _Scores) else answer
    scores = {row.index: row.score for row in rows}
    if not scores or len(scores) < len(rows) or not scores.keys() <= set(range(count)):
        raise _Failed("answered for other texts than it was asked")
    return scores
