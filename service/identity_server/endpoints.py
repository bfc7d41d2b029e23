"""admin/sessions, signInProviders and oauthClients: extensions. For admins, except the request of a client."""

from carrel.wire import oauth_clients as wire
from carrel.wire import sessions, sign_in_providers
from service.identity_server.oauth import clients
from service.identity_server.oauth.consented import service as consents
from service.identity_server.providers import service as providers
from service.identity_server.sessions import service
from service.web.routing import Router

router = Router()

router.serve(sessions.ADMIN_SESSIONS_LIST, service.list_sessions)
router.serve(sessions.ADMIN_SESSIONS_END, service.end_sessions)
router.serve(sign_in_providers.ADMIN_SIGN_IN_PROVIDERS_CREATE, providers.create_provider)
router.read(sign_in_providers.ADMIN_SIGN_IN_PROVIDERS_LIST, providers.list_providers)
router.read(sign_in_providers.ADMIN_SIGN_IN_PROVIDERS_GET, providers.get_provider)
router.serve(sign_in_providers.ADMIN_SIGN_IN_PROVIDERS_UPDATE, providers.update_provider)
router.serve(sign_in_providers.ADMIN_SIGN_IN_PROVIDERS_DELETE, providers.delete_provider)
router.serve(sign_in_providers.ADMIN_SIGN_IN_PROVIDERS_TEST, providers.find_problems, name="test_provider")
router.serve(wire.ADMIN_OAUTH_CLIENTS_CREATE, clients.create_client)
router.serve(wire.ADMIN_OAUTH_CLIENTS_REQUEST, clients.request_client)
router.read(wire.ADMIN_OAUTH_CLIENTS_LIST, clients.list_clients)
router.serve(wire.ADMIN_OAUTH_CLIENTS_UPDATE, clients.update_client)
router.serve(wire.ADMIN_OAUTH_CLIENTS_APPROVE, clients.approve_client)
router.serve(wire.ADMIN_OAUTH_CLIENTS_ROTATE_SECRET, clients.rotate_secret)
router.serve(wire.ADMIN_OAUTH_CLIENTS_DELETE, clients.delete_client)
router.read(wire.ADMIN_OAUTH_CLIENTS_LIST_CONSENTS, consents.list_consents)
router.serve(wire.ADMIN_OAUTH_CLIENTS_WITHDRAW_CONSENTS, consents.withdraw_consents)
