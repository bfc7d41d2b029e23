"""admin/signInProviders: extensions, for admins only."""

from carrel.wire import sign_in_providers as wire
from service.identity_server.providers import service
from service.web.routing import Router

router = Router()

router.serve(wire.ADMIN_SIGN_IN_PROVIDERS_CREATE, service.create_provider)
router.read(wire.ADMIN_SIGN_IN_PROVIDERS_LIST, service.list_providers)
router.read(wire.ADMIN_SIGN_IN_PROVIDERS_GET, service.get_provider)
router.serve(wire.ADMIN_SIGN_IN_PROVIDERS_UPDATE, service.update_provider)
router.serve(wire.ADMIN_SIGN_IN_PROVIDERS_DELETE, service.delete_provider)
router.serve(wire.ADMIN_SIGN_IN_PROVIDERS_TEST, service.find_problems, name="test_provider")
