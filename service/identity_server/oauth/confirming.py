"""GET and POST /account/confirm: proving again who one is, for an application that is to change access or credentials.
The confirmation is for the person's session of that application, which its tokens share."""

from datetime import datetime
from uuid import UUID

from fastapi import APIRouter, Request, Response

from service.audit.service import Change, record_for
from service.auth.authorization import CONFIRMATION_PATH, is_fresh
from service.identity_server.oauth import queries
from service.identity_server.oauth.proving import prove
from service.identity_server.oauth.second_factor import NO_STORE, STALE, form_page
from service.identity_server.requests import first_of, form_of, query_of
from service.identity_server.signin import queries as sign_in_queries
from service.identity_server.signin.factors import service
from service.identity_server.signin.factors.passkeys import Ceremony
from service.identity_server.signin.refusals import Refused
from service.identity_server.signin.sessions import Browser, SignedIn, end_session, find_signed_in
from service.platform.errors import NotFound
from service.runtime import Runtime
from service.web.dependencies import RuntimeDep
from service.web.pages.routing import PageRoute, message

NO_FACTOR = Refused("Your organization asks for a second factor. Set one up first, then confirm.", 403)

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(CONFIRMATION_PATH)
async def show_confirmation(request: Request, runtime: RuntimeDep) -> Response:
    """Ask the person who is signed in to prove who they are."""
    browser, family_id = Browser.of(request, runtime), _family_id(request)
    person = await find_signed_in(runtime, browser)
    if person is None:
        return _to_sign_in(family_id)
    return await _page(request, runtime, browser, person, family_id=family_id)


@router.post(CONFIRMATION_PATH)
async def take_confirmation(request: Request, runtime: RuntimeDep) -> Response:
    """Confirm after a passkey, or password and second factor; or sign out, to sign in with another provider again."""
    form, browser, family_id = first_of(await form_of(request)), Browser.of(request, runtime), _family_id(request)
    person = await find_signed_in(runtime, browser)
    if person is None:
        return _to_sign_in(family_id)
    if not browser.is_own_form(runtime, form.get("csrf", ""), purpose=_purpose(person, family_id)):
        return await _page(request, runtime, browser, person, family_id=family_id, refused=STALE)
    if form.get("action") == "signOut":
        async with runtime.database.transaction(person.organization_id) as connection:
            await end_session(connection, browser, organization_id=person.organization_id)
        return _to_sign_in(family_id)
    proven_at = await _prove_again(request, runtime, browser, person, form, purpose=_purpose(person, family_id))
    if isinstance(proven_at, Refused):
        return await _page(request, runtime, browser, person, family_id=family_id, refused=proven_at)
    return await _confirm(request, runtime, browser, person, family_id=family_id, proven_at=proven_at)


async def _prove_again(
    request: Request, runtime: Runtime, browser: Browser, person: SignedIn, form: dict[str, str], *, purpose: str
) -> datetime | Refused:
    """Return when the person has proven who they are: now, or before within 15 minutes, from which it then counts."""
    organization_id, whose = person.organization_id, {"principal_id": person.principal_id}
    async with runtime.database.transaction(organization_id) as connection:
        now = await runtime.clock.now(connection)
        has = (await service.read_factors(connection, organization_id, **whose)).factors
        must = await service.must_have_factor(connection, organization_id, is_admin=person.is_admin)
    if person.by_password and must and not has:
        return NO_FACTOR
    if person.confirmed_at is not None and is_fresh(person.confirmed_at, now=now):
        return person.confirmed_at
    proven = await prove(request, runtime, browser, person, form, purpose=purpose)
    return proven if isinstance(proven, Refused) else now


async def _confirm(
    request: Request, runtime: Runtime, browser: Browser, person: SignedIn, *, family_id: UUID, proven_at: datetime
) -> Response:
    organization_id, name = person.organization_id, await _client_name(runtime, person, family_id)
    async with runtime.database.transaction(organization_id) as connection:
        await sign_in_queries.confirm_session(connection, organization_id, secret_hash=browser.hash, now=proven_at)
        whose = {"principal_id": person.principal_id}
        await queries.confirm_family(connection, organization_id, family_id=family_id, **whose, now=proven_at)
        change = Change("session.confirm", "user", person.principal_id, {"sessionId": str(family_id)})
        await record_for(connection, organization_id, actor_id=person.principal_id, change=change)
    return message(
        request,
        headers=NO_STORE,
        title="Confirmed",
        text=f"{name} may change access and credentials for you, 15 minutes from when you proved who you are.",
        hint=f"Close this page, and go back to {name}. If it doesn't go on by itself, do it again there.",
    )


async def _page(
    request: Request,
    runtime: Runtime,
    browser: Browser,
    person: SignedIn,
    *,
    family_id: UUID,
    refused: Refused | None = None,
) -> Response:
    name = await _client_name(runtime, person, family_id)
    organization_id, whose = person.organization_id, {"principal_id": person.principal_id}
    async with runtime.database.transaction(organization_id) as connection:
        now = await runtime.clock.now(connection)
        factors = await service.read_factors(connection, organization_id, **whose)
    ceremony, fresh = Ceremony(runtime, browser, _purpose(person, family_id)), is_fresh(person.confirmed_at, now=now)
    asks = factors.passkeys and not fresh
    return form_page(
        "confirm.html",
        request,
        refused,
        organization=person.organization_name,
        email=person.email,
        client=name,
        by_password=person.by_password,
        is_fresh=fresh,
        has_factor=bool(factors.factors),
        has_app=factors.app is not None,
        asked=ceremony.ask(now=now, factors=factors.passkeys) if asks else None,
        action=f"confirm?session={family_id}",
        csrf=browser.form_token(runtime, _purpose(person, family_id)),
    )


async def _client_name(runtime: Runtime, person: SignedIn, family_id: UUID) -> str:
    async with runtime.database.transaction(person.organization_id) as connection:
        name = await queries.find_client_name(
            connection, person.organization_id, family_id=family_id, principal_id=person.principal_id
        )
    if name is None:
        raise NotFound(
            "There is no such session of yours: it has ended, or is somebody else's. Go back to the application, and "
            "sign in there again.",
            code="session_not_found",
        )
    return name


def _family_id(request: Request) -> UUID:
    try:
        return UUID(first_of(query_of(request)).get("session", ""))
    except ValueError as exc:
        message = "This address isn't complete. Go back to the application, and open it again from there."
        raise NotFound(message, code="session_not_found") from exc


def _to_sign_in(family_id: UUID) -> Response:
    return Response(status_code=303, headers={"Location": f"sign-in?confirm={family_id}"})


def _purpose(person: SignedIn, family_id: UUID) -> str:
    return f"confirm\n{person.principal_id}\n{family_id}"
