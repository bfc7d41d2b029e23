"""A stand-in reranking endpoint on loopback, with faults. A text scores by its `BETTER` minus `WORSE`."""

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.harness.http_servers import Answer, serving_json

KEY = "rerank-key-4711"
BETTER, WORSE = "splendid", "dreadful"


def score_of(text: str) -> float:
    return text.count(BETTER) - text.count(WORSE) + 0.0


def in_common_shape(asked: dict) -> Answer:
    """Answer as Cohere, Jina and vLLM do: to `documents`, best first, at most `top_n`."""
    if "documents" not in asked:
        return 422, {"detail": "Field required: documents"}
    results = [{"index": at, "relevance_score": score_of(text)} for at, text in enumerate(asked["documents"])]
    return 200, {"id": "r1", "results": sorted(results, key=lambda row: -row["relevance_score"])[: asked["top_n"]]}


def in_shape_of_tei(asked: dict) -> Answer:
    """Answer as Text Embeddings Inference does: to `texts`, 32 at most."""
    if not 1 <= len(asked.get("texts", ())) <= 32:
        return 422, {"error": "missing field `texts`, or a batch that is too large", "error_type": "Validation"}
    return 200, [{"index": at, "score": score_of(text)} for at, text in enumerate(asked["texts"])]


@dataclass
class RerankingEndpoint:
    """The endpoint's behaviour; `asked` are the bodies of all requests."""

    url: str
    answer: Callable[[dict], Answer] = in_common_shape
    asked: list[dict] = field(default_factory=list[dict])
    open: threading.Event = field(default_factory=threading.Event)

    def behave(self) -> None:
        self.answer = in_common_shape
        self.asked.clear()
        self.open.set()

    @property
    def texts(self) -> list[str]:
        return [text for body in self.asked for text in (body.get("documents") or body.get("texts") or ())]


@contextmanager
def serving_reranking() -> Generator[RerankingEndpoint]:
    def respond(path: str, headers: Mapping[str, str], body: dict) -> Answer:
        endpoint.asked.append(body)
        endpoint.open.wait(60)
        allowed = path == "/v1/rerank" and headers["Authorization"] == f"Bearer {KEY}"
        return endpoint.answer(body) if allowed else (401, {"message": "who are you?"})

    with serving_json(respond) as url:
        endpoint = RerankingEndpoint(url)
        endpoint.behave()
        try:
            yield endpoint
        finally:
            endpoint.open.set()
