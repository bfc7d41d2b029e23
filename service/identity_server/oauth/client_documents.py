"""Client ID metadata documents (draft-ietf-oauth-client-id-metadata-document): a document at the client id describes
the client. Admins approve clients by allowing hosts; other hosts are never contacted. Documents come from public
addresses or CARREL_WEBHOOK_ALLOWED_HOSTS, and are cached as their headers say, within bounds."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import UUID, uuid5

import httpcore
import httpx
from pydantic import TypeAdapter, ValidationError

from carrel.wire.oauth_clients import RedirectUri
from carrel.wire.scopes import ApiScope
from service.platform.bodies import read_at_most
from service.platform.errors import Unavailable
from service.platform.networks import AllowedHosts, GuardedTransport, parts_of
from service.platform.settings import Settings
from service.platform.version import VERSION

SECONDS = 10.0
MOST_BYTES = 64 * 1024
MOST_AT_ONCE = 8
LONGEST_ADDRESS = 2000
LONGEST_NAME = 200
MOST_REDIRECT_URIS = 20
# The scopes of a described client until an admin changes them; never a scope for admins only.
SCOPES = (ApiScope.CATALOG_READ.value, ApiScope.AGENT_MESSAGE.value)
KEPT = timedelta(hours=1)
KEPT_AT_LEAST, KEPT_AT_MOST = timedelta(minutes=1), timedelta(days=1)
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age=\"?(\d{1,9})", re.ASCII | re.IGNORECASE)
_NOT_KEPT = re.compile(r"(?:^|[\s,])no-(?:store|cache)\b", re.IGNORECASE)
_REDIRECT_URI: TypeAdapter[str] = TypeAdapter(RedirectUri)


class Unreadable(Exception):  # noqa: N818 - what the document is
    """A client's document can't be used. The message is for the client's developers."""


@dataclass(frozen=True, slots=True)
class ClientDocument:
    """The content of a client's document, and how long to cache it."""

    name: str
    redirect_uris: Sequence[str]
    kept_for: timedelta


def is_address(client_id: str) -> bool:
    return client_id.startswith(("https://", "http://"))


def host_of(address: str) -> str | None:
    """Return an address's host (and port); None if too long, without path, or with dot segments, fragment or user."""
    parts = parts_of(address)
    if parts is None or len(address) > LONGEST_ADDRESS or parts.path in {"", "/"}:
        return None
    return None if {".", ".."} & set(parts.path.split("/")) else parts.netloc.lower()


def client_id_of(organization_id: UUID, address: str) -> UUID:
    return uuid5(organization_id, address)


# Each fetch can block a request for up to SECONDS.
_FETCHES = asyncio.Semaphore(MOST_AT_ONCE)


async def fetch_if_few(settings: Settings, address: str) -> ClientDocument:
    """Fetch a document with `fetch_document`. Raises Unavailable if MOST_AT_ONCE fetches are running."""
    if _FETCHES.locked():
        raise Unavailable(
            "Too many applications are being looked up at the moment. Try again in a few seconds.",
            retry_after=int(SECONDS),
            code="client_documents_saturated",
        )
    async with _FETCHES:
        return await fetch_document(settings, address)


async def fetch_document(settings: Settings, address: str) -> ClientDocument:
    """Fetch a document. Raises Unreadable; redirects are not followed."""
    hosts = AllowedHosts.of(settings.webhook_allowed_hosts)
    if not hosts.may_allow(urlsplit(address).hostname or ""):
        raise Unreadable("Its host is not public.")
    try:
        async with asyncio.timeout(SECONDS):
            transport = GuardedTransport(await asyncio.to_thread(hosts.resolve))
            content, kept_for = await _download(transport, address)
    except (TimeoutError, httpcore.TimeoutException) as error:
        raise Unreadable("Its host did not answer in time.") from error
    except (httpcore.NetworkError, httpcore.ProtocolError, httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        # An OSError is also an AddressDenied, an unknown name, or a certificate that is not trusted.
        raise Unreadable("Its host can't be reached, or is not public.") from error
    return _parse_document(address, content, kept_for)


async def _download(transport: GuardedTransport, address: str) -> tuple[bytes, timedelta]:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": f"carrel/{VERSION}"}
    async with (
        httpx.AsyncClient(transport=transport, timeout=SECONDS) as http,
        http.stream("GET", address, headers=headers) as response,
    ):
        if response.status_code != 200:
            raise Unreadable(f"Its host answers {response.status_code}.")
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
            raise Unreadable("It is not JSON.")
        content = await read_at_most(response.aiter_raw(), most_bytes=MOST_BYTES)
        if content is None:
            raise Unreadable(f"It is larger than {MOST_BYTES // 1024} kB.")
        return content, _cache_time(response.headers.get("Cache-Control", ""))


def _cache_time(cache_control: str) -> timedelta:
    if _NOT_KEPT.search(cache_control):
        return KEPT_AT_LEAST
    found = _MAX_AGE.search(cache_control)
    wanted = KEPT if found is None else timedelta(seconds=int(found[1]))
    return min(max(wanted, KEPT_AT_LEAST), KEPT_AT_MOST)


def _parse_document(address: str, content: bytes, kept_for: timedelta) -> ClientDocument:
    try:
        said: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Unreadable("It is not JSON.") from error
    if not isinstance(said, dict):
        raise Unreadable("It is not a JSON object.")
    document = cast("dict[str, Any]", said)
    if document.get("client_id") != address:
        raise Unreadable("Its client_id differs from its address.")
    if "client_secret" in document or document.get("token_endpoint_auth_method", "none") != "none":
        raise Unreadable("Its token_endpoint_auth_method must be none: such a client has no secret or key here.")
    redirect_uris = _redirect_uris_in(document.get("redirect_uris"))
    if not redirect_uris:
        raise Unreadable("Its redirect_uris have no https address and no address on this machine.")
    return ClientDocument(_name_in(document, address), redirect_uris, kept_for)


def _redirect_uris_in(named: object) -> list[str]:
    """Return a document's usable redirect URIs; unusable URIs, such as an app's own scheme, are skipped."""
    usable: list[str] = []
    for item in cast("list[object]", named)[:MOST_REDIRECT_URIS] if isinstance(named, list) else ():
        try:
            usable.append(_REDIRECT_URI.validate_python(item, strict=True))
        except ValidationError:
            continue
    return list(dict.fromkeys(usable))


def _name_in(document: dict[str, Any], address: str) -> str:
    """Return the display name, with the host appended so that a client can't pose as another."""
    name, host = document.get("client_name"), host_of(address)
    shown = " ".join(name.split())[:LONGEST_NAME] if isinstance(name, str) and name.isprintable() else ""
    return f"{shown} ({host})" if shown else f"{host}"
