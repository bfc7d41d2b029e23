"""admin/oauthClients/*: extensions; for admins, but for `request`, which is every member's."""

from carrel.wire import oauth_clients as wire
from service.identity_server.oauth import clients
from service.identity_server.oauth.clients import ClientFields
from service.identity_server.oauth.consented import service as consented
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep, SnapshotDep
from service.web.routing import Router

router = Router()


@router.operation(wire.ADMIN_OAUTH_CLIENTS_CREATE)
async def create_client(
    request: wire.AdminOAuthClientsCreateRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminOAuthClientsCreateResponse:
    """Register an OAuth client, approved; its secret is shown this once."""
    status = wire.OAuthClientStatus.APPROVED
    client = await clients.create_client(connection, caller, fields=_fields(request), status=status)
    return wire.AdminOAuthClientsCreateResponse(**dict(client))


@router.operation(wire.ADMIN_OAUTH_CLIENTS_REQUEST)
async def request_client(
    request: wire.AdminOAuthClientsRequestRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminOAuthClientsRequestResponse:
    """Ask for an OAuth client, which waits for an admin; its secret is shown this once."""
    status = wire.OAuthClientStatus.PENDING
    client = await clients.create_client(connection, caller, fields=_fields(request), status=status)
    return wire.AdminOAuthClientsRequestResponse(**dict(client))


@router.operation(wire.ADMIN_OAUTH_CLIENTS_LIST)
async def list_clients(
    request: wire.AdminOAuthClientsListRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminOAuthClientsListResponse:
    """List OAuth clients, without their secrets."""
    return await clients.list_clients(connection, caller, request=request)


@router.operation(wire.ADMIN_OAUTH_CLIENTS_UPDATE)
async def update_client(
    request: wire.AdminOAuthClientsUpdateRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminOAuthClientsUpdateResponse:
    """Change an OAuth client; what is left out stays."""
    client = await clients.update_client(connection, caller, changes=request)
    return wire.AdminOAuthClientsUpdateResponse(**dict(client))


@router.operation(wire.ADMIN_OAUTH_CLIENTS_APPROVE)
async def approve_client(
    request: wire.AdminOAuthClientsApproveRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminOAuthClientsApproveResponse:
    """Let an OAuth client be used that a member asked for."""
    client = await clients.approve_client(connection, caller, client_id=request.client_id)
    return wire.AdminOAuthClientsApproveResponse(**dict(client))


@router.operation(wire.ADMIN_OAUTH_CLIENTS_ROTATE_SECRET)
async def rotate_secret(
    request: wire.AdminOAuthClientsRotateSecretRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminOAuthClientsRotateSecretResponse:
    """Replace an OAuth client's secret; the new one is shown this once."""
    client = await clients.rotate_secret(connection, caller, client_id=request.client_id)
    return wire.AdminOAuthClientsRotateSecretResponse(**dict(client))


@router.operation(wire.ADMIN_OAUTH_CLIENTS_DELETE)
async def delete_client(
    request: wire.AdminOAuthClientsDeleteRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminOAuthClientsDeleteResponse:
    """Delete an OAuth client; its codes and tokens stop at once."""
    await clients.delete_client(connection, caller, client_id=request.client_id)
    return wire.AdminOAuthClientsDeleteResponse(client_id=request.client_id)


@router.operation(wire.ADMIN_OAUTH_CLIENTS_LIST_CONSENTS)
async def list_consents(
    request: wire.AdminOAuthClientsListConsentsRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminOAuthClientsListConsentsResponse:
    """List what people have allowed OAuth clients: since when, in which collections, and when it was last used."""
    return await consented.list_consents(connection, caller, request=request)


@router.operation(wire.ADMIN_OAUTH_CLIENTS_WITHDRAW_CONSENTS)
async def withdraw_consents(
    request: wire.AdminOAuthClientsWithdrawConsentsRequest,
    runtime: RuntimeDep,
    connection: ConnectionDep,
    caller: CallerDep,
) -> wire.AdminOAuthClientsWithdrawConsentsResponse:
    """Withdraw what people have allowed an OAuth client, all of them or one; its codes and tokens stop at once."""
    now = await runtime.clock.now(connection)
    return await consented.withdraw_consents(connection, caller, request=request, now=now)


def _fields(request: wire.AdminOAuthClientsCreateRequest | wire.AdminOAuthClientsRequestRequest) -> ClientFields:
    return {
        "name": request.name,
        "redirect_uris": request.redirect_uris,
        "scopes": request.scopes,
        "audience": request.audience or wire.OAuthAudience.API,
        "is_public": bool(request.is_public),
    }
