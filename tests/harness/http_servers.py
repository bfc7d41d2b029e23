"""HTTP servers on loopback, each in a thread: the base of stand-ins for external services."""

import json
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """Answers requests over a kept connection; clients may disconnect at any moment."""

    protocol_version = "HTTP/1.1"
    # Small answers aren't held back until the other end has acknowledged the last one.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.answer(b"")

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, body: bytes, /) -> None:
        raise NotImplementedError

    def respond(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def handle(self) -> None:
        with suppress(OSError, ValueError):
            super().handle()

    def finish(self) -> None:
        with suppress(OSError, ValueError):
            super().finish()

    def log_message(self, *_: object) -> None:
        """Log no requests."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Generator[str]:
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(10)


Answer = tuple[int, object]
"""A status, and a body: JSON, or plain bytes."""
Respond = Callable[[str, Mapping[str, str], dict], Answer]
"""Answers a request's path, headers and body."""


@contextmanager
def serving_json(respond: Respond) -> Generator[str]:

    class Endpoint(Handler):
        def answer(self, body: bytes) -> None:
            status, answer = respond(self.path, self.headers, json.loads(body))
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.respond(status, content, Content_Type="application/json")

    with serving(Endpoint) as url:
        yield f"{url}/v1"
