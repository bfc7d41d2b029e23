"""admin/oauthClients/*: extensions. Admins only, except `request`, open to every member."""

from carrel.wire import oauth_clients as wire
from service.identity_server.oauth import clients
from service.identity_server.oauth.consented import service as consents
from service.web.routing import Router

router = Router()

router.serve(wire.ADMIN_OAUTH_CLIENTS_CREATE, clients.create_client)
router.serve(wire.ADMIN_OAUTH_CLIENTS_REQUEST, clients.request_client)
router.read(wire.ADMIN_OAUTH_CLIENTS_LIST, clients.list_clients)
router.serve(wire.ADMIN_OAUTH_CLIENTS_UPDATE, clients.update_client)
router.serve(wire.ADMIN_OAUTH_CLIENTS_APPROVE, clients.approve_client)
router.serve(wire.ADMIN_OAUTH_CLIENTS_ROTATE_SECRET, clients.rotate_secret)
router.serve(wire.ADMIN_OAUTH_CLIENTS_DELETE, clients.delete_client)
router.read(wire.ADMIN_OAUTH_CLIENTS_LIST_CONSENTS, consents.list_consents)
router.serve(wire.ADMIN_OAUTH_CLIENTS_WITHDRAW_CONSENTS, consents.withdraw_consents)
