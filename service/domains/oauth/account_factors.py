"""GET and POST /account/second-factor: setting up a second factor, removing it, and making recovery codes.

Each is done after the password again, and with a second factor where there is one: a stolen session does none of it.
"""

from fastapi import APIRouter, Request, Response

from service.domains.oauth.proving import prove
from service.domains.oauth.requests import first_of, form_of
from service.domains.oauth.second_factor import NO_STORE, STALE, Step, show_recovery_codes
from service.domains.signin.browsers import Browser
from service.domains.signin.factors import service
from service.domains.signin.factors.enrolment import Enrolment
from service.domains.signin.factors.pending import UNFIT
from service.domains.signin.queries import Person, get_person
from service.domains.signin.refusals import Refused
from service.domains.signin.sessions import SignedIn, find_signed_in
from service.platform.errors import BadRequest
from service.runtime import Runtime
from service.web.dependencies import RuntimeDep
from service.web.pages import page
from service.web.pages.routing import PageRoute, depth_of

PATH = "/account/second-factor"
HERE = "second-factor"

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(PATH)
async def show_factors(request: Request, runtime: RuntimeDep) -> Response:
    """Show which second factor the person who is signed in has."""
    browser = Browser.of(request, runtime)
    person = await find_signed_in(runtime, browser)
    return _to_sign_in() if person is None else await _page(request, runtime, browser, person)


@router.post(PATH)
async def change_factors(request: Request, runtime: RuntimeDep) -> Response:
    """Set up an app, remove it, or make recovery codes."""
    form, browser = first_of(await form_of(request)), Browser.of(request, runtime)
    person = await find_signed_in(runtime, browser)
    if person is None:
        return _to_sign_in()
    if form.get("action") == "addApp":
        return await _add_app(request, runtime, browser, person, form)
    if not browser.is_own_form(runtime, form.get("csrf", ""), purpose=_purpose(person)):
        return await _page(request, runtime, browser, person, STALE)
    proven = await prove(request, runtime, person, form)
    if isinstance(proven, Refused):
        return await _page(request, runtime, browser, person, proven)
    return await _change(request, runtime, browser, person, proven, action=form.get("action"))


async def _change(
    request: Request, runtime: Runtime, browser: Browser, person: SignedIn, proven: Person, *, action: str | None
) -> Response:
    organization_id, whose = person.organization_id, {"principal_id": person.principal_id}
    async with runtime.database.transaction(organization_id) as connection:
        app = (await service.read_factors(connection, organization_id, **whose)).app
        if action == "showApp":
            enrolment = Enrolment.begin(now=await runtime.clock.now(connection))
            return _step(request, runtime, browser).show_new_app(
                proven, enrolment, None, organization_name=person.organization_name
            )
        if action == "makeCodes" and app is not None:
            made = await service.make_recovery_codes(connection, organization_id, **whose)
            return show_recovery_codes(request, made, following=HERE)
        if action == "remove" and app is not None:
            await service.remove_factor(connection, organization_id, **whose, factor_id=app.factor_id)
            return Response(status_code=303, headers={"Location": HERE})
    raise BadRequest("This form has no such button. Go back and try again.")


async def _add_app(
    request: Request, runtime: Runtime, browser: Browser, person: SignedIn, form: dict[str, str]
) -> Response:
    """Set up the app whose secret was shown after the password was given."""
    enrolment = Enrolment(form.get("nonce", ""), form.get("until", ""))
    organization_id, whose = person.organization_id, {"principal_id": person.principal_id}
    async with runtime.database.transaction(organization_id) as connection:
        now = await runtime.clock.now(connection)
        own = enrolment.is_own(runtime, browser, form, **whose, now=now)
        proven = await get_person(connection, organization_id, **whose)
        has = (await service.read_factors(connection, organization_id, **whose)).factors
        if own and proven is not None and not has:
            secret, code = enrolment.secret(runtime, browser), form.get("code", "")
            made = await service.add_app(
                connection, runtime.keys, organization_id, **whose, secret=secret, code=code, now=now
            )
            if made is not None:
                return show_recovery_codes(request, made, following=HERE)
            return _step(request, runtime, browser).show_new_app(
                proven, enrolment, Refused(UNFIT, 403), organization_name=person.organization_name
            )
    return await _page(request, runtime, browser, person, STALE)


def _step(request: Request, runtime: Runtime, browser: Browser) -> Step:
    return Step(request, runtime, browser, action=HERE, done=HERE)


async def _page(
    request: Request, runtime: Runtime, browser: Browser, person: SignedIn, refused: Refused | None = None
) -> Response:
    organization_id, whose = person.organization_id, {"principal_id": person.principal_id}
    async with runtime.database.transaction(organization_id) as connection:
        factors = await service.read_factors(connection, organization_id, **whose)
        is_demanded = await service.must_have_factor(connection, organization_id, is_admin=person.is_admin)
        found = await get_person(connection, organization_id, **whose)
    response = page(
        "second_factors.html",
        depth=depth_of(request),
        status=refused.status if refused else 200,
        headers={**NO_STORE, **(refused.headers if refused else {})},
        organization=person.organization_name,
        person=person.name,
        email=person.email,
        app=factors.app,
        recovery_codes=factors.recovery_codes,
        has_password=found is not None and found.password_hash is not None,
        is_demanded=is_demanded,
        csrf=browser.form_token(runtime, _purpose(person)),
        notice=refused.notice if refused else None,
    )
    response.background = refused.afterwards if refused else None
    return response


def _to_sign_in() -> Response:
    return Response(status_code=303, headers={"Location": "sign-in"})


def _purpose(person: SignedIn) -> str:
    return f"secondFactors\n{person.principal_id}"
