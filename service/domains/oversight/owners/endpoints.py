"""admin/owners/transfer, admin/users/planOffboarding and admin/users/offboard: extensions, for admins only."""

from carrel.wire import owners as wire
from service.domains.oversight.owners import offboarding, transferring
from service.web.dependencies import CallerDep, RuntimeDep
from service.web.routing import Router

router = Router()


@router.operation(wire.ADMIN_OWNERS_TRANSFER)
async def transfer_ownership(
    request: wire.AdminOwnersTransferRequest, runtime: RuntimeDep, caller: CallerDep
) -> wire.AdminOwnersTransferResponse:
    """Give what somebody owns, or up to 1000 named resources, another owner; send again while some remain."""
    return await transferring.transfer(runtime, caller, request=request)


@router.operation(wire.ADMIN_USERS_PLAN_OFFBOARDING)
async def plan_offboarding(
    request: wire.AdminUsersPlanOffboardingRequest, runtime: RuntimeDep, caller: CallerDep
) -> wire.AdminUsersPlanOffboardingResponse:
    """Say what offboarding a user would end at once, what they own, and what nobody else reads."""
    return await offboarding.plan_offboarding(runtime, caller, request=request)


@router.operation(wire.ADMIN_USERS_OFFBOARD)
async def offboard_user(
    request: wire.AdminUsersOffboardRequest, runtime: RuntimeDep, caller: CallerDep
) -> wire.AdminUsersOffboardResponse:
    """End all access of a user, then hand over what they own; send again while some remains."""
    return await offboarding.offboard(runtime, caller, request=request)
