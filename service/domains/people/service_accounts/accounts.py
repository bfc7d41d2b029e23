"""Service accounts: identities for programs, with granted access only (seed); and tokens."""

import re
import unicodedata
from itertools import chain, count, islice
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import service_accounts as wire
from carrel.wire.fields import format_instant, normal_email
from carrel.wire.scopes import Scope
from service.audit.service import Change, record, record_all
from service.auth.callers import Caller
from service.domains.people.directory.groups import leave_all_groups
from service.domains.people.service_accounts import queries
from service.identity.credentials import refuse_past
from service.identity.queries import get_organization, lock_organization
from service.platform import secrets
from service.platform.errors import FieldError, NotFound, require
from service.platform.identifiers import uuid7
from service.web.pagination import Cursor

LONGEST = 48
"""Leaves room for a number within the 64 characters of a local part (RFC 5321, section 4.5.3.1.1)."""

NAMELESS = "service-account"


def make_local_part(display_name: str) -> str:
    """Make a local part of ASCII letters, digits and hyphens, without accents; `NAMELESS` if none remain."""
    decomposed = unicodedata.normalize("NFKD", display_name.casefold())
    letters = "".join(char for char in decomposed if not unicodedata.combining(char))
    return re.sub(r"[^a-z0-9]+", "-", letters.lower())[: LONGEST + 1].strip("-")[:LONGEST].rstrip("-") or NAMELESS


FIRST_CANDIDATES = 8


async def create_account(
    connection: Connection, caller: Caller, *, request: wire.AdminServiceAccountsCreateRequest
) -> wire.AdminServiceAccountsCreateResponse:
    """Create a service account without access. The address comes from the name, and was never used before."""
    display_name = request.display_name
    await lock_organization(connection, caller.organization_id)
    organization = await get_organization(connection, caller.organization_id)
    email = await _free_address(connection, caller, local=make_local_part(display_name), domain=organization.domain)
    account_id = uuid7()
    account = await queries.insert_account(
        connection, caller.organization_id, account_id=account_id, name=display_name, email=email
    )
    await record(connection, caller, "serviceAccount.create", "serviceAccount", account_id)
    return wire.AdminServiceAccountsCreateResponse(**dict(account))


async def list_accounts(
    connection: Connection, caller: Caller, *, request: wire.AdminServiceAccountsListRequest
) -> wire.AdminServiceAccountsListResponse:
    """List service accounts; `query` is part of a name or an address."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_SERVICE_ACCOUNTS_LIST.path, request=request)
    rows = await queries.list_accounts(
        connection, caller.organization_id, cursor.window, query=request.query, ids=request.ids
    )
    return cursor.answer(wire.AdminServiceAccountsListResponse, rows, "service_account_id")


async def delete_account(
    connection: Connection, caller: Caller, *, request: wire.AdminServiceAccountsDeleteRequest
) -> wire.AdminServiceAccountsDeleteResponse:
    """Delete a service account and revoke its tokens at once; uploaded documents stay."""
    account_id = request.service_account_id
    await lock_organization(connection, caller.organization_id)
    if not await queries.mark_deleted(connection, caller.organization_id, account_id=account_id):
        raise unknown_account()
    # With the lock held, tokens of concurrent requests are committed, so this revokes them too.
    stopped = await queries.revoke_tokens_of(connection, caller.organization_id, account_id=account_id)
    await leave_all_groups(connection, caller, member_id=account_id)
    worked = sum(stopped.values())
    account = Change("serviceAccount.delete", "serviceAccount", account_id, {"revokedTokenCount": worked})
    tokens = [
        Change("serviceAccountToken.revoke", "serviceAccountToken", token_id, {"serviceAccountId": str(account_id)})
        for token_id in stopped
    ]
    await record_all(connection, caller, changes=[account, *tokens])
    return wire.AdminServiceAccountsDeleteResponse(service_account_id=account_id, revoked_token_count=worked)


def unknown_account() -> NotFound:
    message = "There is no such service account. List the accounts with admin/serviceAccounts/list."
    return NotFound(message, code="service_account_not_found", details=[FieldError("serviceAccountId", message)])


async def _free_address(connection: Connection, caller: Caller, *, local: str, domain: str) -> str:
    """Return the first free address of a local part, numbered from 2 on. The caller has locked the organization."""
    numbered = (f"{local}-{number}@{domain}" for number in count(2))
    candidates = map(normal_email, chain([f"{local}@{domain}"], numbered))
    tried = FIRST_CANDIDATES
    while True:
        some = list(islice(candidates, tried))
        taken = await queries.list_taken_addresses(connection, caller.organization_id, emails=some)
        if free := next((email for email in some if email not in taken), None):
            return free
        tried *= 4


async def mint_token(
    connection: Connection, caller: Caller, *, request: wire.AdminServiceAccountTokensMintRequest
) -> wire.AdminServiceAccountTokensMintResponse:
    """Create a token; the value is shown only now.

    The account stays locked until the commit, so deleting the account also revokes the token. Raises NotFound."""
    refuse_past(request.expires_at)
    account_id = request.service_account_id
    if not await queries.lock_account(connection, caller.organization_id, account_id=account_id):
        raise unknown_account()
    secret = secrets.mint(secrets.SERVICE_ACCOUNT_TOKEN)
    token_id = uuid7()
    row = {
        "service_account_id": account_id,
        "name": request.name,
        "description": request.description,
        "scopes": [str(scope) for scope in Scope if scope in request.scopes],
        "hint": secret.hint,
        "secret_hash": secret.hash,
        "expires_at": request.expires_at,
    }
    await queries.insert_token(connection, caller.organization_id, token_id=token_id, row=row)
    token = await get_token(connection, caller, token_id=token_id)
    details = {
        "serviceAccountId": str(account_id),
        "scopes": token.scopes,
        "expiresAt": format_instant(token.expires_at),
    }
    await record(connection, caller, queries.MINTED, "serviceAccountToken", token_id, details=details)
    return wire.AdminServiceAccountTokensMintResponse(**dict(token), token=secret.value.get_secret_value())


async def list_tokens(
    connection: Connection, caller: Caller, *, request: wire.AdminServiceAccountTokensListRequest
) -> wire.AdminServiceAccountTokensListResponse:
    """List tokens without the values, including tokens of deleted accounts; 404 for an unknown account."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_SERVICE_ACCOUNT_TOKENS_LIST.path, request=request)
    account_id = request.service_account_id
    if account_id is not None:
        account = await queries.get_account(connection, caller.organization_id, account_id=account_id)
        require(account, unknown_account())
    rows = await queries.list_tokens(
        connection, caller.organization_id, cursor.window, account_id=account_id, ids=request.ids
    )
    return cursor.answer(wire.AdminServiceAccountTokensListResponse, rows, "token_id")


async def revoke_token(
    connection: Connection, caller: Caller, *, request: wire.AdminServiceAccountTokensRevokeRequest
) -> wire.AdminServiceAccountTokensRevokeResponse:
    """Revoke a token at once; revoking again changes nothing."""
    token_id = request.token_id
    stopped = await queries.revoke_token(connection, caller.organization_id, token_id=token_id)
    token = await get_token(connection, caller, token_id=token_id)
    if stopped:
        details = {"serviceAccountId": str(token.service_account_id)}
        await record(connection, caller, "serviceAccountToken.revoke", "serviceAccountToken", token_id, details=details)
    return wire.AdminServiceAccountTokensRevokeResponse(**dict(token))


async def get_token(connection: Connection, caller: Caller, *, token_id: UUID) -> wire.ServiceAccountToken:
    """Return a token's current state; for admins. NotFound when unknown, or another organization's."""
    token = await queries.get_token(connection, caller.organization_id, token_id=token_id)
    message = "There is no such token. List the tokens with admin/serviceAccountTokens/list."
    return require(token, NotFound(message, code="token_not_found"))
