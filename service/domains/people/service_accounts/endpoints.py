"""admin/serviceAccounts and admin/serviceAccountTokens: extensions, for admins only."""

from carrel.wire import service_accounts as wire
from service.domains.people.service_accounts import accounts, reach, tokens
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep, SnapshotDep
from service.web.routing import Router

router = Router()


@router.operation(wire.ADMIN_SERVICE_ACCOUNTS_CREATE)
async def create_service_account(
    request: wire.AdminServiceAccountsCreateRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminServiceAccountsCreateResponse:
    """Make a service account; its address is made from its name."""
    account = await accounts.create_account(connection, caller, display_name=request.display_name)
    return wire.AdminServiceAccountsCreateResponse(**dict(account))


@router.operation(wire.ADMIN_SERVICE_ACCOUNTS_LIST)
async def list_service_accounts(
    request: wire.AdminServiceAccountsListRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminServiceAccountsListResponse:
    """List service accounts; `query` is part of a name or an address."""
    return await accounts.list_accounts(connection, caller, request=request)


@router.operation(wire.ADMIN_SERVICE_ACCOUNTS_DELETE)
async def delete_service_account(
    request: wire.AdminServiceAccountsDeleteRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminServiceAccountsDeleteResponse:
    """Delete a service account and stop its tokens at once; what it uploaded stays."""
    return await accounts.delete_account(connection, caller, account_id=request.service_account_id)


@router.operation(wire.ADMIN_SERVICE_ACCOUNT_TOKENS_MINT)
async def mint_service_account_token(
    request: wire.AdminServiceAccountTokensMintRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminServiceAccountTokensMintResponse:
    """Mint a token; its value is shown this once."""
    return await tokens.mint_token(connection, caller, request=request)


@router.operation(wire.ADMIN_SERVICE_ACCOUNT_TOKENS_LIST)
async def list_service_account_tokens(
    request: wire.AdminServiceAccountTokensListRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminServiceAccountTokensListResponse:
    """List tokens, without their values."""
    return await tokens.list_tokens(connection, caller, request=request)


@router.operation(wire.ADMIN_SERVICE_ACCOUNT_TOKENS_REVOKE)
async def revoke_service_account_token(
    request: wire.AdminServiceAccountTokensRevokeRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminServiceAccountTokensRevokeResponse:
    """Stop a token at once."""
    token = await tokens.revoke_token(connection, caller, token_id=request.token_id)
    return wire.AdminServiceAccountTokensRevokeResponse(**dict(token))


@router.operation(wire.ADMIN_SERVICE_ACCOUNT_TOKENS_PREVIEW_REACH)
async def preview_reach(
    request: wire.AdminServiceAccountTokensPreviewReachRequest, runtime: RuntimeDep, caller: CallerDep
) -> wire.AdminServiceAccountTokensPreviewReachResponse:
    """Say what a token could do as things are now, before it exists or while it does."""
    return await reach.preview_reach(runtime.database, caller, request=request)
