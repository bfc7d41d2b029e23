"""Service-account tokens, which an admin mints for an account. Values are shown once, and revoking acts at once."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire import service_accounts as wire
from carrel.wire.fields import format_instant
from carrel.wire.scopes import Scope
from service.audit.service import record
from service.auth.callers import Caller
from service.domains.people.service_accounts import queries
from service.domains.people.service_accounts.accounts import unknown_account
from service.identity.credentials import refuse_past
from service.platform import secrets
from service.platform.errors import NotFound
from service.platform.identifiers import uuid7
from service.web.pagination import Cursor


async def mint_token(
    connection: AsyncConnection, caller: Caller, *, request: wire.AdminServiceAccountTokensMintRequest
) -> wire.AdminServiceAccountTokensMintResponse:
    """Mint a token; its value is shown this once.

    The account is locked until the token is committed, so that a deletion of the account revokes this token too. Raises
    NotFound for an unknown account, BadRequest `expiry_past`.
    """
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
    await record(
        connection,
        caller,
        action=queries.MINTED,
        target_type="serviceAccountToken",
        target_id=token_id,
        details=details,
    )
    return wire.AdminServiceAccountTokensMintResponse(**dict(token), token=secret.value.get_secret_value())


async def list_tokens(
    connection: AsyncConnection, caller: Caller, *, request: wire.AdminServiceAccountTokensListRequest
) -> wire.AdminServiceAccountTokensListResponse:
    """List tokens, without their values.

    Also those of deleted accounts. Raises NotFound for the tokens of an unknown account.
    """
    cursor = Cursor.read(caller, operation=wire.ADMIN_SERVICE_ACCOUNT_TOKENS_LIST.path, request=request)
    account_id = request.service_account_id
    if account_id is not None:
        account = await queries.get_account(connection, caller.organization_id, account_id=account_id)
        if account is None:
            raise unknown_account()
    rows = await queries.list_tokens(
        connection,
        caller.organization_id,
        account_id=account_id,
        ids=request.ids,
        after=cursor.after_id,
        limit=cursor.limit,
    )
    page = cursor.page(rows, position=lambda row: [str(row.token_id)])
    return wire.AdminServiceAccountTokensListResponse(tokens=list(page.items), next_page_token=page.next_page_token)


async def revoke_token(
    connection: AsyncConnection, caller: Caller, *, request: wire.AdminServiceAccountTokensRevokeRequest
) -> wire.AdminServiceAccountTokensRevokeResponse:
    """Stop a token at once.

    NotFound if unknown.
    """
    token_id = request.token_id
    stopped = await queries.revoke_token(connection, caller.organization_id, token_id=token_id)
    token = await get_token(connection, caller, token_id=token_id)
    if stopped:
        await record(
            connection,
            caller,
            action="serviceAccountToken.revoke",
            target_type="serviceAccountToken",
            target_id=token_id,
            details={"serviceAccountId": str(token.service_account_id)},
        )
    return wire.AdminServiceAccountTokensRevokeResponse(**dict(token))


async def get_token(connection: AsyncConnection, caller: Caller, *, token_id: UUID) -> wire.ServiceAccountToken:
    """Return a token as it is now; for admins. NotFound when it is unknown, or another organization's."""
    token = await queries.get_token(connection, caller.organization_id, token_id=token_id)
    if token is None:
        raise NotFound("There is no such token in this organization.", code="token_not_found")
    return token
