"""The signed-in person, service clients acting as the person, and the objects of sign-in."""

import asyncio
from collections.abc import Callable
from functools import cache, partial
from typing import cast
from urllib.parse import quote, urlencode, urlsplit

import httpx
import streamlit as st

from app.auth.registration import Application, Registration
from app.auth.routes import CALLBACK, SIGN_IN, SignIn
from app.auth.sessions import Person, Sealer, Session, Sessions, key_of
from app.availability import SLOW, look
from app.settings import settings
from carrel import Carrel, SignInRequiredError
from carrel.environment import http_options
from carrel.oauth import OAuthClient


@cache
def sealer() -> Sealer:
    chosen = settings()
    return Sealer(key_of(chosen.app_secret_key, kept_in=chosen.app_dir / "secret.key"))


@cache
def sessions() -> Sessions:
    return Sessions(settings().app_dir / "sessions", sealer())


@cache
def registration() -> Registration:
    chosen = settings()
    return Registration(chosen, sealer(), redirect_uri=f"{chosen.public_url}{CALLBACK}")


@cache
def application() -> Application:
    chosen = settings()
    return Application(registration(), auth_url=chosen.auth_url or chosen.base_url, connections=connections())


@cache
def sign_in() -> SignIn:
    chosen = settings()
    return SignIn(sessions(), application(), v1_base_url=chosen.v1_base_url or chosen.base_url, origin=chosen.origin)


@cache
def connections() -> httpx.Client:
    """Return the HTTP client of all sessions. Each watched reply keeps a connection open, so there is no limit."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    return httpx.Client(limits=limits, **http_options(settings().base_url))


_OWNER, _CLIENT = "signed_in.owner", "signed_in.client"
LOOKED_AT_EVERY = 5.0  # seconds
AWAY, SERVICE, PREFECT = "signed_in.away", "service", "prefect"
"""Session keys for the part missing on the page, if any."""


def require_person() -> Person:
    """Return the signed-in person, or offer sign-in and end the run. A change of person empties state and caches."""
    session = current_session()
    owner = None if session is None else session.key
    former = st.session_state.get(_OWNER)
    if former != owner:
        st.session_state.clear()
        if former is not None:
            # Streamlit can clear the cache of one window or of all. This is rare, and other windows ask again.
            st.cache_data.clear()
        st.session_state[_OWNER] = owner
    if session is None:
        # Signing out removes the cookie; a session that ends leaves it behind.
        ended = former is not None or _cookie() is not None
        offer_sign_in(*["Your sign-in has ended."] * ended)
        st.stop()
    return session.person


def require_session() -> None:
    """Raise SignInRequiredError if the page's session has ended. For callbacks, which run without the page."""
    _require(cast("str | None", st.session_state.get(_OWNER)))


@st.fragment(run_every=LOOKED_AT_EVERY)
def watch_session() -> None:
    """Redraw the page soon after its session ends (in another tab or by age), or when a missing part is back."""
    away = st.session_state.get(AWAY)
    is_back = away is not None and not asyncio.run(look(SLOW, needs_prefect=away == PREFECT))
    if is_back or not sessions().lasts(st.session_state[_OWNER]):
        st.rerun()


def bind_session() -> Callable[[], None]:
    """Return `require_session` for code running later and outside a page, where the session is unknown."""
    return partial(_require, cast("str | None", st.session_state.get(_OWNER)))


def _require(owner: str | None) -> None:
    if owner is None or not sessions().lasts(owner):
        raise SignInRequiredError("Your sign-in has ended. Reload this page to sign in again.")


def person_client() -> Carrel:
    """Return the client of the signed-in person, kept in the session. Raises SignInRequiredError after the session."""
    require_session()  # the client keeps an access token, which may still work
    oauth = application().client()
    made = cast("tuple[OAuthClient, Carrel] | None", st.session_state.get(_CLIENT))
    if made is None or made[0] is not oauth:  # another client can't refresh the tokens
        source = oauth.token_source(sessions(), st.session_state[_OWNER])
        v1_base_url = settings().v1_base_url or settings().base_url
        client = Carrel(tokens=source, v1_base_url=v1_base_url, http_client=connections(), headers=_device())
        made = oauth, client
        st.session_state[_CLIENT] = made
    return made[1]


def key_client() -> Carrel | None:
    if (key := settings().app_api_key) is None:
        return None
    secret, base_url = key.get_secret_value(), settings().base_url
    return Carrel(api_key=secret, base_url=base_url, http_client=connections(), headers=_device())


def _device() -> dict[str, str]:
    """Return the header that shows the person's browser in the audit log; empty for a malformed browser name."""
    browser = st.context.headers.get("User-Agent", "")
    return {"User-Agent": browser} if browser.isascii() and browser.isprintable() and browser.strip() else {}


def current_session() -> Session | None:
    return sessions().find(_cookie())


def _cookie() -> object:
    return st.context.cookies.get(sign_in().cookie)


def offer_sign_in(message: str = "Your organization's documents, and agents that answer from them.") -> None:
    """Show the sign-in link, with a way back to the present page. A Streamlit link would open another window."""
    path = urlsplit(st.context.url or "").path or "/"
    asked = urlencode(list(st.query_params.items()))
    back = quote(f"{path}?{asked}" if asked else path, safe="")
    st.html(
        f'<div class="carrel-welcome"><h1>Carrel</h1><p>{message}</p>'
        f'<a class="carrel-action" href="{SIGN_IN}?next={back}" target="_self">Sign in</a></div>'
    )
