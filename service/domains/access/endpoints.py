"""permissions/list… (seed), and explain…, check…, admin/grants and admin/access (extensions)."""

from carrel.wire import access as wire
from carrel.wire import admin, permissions
from service.domains.access import grants, sharing
from service.domains.access.explanations import explain
from service.domains.access.lookups import service
from service.domains.access.resources import service as resources
from service.web.routing import Router

router = Router()

router.read(permissions.LIST_AUTHORIZED_PRINCIPALS_FOR_RESOURCE, service.list_authorized_principals)
router.read(permissions.LIST_AUTHORIZED_RESOURCES, service.list_authorized_resources)
router.read(permissions.EXPLAIN_AUTHORIZATION, explain, name="explain_authorization")
router.read(permissions.WHO_AM_I, service.who_am_i)
router.read(permissions.CHECK_RESOURCE_AUTHORIZATION_FOR_USER, service.check_resource, acting=False)
router.read(permissions.CHECK_BULK_RESOURCES_AUTHORIZATION_FOR_USER, service.check_resources, acting=False)
router.read(permissions.GET_SHARES, sharing.get_shares)
router.serve(permissions.SET_SHARES, sharing.set_shares)
router.serve(admin.ADMIN_GRANTS_SET, grants.set_grants)
router.serve(admin.ADMIN_GRANTS_SET_MANY, grants.set_many_grants)
router.read(admin.ADMIN_GRANTS_LIST, grants.list_grants)
router.read(wire.ADMIN_ACCESS_GET_STATE, resources.get_state, name="get_access_state")
router.read(wire.ADMIN_ACCESS_LIST_RESOURCES, resources.list_resources, name="list_access_resources")
router.read(wire.ADMIN_ACCESS_COUNT_RESOURCES, resources.count_resources, name="count_access_resources")
router.read(wire.ADMIN_ACCESS_LIST_HOLDERS, resources.list_grantees, name="list_access_holders")
router.read(wire.ADMIN_ACCESS_LIST_GROUP_PEOPLE, resources.list_group_people, name="list_access_group_people")
