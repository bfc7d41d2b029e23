"""admin/sessions: extensions, for admins only."""

from carrel.wire.sessions import (
    ADMIN_SESSIONS_END,
    ADMIN_SESSIONS_LIST,
    AdminSessionsEndRequest,
    AdminSessionsEndResponse,
    AdminSessionsListRequest,
    AdminSessionsListResponse,
)
from service.identity_server.sessions import service
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep
from service.web.routing import Router

router = Router()


@router.operation(ADMIN_SESSIONS_LIST)
async def list_sessions(
    request: AdminSessionsListRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> AdminSessionsListResponse:
    """List where a person is signed in, and which applications act for them."""
    now = await runtime.clock.now(connection)
    return await service.list_sessions(connection, caller, request=request, now=now)


@router.operation(ADMIN_SESSIONS_END)
async def end_sessions(
    request: AdminSessionsEndRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> AdminSessionsEndResponse:
    """End sessions of a person, all or some of them, from the next request on."""
    now = await runtime.clock.now(connection)
    return await service.end_sessions(connection, caller, request=request, now=now)
