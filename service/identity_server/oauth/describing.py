"""Finding the client of a request whose client_id is a document's address, in the organization of the request."""

import secrets
import time
from datetime import datetime
from functools import partial
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.oauth_clients import OAuthAudience
from service.audit.service import Change, record_unattended
from service.identity.queries import lock_organization
from service.identity_server.oauth import client_documents, queries
from service.identity_server.oauth.queries import get_client
from service.identity_server.requests import Parameters, first_of
from service.identity_server.signin.sessions import Browser, SignedIn, find_session
from service.platform import copies
from service.platform.errors import BadRequest, Forbidden, require
from service.platform.networks import current_sender
from service.platform.secrets import hash_secret
from service.runtime import Runtime

MOST_ADMINS = 5


async def describe_client(runtime: Runtime, browser: Browser, parameters: Parameters) -> bool:
    """Fetch the document of a request's client, unless the client is known or registered. Return False if a person must
    sign in first, to name the organization. Raises BadRequest for an unusable document; Forbidden, without fetching,
    for a host that isn't allowed; TooMany after too many failed fetches from this address."""
    address = first_of(parameters).get("client_id", "")
    if not client_documents.is_address(address):
        return True
    host = require(client_documents.host_of(address), _unusable("Its client id is not the address of a document."))
    async with runtime.database.transaction(None) as connection:
        now = await runtime.clock.now(connection)
        person = await find_session(connection, browser, now=now)
        organization_id = await _find_organization(connection, person, host=host)
        if organization_id is None:
            return False
        client_id = client_documents.client_id_of(organization_id, address)
        if await queries.is_fresh(connection, organization_id, client_id=client_id, now=now):
            return True
    sender = current_sender().address
    await runtime.rate_limits.require_few_refused_sign_ins(sender)
    try:
        # Requests with the same address share this answer or error, during the fetch and for some seconds after it.
        document = await runtime.kept.get(
            ("client document", address),
            partial(client_documents.fetch_if_few, runtime.settings, address),
            since=time.monotonic() - copies.ERROR_SECONDS,
            errors=client_documents.Unreadable,
        )
    except client_documents.Unreadable as error:
        await runtime.rate_limits.count_refused_sign_in(sender)
        raise _unusable(f"The document at {address} can't be used. {error}") from error
    async with runtime.database.transaction(organization_id) as connection:
        # An admin who removes the host waits for this lock, and then deletes the client.
        await lock_organization(connection, organization_id)
        await _find_organization(connection, person, host=host)
        await _save_and_record_client(connection, organization_id, address, document, now=now)
    return True


async def _save_and_record_client(
    connection: Connection,
    organization_id: UUID,
    address: str,
    document: client_documents.ClientDocument,
    *,
    now: datetime,
) -> None:
    client_id, redirect_uris = client_documents.client_id_of(organization_id, address), list(document.redirect_uris)
    before = await get_client(connection, organization_id, client_id=client_id)
    row = {
        "client_id": client_id,
        "name": document.name,
        "redirect_uris": redirect_uris,
        "scopes": list(client_documents.SCOPES),
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
        change = Change(action, "oauthClient", client_id, details=details)
        await record_unattended(connection, organization_id, change=change)


async def with_client_of(connection: Connection, parameters: Parameters, person: SignedIn | None) -> Parameters:
    """Return an authorization request with a document's address replaced by the id of the client described there."""
    address = first_of(parameters).get("client_id", "")
    host = client_documents.host_of(address) if client_documents.is_address(address) else None
    organization_id = None if host is None else await _find_organization(connection, person, host=host)
    return parameters if organization_id is None else _rename_client(parameters, organization_id, address)


async def with_client_of_secret(connection: Connection, parameters: Parameters) -> Parameters:
    """Replace the client's address by its id (`with_client_of`), in the organization of the request's code or token."""
    form = first_of(parameters)
    address = form.get("client_id", "")
    secret = form.get("code") or form.get("refresh_token") or form.get("token")
    if not client_documents.is_address(address) or secret is None:
        return parameters
    organization_id = await queries.find_organization(connection, secret_hash=hash_secret(secret))
    return parameters if organization_id is None else _rename_client(parameters, organization_id, address)


def _rename_client(parameters: Parameters, organization_id: UUID, address: str) -> Parameters:
    client_id = str(client_documents.client_id_of(organization_id, address))
    return [(name, client_id if name == "client_id" and value == address else value) for name, value in parameters]


async def _find_organization(connection: Connection, person: SignedIn | None, *, host: str) -> UUID | None:
    """Return the organization of the person, or the only organization that allows the host; None if several do. Raises
    Forbidden `client_host_not_allowed`."""
    if person is not None:
        if not await queries.allows_host(connection, person.organization_id, host=host):
            admins = ", ".join(await queries.list_admins(connection, person.organization_id, limit=MOST_ADMINS))
            raise _not_allowed(host, person.organization_name, f"Ask an admin: {admins}.")
        return person.organization_id
    allowing = await queries.list_allowing(connection, host=host)
    if not allowing:
        raise _not_allowed(host, "here", "Ask an admin of your organization.")
    return allowing[0] if len(allowing) == 1 else None


def _not_allowed(host: str, where: str, ask: str) -> Forbidden:
    return Forbidden(
        f"Applications of {host} are not allowed at {where}. {ask} An admin can allow the host under OAuth clients in "
        "the workbench. Then try again.",
        code="client_host_not_allowed",
    )


def _unusable(reason: str) -> BadRequest:
    return BadRequest(
        f"The application you came from can't be used. {reason} Tell the operators of that application.",
        code="unusable_client_document",
    )
