"""admin/serviceAccounts and admin/serviceAccountTokens: extensions, for admins only."""

from carrel.wire import service_accounts as wire
from service.domains.people.service_accounts import accounts, reach
from service.web.routing import Router

router = Router()

router.serve(wire.ADMIN_SERVICE_ACCOUNTS_CREATE, accounts.create_account, name="create_service_account")
router.read(wire.ADMIN_SERVICE_ACCOUNTS_LIST, accounts.list_accounts, name="list_service_accounts")
router.serve(wire.ADMIN_SERVICE_ACCOUNTS_DELETE, accounts.delete_account, name="delete_service_account")
router.serve(wire.ADMIN_SERVICE_ACCOUNT_TOKENS_MINT, accounts.mint_token, name="mint_service_account_token")
router.read(wire.ADMIN_SERVICE_ACCOUNT_TOKENS_LIST, accounts.list_tokens, name="list_service_account_tokens")
router.serve(wire.ADMIN_SERVICE_ACCOUNT_TOKENS_REVOKE, accounts.revoke_token, name="revoke_service_account_token")
router.serve(wire.ADMIN_SERVICE_ACCOUNT_TOKENS_PREVIEW_REACH, reach.preview_reach)
