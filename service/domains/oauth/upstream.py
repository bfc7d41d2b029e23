"""Signing in with another provider, on the way to an application or to one's account, and coming back.

What must be known on return travels in `state`, signed for the browser it is shown to; verifier and nonce follow from
it and from the service's own key, so that nothing is kept.
"""

import hmac
import json
import secrets
from datetime import datetime, timedelta
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

import httpx
from fastapi import APIRouter, Request, Response
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.fields import normal_email
from service.audit.service import Change, record_for
from service.domains.oauth.account import find_organization
from service.domains.oauth.requests import Parameters, first_of, query_of
from service.domains.oauth.server import Answer
from service.domains.oauth.visits import PROMPTS_SIGN_IN, Visit
from service.domains.signin import queries
from service.domains.signin.browsers import Browser
from service.domains.signin.id_tokens import Subject
from service.domains.signin.provider import Proof, Provider
from service.domains.signin.sessions import begin_session
from service.platform import base64url
from service.platform.errors import BadRequest
from service.runtime import Runtime
from service.web.dependencies import RuntimeDep
from service.web.pages.routing import PageRoute

LONGEST = timedelta(minutes=15)
# What a state says of who is on the way to their account, in place of an authorization request, which names a client:
# their organization.
ACCOUNT = "account"

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/api/oauth/upstream")
async def leave(request: Request, runtime: RuntimeDep) -> Response:
    """Send somebody to the provider, who is on the way to a proven application."""
    visit = Visit.of(request, runtime)
    async with runtime.database.transaction(None) as connection:
        asked = await visit.open(connection)
    if isinstance(asked, Answer):
        return visit.redirect(asked)
    prompt = next(iter(sorted(asked.prompts & PROMPTS_SIGN_IN)), None)
    return await _redirect_to_provider(
        visit.browser, runtime, parameters=visit.parameters, now=asked.now, prompt=prompt
    )


@router.get("/account/upstream")
async def leave_for_account(request: Request, runtime: RuntimeDep) -> Response:
    """Send somebody to the provider who is on the way to what they allowed."""
    async with runtime.database.transaction(None) as connection:
        now = await runtime.clock.now(connection)
    parameters = [(ACCOUNT, first_of(query_of(request)).get("organization", "-"))]
    return await _redirect_to_provider(Browser.of(request, runtime), runtime, parameters=parameters, now=now)


async def _redirect_to_provider(
    browser: Browser, runtime: Runtime, *, parameters: Parameters, now: datetime, prompt: str | None = None
) -> Response:
    state = _sign_state(browser, runtime, parameters=parameters, now=now)
    async with httpx.AsyncClient() as http:
        proof = _proof(browser, runtime, state)
        address = await Provider(runtime.settings, http).sign_in_address(proof, state=state, prompt=prompt)
    response = Response(status_code=302, headers={"Location": address, "Referrer-Policy": "no-referrer"})
    if not browser.known:
        browser.keep(response)
    return response


@router.get("/api/oauth/upstream/callback")
async def come_back(request: Request, runtime: RuntimeDep) -> Response:
    """Sign in whom the provider vouches for, and go on to the application."""
    given = first_of(query_of(request))
    browser, state = Browser.of(request, runtime), given.get("state", "")
    async with runtime.database.transaction(None) as connection:
        now = await runtime.clock.now(connection)
    parameters = _parameters(browser, runtime, state, now=now)
    if "code" not in given or given.get("iss", runtime.settings.oidc_issuer) != runtime.settings.oidc_issuer:
        raise BadRequest("The provider did not sign you in. Go back and try again.", code="upstream_refused")
    async with httpx.AsyncClient() as http:
        proof = _proof(browser, runtime, state)
        subject = await Provider(runtime.settings, http).subject(given["code"], proof, issuer=given.get("iss"))
    given_before = dict(parameters)
    if "client_id" not in given_before:
        organization_id = await find_organization(runtime, given_before[ACCOUNT])
        if organization_id is None:
            raise _unknown_person()
        response = Response(status_code=303, headers={"Location": "../../../account/consents"})
        async with runtime.database.transaction(organization_id) as connection:
            renewed = await _begin_session(connection, browser, organization_id, subject=subject, now=now)
    else:
        visit = Visit.of(request, runtime, parameters)
        response = visit.show_next(at="../authorize")
        async with runtime.database.transaction(None) as connection:
            asked = await visit.open(connection)
            if isinstance(asked, Answer):
                return visit.redirect(asked)
            renewed = await _begin_session(connection, browser, asked.client.organization_id, subject=subject, now=now)
    renewed.keep(response)
    return response


async def _begin_session(
    connection: AsyncConnection, browser: Browser, organization_id: UUID, *, subject: Subject, now: datetime
) -> Browser:
    person = await _person(connection, organization_id, subject=subject, now=now)
    return await begin_session(connection, browser, person=person, now=now, by_password=False)


async def _person(
    connection: AsyncConnection, organization_id: UUID, *, subject: Subject, now: datetime
) -> queries.Person:
    """Return the active person bound to a subject; bind a new subject to the person of its verified address.

    An address may pass to another person, a subject never does: so a person is bound to one subject only.
    """
    issuer = subject.issuer
    bound = await queries.find_identity(connection, organization_id, issuer=issuer, subject=subject.subject)
    if bound is not None:
        person = await queries.get_person(connection, organization_id, principal_id=bound)
    else:
        person = await _newly_bound(connection, organization_id, subject=subject, now=now)
    if person is None or not person.active:
        raise _unknown_person()
    return person


async def _newly_bound(
    connection: AsyncConnection, organization_id: UUID, *, subject: Subject, now: datetime
) -> queries.Person | None:
    email = normal_email(subject.email or "")
    # Beyond ASCII there are letters that become others in lower case: such an address is somebody else's.
    if subject.email is None or not (subject.email.isascii() or subject.email == email):
        return None
    person = await queries.find_person(connection, organization_id, email=email)
    if person is None or not person.active:
        return None
    principal_id, issuer = person.principal_id, subject.issuer
    row = {"issuer": issuer, "subject": subject.subject, "principal_id": principal_id, "bound_at": now}
    if not await queries.bind_identity(connection, organization_id, row=row):
        # Either the person is somebody else's, or came back twice at once and is bound by now.
        bound = await queries.find_identity(connection, organization_id, issuer=issuer, subject=subject.subject)
        return person if bound == principal_id else None
    change = Change("identity.bind", "user", principal_id, details={"issuer": issuer})
    await record_for(connection, organization_id, actor_id=principal_id, change=change)
    return person


def _proof(browser: Browser, runtime: Runtime, state: str) -> Proof:
    return Proof(
        verifier=_secret(browser, runtime, f"verifier\n{state}"), nonce=_secret(browser, runtime, f"nonce\n{state}")
    )


def _sign_state(browser: Browser, runtime: Runtime, *, parameters: Parameters, now: datetime) -> str:
    content = json.dumps([secrets.token_urlsafe(16), now.timestamp(), urlencode(parameters)]).encode()
    payload = base64url.encode(content)
    signature = _secret(browser, runtime, f"state\n{payload}")
    return f"{payload}.{signature}"


def _parameters(browser: Browser, runtime: Runtime, state: str, *, now: datetime) -> Parameters:
    """Return the authorization request in a signed state; BadRequest for another browser's state, or an old one."""
    payload, _, signature = state.partition(".")
    expected = _secret(browser, runtime, f"state\n{payload}")
    if not browser.known or not hmac.compare_digest(expected.encode(), signature.encode()):
        raise _stale_sign_in()
    _, begun, query = json.loads(base64url.decode(payload))
    if now.timestamp() - begun > LONGEST.total_seconds():
        raise _stale_sign_in()
    return parse_qsl(query)


def _secret(browser: Browser, runtime: Runtime, purpose: str) -> str:
    return base64url.encode(runtime.keys.upstream_secret(browser=browser.value.get_secret_value(), purpose=purpose))


def _unknown_person() -> BadRequest:
    return BadRequest(
        "There is no account here for the person you signed in as. Ask an admin of your organization.",
        code="unknown_upstream_person",
    )


def _stale_sign_in() -> BadRequest:
    return BadRequest(
        "This sign-in was begun in another browser, or too long ago. Go back to the application and start again.",
        code="stale_sign_in",
    )
