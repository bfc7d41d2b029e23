"""Checks of requirements before the body is read. Routes without any are denied; some changes need confirmation."""

from datetime import datetime, timedelta
from urllib.parse import urlencode
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.api import OPERATIONS
from carrel.wire.common import SecondFactorPolicy
from carrel.wire.operations import Requirement
from carrel.wire.scopes import ApiScope, Scope
from service.auth import queries
from service.auth.callers import Caller, credential_gone, service_accounts_disabled
from service.auth.scopes import MESSAGE_PREFIX, agent_of, covers
from service.platform.errors import Forbidden, require

CONFIRMED_FOR = timedelta(minutes=15)
CONFIRMATION_PATH = "/account/confirm"


def authorize(caller: Caller, requirement: Requirement) -> None:
    """Raise Forbidden unless the caller has the required scope and admin rights, and service accounts if required."""
    if caller.credential == "accessToken":
        _authorize_access_token(caller, requirement)
    elif caller.scopes is not None and not requirement.any_token:
        _authorize_token(caller.scopes, requirement.scope)
    elif requirement.admin and not caller.is_admin:
        raise Forbidden("Only an admin may do this. Use an API key whose owner is an admin.", code="admin_only")
    if requirement.service_accounts and not caller.service_accounts_enabled:
        raise service_accounts_disabled()


def callable_by(caller: Caller) -> list[str]:
    """List the paths of the v0 operations open to the caller, in the order of their declarations."""
    return [item.path for item in OPERATIONS.values() if item.version != "v1" and may_call(caller, item.requires)]


def may_call(caller: Caller, requirement: Requirement) -> bool:
    try:
        authorize(caller, requirement)
    except Forbidden:
        return False
    return True


def authorize_message(caller: Caller, agent_id: UUID) -> None:
    """Raise Forbidden `missing_scope` if an access token may not message this agent. Other credentials pass."""
    if caller.credential == "accessToken" and not covers(caller.scopes or (), f"{MESSAGE_PREFIX}{agent_id}"):
        raise _missing_scope(f"{ApiScope.AGENT_MESSAGE} or {MESSAGE_PREFIX}{agent_id}")


def messageable_agents(caller: Caller) -> frozenset[UUID] | None:
    """Return the agents named in an access token's scopes; None if the scopes allow all deployed agents."""
    scopes = caller.scopes or frozenset[str]()
    if caller.credential != "accessToken" or ApiScope.AGENT_MESSAGE in scopes:
        return None
    return frozenset(agent_id for scope in scopes if (agent_id := agent_of(scope)))


def _authorize_access_token(caller: Caller, requirement: Requirement) -> None:
    wanted, scopes = requirement.api_scope, caller.scopes or frozenset()
    # Any agent's scope passes here; the requested agent is checked once the request is read.
    some_agent = wanted is ApiScope.AGENT_MESSAGE and any(scope.startswith(MESSAGE_PREFIX) for scope in scopes)
    if wanted is not None and wanted not in scopes and not some_agent:
        raise _missing_scope(wanted)
    if requirement.admin and not caller.is_admin:
        raise Forbidden("Only an admin may do this. Ask an admin to do it.", code="admin_only")


def _authorize_token(scopes: frozenset[str], scope: Scope | None) -> None:
    if scope is None:
        message = "A service-account token can't do this, whatever its scopes. Use an API key."
        raise Forbidden(message, code="service_account_not_allowed")
    if scope not in scopes:
        raise _missing_scope(scope)


def _missing_scope(scope: str) -> Forbidden:
    if scope == ApiScope.ADMIN:  # whether the person is an admin isn't known here; this scope makes the caller an admin
        return Forbidden(
            f"This token lacks the scope {scope}, which only admins can use. If you are an admin, use a token with "
            "this scope. Otherwise ask an admin.",
            code="missing_scope",
        )
    return Forbidden(f"This token lacks the scope {scope}. Use a token with it, or ask an admin.", code="missing_scope")


def is_fresh(confirmed_at: datetime | None, *, now: datetime) -> bool:
    return confirmed_at is not None and now - confirmed_at <= CONFIRMED_FOR


def is_demanded(policy: str, *, is_admin: bool) -> bool:
    """Return whether an organization's policy requires a second factor of admins (`is_admin`) or of other people."""
    return policy == SecondFactorPolicy.EVERYBODY or (is_admin and policy == SecondFactorPolicy.ADMINS)


def may_have_to_confirm(caller: Caller) -> bool:
    """Return whether a caller is a person with an access token. Keys and service account tokens are not people."""
    return caller.credential == "accessToken"


async def require_confirmation(connection: Connection, caller: Caller, *, now: datetime, issuer: str) -> None:
    """Raise Forbidden if a second factor is required and the person proved no identity in the last 15 minutes."""
    token_id = caller.credential_id
    found = await queries.get_confirmation(connection, caller.organization_id, token_id=token_id)
    family_id, confirmed_at, policy = require(found, credential_gone())
    if not is_demanded(policy, is_admin=caller.is_admin) or is_fresh(confirmed_at, now=now):
        return
    error = Forbidden(
        "Confirm that it is you: your last sign-in or confirmation is more than 15 minutes old. Open the confirmation "
        "address in your browser, then try again.",
        code="confirmation_required",
        headers={
            "WWW-Authenticate": 'Bearer error="insufficient_user_authentication", '
            'error_description="A sign-in of the last 15 minutes is needed", '
            f'max_age="{int(CONFIRMED_FOR.total_seconds())}"'
        },
    )
    error.confirmation_url = f"{issuer}{CONFIRMATION_PATH}?{urlencode({'session': str(family_id)})}"
    raise error
