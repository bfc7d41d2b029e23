"""admin/owners/transfer, admin/users/planOffboarding and admin/users/offboard: extensions, for admins only."""

from carrel.wire import owners as wire
from service.domains.oversight.owners import offboarding, transferring
from service.web.routing import Router

router = Router()

router.serve(wire.ADMIN_OWNERS_TRANSFER, transferring.transfer, name="transfer_ownership")
router.serve(wire.ADMIN_USERS_PLAN_OFFBOARDING, offboarding.plan_offboarding)
router.serve(wire.ADMIN_USERS_OFFBOARD, offboarding.offboard, name="offboard_user")
