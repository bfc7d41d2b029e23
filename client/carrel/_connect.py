"""Building a Connection from a client's arguments and the environment."""

import os
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, Literal, TypeAlias, TypeVar

import httpx

from carrel._calls import Connection, RetryPolicy
from carrel._credentials import Credentials
from carrel._version import __version__
from carrel.errors import ConfigurationError

DEFAULT_BASE_URL = "http://127.0.0.1:8000"
DEFAULT_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
DEFAULT_MAX_RETRIES = 2
USER_AGENT = f"carrel-python/{__version__} httpx/{httpx.__version__} python/{platform.python_version()}"

# By name: headers that only the client sets, and the alternative.
RESERVED: Mapping[str, str] = {
    "authorization": "give api_key=…, access_token=… or tokens=…",
    "host": "give base_url=…",
    **dict.fromkeys(("connection", "content-length", "content-type", "transfer-encoding"), "leave it out"),
}
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")

Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)
Timeout: TypeAlias = float | httpx.Timeout | None
"""Seconds for each of connect, read, write and pool; an `httpx.Timeout` sets them separately; None waits forever."""


class _Unchanged(Enum):
    UNCHANGED = "unchanged"


UNCHANGED = _Unchanged.UNCHANGED
Unchanged: TypeAlias = Literal[_Unchanged.UNCHANGED]
MaybeTimeout: TypeAlias = Timeout | Unchanged


def connect(
    credentials: Credentials,
    open_http: Callable[[str], Http],
    *,
    base_url: str | None,
    v1_base_url: str | None,
    headers: Mapping[str, str] | None,
    timeout: Timeout,
    max_retries: int,
) -> tuple[Connection, Http]:
    """Build a client's connection; `headers` add to the HTTP client's. Missing addresses come from the environment, and
    v1's from v0's; a `base_url` comes before CARREL_V1_BASE_URL. ConfigurationErrors never show a credential."""
    credential = credentials.choose()
    is_key = isinstance(credential, str)
    of_v1 = None if is_key else v1_base_url or (None if base_url else os.environ.get("CARREL_V1_BASE_URL"))
    address = normalize(of_v1 or base_url or os.environ.get("CARREL_BASE_URL") or DEFAULT_BASE_URL)
    by_name, retries = seconds(timeout), policy(max_retries)
    http = open_http(address)
    sent = http.headers.copy()
    if is_key:
        sent["Authorization"] = f"Bearer {credential}"
    sent["User-Agent"] = USER_AGENT
    sent["Content-Type"] = "application/json"
    sent.update(_check_headers(headers or {}))
    return Connection(address, sent, by_name, retries, None if is_key else credential), http


def seconds(timeout: Timeout) -> dict[str, float | None]:
    """Return a timeout by httpx's names. Raises ConfigurationError unless the timeout is None or more than 0."""
    by_name: dict[str, Any] = httpx.Timeout(timeout).as_dict()
    for value in by_name.values():
        if value is not None and not (isinstance(value, int | float) and value > 0):
            raise ConfigurationError(f"timeout is in seconds, more than 0, or None to wait forever; not {value!r}")
    return by_name


def reconnect(
    connection: Connection, *, timeout: MaybeTimeout, max_retries: int | None, headers: Mapping[str, str]
) -> Connection:
    """Return a connection with changed options, and the same credential and address."""
    merged = connection.headers.copy()
    merged.update(_check_headers(headers))
    return replace(
        connection,
        headers=merged,
        timeout=connection.timeout if timeout is UNCHANGED else seconds(timeout),
        retries=connection.retries if max_retries is None else policy(max_retries),
    )


def _check_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the caller's headers. Raises ConfigurationError (naming no value) for an invalid header."""
    for name, value in headers.items():
        if name.lower() in RESERVED:
            raise ConfigurationError(f"headers: {name} is the client's own; {RESERVED[name.lower()]}")
        if HEADER_NAME.fullmatch(name) is None:
            raise ConfigurationError(f"headers: {name!r} is no name of a header")
        if not (value.isascii() and value.isprintable()):
            raise ConfigurationError(f"headers: the value of {name} must be printable ASCII text")
    return headers


def policy(max_retries: int) -> RetryPolicy:
    """Build a retry policy. Raises ConfigurationError for a negative number."""
    if max_retries < 0:
        raise ConfigurationError("max_retries counts further attempts: 0 or more")
    return RetryPolicy(max_retries)


def normalize(base_url: str) -> str:
    """Return the address of the service without a slash or the API's path at its end; a proxy's path is kept. Raises
    ConfigurationError unless it is http or https with a host, without user, query and fragment."""
    try:
        url = httpx.URL(base_url.strip())
    except httpx.InvalidURL as exc:
        raise ConfigurationError(f"base_url is no address: {exc}") from exc
    if url.scheme not in {"http", "https"} or not url.host:
        raise ConfigurationError("base_url must begin with http:// or https:// and name a host")
    if url.userinfo or url.query or url.fragment:
        raise ConfigurationError("base_url must have no user, query or fragment; the credential goes beside it")
    path = url.path.rstrip("/").removesuffix("/api/v0").removesuffix("/api/v1").rstrip("/")
    return str(url.copy_with(path=path or "/")).rstrip("/")
