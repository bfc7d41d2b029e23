"""A provider's sign-out (OpenID Connect Back-Channel Logout 1.0). A token works once, and ends sessions and tokens."""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.audit.service import Change, record_unattended
from service.identity_server.requests import first_of, form_of
from service.identity_server.sessions.service import end_sessions_of
from service.identity_server.signin import queries as signin
from service.identity_server.signin.id_tokens import LEEWAY_SECONDS, NotVouched, claims_before_verifying, text_of
from service.identity_server.signin.provider import ProviderAway, open_provider
from service.identity_server.signin.providers import queries
from service.identity_server.signin.providers.queries import StoredProvider
from service.identity_server.signin.providers.registrations import open_registration
from service.platform.errors import ServiceError
from service.platform.logs import logger
from service.runtime import Runtime
from service.web.dependencies import RuntimeDep

EVENT = "http://schemas.openid.net/event/backchannel-logout"
# Providers issue a logout token when they send it: older tokens are refused, and newer ones remembered for this time.
LONGEST = timedelta(minutes=10)
NO_STORE = {"Cache-Control": "no-store"}

router = APIRouter(include_in_schema=False)


@router.post("/api/oauth/upstream/{provider_id:uuid}/logout")
async def take_logout(request: Request, runtime: RuntimeDep, provider_id: UUID) -> JSONResponse:
    """End the sessions of the person named by a logout token; 400 for an invalid token."""
    try:
        await _log_out(runtime, provider_id, first_of(await form_of(request)).get("logout_token", ""))
    except (NotVouched, ProviderAway, ServiceError) as error:
        reason = error.reason if isinstance(error, NotVouched) else "unavailable"
        logger.warning("logout_refused", reason=reason)
        body = {"error": "invalid_request", "error_description": f"The logout token is refused: {reason}."}
        return JSONResponse(body, status_code=400, headers=NO_STORE)
    return JSONResponse({}, headers=NO_STORE)


async def _log_out(runtime: Runtime, provider_id: UUID, token: str) -> None:
    said = claims_before_verifying(token)
    async with runtime.database.transaction(None, read_only=True) as connection:
        found = await queries.enter_by_provider(connection, provider_id=provider_id)
    if found is None:
        raise NotVouched("provider")
    organization_id = found.organization_id
    registered = await open_registration(runtime, found)
    if registered.stored is None:
        raise NotVouched("provider")
    async with runtime.database.transaction(organization_id, read_only=True) as connection:
        now = await runtime.clock.now(connection)
    # Anyone can send a token here, so refuse a wrong one before asking the provider.
    if said.get("iss") != registered.issuer:
        raise NotVouched("issuer")
    check_logout(said, client_id=registered.registration.client_id, now=now)
    async with open_provider(registered.registration, runtime) as provider:
        claims = await provider.logout_claims(token)
    subject = hashlib.sha256(f"logout\n{provider_id}\n{claims.get('jti')}".encode()).digest()
    async with runtime.database.transaction(organization_id) as connection:
        if not await signin.remember_once(
            connection, organization_id, subject=subject, until=now + 2 * LONGEST, now=now
        ):
            raise NotVouched("replayed")
        await _end_sessions(connection, registered.stored, claims, now=now)


def check_logout(claims: Mapping[str, Any], *, client_id: str, now: datetime) -> None:
    """Check a logout token's special claims (section 2.6); common claims are checked elsewhere. Raises NotVouched."""
    audience: object = claims.get("aud")
    if client_id not in (cast("list[object]", audience) if isinstance(audience, list) else [audience]):
        raise NotVouched("audience")
    events: object = claims.get("events")
    if not isinstance(events, dict) or not isinstance(cast("dict[str, object]", events).get(EVENT), dict):
        raise NotVouched("events")
    if "nonce" in claims:
        raise NotVouched("nonce")
    if text_of(claims, "jti") is None or not (text_of(claims, "sub") or text_of(claims, "sid")):
        raise NotVouched("claims")
    issued: object = claims.get("iat")
    oldest = (now - LONGEST).timestamp() - LEEWAY_SECONDS
    if not isinstance(issued, int | float) or issued < oldest:
        raise NotVouched("expired")


async def _end_sessions(
    connection: Connection, provider: StoredProvider, claims: Mapping[str, Any], *, now: datetime
) -> None:
    organization_id, subject, session_id = provider.organization_id, text_of(claims, "sub"), text_of(claims, "sid")
    principal_ids: set[UUID] = set()
    if subject is not None:
        found = await signin.find_identity(connection, organization_id, issuer=provider.issuer, subject=subject)
        principal_ids |= {found} if found is not None else set()
    if session_id is not None:
        principal_ids |= await queries.list_people_of_session(
            connection, organization_id, provider_id=provider.provider_id, session_id=session_id
        )
    for principal_id in sorted(principal_ids):
        ended = await end_sessions_of(connection, organization_id, principal_id=principal_id, now=now)
        details = {**ended, "providerId": str(provider.provider_id)}
        change = Change("session.end", "user", principal_id, details)
        await record_unattended(connection, organization_id, change=change)
