"""The objects that sign-in needs, one of each per process of the workbench."""

from functools import cache

import httpx

from app.auth.application import Application
from app.auth.registration import Registration
from app.auth.routes import CALLBACK, SignIn
from app.auth.sealing import Sealer, key_of
from app.auth.sessions import Sessions
from app.settings import settings


@cache
def sealer() -> Sealer:
    """Return the sealer that encrypts the workbench's secrets."""
    chosen = settings()
    return Sealer(key_of(chosen.app_secret_key, kept_in=chosen.app_dir / "secret.key"))


@cache
def sessions() -> Sessions:
    """Return the store of sign-in sessions in the workbench's folder."""
    return Sessions(settings().app_dir / "sessions", sealer())


@cache
def registration() -> Registration:
    """Return the registration of the workbench as an OAuth client of the service."""
    chosen = settings()
    return Registration(chosen, sealer(), redirect_uri=f"{chosen.public_url}{CALLBACK}")


@cache
def application() -> Application:
    """Return the workbench's OAuth client."""
    chosen = settings()
    return Application(registration(), auth_url=chosen.auth_url or chosen.base_url, connections=connections())


@cache
def sign_in() -> SignIn:
    """Return the HTTP routes of sign-in."""
    chosen = settings()
    return SignIn(
        sessions(),
        application(),
        v1_base_url=chosen.v1_base_url or chosen.base_url,
        origin=chosen.origin,
    )


@cache
def connections() -> httpx.Client:
    """Return the HTTP client for the service, which all sessions share because it has no credentials.

    The number of connections isn't limited: each reply that is watched keeps one open.
    """
    return httpx.Client(limits=httpx.Limits(max_connections=None, max_keepalive_connections=20))


def forget() -> None:
    """Drop every object of sign-in, so that changed settings take effect."""
    connections().close()
    for part in (sealer, sessions, registration, connections, application, sign_in):
        part.cache_clear()
