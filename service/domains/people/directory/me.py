"""GET /api/v1/me: an extension."""

from carrel.wire.me import ME, MeResponse
from service.auth.queries import get_acting_principal
from service.identity import queries
from service.web.dependencies import CallerDep, RuntimeDep, SnapshotDep
from service.web.routing import Router

router = Router()


@router.operation(ME)
async def get_me(runtime: RuntimeDep, connection: SnapshotDep, caller: CallerDep) -> MeResponse:
    """Show whom the access token acts for, and what it may be used for."""
    organization = await queries.get_organization(connection, caller.organization_id)
    person = await get_acting_principal(connection, caller.organization_id, principal_id=caller.principal_id)
    return MeResponse(
        id=caller.principal_id,
        email=caller.email,
        name=caller.name,
        is_admin=person is not None and person.is_admin,
        organization_id=caller.organization_id,
        organization_name=organization.name,
        scopes=sorted(caller.scopes or ()),
        reranks_by_default=None if runtime.reranker is None else organization.enable_reranking,
    )
