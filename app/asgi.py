"""The workbench as an ASGI application: Streamlit's pages, sign-in routes, and headers on every response."""

import logging
import re
import secrets
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import streamlit as st
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.auth.current import registration, sessions, sign_in
from app.auth.routes import DOWNLOADS, AccessMiddleware, notice
from app.availability import LONGEST, SLOW, look
from app.documentation import Documentation
from app.navigation import addresses
from app.settings import settings
from app.ui.notices import show_problem
from app.ui.style import SCRIPT, WAITING

_log = logging.getLogger(__name__)


def policy(page: str) -> str:
    """Return a page's Content-Security-Policy: the own origin, the page's inline scripts, styles and WebAssembly."""
    hashes = [b64encode(sha256(script.encode()).digest()).decode() for script in _INLINE_SCRIPT.findall(page)]
    scripts = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'self'; script-src 'self' 'wasm-unsafe-eval' {scripts}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; connect-src 'self'; "
        "frame-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'self'; object-src 'none'"
    )


_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_STATIC = Path(st.__file__).with_name("static")
# Without this, Streamlit also looks for its server below each page's path, and finds nothing.
_ORIGIN = "<script>window.__streamlit = { BACKEND_BASE_URL: location.origin }</script>"
_SCRIPT = f'<script type="module" src="/{SCRIPT.name}"></script>'
PAGE = (
    (_STATIC / "index.html")
    .read_text()
    .replace("<head>", f"<head>\n    {_ORIGIN}\n    {_SCRIPT}\n    {WAITING}", 1)
    .replace("<title>Streamlit<", "<title>Carrel<", 1)
)
"""The HTML of every page; Streamlit's scripts draw the content."""
BESIDE_PAGES = frozenset(
    {"", "help", "oauth", "media", "component", "_stcore", *(path.name for path in _STATIC.iterdir())}
)
"""First parts of non-page addresses: the start page itself, routes, and Streamlit's files."""
HEADERS = {
    b"content-security-policy": policy(PAGE).encode(),
    # Other sites that opened this window must not send messages to it, because Streamlit accepts some.
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"same-origin",
    b"x-content-type-options": b"nosniff",
}
HEADERS_OF_FILES = HEADERS | {
    b"cache-control": b"private, no-store",
    # A file served from here is never a page of the workbench.
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'; sandbox",
}


class SecurityHeaders:
    """Middleware that sets HEADERS on each HTTP response, or HEADERS_OF_FILES on downloads, over the app's own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        headers = HEADERS_OF_FILES if scope["path"].startswith(DOWNLOADS) else HEADERS

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [(name, value) for name, value in message["headers"] if name.lower() not in headers]
                message = {**message, "headers": [*kept, *headers.items()]}
            await send(message)

        await self._app(scope, receive, sent)


class KnownPages:
    """Middleware with a 404 for unknown pages. Streamlit would show the first page instead."""

    def __init__(self, app: ASGIApp, *, pages: frozenset[str]) -> None:
        self._app = app
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._leads_nowhere(HTTPConnection(scope)):
            said = "The URL may be mistyped, or belong to another version of Carrel."
            answer = notice("This page does not exist", said, again="/", status=404, doing="Go to the home page")
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _leads_nowhere(self, asked: HTTPConnection) -> bool:
        path = asked.scope["path"].strip("/")
        is_looked_at = "text/html" in asked.headers.get("accept", "")
        return is_looked_at and path not in self._pages and path.partition("/")[0] not in BESIDE_PAGES


def tell_of_failure(error: Exception) -> bool:
    """Show the failure on the page, with a log reference but without the error. Always return True."""
    reference = secrets.token_hex(4)
    _log.error("A page failed (reference %s)", reference, exc_info=error)
    show_problem(
        "This page failed because of an error in Carrel.",
        "Reload the page. If it fails again, send the reference to the operator of Carrel.",
        f"Reference: {reference}",
    )
    return True


async def send_page(_request: Request) -> HTMLResponse:
    """Return the HTML common to all pages. The page's WebSocket connection identifies the person."""
    return HTMLResponse(PAGE, headers={"Cache-Control": "no-cache"})


async def send_script(_request: Request) -> FileResponse:
    return FileResponse(SCRIPT, media_type="text/javascript", headers={"Cache-Control": "no-cache"})


async def send_availability(request: Request) -> JSONResponse:
    """Answer with a sentence about the slow or missing part, empty if all are well or nobody is signed in."""
    asked, said = request.query_params, ""
    if await run_in_threadpool(sessions().find, request.cookies.get(sign_in().cookie)) is not None:
        seconds = {"short": SLOW + 0.2, "long": LONGEST}.get(asked.get("patience", ""), SLOW)
        said = await look(seconds, needs_prefect=asked.get("page") in {"/ingestion", "/health"})
    return JSONResponse({"said": said}, headers={"Cache-Control": "no-store"})


def create_app() -> st.App:
    """Return the application. ConfigurationError and ValueError name the missing or wrong setting."""
    registration().check()
    gate = Middleware(AccessMiddleware, sessions=sessions(), cookie=sign_in().cookie, origin=settings().origin)
    return st.App(
        Path(__file__).with_name("main.py"),
        routes=[
            *(Route(f"/{page}", send_page) for page in ("", *addresses())),
            Route(f"/{SCRIPT.name}", send_script),
            Route("/availability", send_availability),
            *sign_in().routes(),
            *Documentation(sessions(), cookie=sign_in().cookie).routes(),
        ],
        middleware=[Middleware(SecurityHeaders), Middleware(KnownPages, pages=addresses()), gate],
        on_script_error=tell_of_failure,
    )
