"""admin/owners/transfer, admin/users/planOffboarding and admin/users/offboard: extensions, for admins only."""

from carrel.wire import owners as wire
from service.domains.oversight.owners import transferring
from service.web.routing import Router

router = Router()

router.serve(wire.ADMIN_OWNERS_TRANSFER, transferring.transfer, name="transfer_ownership")
router.serve(wire.ADMIN_USERS_PLAN_OFFBOARDING, transferring.plan_offboarding)
router.serve(wire.ADMIN_USERS_OFFBOARD, transferring.offboard, name="offboard_user")
