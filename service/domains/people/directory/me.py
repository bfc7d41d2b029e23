"""GET /api/v1/me: an extension."""

from carrel.wire.admin import NamedGroup
from carrel.wire.me import ME, MeResponse
from carrel.wire.scopes import ApiScope
from service.auth.queries import get_acting_principal
from service.identity import queries
from service.web.dependencies import CallerDep, RuntimeDep, SnapshotDep
from service.web.routing import Router

router = Router()


@router.operation(ME)
async def get_me(runtime: RuntimeDep, connection: SnapshotDep, caller: CallerDep) -> MeResponse:
    """Show the account behind the access token, and the token's permitted uses."""
    organization = await queries.get_organization(connection, caller.organization_id)
    person = await get_acting_principal(connection, caller.organization_id, principal_id=caller.principal_id)
    may_share = ApiScope.CATALOG_WRITE in (caller.scopes or ())
    around = caller.principals if may_share else ()
    groups = await queries.list_principals(connection, caller.organization_id, principal_ids=around)
    return MeResponse(
        id=caller.principal_id,
        email=caller.email,
        name=caller.name,
        is_admin=person is not None and person.is_admin,
        organization_id=caller.organization_id,
        organization_name=organization.name,
        scopes=sorted(caller.scopes or ()),
        reranks_by_default=None if runtime.reranker is None else organization.enable_reranking,
        shares_own=(may_share and organization.owner_sharing_enabled) or None,
        trash_days=runtime.settings.trash_days or None,
        groups=sorted(
            (NamedGroup(id=item.principal_id, name=item.name) for item in groups if item.kind == "group"),
            key=lambda group: group.name.casefold(),
        ),
    )
