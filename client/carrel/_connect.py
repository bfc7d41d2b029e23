"""From what a client is given, and the environment, to a Connection."""

import os
import platform
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Literal, TypeAlias

import httpx

from carrel._calls import Connection
from carrel._retries import RetryPolicy
from carrel._version import __version__
from carrel.errors import ConfigurationError

DEFAULT_BASE_URL = "http://127.0.0.1:8000"
DEFAULT_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
DEFAULT_MAX_RETRIES = 2
USER_AGENT = f"carrel-python/{__version__} httpx/{httpx.__version__} python/{platform.python_version()}"

Timeout: TypeAlias = float | httpx.Timeout | None
"""Seconds for each of connect, read, write and pool; an `httpx.Timeout` tells them apart; None waits forever."""


class _Unchanged(Enum):
    UNCHANGED = "unchanged"


UNCHANGED = _Unchanged.UNCHANGED
MaybeTimeout: TypeAlias = Timeout | Literal[_Unchanged.UNCHANGED]


def connect(
    api_key: str | None, base_url: str | None, *, http_headers: httpx.Headers, timeout: Timeout, max_retries: int
) -> Connection:
    """Return the connection a new client uses; `http_headers` are those its HTTP client sends anyway.

    Raises ConfigurationError; its message never holds the key.
    """
    headers = http_headers.copy()
    key = _checked_key(os.environ.get("CARREL_API_KEY") if api_key is None else api_key)
    headers["Authorization"] = f"Bearer {key}"
    headers["User-Agent"] = USER_AGENT
    headers["Content-Type"] = "application/json"
    return Connection(
        base_url=normalized(base_url or os.environ.get("CARREL_BASE_URL") or DEFAULT_BASE_URL),
        headers=headers,
        timeout=httpx.Timeout(timeout).as_dict(),
        retries=_policy(max_retries),
    )


def reconnect(
    connection: Connection, *, timeout: MaybeTimeout, max_retries: int | None, headers: Mapping[str, str]
) -> Connection:
    """Return a connection with other options; the credential and the address stay."""
    merged = connection.headers.copy()
    merged.update(headers)
    return replace(
        connection,
        headers=merged,
        timeout=connection.timeout if timeout is UNCHANGED else httpx.Timeout(timeout).as_dict(),
        retries=connection.retries if max_retries is None else _policy(max_retries),
    )


def _policy(max_retries: int) -> RetryPolicy:
    if max_retries < 0:
        msg = "max_retries counts further attempts: 0 or more"
        raise ConfigurationError(msg)
    return RetryPolicy(max_retries)


def _checked_key(api_key: str | None) -> str:
    key = (api_key or "").strip()
    if not key:
        msg = "No API key: give api_key=…, or set CARREL_API_KEY"
        raise ConfigurationError(msg)
    if not (key.isascii() and key.isprintable() and " " not in key):
        msg = "The API key has characters no key has; was it copied whole, and alone?"
        raise ConfigurationError(msg)
    return key


def normalized(base_url: str) -> str:
    """Return the address of the service without a trailing slash or `/api/v0`; a path before it (a proxy's) is kept."""
    try:
        url = httpx.URL(base_url.strip())
    except httpx.InvalidURL as exc:
        raise ConfigurationError(f"base_url is no address: {exc}") from exc
    if url.scheme not in {"http", "https"} or not url.host:
        msg = "base_url must begin with http:// or https:// and name a host"
        raise ConfigurationError(msg)
    if url.userinfo or url.query or url.fragment:
        msg = "base_url must have no user, query or fragment; the API key goes into api_key"
        raise ConfigurationError(msg)
    path = url.path.rstrip("/").removesuffix("/api/v0").rstrip("/")
    return str(url.copy_with(path=path or "/")).rstrip("/")
