"""GET and POST /account/confirm: a proof of identity, for an application's session, to change access or credentials."""

from datetime import datetime
from uuid import UUID

from fastapi import APIRouter, Request, Response

from service.audit.service import Change, record_for
from service.auth.authorization import CONFIRMATION_PATH, is_fresh
from service.identity_server.oauth import queries
from service.identity_server.oauth.proving import prove
from service.identity_server.oauth.second_factor import NO_STORE, STALE, form_page
from service.identity_server.oauth.visits import VisitorDep
from service.identity_server.requests import first_of, form_of, query_of
from service.identity_server.signin import queries as sign_in_queries
from service.identity_server.signin.attempts import Refused
from service.identity_server.signin.factors import service
from service.identity_server.signin.factors.passkeys import Ceremony
from service.identity_server.signin.sessions import OwnPage, SignedIn, end_session
from service.platform.errors import NotFound, require
from service.platform.identifiers import to_uuid
from service.web.pages.routing import PageRoute, lead_to, message

NO_FACTOR = Refused("Your organization requires a second factor. Set up a second factor first, then confirm.", 403)

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(CONFIRMATION_PATH)
async def show_confirmation(visitor: VisitorDep) -> Response:
    family_id, page = _require_family_id(visitor.request), await OwnPage.open(visitor)
    return _to_sign_in(family_id) if page is None else await _show(page, family_id)


@router.post(CONFIRMATION_PATH)
async def take_confirmation(visitor: VisitorDep) -> Response:
    """Check a new proof of identity and confirm the session, or sign out; without a session, lead to the sign-in."""
    form, family_id = first_of(await form_of(visitor.request)), _require_family_id(visitor.request)
    page = await OwnPage.open(visitor)
    if page is None:
        return _to_sign_in(family_id)
    purpose = _purpose(page.person, family_id)
    if not page.is_own_form(form, purpose):
        return await _show(page, family_id, STALE)
    if form.get("action") == "signOut":
        async with page.transaction() as connection:
            await end_session(connection, page.browser, organization_id=page.person.organization_id)
        return _to_sign_in(family_id)
    proven_at = await _prove_again(page, form, purpose=purpose)
    if isinstance(proven_at, Refused):
        return await _show(page, family_id, proven_at)
    return await _record_confirmation(page, family_id, proven_at=proven_at)


async def _prove_again(page: OwnPage, form: dict[str, str], *, purpose: str) -> datetime | Refused:
    """Return the time of the proof of identity: an earlier time if it is at most 15 minutes old, otherwise now."""
    person = page.person
    async with page.transaction() as connection:
        now = await page.runtime.clock.now(connection)
        has = (await service.read_factors(connection, **page.whose)).factors
        must = await service.must_have_factor(connection, person.organization_id, is_admin=person.is_admin)
    if person.by_password and must and not has:
        return NO_FACTOR
    if person.confirmed_at is not None and is_fresh(person.confirmed_at, now=now):
        return person.confirmed_at
    proven = await prove(page, form, purpose=purpose)
    return proven if isinstance(proven, Refused) else now


async def _record_confirmation(page: OwnPage, family_id: UUID, *, proven_at: datetime) -> Response:
    organization_id, principal_id = page.person.organization_id, page.person.principal_id
    name = await _require_client_name(page, family_id)
    async with page.transaction() as connection:
        secret_hash = page.browser.hash
        await sign_in_queries.confirm_session(connection, organization_id, secret_hash=secret_hash, now=proven_at)
        await queries.confirm_family(connection, **page.whose, family_id=family_id, now=proven_at)
        change = Change("session.confirm", "user", principal_id, {"sessionId": str(family_id)})
        await record_for(connection, organization_id, actor_id=principal_id, change=change)
    return message(
        page.request,
        headers=NO_STORE,
        title="Confirmed",
        text=f"{name} may change access and credentials for you until 15 minutes after you proved your identity.",
        hint=f"Close this page and go back to {name}. If nothing happens there, start the action again.",
    )


async def _show(page: OwnPage, family_id: UUID, refused: Refused | None = None) -> Response:
    name, person, purpose = await _require_client_name(page, family_id), page.person, _purpose(page.person, family_id)
    async with page.transaction() as connection:
        now = await page.runtime.clock.now(connection)
        factors = await service.read_factors(connection, **page.whose)
    ceremony, fresh = Ceremony(page, purpose), is_fresh(person.confirmed_at, now=now)
    asks = factors.passkeys and not fresh
    return form_page(
        "confirm.html",
        page.request,
        refused,
        person=person,
        client=name,
        is_fresh=fresh,
        factors=factors,
        asked=ceremony.ask(now=now, factors=factors.passkeys) if asks else None,
        action=f"confirm?session={family_id}",
        csrf=page.form_token(purpose),
    )


async def _require_client_name(page: OwnPage, family_id: UUID) -> str:
    async with page.transaction() as connection:
        name = await queries.find_client_name(connection, **page.whose, family_id=family_id)
    if name is None:
        raise NotFound(
            "You have no such session. It has ended, or it belongs to another person. Go back to the application and "
            "sign in again.",
            code="session_not_found",
        )
    return name


def _require_family_id(request: Request) -> UUID:
    message = "This address is incomplete. Go back to the application and open the address from there again."
    given = first_of(query_of(request)).get("session", "")
    return require(to_uuid(given), NotFound(message, code="session_not_found"))


def _to_sign_in(family_id: UUID) -> Response:
    return lead_to(f"sign-in?confirm={family_id}")


def _purpose(person: SignedIn, family_id: UUID) -> str:
    return f"confirm\n{person.principal_id}\n{family_id}"
