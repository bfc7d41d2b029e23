"""A stand-in OpenAI-compatible embeddings endpoint on loopback: real HTTP, vectors that mean nothing, at no cost."""

import hashlib
import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DIMENSIONS = 384
SLOW = "sha512-"
_LONGEST_HOLD = 300.0
_VECTORS = [
    json.dumps([round(((index * 37 + place * 11) % 101) / 101 - 0.5, 3) for place in range(DIMENSIONS)])
    for index in range(64)
]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer with a vector for each text; the same text has the same one."""
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        assert isinstance(self.server, _Server)
        if self.server.released is not None and any(SLOW in text for text in texts):
            self.server.released.wait(_LONGEST_HOLD)
        time.sleep(self.server.seconds_a_text * len(texts))
        rows = [f'{{"index":{index},"embedding":{_vector(text)}}}' for index, text in enumerate(texts)]
        content = f'{{"object":"list","data":[{",".join(rows)}],"usage":{{"total_tokens":1}}}}'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    seconds_a_text = 0.0
    released: threading.Event | None = None


def _vector(text: str) -> str:
    return _VECTORS[hashlib.blake2b(text.encode(), digest_size=1).digest()[0] % len(_VECTORS)]


@contextmanager
def embeddings_server(
    released: threading.Event | None = None, *, seconds_a_text: float = 0.0
) -> Generator[dict[str, str]]:
    """Serve while the body runs, each text taking so long; yields the service's settings that ask it.

    What has `SLOW` in it is held until it is `released`; without, nothing is.
    """
    server = _Server(("127.0.0.1", 0), _Handler)
    server.seconds_a_text = seconds_a_text
    server.released = released
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield {
            "CARREL_EMBEDDINGS_URL": f"http://127.0.0.1:{server.server_port}/v1",
            "CARREL_EMBEDDINGS_MODEL": "stand-in",
            "CARREL_EMBEDDINGS_DIMENSIONS": str(DIMENSIONS),
        }
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
