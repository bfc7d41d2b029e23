"""The sign-in routes and access to files. A state works once, for ten minutes, in its browser, for a new session."""

import html
import logging
import re
import secrets
import time
from math import ceil
from posixpath import normpath
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from app.auth.registration import Application
from app.auth.sessions import LONGEST, Person, Sessions
from carrel import Carrel, CarrelError
from carrel.errors import AccessDeniedError, AuthorizationError, CallbackError, InvalidGrantError
from carrel.oauth import Tokens
from carrel.wire.oauth_clients import LOOPBACK

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title} · Carrel</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 15vh auto; padding: 0 1.5rem; }}
h1 {{ font-size: 1.4rem; }} p {{ overflow-wrap: anywhere; }}
a, button {{ display: inline-block; margin-top: .5rem; padding: .5rem 1rem; border-radius: .4rem; background: #1f5f6b;
  color: #fff; text-decoration: none; border: 0; font: inherit; cursor: pointer; }}
</style></head><body><main><h1>{title}</h1><p>{message}</p>{way_on}</main></body></html>
"""

_LINK = '<a href="{again}">{doing}</a>'
_FORM = '<form method="post" action="{again}"><button>{doing}</button></form>'


def notice(
    title: str, message: str, *, again: str, status: int, doing: str = "Try again", posts: bool = False
) -> HTMLResponse:
    """Return a page with an escaped message and a link, or a button if the next step changes data."""
    way_on = (_FORM if posts else _LINK).format(again=html.escape(again), doing=html.escape(doing))
    page = _PAGE.format(title=html.escape(title), message=html.escape(message), way_on=way_on)
    return HTMLResponse(page, status, headers={"Cache-Control": "no-store"})


DOWNLOADS, STREAMLIT = "/media/", "/_stcore/"
OPEN = frozenset({f"{STREAMLIT}health", f"{STREAMLIT}host-config"})
"""Streamlit addresses requested before sign-in."""


class AccessMiddleware:
    """Middleware for Streamlit: files only for signed-in people, connections only from the workbench's own origin."""

    def __init__(self, app: ASGIApp, *, sessions: Sessions, cookie: str, origin: str) -> None:
        self._app = app
        self._sessions = sessions
        self._cookie = cookie
        self._origin = origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
    """Return whether a request comes from a page of the workbench's origin, or from outside any page."""
    sender = asked.headers.get("origin")
    return sender is None or sender == origin or _host_of(sender) == asked.headers.get("host")


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).netloc or None
    except ValueError:
        return None


_log = logging.getLogger(__name__)

SIGN_IN, CALLBACK, SIGN_OUT = "/oauth/login", "/oauth/callback", "/oauth/logout"
LONGEST_PATH = 2000
_TEN_MINUTES = 600
_MILLISECONDS = re.compile("[0-9]{13}")
_LONGEST = int(LONGEST.total_seconds())

NOT_KEPT = "Your browser did not keep the cookie of this sign-in, or the sign-in started more than ten minutes ago."


class SignIn:
    """The sign-in routes of a workbench. Cookies require https if its public address (`origin`) uses https."""

    def __init__(self, sessions: Sessions, application: Application, *, v1_base_url: str | None, origin: str) -> None:
        self._sessions = sessions
        self._application = application
        self._v1_base_url = v1_base_url
        self._origin = origin
        self._secure = origin.startswith("https:")
        prefix: Final = "__Host-" if self._secure else ""
        # Different names from the service's cookies: cookies ignore ports, and both may run on one host.
        self.cookie = f"{prefix}carrel_workbench"
        self._browser_cookie = f"{prefix}carrel_workbench_signing_in"
        self._left_cookie = f"{prefix}carrel_workbench_left"

    def routes(self) -> list[Route]:
        """Return the routes. The functions block, so each route runs in a thread."""
        return [
            Route(SIGN_IN, self.begin, methods=["GET"]),
            Route(CALLBACK, self.finish, methods=["GET"]),
            Route(SIGN_OUT, self.end, methods=["POST", "GET"]),
        ]

    def begin(self, request: Request) -> Response:
        """Store a request and redirect to the service's sign-in, or answer 502 with the reason."""
        back = path_of(request.query_params.get("next"))
        if self._is_otherwise_spelled(request):
            return _forbid_caching(RedirectResponse(f"{self._origin}{_sign_in_address(back)}", 303))
        browser = request.cookies.get(self._browser_cookie) or secrets.token_urlsafe(32)
        try:
            # After signing out, a person signs in again: only newer sign-ins at the service count.
            left = request.cookies.get(self._left_cookie)
            since = int(left) / 1000 if left and _MILLISECONDS.fullmatch(left) else time.time()
            max_age = None if left is None else max(0, ceil(time.time() - since))
            asked = self._application.check_client().authorization_request(max_age=max_age)
        except CarrelError as error:
            _log.warning("Nobody can sign in: %s", error)
            return notice("Sign-in is not available right now", str(error), again=_sign_in_address(back), status=502)
        self._sessions.begin(asked, browser=browser, back=back)
        response = _forbid_caching(RedirectResponse(asked.url, 303))
        self._set(response, self._browser_cookie, browser, seconds=_TEN_MINUTES)
        return response

    def finish(self, request: Request) -> Response:
        """Handle the callback: exchange the code for the person's tokens, and begin a session (section 4.1.2)."""
        browser = request.cookies.get(self._browser_cookie, "")
        pending = self._sessions.take(request.query_params.get("state", ""), browser=browser)
        if pending is None:
            return notice("This sign-in cannot be completed", NOT_KEPT, again="/", status=400)
        again = _sign_in_address(pending.back)
        try:
            tokens = self._application.client().exchange(str(request.url.query), pending.request)
            cookie = self._begin_session(tokens)
        except AccessDeniedError:
            return notice("You are not signed in", "You declined, so nothing changed.", again=again, status=403)
        except (CallbackError, AuthorizationError, InvalidGrantError) as error:
            return notice("This sign-in cannot be completed", str(error), again=again, status=400)
        except CarrelError as error:
            _log.warning("A sign-in failed: %s", error)
            return notice("Sign-in failed", str(error), again=again, status=502)
        self._end_session(request)
        response = _forbid_caching(RedirectResponse(pending.back, 303))
        self._set(response, self.cookie, cookie, seconds=_LONGEST)
        self._unset(response, self._browser_cookie)
        self._unset(response, self._left_cookie)
        return response

    def end(self, request: Request) -> Response:
        """End the session and revoke its tokens (RFC 7009). Other sites must not sign people out: else ask first."""
        if not self._is_meant(request):
            asked = "Another website may have requested this."
            return notice("Sign out?", asked, again=SIGN_OUT, status=403, doing="Sign out", posts=True)
        self._end_session(request)
        response = _forbid_caching(RedirectResponse("/", 303))
        self._unset(response, self.cookie)
        self._set(response, self._left_cookie, str(int(time.time() * 1000)), seconds=_LONGEST)
        return response

    def _is_otherwise_spelled(self, request: Request) -> bool:
        """Return whether a request names this machine unlike the origin: `localhost` and 127.0.0.1 share no cookies."""
        own, asked = urlsplit(self._origin), request.url
        return {own.hostname, asked.hostname} <= LOOPBACK and own.hostname != asked.hostname and own.port == asked.port

    def _is_meant(self, request: Request) -> bool:
        """Return whether a request is the person's own action. At trusted addresses (https, this machine) browsers say
        so. Elsewhere a form must be POSTed from a workbench page: other sites can't send Lax cookies."""
        if (site := request.headers.get("sec-fetch-site")) is not None:
            return request.method != "HEAD" and site in {"same-origin", "none"}
        return request.method == "POST" and is_own(request, origin=self._origin)

    def _begin_session(self, tokens: Tokens) -> str:
        try:
            with Carrel(access_token=tokens.access_token, v1_base_url=self._v1_base_url) as client:
                person = Person(**dict(client.me()))
            return self._sessions.create(tokens, person)
        except BaseException:
            self._revoke(tokens, whose="a sign-in that failed")
            raise

    def _end_session(self, request: Request) -> None:
        if (session := self._sessions.find(request.cookies.get(self.cookie))) is None:
            return
        # Wait for a refresh in progress, to revoke its tokens too.
        with self._sessions.lock(session.key):
            tokens = self._sessions.get(session.key)
            self._sessions.delete(session.key)
        if tokens is not None:
            self._revoke(tokens, whose=str(session.person.id))

    def _revoke(self, tokens: Tokens, *, whose: str) -> None:
        try:
            self._application.client().revoke(tokens)
        except CarrelError as error:  # signed out here anyway; at the service, the session expires
            _log.warning("The tokens of %s could not be revoked: %s", whose, error)

    def _set(self, response: Response, name: str, value: str, *, seconds: int) -> None:
        response.set_cookie(name, value, max_age=seconds, path="/", httponly=True, samesite="lax", secure=self._secure)

    def _unset(self, response: Response, name: str) -> None:
        response.delete_cookie(name, path="/", secure=self._secure, httponly=True, samesite="lax")


def path_of(wanted: str | None) -> str:
    """Return the path in the workbench to go to afterwards. Any address elsewhere becomes the first page."""
    if not wanted or len(wanted) > LONGEST_PATH or not wanted.startswith("/") or not wanted.isprintable():
        return "/"
    path = unquote(re.split("[?#]", wanted, maxsplit=1)[0])
    leads_away = "//" in path or "\\" in wanted + path or f"{normpath(path)}/".startswith("/oauth/")
    return "/" if leads_away else wanted


def _sign_in_address(back: str) -> str:
    return f"{SIGN_IN}?next={quote(back, safe='')}"


def _forbid_caching(response: Response) -> Response:
    response.headers["Cache-Control"] = "no-store"
    return response
