"""GET and POST /account/sign-in, without an application. Neither answer nor time shows if an organization exists."""

from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import SecretStr

from carrel.wire.fields import normal_email
from service.identity.queries import Organization, list_organizations
from service.identity_server.oauth.invitation import FORGOTTEN, answer_forgotten
from service.identity_server.oauth.second_factor import ACTIONS, STALE, Step, form_page
from service.identity_server.oauth.visits import VisitorDep
from service.identity_server.requests import first_of, form_of, query_of
from service.identity_server.signin.attempts import Attempt, Refused
from service.identity_server.signin.factors.pending import GONE, find_pending
from service.identity_server.signin.providers.queries import any_domain
from service.identity_server.signin.providers.registrations import list_ways, way_of_settings
from service.identity_server.signin.sessions import Visitor, find_session, find_signed_in
from service.identity_server.signin.signing_in import PasskeySignIn, sign_in
from service.platform.errors import NotFound
from service.platform.identifiers import to_uuid
from service.runtime import Runtime
from service.web.pages.routing import PageRoute, cookieless, lead_to

PATH = "/account/sign-in"
PURPOSE = "accountSignIn"

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(PATH)
async def show_sign_in(visitor: VisitorDep) -> Response:
    """Show the sign-in page or the second step of a pending sign-in; redirect a person who is signed in."""
    async with visitor.runtime.database.transaction(None) as connection:
        now = await visitor.runtime.clock.now(connection)
        if await find_session(connection, visitor.browser, now=now):
            return lead_to(_next_address(visitor.request))
        pending = await find_pending(connection, visitor.browser, now=now)
    return await _sign_in_page(visitor) if pending is None else await _second_step(visitor).show(pending)


@router.post(PATH)
async def take_sign_in(visitor: VisitorDep) -> Response:
    """Take a form of the sign-in page or of the second step: sign in, mail a link, or show the page with the reason."""
    request, runtime, form = visitor.request, visitor.runtime, first_of(await form_of(visitor.request))
    called, email = form.get("organization", ""), form.get("email", "")
    if not visitor.browser.known:
        return cookieless(request, again=_action(request))
    if form.get("action") in ACTIONS:
        return await _second_step(visitor).take(form) or await _show_ended_sign_in(visitor)
    if not visitor.is_own_form(form, PURPOSE):
        return await _sign_in_page(visitor, STALE)
    if form.get("action") == "passkeySignIn":
        return await _take_passkey(visitor, form.get("credential", ""))
    found = await find_organization(runtime, called)
    attempt = Attempt(
        organization_id=found or await _any_organization(runtime, called),
        # An unknown organization: no account has this address, so the attempt counts and fails like an unknown address.
        email=email if found else f"{normal_email(email)}\n{_plain(called)}\nunknown",
        password=SecretStr(form.get("password", "")),
        address=visitor.sender,
    )
    is_forgotten = form.get("action") == FORGOTTEN
    outcome = await (answer_forgotten(visitor, attempt) if is_forgotten else sign_in(visitor, attempt))
    if isinstance(outcome, Refused):
        return await _sign_in_page(visitor, outcome, called=called, email=email)
    return outcome if isinstance(outcome, Response) else outcome.keep(lead_to(_next_address(request)))


async def _take_passkey(visitor: Visitor, answer: str) -> Response:
    outcome = await PasskeySignIn(visitor, _action(visitor.request)).take(answer, organization_id=None)
    if isinstance(outcome, Refused):
        return await _sign_in_page(visitor, outcome)
    return outcome.keep(lead_to(_next_address(visitor.request)))


async def _show_ended_sign_in(visitor: Visitor) -> Response:
    if await find_signed_in(visitor):
        return lead_to(_next_address(visitor.request))
    return await _sign_in_page(visitor, Refused(GONE, 403))


def _second_step(visitor: Visitor) -> Step:
    return Step(visitor, action=_action(visitor.request), done=_next_address(visitor.request))


async def find_organization(runtime: Runtime, name: str | None) -> UUID | None:
    """Return the organization of the given name, or the only organization; None without a single match."""
    organizations = await _list_organizations(runtime)
    if len(organizations) > 1:
        organizations = [item for item in organizations if item.name.casefold() == _plain(name or "")]
    return organizations[0].organization_id if len(organizations) == 1 else None


async def _list_organizations(runtime: Runtime) -> list[Organization]:
    async with runtime.database.transaction(None, read_only=True) as connection:
        return await list_organizations(connection)


def _plain(name: str) -> str:
    return name.strip().casefold()


async def _any_organization(runtime: Runtime, name: str) -> UUID:
    """Return an organization, fixed for each name, to count attempts with an unknown name. With a single organization
    for all unknown names, waits would reveal the existing names. Raises NotFound `no_organization`."""
    organizations = await _list_organizations(runtime)
    if not organizations:
        raise NotFound("There is no organization yet. Ask the operators of the service.", code="no_organization")
    number = int.from_bytes(runtime.keys.unknown_name(_plain(name)))
    return organizations[number % len(organizations)].organization_id


async def _sign_in_page(
    visitor: Visitor, refused: Refused | None = None, *, called: str | None = None, email: str = ""
) -> Response:
    request, runtime = visitor.request, visitor.runtime
    organizations = await _list_organizations(runtime)
    only = organizations[0] if len(organizations) == 1 else None
    session_id = _confirmed_session(request)
    address = "upstream" if session_id is None else f"upstream?confirm={session_id}"
    way = way_of_settings(runtime.settings, address="upstream")
    async with runtime.database.transaction(only and only.organization_id, read_only=True) as connection:
        asked = await PasskeySignIn(visitor, _action(request)).ask(connection)
        ways = only and await list_ways(connection, only.organization_id, runtime.settings, address=address)
        has_providers = only is None and await any_domain(connection)
    response = form_page(
        "sign_in.html",
        request,
        refused,
        # Forms may lead to providers over https, or to the service on this machine.
        leads_to=[runtime.settings.issuer] if has_providers or way else (),
        headers={},
        organization=None if only is None else only.name,
        client=None,
        asked=asked,
        action=_action(request),
        csrf=visitor.form_token(PURPOSE),
        email=email,
        asks_organization=only is None,
        called=called or "",
        confirms=session_id,
        by_password=only is None or only.passwords_enabled,
        mails=runtime.settings.smtp_url is not None,
        upstream=None if way is None else way.name,
        has_providers=has_providers,
        ways=ways or [],
    )
    return visitor.browser.keep_new(response)


def _confirmed_session(request: Request) -> UUID | None:
    return to_uuid(first_of(query_of(request)).get("confirm", ""))


def _action(request: Request) -> str:
    session_id = _confirmed_session(request)
    return "sign-in" if session_id is None else f"sign-in?confirm={session_id}"


def _next_address(request: Request) -> str:
    session_id = _confirmed_session(request)
    return "consents" if session_id is None else f"confirm?session={session_id}"
