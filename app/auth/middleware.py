"""Middleware that lets only signed-in people use uploads, downloads and connections.

Streamlit knows no sessions of people. It accepts files from any browser that opened a page, gives them to everybody
who has their address, publishes its metrics, and accepts connections from pages of other ports of this machine.
"""

from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from app.auth.sessions import Sessions

DOWNLOADS, STREAMLIT = "/media/", "/_stcore/"
OPEN = frozenset({f"{STREAMLIT}health", f"{STREAMLIT}host-config"})
"""Of what Streamlit has beside pages, what it asks for before anybody is signed in."""


class AccessMiddleware:
    """Lets requests for files pass for signed-in people, and connections from the workbench's own origin."""

    def __init__(self, app: ASGIApp, *, sessions: Sessions, cookie: str, origin: str) -> None:
        self._app = app
        self._sessions = sessions
        self._cookie = cookie
        self._origin = origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a permitted request to the application, or refuse it."""
        if scope["type"] == "websocket" and not is_own(HTTPConnection(scope), origin=self._origin):
            await WebSocketClose(code=1008)(scope, receive, send)
        elif scope["type"] == "http" and not await self._may_pass(HTTPConnection(scope)):
            await PlainTextResponse("Sign in to the workbench first.", 403)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _may_pass(self, asked: HTTPConnection) -> bool:
        path = asked.scope["path"]
        if path in OPEN or not path.startswith((DOWNLOADS, STREAMLIT)):
            return True
        return await run_in_threadpool(self._sessions.find, asked.cookies.get(self._cookie)) is not None


def is_own(asked: HTTPConnection, *, origin: str) -> bool:
    """Return whether a request comes from a page of the workbench's origin, or from no page at all."""
    sender = asked.headers.get("origin")
    return sender is None or sender == origin or _place_of(sender) == asked.headers.get("host")


def _place_of(url: str) -> str | None:
    try:
        return urlsplit(url).netloc or None
    except ValueError:
        return None
