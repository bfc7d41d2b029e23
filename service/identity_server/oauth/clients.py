"""OAuth clients: registered by an admin, or requested by a member and approved by an admin.

Those of v1 are confidential; for /mcp, one may be public, which runs on people's own machines.
"""

from collections.abc import Mapping, Sequence
from typing import TypedDict
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.oauth_clients import (
    ADMIN_OAUTH_CLIENTS_LIST,
    AdminOAuthClientsListRequest,
    AdminOAuthClientsListResponse,
    AdminOAuthClientsUpdateRequest,
    OAuthAudience,
    OAuthClient,
    OAuthClientStatus,
    OAuthClientWithSecret,
)
from service.audit.service import record
from service.auth.audiences import hash_client_secret
from service.auth.callers import Caller
from service.identity_server.oauth import queries
from service.platform import secrets
from service.platform.errors import Conflict, NotFound
from service.platform.identifiers import uuid7
from service.web.pagination import Cursor

# So many may wait for an admin that one member asked for: a list that nobody could read is no list.
MOST_PENDING = 25


class ClientFields(TypedDict):
    """The fields of a client that is registered, each scope and redirect URI once."""

    name: str
    redirect_uris: Sequence[str]
    scopes: Sequence[str]
    audience: OAuthAudience
    is_public: bool


async def create_client(
    connection: AsyncConnection, caller: Caller, *, fields: ClientFields, status: OAuthClientStatus
) -> OAuthClientWithSecret:
    """Register a client: `approved` for admins, `pending` for members. Only this response has its secret.

    Raises Conflict `too_many_pending` when the caller has too many clients that wait for an admin.
    """
    if status is OAuthClientStatus.PENDING and not caller.is_admin:
        await _refuse_more_pending(connection, caller)
    secret = secrets.mint(secrets.CLIENT_SECRET)
    client_id = uuid7()
    row = {
        "client_id": client_id,
        "name": fields["name"],
        "redirect_uris": _each_once(fields["redirect_uris"]),
        "scopes": _each_once(fields["scopes"]),
        "status": status.value,
        "audience": fields["audience"].value,
        "is_public": fields["is_public"],
        "hint": "" if fields["is_public"] else secret.hint,
        "secret_hash": hash_client_secret(secret.value.get_secret_value(), fields["audience"]),
        "requested_by": caller.principal_id,
    }
    await queries.insert_client(connection, caller.organization_id, row=row)
    action = "oauthClient.create" if status is OAuthClientStatus.APPROVED else "oauthClient.request"
    details = {"scopes": row["scopes"], "redirectUris": row["redirect_uris"], "audience": row["audience"]}
    await _record(connection, caller, action, client_id, details=details)
    return await _with_secret(connection, caller, client_id, secret)


async def list_clients(
    connection: AsyncConnection, caller: Caller, *, request: AdminOAuthClientsListRequest
) -> AdminOAuthClientsListResponse:
    """List a page of the organization's clients; for admins."""
    cursor = Cursor.read(caller, operation=ADMIN_OAUTH_CLIENTS_LIST.path, request=request)
    status = None if request.status is None else request.status.value
    rows = await queries.list_clients(
        connection, caller.organization_id, status=status, ids=request.ids, after=cursor.after_id, limit=cursor.limit
    )
    page = cursor.page(rows, position=lambda row: [str(row.client_id)])
    return AdminOAuthClientsListResponse(oauth_clients=list(page.items), next_page_token=page.next_page_token)


async def update_client(
    connection: AsyncConnection, caller: Caller, *, changes: AdminOAuthClientsUpdateRequest
) -> OAuthClient:
    """Change the fields of a client that the request names; for admins.

    Raises NotFound when unknown, Conflict `described_client` for what a document says.
    """
    given = {"name": changes.name, "redirect_uris": changes.redirect_uris, "scopes": changes.scopes}
    values = {name: value for name, value in given.items() if value is not None}
    for name in ("redirect_uris", "scopes"):
        if name in values:
            values[name] = _each_once(values[name])
    before = await require_client(connection, caller, changes.client_id)
    said = before.document_url is not None and (
        values.get("name", before.name) != before.name
        or values.get("redirect_uris", before.redirect_uris) != before.redirect_uris
    )
    if said:
        raise _conflict_with_document(before, "Its name and its redirect URIs are what the document says.")
    if not values:
        return before
    client = await _change(connection, caller, changes.client_id, values=values)
    details = {"scopes": client.scopes, "redirectUris": client.redirect_uris, "renamed": changes.name is not None}
    await _record(connection, caller, "oauthClient.update", changes.client_id, details=details)
    return client


async def approve_client(connection: AsyncConnection, caller: Caller, *, client_id: UUID) -> OAuthClient:
    """Approve a client, which may then be used; for admins. Approving again changes nothing. NotFound when unknown."""
    before = await require_client(connection, caller, client_id)
    if before.status is OAuthClientStatus.APPROVED:
        return before
    client = await _change(connection, caller, client_id, values={"status": OAuthClientStatus.APPROVED.value})
    await _record(connection, caller, "oauthClient.approve", client_id, details={"scopes": client.scopes})
    return client


async def rotate_secret(connection: AsyncConnection, caller: Caller, *, client_id: UUID) -> OAuthClientWithSecret:
    """Replace a client's secret; for admins. The old secret is void from the commit on.

    Raises NotFound when unknown, Conflict `public_client` for a client that has none.
    """
    client = await require_client(connection, caller, client_id)
    if client.is_public:
        raise Conflict("A public client has no secret.", code="public_client")
    secret = secrets.mint(secrets.CLIENT_SECRET)
    values = {"secret_hash": hash_client_secret(secret.value.get_secret_value(), client.audience), "hint": secret.hint}
    await _change(connection, caller, client_id, values=values)
    await _record(connection, caller, "oauthClient.rotateSecret", client_id)
    return await _with_secret(connection, caller, client_id, secret)


async def delete_client(connection: AsyncConnection, caller: Caller, *, client_id: UUID) -> None:
    """Delete a client with its consents, codes and tokens; for admins.

    Raises NotFound when unknown, Conflict `described_client` for one that the next person would bring back.
    """
    client = await require_client(connection, caller, client_id)
    if client.document_url is not None:
        raise _conflict_with_document(
            client, "To end it, take its host away from the hosts whose documents describe clients."
        )
    await _record(connection, caller, "oauthClient.delete", client_id)
    if not await queries.delete_client(connection, caller.organization_id, client_id=client_id):
        raise _not_found()


async def require_client(connection: AsyncConnection, caller: Caller, client_id: UUID) -> OAuthClient:
    """Return a client of the organization. Raises NotFound when unknown."""
    client = await queries.get_client(connection, caller.organization_id, client_id=client_id)
    if client is None:
        raise _not_found()
    return client


async def _refuse_more_pending(connection: AsyncConnection, caller: Caller) -> None:
    waiting = await queries.count_pending_clients(connection, caller.organization_id, requested_by=caller.principal_id)
    if waiting >= MOST_PENDING:
        raise Conflict(
            f"{waiting} clients you asked for wait for an admin already. Have those approved or deleted first.",
            code="too_many_pending",
        )


async def _change(
    connection: AsyncConnection, caller: Caller, client_id: UUID, *, values: Mapping[str, object]
) -> OAuthClient:
    if not await queries.update_client(connection, caller.organization_id, client_id=client_id, values=values):
        raise _not_found()
    return await require_client(connection, caller, client_id)


async def _with_secret(
    connection: AsyncConnection, caller: Caller, client_id: UUID, secret: secrets.Secret
) -> OAuthClientWithSecret:
    client = await require_client(connection, caller, client_id)
    shown = "" if client.is_public else secret.value.get_secret_value()
    return OAuthClientWithSecret(**dict(client), client_secret=shown)


async def _record(
    connection: AsyncConnection,
    caller: Caller,
    action: str,
    client_id: UUID,
    *,
    details: Mapping[str, object] | None = None,
) -> None:
    await record(
        connection, caller, action=action, target_type="oauthClient", target_id=client_id, details=details or {}
    )


def _each_once(values: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _conflict_with_document(client: OAuthClient, what: str) -> Conflict:
    return Conflict(f"A document describes this client: {client.document_url}. {what}", code="described_client")


def _not_found() -> NotFound:
    return NotFound("There is no such OAuth client in this organization.", code="oauth_client_not_found")
