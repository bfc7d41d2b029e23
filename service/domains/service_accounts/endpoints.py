"""admin/serviceAccounts and admin/serviceAccountTokens: extensions, for admins only."""

from carrel.wire.service_accounts import (
    AdminServiceAccountsCreateRequest,
    AdminServiceAccountsCreateResponse,
    AdminServiceAccountsDeleteRequest,
    AdminServiceAccountsDeleteResponse,
    AdminServiceAccountsListRequest,
    AdminServiceAccountsListResponse,
    AdminServiceAccountTokensListRequest,
    AdminServiceAccountTokensListResponse,
    AdminServiceAccountTokensMintRequest,
    AdminServiceAccountTokensMintResponse,
    AdminServiceAccountTokensPreviewReachRequest,
    AdminServiceAccountTokensPreviewReachResponse,
    AdminServiceAccountTokensRevokeRequest,
    AdminServiceAccountTokensRevokeResponse,
)
from service.domains.service_accounts import accounts, reach, tokens
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep
from service.web.idempotency import idempotent, idempotent_secret
from service.web.routing import Router

router = Router(prefix="/admin", tags=["extension"])


@router.post("/serviceAccounts/create")
@idempotent
async def create_service_account(
    request: AdminServiceAccountsCreateRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminServiceAccountsCreateResponse:
    """Make a service account; its address is made from its name."""
    account = await accounts.create_account(connection, caller, display_name=request.display_name)
    return AdminServiceAccountsCreateResponse(**dict(account))


@router.post("/serviceAccounts/list")
async def list_service_accounts(
    request: AdminServiceAccountsListRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminServiceAccountsListResponse:
    """List service accounts; `query` is part of a name or an address."""
    return await accounts.list_accounts(connection, caller, request=request)


@router.post("/serviceAccounts/delete")
@idempotent
async def delete_service_account(
    request: AdminServiceAccountsDeleteRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminServiceAccountsDeleteResponse:
    """Delete a service account and stop its tokens at once; what it uploaded stays."""
    return await accounts.delete_account(connection, caller, account_id=request.service_account_id)


@router.post("/serviceAccountTokens/mint")
@idempotent_secret
async def mint_service_account_token(
    request: AdminServiceAccountTokensMintRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminServiceAccountTokensMintResponse:
    """Mint a token; its value is shown this once."""
    return await tokens.mint_token(connection, caller, request=request)


@router.post("/serviceAccountTokens/list")
async def list_service_account_tokens(
    request: AdminServiceAccountTokensListRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminServiceAccountTokensListResponse:
    """List tokens, without their values."""
    return await tokens.list_tokens(connection, caller, request=request)


@router.post("/serviceAccountTokens/revoke")
async def revoke_service_account_token(
    request: AdminServiceAccountTokensRevokeRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminServiceAccountTokensRevokeResponse:
    """Stop a token at once."""
    token = await tokens.revoke_token(connection, caller, token_id=request.token_id)
    return AdminServiceAccountTokensRevokeResponse(**dict(token))


@router.post("/serviceAccountTokens/previewReach")
async def preview_reach(
    request: AdminServiceAccountTokensPreviewReachRequest, runtime: RuntimeDep, caller: CallerDep
) -> AdminServiceAccountTokensPreviewReachResponse:
    """Say what a token could do as things are now, before it exists or while it does."""
    return await reach.preview_reach(runtime.database, caller, request=request)
