"""Client ID metadata documents: clients that nobody registered, described at the address that is their id.

draft-ietf-oauth-client-id-metadata-document. An admin allows hosts, which is the approval of what they describe; an
address of another host is never asked. Documents are fetched from public addresses alone, or from those that
CARREL_WEBHOOK_ALLOWED_HOSTS names, and kept as long as their headers say, within bounds. The client of a request
is looked up in the organization it is asked in.
"""

import asyncio
import json
import re
import secrets
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import UUID, uuid5

import httpcore
import httpx
from pydantic import TypeAdapter, ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.oauth_clients import OAuthAudience, RedirectUri
from carrel.wire.scopes import ApiScope
from service.audit.service import Change, record_unattended
from service.identity.queries import lock_organization
from service.identity_server.oauth import queries
from service.identity_server.oauth.queries import get_client
from service.identity_server.oauth.requests import Parameters, first_of
from service.identity_server.signin.sessions import Browser, SignedIn, find_session
from service.platform import kept
from service.platform.addresses import parts_of
from service.platform.bodies import read_at_most
from service.platform.errors import BadRequest, Forbidden, Unavailable
from service.platform.networks import AllowedHosts, GuardedTransport
from service.platform.secrets import hash_secret
from service.platform.senders import current_sender
from service.platform.settings import Settings
from service.platform.version import VERSION
from service.runtime import Runtime

SECONDS = 10.0
MOST_BYTES = 64 * 1024
MOST_AT_ONCE = 8
LONGEST_ADDRESS = 2000
LONGEST_NAME = 200
MOST_REDIRECT_URIS = 20
# What a document lets people be asked for, unless an admin changes it: what only admins may do is never among it.
SCOPES = (ApiScope.CATALOG_READ.value, ApiScope.AGENT_MESSAGE.value)
KEPT = timedelta(hours=1)
KEPT_AT_LEAST, KEPT_AT_MOST = timedelta(minutes=1), timedelta(days=1)
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age=\"?(\d{1,9})", re.ASCII | re.IGNORECASE)
_NOT_KEPT = re.compile(r"(?:^|[\s,])no-(?:store|cache)\b", re.IGNORECASE)
_REDIRECT_URI: TypeAdapter[str] = TypeAdapter(RedirectUri)


class Unreadable(Exception):  # noqa: N818 - what the document is
    """A document that can't be used: why, for the people who run the client."""


@dataclass(frozen=True, slots=True)
class ClientDocument:
    """What a document says of its client, and how long that may be kept."""

    name: str
    redirect_uris: Sequence[str]
    kept_for: timedelta


def is_address(client_id: str) -> bool:
    """Return whether a client's id is the address of a document, not the id of a registered client."""
    return client_id.startswith(("https://", "http://"))


def host_of(address: str) -> str | None:
    """Return the host of a document's address, with its port if it names one; None for what is no such address.

    It has a path, without dots that lead elsewhere, and neither a fragment nor a user.
    """
    parts = parts_of(address)
    if parts is None or len(address) > LONGEST_ADDRESS or parts.path in {"", "/"}:
        return None
    return None if {".", ".."} & set(parts.path.split("/")) else parts.netloc.lower()


def client_id_of(organization_id: UUID, address: str) -> UUID:
    """Return the id of the client that a document describes in an organization."""
    return uuid5(organization_id, address)


class DocumentFetches:
    """The fetches of documents that run now, at most `MOST_AT_ONCE`: each holds a request for up to `SECONDS`."""

    def __init__(self) -> None:
        self._running = 0

    async def fetch(self, settings: Settings, address: str) -> ClientDocument:
        """Fetch a document as `fetch_document` does. Raises Unavailable while too many are fetched already."""
        if self._running >= MOST_AT_ONCE:
            raise Unavailable(
                "Too many applications are being looked up just now. Try again in some seconds.",
                retry_after=int(SECONDS),
                code="client_documents_saturated",
            )
        self._running += 1
        try:
            return await fetch_document(settings, address)
        finally:
            self._running -= 1


async def fetch_document(settings: Settings, address: str) -> ClientDocument:
    """Fetch a document. Raises Unreadable; redirects are not followed."""
    hosts = AllowedHosts.of(settings.webhook_allowed_hosts)
    parts = urlsplit(address)
    if not hosts.may_allow(parts.hostname or ""):
        raise Unreadable("Its host is not public.")
    try:
        async with asyncio.timeout(SECONDS):
            transport = GuardedTransport(await asyncio.to_thread(hosts.resolve))
            content, kept_for = await _get(transport, address)
    except (TimeoutError, httpcore.TimeoutException) as error:
        raise Unreadable("Its host doesn't answer in time.") from error
    except (
        httpcore.NetworkError,
        httpcore.ProtocolError,
        httpx.HTTPError,
        httpx.InvalidURL,
        socket.gaierror,
        ssl.SSLError,
        OSError,  # AddressDenied, too
    ) as error:
        raise Unreadable("Its host can't be reached, or is not public.") from error
    return _read(address, content, kept_for)


async def _get(transport: GuardedTransport, address: str) -> tuple[bytes, timedelta]:
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
        return content, _kept_for(response.headers.get("Cache-Control", ""))


def _kept_for(cache_control: str) -> timedelta:
    if _NOT_KEPT.search(cache_control):
        return KEPT_AT_LEAST
    found = _MAX_AGE.search(cache_control)
    wanted = KEPT if found is None else timedelta(seconds=int(found[1]))
    return min(max(wanted, KEPT_AT_LEAST), KEPT_AT_MOST)


def _read(address: str, content: bytes, kept_for: timedelta) -> ClientDocument:
    try:
        said: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Unreadable("It is not JSON.") from error
    if not isinstance(said, dict):
        raise Unreadable("It is no JSON object.")
    document = cast("dict[str, Any]", said)
    if document.get("client_id") != address:
        raise Unreadable("Its client_id is not its address.")
    if "client_secret" in document or document.get("token_endpoint_auth_method", "none") != "none":
        raise Unreadable("Its token_endpoint_auth_method is not none: here, such a client has no secret and no key.")
    redirect_uris = _redirect_uris_in(document.get("redirect_uris"))
    if not redirect_uris:
        raise Unreadable("It names no redirect_uris by https, or at this machine.")
    return ClientDocument(_name_in(document, address), redirect_uris, kept_for)


def _redirect_uris_in(named: object) -> list[str]:
    """Return the usable addresses of a document: others, such as those of an app's own scheme, are passed over."""
    usable: list[str] = []
    for one in cast("list[object]", named)[:MOST_REDIRECT_URIS] if isinstance(named, list) else ():
        try:
            usable.append(_REDIRECT_URI.validate_python(one, strict=True))
        except ValidationError:
            continue
    return list(dict.fromkeys(usable))


def _name_in(document: dict[str, Any], address: str) -> str:
    """Return the name that people read, with the host, so that nobody takes another's name."""
    name, host = document.get("client_name"), host_of(address)
    shown = " ".join(name.split())[:LONGEST_NAME] if isinstance(name, str) and name.isprintable() else ""
    return f"{shown} ({host})" if shown else f"{host}"


MOST_ADMINS = 5
_FETCHES = DocumentFetches()


async def describe_client(runtime: Runtime, browser: Browser, parameters: Parameters) -> bool:
    """Fetch the document of a request's client, unless it is known; nothing for a client that is registered.

    Returns False when it isn't known which organization is asked: somebody has to sign in first. Raises BadRequest for
    a document that can't be used, Forbidden for a host that isn't allowed, and fetches nothing of it then; TooMany
    where too many from this address were fetched in vain.
    """
    address = first_of(parameters).get("client_id", "")
    if not is_address(address):
        return True
    host = host_of(address)
    if host is None:
        raise _unusable("Its id is not the address of a document.")
    async with runtime.database.transaction(None) as connection:
        now = await runtime.clock.now(connection)
        person = await find_session(connection, browser, now=now)
        organization_id = await _organization(connection, person, host=host)
        if organization_id is None:
            return False
        client_id = client_id_of(organization_id, address)
        if await queries.is_fresh(connection, organization_id, client_id=client_id, now=now):
            return True
    sender = current_sender().address
    await runtime.rate_limits.require_few_refused_sign_ins(sender)
    try:
        # Others who come with it while it is fetched, or in the next seconds, get this answer or this error.
        document = await runtime.kept.get(
            ("client document", address),
            partial(_FETCHES.fetch, runtime.settings, address),
            since=time.monotonic() - kept.ERROR_SECONDS,
            errors=Unreadable,
        )
    except Unreadable as error:
        await runtime.rate_limits.count_refused_sign_in(sender)
        raise _unusable(f"The document at {address} can't be used. {error}") from error
    async with runtime.database.transaction(organization_id) as connection:
        # An admin who takes the host away now waits for this, and then deletes the client.
        await lock_organization(connection, organization_id)
        await _organization(connection, person, host=host)
        await _keep(connection, organization_id, address, document, now=now)
    return True


async def _keep(
    connection: AsyncConnection, organization_id: UUID, address: str, document: ClientDocument, *, now: datetime
) -> None:
    client_id, redirect_uris = client_id_of(organization_id, address), list(document.redirect_uris)
    before = await get_client(connection, organization_id, client_id=client_id)
    row = {
        "client_id": client_id,
        "name": document.name,
        "redirect_uris": redirect_uris,
        "scopes": list(SCOPES),
        "status": "approved",
        "hint": "",
        "secret_hash": secrets.token_bytes(32),
        "requested_by": await queries.any_person(connection, organization_id),
        "audience": OAuthAudience.MCP.value,
        "is_public": True,
        "document_url": address,
        "document_fresh_until": now + document.kept_for,
    }
    await queries.put_client(connection, organization_id, row=row)
    if before is None or (before.name, before.redirect_uris) != (document.name, redirect_uris):
        details = {"documentUrl": address, "redirectUris": redirect_uris}
        action = "oauthClient.create" if before is None else "oauthClient.update"
        change = Change(action, "oauthClient", client_id, details)
        await record_unattended(connection, organization_id, change=change)


async def with_client_of(connection: AsyncConnection, parameters: Parameters, person: SignedIn | None) -> Parameters:
    """Return an authorization request with the id of the client that its document describes, where it names one."""
    address = first_of(parameters).get("client_id", "")
    host = host_of(address) if is_address(address) else None
    organization_id = None if host is None else await _organization(connection, person, host=host)
    return parameters if organization_id is None else _rename_client(parameters, organization_id, address)


async def with_client_of_secret(connection: AsyncConnection, parameters: Parameters) -> Parameters:
    """Do so for a request with a code or a token, which tells the organization."""
    form = first_of(parameters)
    address = form.get("client_id", "")
    secret = form.get("code") or form.get("refresh_token") or form.get("token")
    if not is_address(address) or secret is None:
        return parameters
    organization_id = await queries.find_organization(connection, secret_hash=hash_secret(secret))
    return parameters if organization_id is None else _rename_client(parameters, organization_id, address)


def _rename_client(parameters: Parameters, organization_id: UUID, address: str) -> Parameters:
    client_id = str(client_id_of(organization_id, address))
    return [(name, client_id if name == "client_id" and value == address else value) for name, value in parameters]


async def _organization(connection: AsyncConnection, person: SignedIn | None, *, host: str) -> UUID | None:
    if person is not None:
        if not await queries.allows(connection, person.organization_id, host=host):
            admins = ", ".join(await queries.list_admins(connection, person.organization_id, limit=MOST_ADMINS))
            raise _not_allowed(host, person.organization_name, f"Ask an admin: {admins}.")
        return person.organization_id
    allowing = await queries.list_allowing(connection, host=host)
    if not allowing:
        raise _not_allowed(host, "here", "Ask an admin of your organization.")
    return allowing[0].organization_id if len(allowing) == 1 else None


def _not_allowed(host: str, where: str, ask: str) -> Forbidden:
    return Forbidden(
        f"Applications of {host} are not allowed at {where}. {ask} They allow the host under OAuth clients in the "
        "workbench; then try again.",
        code="client_host_not_allowed",
    )


def _unusable(reason: str) -> BadRequest:
    return BadRequest(
        f"The application you came from can't be used. {reason} Tell those who run the application.",
        code="unusable_client_document",
    )
