"""The identity server's interface, by import contract; only `service.auth` reads callers from the database itself."""

from service.identity_server import endpoints
from service.identity_server.oauth import (
    account,
    account_factors,
    authorize,
    confirming,
    consents,
    invitation,
    upstream,
)
from service.identity_server.oauth import endpoints as oauth
from service.identity_server.oauth.purging import purge as purge_tokens
from service.identity_server.providers import logout
from service.identity_server.providers.service import confirm_domain
from service.identity_server.sessions.service import end_access, end_sign_ins
from service.identity_server.signin.factors.service import reset_for_operator, reset_second_factor
from service.identity_server.signin.invitations import invite_user
from service.identity_server.signin.providers.queries import Claim, has_domain, list_claims
from service.identity_server.signin.queries import delete_invitations

PAGES = (oauth, authorize, upstream, logout, consents, account, account_factors, confirming, invitation)

__all__ = [
    "PAGES",
    "Claim",
    "confirm_domain",
    "delete_invitations",
    "end_access",
    "end_sign_ins",
    "endpoints",
    "has_domain",
    "invite_user",
    "list_claims",
    "purge_tokens",
    "reset_for_operator",
    "reset_second_factor",
]
