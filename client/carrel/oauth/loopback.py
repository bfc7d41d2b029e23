"""Waiting on this machine for the browser that brings an authorization code (RFC 8252, section 7.3)."""

import hmac
import os
import queue
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

HOST, PATH = "127.0.0.1", "/callback"
PORTS = range(18971, 18979)
LOOPBACK_REDIRECT_URIS = [f"http://{HOST}:{port}{PATH}" for port in PORTS]
"""Addresses to register an application for that signs people in on their own machine.

The service compares redirect addresses character by character, so these are several: the first free port is used.
"""

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Carrel</title>
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<h1>{heading}</h1><p>{text}</p></html>"""
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class _Server(ThreadingHTTPServer):
    # A port that was just left is good again; Windows would share one that another program listens on.
    allow_reuse_address = os.name == "posix"
    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__((HOST, port), _Handler)
        self.state = ""
        self.callbacks: queue.Queue[str] = queue.Queue()


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] - made by no other
    timeout = 10  # of a connection that a browser opens and sends nothing on

    def do_GET(self) -> None:
        """Keep a callback that answers the request which was sent; refuse everything else."""
        address = urlsplit(self.path)
        state = parse_qs(address.query).get("state", [""])[0]
        if address.path != PATH or not self._is_expected(state):
            self._answer(404, "Not a sign-in", "Nothing waits for this address. Begin to sign in again.")
            return
        self._answer(200, "Go back to your notebook", "Carrel has answered it. This window can be closed.")
        self.server.callbacks.put(address.query)

    def _is_expected(self, state: str) -> bool:
        expected = self.server.state
        return bool(expected) and hmac.compare_digest(state.encode("utf-8", "surrogatepass"), expected.encode())

    def _answer(self, status: int, heading: str, text: str) -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(_PAGE.format(heading=heading, text=text).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Write nothing: a path has the code in it."""


@dataclass(frozen=True)
class Listener:
    """A port of this machine that the browser is sent back to."""

    redirect_uri: str
    _server: _Server

    def expect(self, state: str) -> None:
        """Take the callback with this state, and no other."""
        self._server.state = state

    def wait(self, seconds: float) -> str | None:
        """Return the query of the callback; None when there was none in time."""
        try:
            return self._server.callbacks.get(timeout=seconds)
        except queue.Empty:
            return None


@contextmanager
def listen() -> Generator[Listener | None]:
    """Listen on the first port that is free, for this machine alone; None when all are taken."""
    server = _bind()
    if server is None:
        yield None
        return
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield Listener(f"http://{HOST}:{server.server_port}{PATH}", server)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _bind() -> _Server | None:
    for port in PORTS:
        try:
            return _Server(port)
        except OSError:
            continue
    return None
