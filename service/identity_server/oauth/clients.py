"""OAuth clients, registered or approved by an admin. Only clients of /mcp, on people's machines, may be public."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import oauth_clients as wire
from service.audit.service import record, record_all
from service.audit.versions import change_between, refuse_stale
from service.auth.audiences import hash_client_secret
from service.auth.callers import Caller
from service.identity.queries import lock_organization
from service.identity_server.oauth import queries
from service.platform import secrets
from service.platform.errors import Conflict, NotFound, require
from service.platform.identifiers import uuid7
from service.web.pagination import Cursor

# The most clients that wait for an admin per member who asked: admins must be able to read the list.
MOST_PENDING = 25
_TARGET = "oauthClient"


async def create_client(
    connection: Connection, caller: Caller, *, request: wire.AdminOAuthClientsCreateRequest
) -> wire.AdminOAuthClientsCreateResponse:
    """Register and approve an OAuth client. The secret is shown only once."""
    client = await _register(connection, caller, request, status=wire.OAuthClientStatus.APPROVED)
    return wire.AdminOAuthClientsCreateResponse(**dict(client))


async def request_client(
    connection: Connection, caller: Caller, *, request: wire.AdminOAuthClientsRequestRequest
) -> wire.AdminOAuthClientsRequestResponse:
    """Request an OAuth client, pending until an admin approves it. The secret is shown only once.

    Raises Conflict `too_many_pending` when the caller has too many pending clients."""
    if not caller.is_admin:
        # Concurrent requests wait here, so that each counts the others' clients.
        await lock_organization(connection, caller.organization_id)
        waiting = await queries.count_pending_clients(
            connection, caller.organization_id, requested_by=caller.principal_id
        )
        if waiting >= MOST_PENDING:
            message = f"{waiting} clients that you requested wait for an admin. Have them approved or deleted first."
            raise Conflict(message, code="too_many_pending")
    client = await _register(connection, caller, request, status=wire.OAuthClientStatus.PENDING)
    return wire.AdminOAuthClientsRequestResponse(**dict(client))


async def _register(
    connection: Connection,
    caller: Caller,
    request: wire.AdminOAuthClientsCreateRequest | wire.AdminOAuthClientsRequestRequest,
    *,
    status: wire.OAuthClientStatus,
) -> wire.OAuthClientWithSecret:
    audience, is_public = request.audience or wire.OAuthAudience.API, bool(request.is_public)
    secret = secrets.mint(secrets.CLIENT_SECRET)
    client_id = uuid7()
    row = {
        "client_id": client_id,
        "name": request.name,
        "redirect_uris": _each_once(request.redirect_uris),
        "scopes": _each_once(request.scopes),
        "status": status.value,
        "audience": audience.value,
        "is_public": is_public,
        "hint": "" if is_public else secret.hint,
        "secret_hash": hash_client_secret(secret.value.get_secret_value(), audience),
        "requested_by": caller.principal_id,
    }
    await queries.insert_client(connection, caller.organization_id, row=row)
    action = "oauthClient.create" if status is wire.OAuthClientStatus.APPROVED else "oauthClient.request"
    details = {"scopes": row["scopes"], "redirectUris": row["redirect_uris"], "audience": row["audience"]}
    await record(connection, caller, action, _TARGET, client_id, details=details)
    return await _with_secret(connection, caller, client_id, secret)


async def list_clients(
    connection: Connection, caller: Caller, *, request: wire.AdminOAuthClientsListRequest
) -> wire.AdminOAuthClientsListResponse:
    """List OAuth clients, without their secrets."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_OAUTH_CLIENTS_LIST.path, request=request)
    status = None if request.status is None else request.status.value
    rows = await queries.list_clients(connection, caller.organization_id, cursor.window, status=status, ids=request.ids)
    return cursor.answer(wire.AdminOAuthClientsListResponse, rows, "client_id")


async def update_client(
    connection: Connection, caller: Caller, *, request: wire.AdminOAuthClientsUpdateRequest
) -> wire.AdminOAuthClientsUpdateResponse:
    """Change an OAuth client; omitted fields stay unchanged.

    Raises NotFound when unknown, Conflict `described_client` for a field defined by the client's document."""
    given = {"name": request.name, "redirect_uris": request.redirect_uris, "scopes": request.scopes}
    values = {name: value for name, value in given.items() if value is not None}
    for name in ("redirect_uris", "scopes"):
        if name in values:
            values[name] = _each_once(values[name])
    before = await require_client(connection, caller, request.client_id, lock=True)
    await refuse_stale(connection, caller, request.version, before, target_id=request.client_id)
    said = before.document_url is not None and (
        values.get("name", before.name) != before.name
        or values.get("redirect_uris", before.redirect_uris) != before.redirect_uris
    )
    if said:
        raise _conflict_with_document(before, "Its name and redirect URIs come from that document.")
    if not values:
        return wire.AdminOAuthClientsUpdateResponse(**dict(before))
    client = await _update(connection, caller, request.client_id, values=values)
    details = {"scopes": client.scopes, "redirectUris": client.redirect_uris, "renamed": request.name is not None}
    about = ("oauthClient.update", _TARGET, request.client_id)
    await record_all(connection, caller, changes=[change_between(*about, before, client, details=details)])
    return wire.AdminOAuthClientsUpdateResponse(**dict(client))


async def approve_client(
    connection: Connection, caller: Caller, *, request: wire.AdminOAuthClientsApproveRequest
) -> wire.AdminOAuthClientsApproveResponse:
    """Approve an OAuth client requested by a member. Approving a client again changes nothing."""
    client_id = request.client_id
    before = await require_client(connection, caller, client_id, lock=True)
    await refuse_stale(connection, caller, request.version, before, target_id=client_id)
    if before.status is wire.OAuthClientStatus.APPROVED:
        return wire.AdminOAuthClientsApproveResponse(**dict(before))
    client = await _update(connection, caller, client_id, values={"status": wire.OAuthClientStatus.APPROVED.value})
    await record(connection, caller, "oauthClient.approve", _TARGET, client_id, details={"scopes": client.scopes})
    return wire.AdminOAuthClientsApproveResponse(**dict(client))


async def rotate_secret(
    connection: Connection, caller: Caller, *, request: wire.AdminOAuthClientsRotateSecretRequest
) -> wire.AdminOAuthClientsRotateSecretResponse:
    """Replace an OAuth client's secret. The new secret is shown only once.

    The old secret stops working on commit. Raises NotFound, Conflict `public_client` for a client without a secret."""
    client_id = request.client_id
    client = await require_client(connection, caller, client_id)
    if client.is_public:
        raise Conflict("A public client has no secret to replace. Use its client id alone.", code="public_client")
    secret = secrets.mint(secrets.CLIENT_SECRET)
    values = {"secret_hash": hash_client_secret(secret.value.get_secret_value(), client.audience), "hint": secret.hint}
    await _update(connection, caller, client_id, values=values)
    await record(connection, caller, "oauthClient.rotateSecret", _TARGET, client_id)
    return wire.AdminOAuthClientsRotateSecretResponse(**dict(await _with_secret(connection, caller, client_id, secret)))


async def delete_client(
    connection: Connection, caller: Caller, *, request: wire.AdminOAuthClientsDeleteRequest
) -> wire.AdminOAuthClientsDeleteResponse:
    """Delete an OAuth client; its codes and tokens stop working at once.

    Raises NotFound when unknown, Conflict `described_client` for a client that the next sign-in would create again."""
    client_id = request.client_id
    client = await require_client(connection, caller, client_id)
    if client.document_url is not None:
        raise _conflict_with_document(client, "To remove the client, remove its host from the allowed client hosts.")
    await record(connection, caller, "oauthClient.delete", _TARGET, client_id)
    if not await queries.delete_client(connection, caller.organization_id, client_id=client_id):
        raise _not_found()
    return wire.AdminOAuthClientsDeleteResponse(client_id=request.client_id)


async def require_client(
    connection: Connection, caller: Caller, client_id: UUID, *, lock: bool = False
) -> wire.OAuthClient:
    """Return a client of the organization; `lock` locks it until the transaction ends. Raises NotFound when unknown."""
    client = await queries.get_client(connection, caller.organization_id, client_id=client_id, lock=lock)
    return require(client, _not_found())


async def _update(
    connection: Connection, caller: Caller, client_id: UUID, *, values: Mapping[str, object]
) -> wire.OAuthClient:
    if not await queries.update_client(connection, caller.organization_id, client_id=client_id, values=values):
        raise _not_found()
    return await require_client(connection, caller, client_id)


async def _with_secret(
    connection: Connection, caller: Caller, client_id: UUID, secret: secrets.Secret
) -> wire.OAuthClientWithSecret:
    client = await require_client(connection, caller, client_id)
    shown = "" if client.is_public else secret.value.get_secret_value()
    return wire.OAuthClientWithSecret(**dict(client), client_secret=shown)


def _each_once(values: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _conflict_with_document(client: wire.OAuthClient, what: str) -> Conflict:
    return Conflict(f"A document describes this client: {client.document_url}. {what}", code="described_client")


def _not_found() -> NotFound:
    message = "There is no such OAuth client in this organization. List the clients with admin/oauthClients/list."
    return NotFound(message, code="oauth_client_not_found")
