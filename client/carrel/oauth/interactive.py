"""Signing in as oneself, from a notebook or a Python prompt; the tokens stay in the person's own folder."""

import getpass
import hashlib
import hmac
import os
import queue
import sys
import webbrowser
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from carrel import errors
from carrel._client import Carrel
from carrel.oauth.authorization import AuthorizationRequest
from carrel.oauth.client import OAuthClient, authorization_address
from carrel.oauth.stores import FileTokenStore, replace_private_file
from carrel.oauth.tokens import Tokens
from carrel.wire.scopes import ApiScope

HOST, PATH = "127.0.0.1", "/callback"
PORTS = range(18971, 18979)
LOOPBACK_REDIRECT_URIS = [f"http://{HOST}:{port}{PATH}" for port in PORTS]
"""Redirect addresses for registering an application that signs people in on their own machine. The service compares
redirect addresses exactly, so the list has several ports; the first free port is used."""

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Carrel</title>
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<h1>{heading}</h1><p>{text}</p></html>"""
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Listener(ThreadingHTTPServer):
    """A local port for the browser's redirect; accepts only the callback with the `state`."""

    # Reuse a port that was just closed; on Windows, this option would share another program's port.
    allow_reuse_address = os.name == "posix"
    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__((HOST, port), _Handler)
        self.redirect_uri = f"http://{HOST}:{port}{PATH}"
        self.state = ""
        self.callbacks: queue.Queue[str] = queue.Queue()

    def wait(self, seconds: float) -> str | None:
        """Return the query of the callback; None after `seconds` without it."""
        try:
            return self.callbacks.get(timeout=seconds)
        except queue.Empty:
            return None


class _Handler(BaseHTTPRequestHandler):
    server: Listener  # pyright: ignore[reportIncompatibleVariableOverride] - made by no other
    timeout = 10  # for a connection that a browser opens without sending anything

    def do_GET(self) -> None:
        """Keep the callback answering the request; refuse all other requests."""
        address = urlsplit(self.path)
        state = parse_qs(address.query).get("state", [""])[0]
        expected, given = self.server.state.encode(), state.encode("utf-8", "surrogatepass")
        if address.path != PATH or not expected or not hmac.compare_digest(given, expected):
            self._answer(404, "Not a sign-in", "No sign-in is waiting for this address. Start the sign-in again.")
            return
        self._answer(200, "Go back to your notebook", "You can close this window.")
        self.server.callbacks.put(address.query)

    def _answer(self, status: int, heading: str, text: str) -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(_PAGE.format(heading=heading, text=text).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Write nothing: the path contains the code."""


@contextmanager
def listen() -> Generator[Listener | None]:
    """Listen on the first free port, for this machine only; None if all are taken."""
    if (server := _bind_free_port()) is None:
        yield None
        return
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _bind_free_port() -> Listener | None:
    for port in PORTS:
        try:
            return Listener(port)
        except OSError:
            continue
    return None


NAME = "Carrel notebooks"
CLIENT_ID, CLIENT_SECRET = "CARREL_NOTEBOOK_CLIENT_ID", "CARREL_NOTEBOOK_CLIENT_SECRET"


class _Application(BaseModel):
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    client_id: str
    client_secret: str = Field(repr=False)

    def session_at(self, address: str) -> str:
        """Return the store's key for the tokens of a service."""
        return f"{address} {self.client_id}"


def sign_in(
    base_url: str | None = None,
    *,
    client_id: str | None = None,
    client_secret: str | None = None,
    open_browser: bool = True,
    timeout: float = 300,
) -> Carrel:
    """Sign a person in with the browser, and return a client that acts for the person and renews its tokens.

    A person who has signed in on this machine isn't asked again until `sign_out`. If the browser runs on another
    machine, or with `open_browser=False`, an address is printed; the person pastes the address where the browser ends.
    Tokens are kept in the person's private folder, and never shown. The application is the given application, or that
    of CARREL_NOTEBOOK_CLIENT_ID and CARREL_NOTEBOOK_CLIENT_SECRET, or the last used; otherwise an admin's
    CARREL_API_KEY registers an application, once. Raises ConfigurationError without an application, SignInRequiredError
    without a sign-in within `timeout` seconds (here or in another waiting notebook), and the errors of
    `OAuthClient.exchange`."""
    address = authorization_address(base_url)
    folder = _folder()
    # If several notebooks start at once, only the first asks, and the others find its tokens.
    with _take_turn(folder, timeout):
        application = _choose_application(address, base_url, client_id, client_secret)
        store, key = FileTokenStore(folder / "tokens"), application.session_at(address)
        with _connect(application, address) as oauth:
            client = Carrel(base_url=base_url, tokens=oauth.token_source(store, key))
        try:
            if not _is_signed_in(client):
                tokens = _authorize(application, address, open_browser=open_browser, timeout=timeout)
                with store.lock(key):
                    store.put(key, tokens)
            _keep_application(address, application)
        except BaseException:
            client.close()
            raise
    return client


def sign_out(base_url: str | None = None) -> None:
    """Revoke the tokens of `sign_in` and delete them here; after an APIConnectionError the tokens are still here."""
    address = authorization_address(base_url)
    store = FileTokenStore(_folder() / "tokens")
    for application in _read_applications(address):
        key = application.session_at(address)
        with store.lock(key):
            if (tokens := store.get(key)) is not None:
                _revoke(application, address, tokens)
                store.delete(key)


def _take_turn(folder: Path, timeout: float) -> AbstractContextManager[object]:
    try:
        return FileLock(folder / "sign-in.lock", mode=0o600).acquire(timeout=timeout)
    except Timeout as exc:
        raise errors.SignInRequiredError(
            f"Another notebook has been signing in for {timeout:g} seconds. Sign in there or stop it, and begin again.",
            code="sign_in_required",
        ) from exc


def _is_signed_in(client: Carrel) -> bool:
    try:
        client.me()
    except errors.SignInRequiredError:
        return False
    return True


def _revoke(application: _Application, address: str, tokens: Tokens) -> None:
    try:
        with _connect(application, address) as oauth:
            oauth.revoke(tokens)
    except errors.InvalidClientError:
        return  # the application is gone, and its tokens too


def _authorize(application: _Application, address: str, *, open_browser: bool, timeout: float) -> Tokens:
    with listen() as listener:
        redirect_uri = listener.redirect_uri if listener else LOOPBACK_REDIRECT_URIS[0]
        with _connect(application, address, redirect_uri) as oauth:
            request = oauth.authorization_request()
            if open_browser and listener and _open_browser(listener, request):
                callback = _await_callback(listener, timeout)
            else:
                callback = _ask_for_callback(request)
            return oauth.exchange(callback, request)


def _open_browser(listener: Listener, request: AuthorizationRequest) -> bool:
    listener.state = request.state
    try:
        return webbrowser.open(request.url)
    except webbrowser.Error:
        return False


def _await_callback(listener: Listener, timeout: float) -> str:
    _say("Sign in, in the browser that opens now …")
    if (callback := listener.wait(timeout)) is None:
        raise errors.SignInRequiredError(
            f"Nobody signed in within {timeout:g} seconds. If no browser opened on your screen, use "
            "sign_in(open_browser=False); if its page said that the application is unknown, give another one with "
            "client_id=… and client_secret=….",
            code="sign_in_required",
        )
    return callback


def _ask_for_callback(request: AuthorizationRequest) -> str:
    """Ask for the final address of a browser on another machine; the input isn't shown, nor kept in the notebook."""
    _say(
        f"Open this address in a browser, and sign in:\n\n{request.url}\n\nThe browser then goes to an address that "
        f"begins with {request.redirect_uri} and finds nothing there. Copy that whole address."
    )
    return getpass.getpass("The address (hidden while you paste it): ").strip()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _choose_application(
    address: str, base_url: str | None, client_id: str | None, client_secret: str | None
) -> _Application:
    client_id = client_id or os.environ.get(CLIENT_ID)
    client_secret = client_secret or os.environ.get(CLIENT_SECRET)
    if client_id and client_secret:
        return _Application(client_id=client_id, client_secret=client_secret)
    application = _check_or_register(next(reversed(_read_applications(address)), None), address, base_url)
    if application is None:
        raise errors.ConfigurationError(
            "No application is known here that people may sign in to. An admin registers one, once, with the redirect "
            "addresses of carrel.oauth.LOOPBACK_REDIRECT_URIS; then give its client_id=… and client_secret=…, or set "
            f"{CLIENT_ID} and {CLIENT_SECRET}."
        )
    return application


def _check_or_register(known: _Application | None, address: str, base_url: str | None) -> _Application | None:
    if not (key := os.environ.get("CARREL_API_KEY")):
        return known
    try:
        with Carrel(key, base_url) as admin:
            if known is not None and any(admin.admin.oauth_clients.list(ids=[known.client_id])):
                return known
            made = admin.admin.oauth_clients.create(NAME, redirect_uris=LOOPBACK_REDIRECT_URIS, scopes=list(ApiScope))
            application = _Application(client_id=str(made.client_id), client_secret=made.client_secret)
            _keep_application(address, application)
            return application
    except (errors.AuthenticationError, errors.PermissionDeniedError):
        return known  # without an admin's valid key, people can still sign in


def _connect(application: _Application, address: str, redirect_uri: str = LOOPBACK_REDIRECT_URIS[0]) -> OAuthClient:
    return OAuthClient(application.client_id, application.client_secret, redirect_uri=redirect_uri, auth_url=address)


def _folder() -> Path:
    """Return Carrel's folder for the person, created with access for its owner only."""
    base = os.environ.get("APPDATA") if os.name == "nt" else os.environ.get("XDG_CONFIG_HOME")
    folder = (Path(base) if base else Path.home() / ".config") / "carrel"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _application_file(address: str) -> Path:
    return _folder() / f"application-{hashlib.sha256(address.encode()).hexdigest()[:16]}.json"


def _read_applications(address: str) -> list[_Application]:
    try:
        return [_Application.model_validate_json(line) for line in _application_file(address).read_bytes().splitlines()]
    except (FileNotFoundError, ValidationError):
        return []


def _keep_application(address: str, application: _Application) -> None:
    """Keep an application for the next sign-in, on a line after older applications, which signing out still needs."""
    known = _read_applications(address)
    kept = [item for item in known if item.client_id != application.client_id] + [application]
    if kept != known:
        replace_private_file(_application_file(address), "\n".join(item.model_dump_json() for item in kept).encode())
