"""A stand-in OpenAI-compatible `/v1/embeddings` on loopback: real HTTP, vectors by a text's words, a will of its own.

Texts that share words are near each other; so what is found by meaning with it is found for a reason.
"""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from numpy.typing import NDArray

MODEL = "stand-in-large"
DIMENSIONS = 768
UNKNOWABLE = "be-known"
"""A word that no text may have which is to be embedded; such a text is always refused."""


@cache
def _direction(word: str) -> NDArray[np.float64]:
    seed = int.from_bytes(sha256(word.encode()).digest()[:8])
    return np.random.default_rng(seed).standard_normal(DIMENSIONS)


def vector_of(text: str) -> list[float]:
    """The sum of the directions of a text's words."""
    return np.sum([_direction(word) for word in text.lower().split() or [""]], axis=0).tolist()


@dataclass
class EmbeddingsEndpoint:
    """How the endpoint behaves; `texts` are all that it was asked for since it last began to behave."""

    url: str
    texts: list[str] = field(default_factory=list[str])
    refused: set[str] = field(default_factory=set[str])
    open: threading.Event = field(default_factory=threading.Event)

    def behave(self) -> None:
        """Answer everything at once."""
        self.texts.clear()
        self.refused.clear()
        self.open.set()

    def refuse(self, *words: str) -> None:
        """Refuse, with 400, every request with one of these words in a text."""
        self.refused = set(words)

    def hold(self) -> None:
        """Let requests wait until `behave` or `open.set()`."""
        self.open.clear()

    def answer(self, texts: list[str]) -> tuple[int, object]:
        """Return the status and the body of an answer."""
        self.texts += texts
        self.open.wait(60)
        if any(word in text for text in texts for word in {*self.refused, UNKNOWABLE}):
            return 400, {"error": {"message": "This input is not to my taste."}}
        return 200, {"data": [{"index": number, "embedding": vector_of(text)} for number, text in enumerate(texts)]}


@contextmanager
def serving_embeddings() -> Generator[EmbeddingsEndpoint]:
    """Serve on a free port until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, body = endpoint.answer(asked["input"])
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    endpoint = EmbeddingsEndpoint(f"http://127.0.0.1:{server.server_port}/v1")
    endpoint.behave()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.open.set()
        server.shutdown()
        server.server_close()
        thread.join(10)
