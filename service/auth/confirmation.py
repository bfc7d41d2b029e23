"""Asking people to prove again who they are before they change access and credentials (step-up, RFC 9470)."""

from datetime import datetime, timedelta
from urllib.parse import urlencode
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.common import SecondFactorPolicy
from service.auth import queries
from service.auth.callers import Caller
from service.platform.errors import Forbidden

LIFETIME = timedelta(minutes=15)
PATH = "/account/confirm"


def is_fresh(confirmed_at: datetime | None, *, now: datetime) -> bool:
    """Return whether a confirmation still counts."""
    return confirmed_at is not None and now - confirmed_at <= LIFETIME


def is_demanded(policy: str, *, is_admin: bool) -> bool:
    """Return whether an organization's policy demands a second factor of an admin, or of somebody who is none."""
    return policy == SecondFactorPolicy.EVERYBODY or (is_admin and policy == SecondFactorPolicy.ADMINS)


def may_have_to_confirm(caller: Caller) -> bool:
    """Return whether a caller is a person with an access token: keys and tokens of service accounts are not people."""
    return caller.credential == "accessToken"


async def require_confirmation(connection: AsyncConnection, caller: Caller, *, now: datetime, issuer: str) -> None:
    """Raise Forbidden `confirmation_required` unless a person has proven who they are in the last 15 minutes.

    To be asked of callers who may have to confirm (`may_have_to_confirm`); their organization must demand a second
    factor of them.
    """
    found = await queries.get_confirmation(connection, caller.organization_id, token_id=caller.credential_id)
    if is_demanded(found.second_factor, is_admin=caller.is_admin) and not is_fresh(found.confirmed_at, now=now):
        raise _confirmation_required(found.family_id, issuer=issuer)


def _confirmation_required(family_id: UUID, *, issuer: str) -> Forbidden:
    address = f"{issuer}{PATH}?{urlencode({'session': str(family_id)})}"
    error = Forbidden(
        "Confirm that it is you before you do this: you have not signed in or confirmed in the last 15 minutes. Open "
        "the address of the confirmation in your browser, then try again.",
        code="confirmation_required",
        headers={
            "WWW-Authenticate": 'Bearer error="insufficient_user_authentication", '
            f'error_description="A sign-in of the last 15 minutes is needed", max_age="{int(LIFETIME.total_seconds())}"'
        },
    )
    error.confirmation_url = address
    return error
