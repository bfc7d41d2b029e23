"""A stand-in OpenAI-compatible `/v1/embeddings` on loopback; texts with shared words are near each other."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from tests.harness.http_servers import Answer, serving_json

MODEL = "stand-in-large"
DIMENSIONS = 768
UNKNOWABLE = "be-known"
"""A text with the word is always refused."""


@cache
def _direction(word: str) -> NDArray[np.float64]:
    seed = int.from_bytes(sha256(word.encode()).digest()[:8])
    return np.random.default_rng(seed).standard_normal(DIMENSIONS)


def vector_of(text: str) -> list[float]:
    return np.sum([_direction(word) for word in text.lower().split() or [""]], axis=0).tolist()


@dataclass
class EmbeddingsEndpoint:
    """The endpoint's behaviour; `texts` are all requested texts since the last reset."""

    url: str
    texts: list[str] = field(default_factory=list[str])
    refused: set[str] = field(default_factory=set[str])
    open: threading.Event = field(default_factory=threading.Event)

    def behave(self) -> None:
        self.texts.clear()
        self.refused.clear()
        self.open.set()

    def refuse(self, *words: str) -> None:
        self.refused = set(words)

    def hold(self) -> None:
        self.open.clear()

    def answer(self, texts: list[str]) -> Answer:
        self.texts += texts
        self.open.wait(60)
        if any(word in text for text in texts for word in {*self.refused, UNKNOWABLE}):
            return 400, {"error": {"message": "This input is not to my taste."}}
        return 200, {"data": [{"index": number, "embedding": vector_of(text)} for number, text in enumerate(texts)]}


@contextmanager
def serving_embeddings() -> Generator[EmbeddingsEndpoint]:
    with serving_json(lambda _path, _headers, body: endpoint.answer(body["input"])) as url:
        endpoint = EmbeddingsEndpoint(url)
        endpoint.behave()
        try:
            yield endpoint
        finally:
            endpoint.open.set()
