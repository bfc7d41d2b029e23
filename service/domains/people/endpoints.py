"""admin/organization, users, groups, apiKeys, serviceAccounts and their tokens: extensions, for admins only."""

from carrel.wire import admin as wire
from carrel.wire import organization, people
from carrel.wire import service_accounts as programs
from carrel.wire.api_keys import ADMIN_API_KEYS_CREATE, ADMIN_API_KEYS_LIST, ADMIN_API_KEYS_REVOKE
from service.domains.people.directory import api_keys, groups, organizations, users
from service.domains.people.service_accounts import accounts, reach
from service.identity_server import interface as identity_server
from service.web.routing import Router

router = Router()

router.read(organization.ADMIN_ORGANIZATION_GET, organizations.get_organization)
router.serve(organization.ADMIN_ORGANIZATION_UPDATE, organizations.update_organization)
router.serve(wire.ADMIN_USERS_UPSERT, users.upsert_users)
router.read(wire.ADMIN_USERS_LIST, users.list_users)
router.read(people.ADMIN_USERS_COUNT, users.count_users)
router.serve(people.ADMIN_USERS_INVITE, identity_server.invite_user)
router.serve(people.ADMIN_USERS_RESET_SECOND_FACTOR, identity_server.reset_second_factor)
router.serve(wire.ADMIN_GROUPS_UPSERT, groups.upsert_groups)
router.read(wire.ADMIN_GROUPS_LIST, groups.list_groups)
router.read(wire.ADMIN_GROUPS_LIST_MEMBERS, groups.list_members)
router.read(people.ADMIN_GROUPS_LIST_MEMBERSHIPS, groups.list_memberships)
router.serve(wire.ADMIN_GROUPS_ADD_MEMBERS, groups.add_members)
router.serve(wire.ADMIN_GROUPS_REMOVE_MEMBERS, groups.remove_members)
router.read(people.ADMIN_GROUPS_PREVIEW_LOSSES, groups.preview_losses)
router.serve(people.ADMIN_GROUPS_DELETE, groups.delete_group)
router.read(people.ADMIN_GROUPS_LIST_TRASHED, groups.list_trashed, name="list_trashed_groups")
router.serve(people.ADMIN_GROUPS_RESTORE, groups.restore_group)
router.serve(ADMIN_API_KEYS_CREATE, api_keys.create_api_key)
router.read(ADMIN_API_KEYS_LIST, api_keys.list_api_keys)
router.serve(ADMIN_API_KEYS_REVOKE, api_keys.revoke_api_key)
router.serve(programs.ADMIN_SERVICE_ACCOUNTS_CREATE, accounts.create_account, name="create_service_account")
router.read(programs.ADMIN_SERVICE_ACCOUNTS_LIST, accounts.list_accounts, name="list_service_accounts")
router.serve(programs.ADMIN_SERVICE_ACCOUNTS_DELETE, accounts.delete_account, name="delete_service_account")
router.serve(programs.ADMIN_SERVICE_ACCOUNT_TOKENS_MINT, accounts.mint_token, name="mint_service_account_token")
router.read(programs.ADMIN_SERVICE_ACCOUNT_TOKENS_LIST, accounts.list_tokens, name="list_service_account_tokens")
router.serve(programs.ADMIN_SERVICE_ACCOUNT_TOKENS_REVOKE, accounts.revoke_token, name="revoke_service_account_token")
router.read(programs.ADMIN_SERVICE_ACCOUNT_TOKENS_PREVIEW_REACH, reach.preview_reach)
