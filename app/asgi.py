"""The workbench as an ASGI application: Streamlit's pages, signing in beside them, and headers on everything."""

import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, MutableMapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import streamlit as st
from starlette.middleware import Middleware

from app.auth.parts import registration, sign_in

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


def policy(page: str) -> str:
    """Return the Content-Security-Policy of an HTML page whose own inline scripts may run, and no others.

    Streamlit sets styles inline, and draws graphs in WebAssembly; from elsewhere nothing is fetched.
    """
    hashes = [b64encode(sha256(script.encode()).digest()).decode() for script in _INLINE_SCRIPT.findall(page)]
    scripts = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'self'; script-src 'self' 'wasm-unsafe-eval' {scripts}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; connect-src 'self'; "
        "frame-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'self'; object-src 'none'"
    )


_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_PAGE = Path(st.__file__).with_name("static") / "index.html"
HEADERS = {
    b"content-security-policy": policy(_PAGE.read_text()).encode(),
    b"referrer-policy": b"same-origin",
    b"x-content-type-options": b"nosniff",
}


class SecurityHeaders:
    """Puts the headers on every answer."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sent(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                kept = [(name, value) for name, value in message["headers"] if name.lower() not in HEADERS]
                message = {**message, "headers": [*kept, *HEADERS.items()]}
            await send(message)

        await self._app(scope, receive, sent)


def create_app() -> st.App:
    """Return the application; ConfigurationError and ValueError say which setting is missing or wrong."""
    registration().check()
    return st.App(
        Path(__file__).with_name("main.py"), routes=sign_in().routes(), middleware=[Middleware(SecurityHeaders)]
    )
