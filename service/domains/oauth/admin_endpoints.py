"""admin/oauthClients/*: extensions; for admins, but for `request`, which is every member's."""

from carrel.wire.oauth_clients import (
    AdminOAuthClientsApproveRequest,
    AdminOAuthClientsApproveResponse,
    AdminOAuthClientsCreateRequest,
    AdminOAuthClientsCreateResponse,
    AdminOAuthClientsDeleteRequest,
    AdminOAuthClientsDeleteResponse,
    AdminOAuthClientsListRequest,
    AdminOAuthClientsListResponse,
    AdminOAuthClientsRequestRequest,
    AdminOAuthClientsRequestResponse,
    AdminOAuthClientsRotateSecretRequest,
    AdminOAuthClientsRotateSecretResponse,
    AdminOAuthClientsUpdateRequest,
    AdminOAuthClientsUpdateResponse,
    OAuthClientStatus,
)
from service.domains.oauth import clients
from service.domains.oauth.clients import ClientFields
from service.web.dependencies import CallerDep, ConnectionDep
from service.web.idempotency import idempotent, idempotent_secret
from service.web.routing import Router

router = Router(prefix="/admin/oauthClients", tags=["extension"])


@router.post("/create")
@idempotent_secret
async def create_client(
    request: AdminOAuthClientsCreateRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminOAuthClientsCreateResponse:
    """Register an OAuth client, approved; its secret is shown this once."""
    status = OAuthClientStatus.APPROVED
    client = await clients.create_client(connection, caller, fields=_fields(request), status=status)
    return AdminOAuthClientsCreateResponse(**dict(client))


@router.post("/request")
@idempotent_secret
async def request_client(
    request: AdminOAuthClientsRequestRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminOAuthClientsRequestResponse:
    """Ask for an OAuth client, which waits for an admin; its secret is shown this once."""
    status = OAuthClientStatus.PENDING
    client = await clients.create_client(connection, caller, fields=_fields(request), status=status)
    return AdminOAuthClientsRequestResponse(**dict(client))


@router.post("/list")
async def list_clients(
    request: AdminOAuthClientsListRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminOAuthClientsListResponse:
    """List OAuth clients, without their secrets."""
    return await clients.list_clients(connection, caller, request=request)


@router.post("/update")
async def update_client(
    request: AdminOAuthClientsUpdateRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminOAuthClientsUpdateResponse:
    """Change an OAuth client; what is left out stays."""
    client = await clients.update_client(connection, caller, changes=request)
    return AdminOAuthClientsUpdateResponse(**dict(client))


@router.post("/approve")
async def approve_client(
    request: AdminOAuthClientsApproveRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminOAuthClientsApproveResponse:
    """Let an OAuth client be used that a member asked for."""
    client = await clients.approve_client(connection, caller, client_id=request.client_id)
    return AdminOAuthClientsApproveResponse(**dict(client))


@router.post("/rotateSecret")
@idempotent_secret
async def rotate_secret(
    request: AdminOAuthClientsRotateSecretRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminOAuthClientsRotateSecretResponse:
    """Replace an OAuth client's secret; the new one is shown this once."""
    client = await clients.rotate_secret(connection, caller, client_id=request.client_id)
    return AdminOAuthClientsRotateSecretResponse(**dict(client))


@router.post("/delete")
@idempotent
async def delete_client(
    request: AdminOAuthClientsDeleteRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminOAuthClientsDeleteResponse:
    """Delete an OAuth client; its codes and tokens stop at once."""
    await clients.delete_client(connection, caller, client_id=request.client_id)
    return AdminOAuthClientsDeleteResponse(client_id=request.client_id)


def _fields(request: AdminOAuthClientsCreateRequest | AdminOAuthClientsRequestRequest) -> ClientFields:
    return {"name": request.name, "redirect_uris": request.redirect_uris, "scopes": request.scopes}
