"""admin/status/get: an extension, for admins."""

from fastapi import Request

from carrel.wire.oversight import ADMIN_STATUS_GET, AdminStatusGetRequest, AdminStatusGetResponse
from service.domains.oversight.status import service
from service.web.connections import Connections
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep
from service.web.routing import Router

router = Router()


@router.operation(ADMIN_STATUS_GET)
async def get_status(
    request: AdminStatusGetRequest,
    http_request: Request,
    runtime: RuntimeDep,
    connection: ConnectionDep,
    caller: CallerDep,
) -> AdminStatusGetResponse:
    """Return the state of the organization: counts, indexing in progress, and running or failed jobs and syncs."""
    del request
    connections: Connections | None = http_request.app.state.connections
    return await service.get_status(runtime, connection, caller, connections=connections)
