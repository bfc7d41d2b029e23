"""Organization API keys, created by an admin for a user. Values are shown once, and revoking takes effect at once."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import api_keys as wire
from carrel.wire.fields import normal_email
from service.audit.service import record
from service.auth.callers import Caller, unknown_user
from service.auth.queries import find_acting_user
from service.identity import queries
from service.identity.credentials import refuse_past
from service.platform import secrets
from service.platform.errors import NotFound, require
from service.platform.identifiers import uuid7
from service.web.pagination import Cursor


async def create_api_key(
    connection: Connection, caller: Caller, *, request: wire.AdminApiKeysCreateRequest
) -> wire.AdminApiKeysCreateResponse:
    """Create an API key; the value is shown only now. 400 `unknown_user` without an active user, or `expiry_past`."""
    refuse_past(request.expires_at)
    owner_id = await _require_owner_id(connection, caller, request.owner_email)
    secret = secrets.mint(secrets.API_KEY)
    api_key_id = uuid7()
    row = {
        "api_key_id": api_key_id,
        "owner_id": owner_id,
        "name": request.name,
        "hint": secret.hint,
        "secret_hash": secret.hash,
        "may_act_for_users": request.may_act_for_users,
        "expires_at": request.expires_at,
    }
    await queries.insert_api_key(connection, caller.organization_id, row=row)
    details = {"ownerId": str(owner_id), "mayActForUsers": request.may_act_for_users}
    await record(connection, caller, "apiKey.create", "apiKey", api_key_id, details=details)
    key = await _require_key(connection, caller, api_key_id)
    return wire.AdminApiKeysCreateResponse(**dict(key), api_key=secret.value.get_secret_value())


async def list_api_keys(
    connection: Connection, caller: Caller, *, request: wire.AdminApiKeysListRequest
) -> wire.AdminApiKeysListResponse:
    """List API keys, without the values."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_API_KEYS_LIST.path, request=request)
    owner = None if request.owner_email is None else normal_email(request.owner_email)
    rows = await queries.list_api_keys(connection, caller.organization_id, cursor.window, ids=request.ids, owner=owner)
    return cursor.answer(wire.AdminApiKeysListResponse, rows, "api_key_id")


async def revoke_api_key(
    connection: Connection, caller: Caller, *, request: wire.AdminApiKeysRevokeRequest
) -> wire.AdminApiKeysRevokeResponse:
    """Revoke an API key at once; revoking again changes nothing."""
    api_key_id = request.api_key_id
    if await queries.revoke_api_key(connection, caller.organization_id, api_key_id=api_key_id):
        await record(connection, caller, "apiKey.revoke", "apiKey", api_key_id)
    return wire.AdminApiKeysRevokeResponse(**dict(await _require_key(connection, caller, api_key_id)))


async def _require_owner_id(connection: Connection, caller: Caller, email: str | None) -> UUID:
    if email is None:
        return caller.principal_id
    found = await find_acting_user(connection, caller.organization_id, email=normal_email(email))
    return require(found, unknown_user("ownerEmail")).principal_id


async def _require_key(connection: Connection, caller: Caller, api_key_id: UUID) -> wire.ApiKey:
    row = await queries.get_api_key(connection, caller.organization_id, api_key_id=api_key_id)
    message = "There is no such API key in this organization. List the keys with admin/apiKeys/list."
    return require(row, NotFound(message, code="api_key_not_found"))
