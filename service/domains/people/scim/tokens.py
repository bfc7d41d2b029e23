"""Provisioning tokens, created by an admin for an identity provider, and their callers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import scim_tokens as wire
from carrel.wire.common import Versioned
from service.audit.service import Change, record, record_by_credential
from service.audit.versions import change_between
from service.auth.callers import Caller
from service.domains.people.scim import queries
from service.domains.people.scim.queries import ScimCaller, StoredGroup, StoredUser
from service.identity.credentials import refuse_past
from service.identity.queries import Principal
from service.platform import secrets
from service.platform.errors import NotFound, ServiceError, Unauthenticated, require
from service.platform.identifiers import uuid7
from service.platform.settings import Settings
from service.runtime import Runtime
from service.web.pagination import Cursor

PATH = "/scim/v2"


def base_url(settings: Settings) -> str:
    return f"{settings.issuer}{PATH}"


async def create_token(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminScimTokensCreateRequest
) -> wire.AdminScimTokensCreateResponse:
    """Create a token for an identity provider; the value is shown only now. Raises BadRequest `expiry_past`."""
    refuse_past(request.expires_at)
    secret = secrets.mint(secrets.SCIM_TOKEN)
    token_id = uuid7()
    row = {
        "token_id": token_id,
        "name": request.name,
        "hint": secret.hint,
        "secret_hash": secret.hash,
        "expires_at": request.expires_at,
    }
    await queries.insert_token(connection, caller.organization_id, row=row)
    await record(connection, caller, "scimToken.create", "scimToken", token_id)
    token = await _require_token(connection, caller, token_id)
    value = secret.value.get_secret_value()
    return wire.AdminScimTokensCreateResponse(**dict(token), token=value, base_url=base_url(runtime.settings))


async def list_tokens(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.AdminScimTokensListRequest
) -> wire.AdminScimTokensListResponse:
    """List provisioning tokens, without the values, and the address of SCIM."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_SCIM_TOKENS_LIST.path, request=request)
    rows = await queries.list_tokens(connection, caller.organization_id, cursor.window, ids=request.ids)
    return cursor.answer(wire.AdminScimTokensListResponse, rows, "token_id", base_url=base_url(runtime.settings))


async def revoke_token(
    connection: Connection, caller: Caller, *, request: wire.AdminScimTokensRevokeRequest
) -> wire.AdminScimTokensRevokeResponse:
    """Revoke a provisioning token at once; revoking again changes nothing."""
    token_id = request.token_id
    stopped = await queries.revoke_token(connection, caller.organization_id, token_id=token_id)
    token = await _require_token(connection, caller, token_id)
    if stopped:
        await record(connection, caller, "scimToken.revoke", "scimToken", token_id)
    return wire.AdminScimTokensRevokeResponse(**dict(token))


async def authenticate(connection: Connection, authorization: str | None) -> ScimCaller:
    """Return the caller of an `Authorization` header, enter its organization, note the use. Raises Unauthenticated."""
    scheme, _, value = (authorization or "").strip().partition(" ")
    value = value.strip()
    if scheme.lower() != "bearer" or not value.startswith(secrets.SCIM_TOKEN):
        raise Unauthenticated("Send `Authorization: Bearer svc_sc_…`. An admin creates provisioning tokens.")
    found = await queries.enter_by_token(connection, secret_hash=secrets.hash_secret(value))
    if found is None:
        raise Unauthenticated("There is no such provisioning token. Copy it again, or ask an admin for a new token.")
    if found.status != "active":
        raise Unauthenticated(f"This provisioning token is {found.status}. Ask an admin for a new token.")
    if found.unused_for_a_minute:
        await queries.touch_token(connection, found.organization_id, token_id=found.token_id)
    return found


async def record_changes(connection: Connection, caller: ScimCaller, *, changes: Sequence[Change]) -> None:
    """Add an audit entry for each change by an identity provider, with the id and name of its token."""
    token = {"scimTokenId": str(caller.token_id), "scimTokenName": caller.name}
    named = [replace(change, details={**change.details, **token}) for change in changes]
    await record_by_credential(connection, caller.organization_id, credential_id=caller.token_id, changes=named)


class Provided(Versioned):
    """A person or a group as managed by an identity provider."""

    edited = ("email", "name", "external_id", "is_admin", "active")

    email: str | None = None
    name: str
    external_id: str | None
    is_admin: bool = False
    active: bool = True


def change_of(kind: str, before: StoredUser | StoredGroup | Principal, after: StoredUser | Principal) -> Change:
    old, new = (Provided.model_validate(user, from_attributes=True) for user in (before, after))
    details = {"isAdmin": new.is_admin, "active": new.active} if kind == "user" else {}
    return change_between(f"{kind}.update", kind, after.principal_id, old, new, details=details)


async def record_refusal(
    connection: Connection, caller: ScimCaller, *, error: ServiceError, method: str, path: str
) -> None:
    """Add an audit entry for an identity provider's change refused by a rule."""
    target = path.rstrip("/").rpartition("/")[2]
    details: dict[str, Any] = {"code": error.code, "method": method, "path": path[:200]}
    if error.details:
        details["unknown"] = [detail.message for detail in error.details]
    await record_changes(connection, caller, changes=[Change("scim.refuse", "scim", target[:100], details)])


async def _require_token(connection: Connection, caller: Caller, token_id: UUID) -> wire.ScimToken:
    token = await queries.get_token(connection, caller.organization_id, token_id=token_id)
    message = "There is no such token. List the tokens with admin/scimTokens/list."
    return require(token, NotFound(message, code="token_not_found"))
