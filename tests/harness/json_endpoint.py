"""A stand-in of somebody's endpoint on loopback: real HTTP, which takes and answers JSON."""

import json
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, object]
"""A status, and a body: JSON, or bytes as they are."""
Respond = Callable[[str, Mapping[str, str], dict[str, Any]], Answer]
"""What answers a request's path, headers and body."""


@contextmanager
def serving_json(respond: Respond) -> Generator[str]:
    """Serve on a free port until the block ends; gives the address of the API."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = respond(self.path, self.headers, body)
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
                self.close_connection = True  # the client has waited long enough

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
