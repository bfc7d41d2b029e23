"""A stand-in reranking endpoint on loopback: real HTTP, scores by a known rule, and whatever can go wrong.

A text scores as often as it says `BETTER`, less as often as it says `WORSE`.
"""

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "rerank-key-4711"
BETTER, WORSE = "splendid", "dreadful"

Answer = tuple[int, object]
"""A status, and a body: JSON, or bytes as they are."""


def score_of(text: str) -> float:
    """Score a text by the rule."""
    return text.count(BETTER) - text.count(WORSE) + 0.0


def in_common_shape(asked: dict[str, Any]) -> Answer:
    """Answer as Cohere, Jina and vLLM do: to `documents`, best first, `top_n` of them."""
    if "documents" not in asked:
        return 422, {"detail": "Field required: documents"}
    results = [{"index": at, "relevance_score": score_of(text)} for at, text in enumerate(asked["documents"])]
    return 200, {"id": "r1", "results": sorted(results, key=lambda row: -row["relevance_score"])[: asked["top_n"]]}


def in_shape_of_tei(asked: dict[str, Any]) -> Answer:
    """Answer as Text Embeddings Inference does: to `texts`, 32 at most."""
    if not 1 <= len(asked.get("texts", ())) <= 32:
        return 422, {"error": "missing field `texts`, or a batch that is too large", "error_type": "Validation"}
    return 200, [{"index": at, "score": score_of(text)} for at, text in enumerate(asked["texts"])]


@dataclass
class RerankingEndpoint:
    """How the endpoint behaves; `asked` are the bodies of all requests."""

    url: str
    answer: Callable[[dict[str, Any]], Answer] = in_common_shape
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    open: threading.Event = field(default_factory=threading.Event)

    def behave(self) -> None:
        """Answer everything at once, in the common shape."""
        self.answer = in_common_shape
        self.asked.clear()
        self.open.set()

    @property
    def texts(self) -> list[str]:
        """All texts that were sent."""
        return [text for body in self.asked for text in (body.get("documents") or body.get("texts") or ())]


@contextmanager
def serving_reranking() -> Generator[RerankingEndpoint]:
    """Serve on a free port until the block ends; a request without the key is refused."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            endpoint.asked.append(body)
            endpoint.open.wait(60)
            allowed = self.path == "/v1/rerank" and self.headers["Authorization"] == f"Bearer {KEY}"
            status, answer = endpoint.answer(body) if allowed else (401, {"message": "who are you?"})
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                self.close_connection = True  # whoever asked has waited long enough

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    endpoint = RerankingEndpoint(f"http://127.0.0.1:{server.server_port}/v1")
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
