"""GET and POST /account/second-factor: setting up second factors, removing them, and making recovery codes. Each is
done after a passkey, or the password with any second factor: a stolen session does none of it."""

from uuid import UUID

from fastapi import APIRouter, Request, Response

from service.identity_server.oauth.proving import Proof, prove
from service.identity_server.oauth.second_factor import STALE, Step, form_page, name_of, show_recovery_codes
from service.identity_server.requests import first_of, form_of
from service.identity_server.signin.factors import service
from service.identity_server.signin.factors.codes import Enrolment
from service.identity_server.signin.factors.passkeys import Ceremony, RelyingParty, new_passkey_purpose
from service.identity_server.signin.factors.pending import UNFIT
from service.identity_server.signin.queries import Person, get_person
from service.identity_server.signin.refusals import Refused
from service.identity_server.signin.sessions import Browser, SignedIn, find_signed_in
from service.platform.errors import BadRequest
from service.runtime import Runtime
from service.web.dependencies import RuntimeDep
from service.web.pages.routing import PageRoute

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
    """Set up an app or a passkey, remove one, or make recovery codes."""
    form, browser = first_of(await form_of(request)), Browser.of(request, runtime)
    person = await find_signed_in(runtime, browser)
    if person is None:
        return _to_sign_in()
    if form.get("action") == "addApp":
        return await _add_app(request, runtime, browser, person, form)
    if not browser.is_own_form(runtime, form.get("csrf", ""), purpose=_purpose(person)):
        return await _page(request, runtime, browser, person, STALE)
    if form.get("action") == "addPasskey":
        return await _add_passkey(request, runtime, browser, person, form)
    proven = await _prove(request, runtime, browser, person, form)
    if isinstance(proven, Refused):
        return await _page(request, runtime, browser, person, proven)
    return await _change(request, runtime, browser, person, proven, action=form.get("action", ""))


async def _prove(
    request: Request, runtime: Runtime, browser: Browser, person: SignedIn, form: dict[str, str]
) -> Person | Refused:
    # A new proof takes a passkey, and no earlier proof, which would last for ever.
    if "proof" not in form or form.get("action") == "passkey":
        return await prove(request, runtime, browser, person, form, purpose=_purpose(person))
    proof = Proof(form["proof"], form.get("until", ""))
    async with runtime.database.transaction(person.organization_id) as connection:
        counts = proof.counts(runtime, browser, person, now=await runtime.clock.now(connection))
        found = await get_person(connection, person.organization_id, principal_id=person.principal_id)
    return found if found is not None and counts else STALE


async def _change(
    request: Request, runtime: Runtime, browser: Browser, person: SignedIn, proven: Person, *, action: str
) -> Response:
    organization_id, whose = person.organization_id, {"principal_id": person.principal_id}
    name = person.organization_name
    if action == "passkey":
        return await _page(request, runtime, browser, person, is_proven=True)
    async with runtime.database.transaction(organization_id) as connection:
        now = await runtime.clock.now(connection)
        had = await service.read_factors(connection, organization_id, **whose)
        if action == "showApp" and had.app is None:
            step = _step(request, runtime, browser)
            return step.show_new_app(proven, Enrolment.begin(now=now), None, organization_name=name)
        if action == "showPasskey":
            step, csrf = _step(request, runtime, browser), browser.form_token(runtime, _purpose(person))
            return step.show_new_passkey(proven, had.factors, organization_name=name, csrf=csrf, now=now)
        if action == "makeCodes" and had.factors:
            made = await service.make_recovery_codes(connection, organization_id, **whose)
            return show_recovery_codes(request, made, following=HERE)
        if (factor_id := _parse_removal(action)) is not None:
            await service.remove_factor(connection, organization_id, **whose, factor_id=factor_id)
            return Response(status_code=303, headers={"Location": HERE})
    raise BadRequest("This form has no such button. Go back and try again.")


def _parse_removal(action: str) -> UUID | None:
    try:
        return UUID(action.removeprefix("remove ")) if action.startswith("remove ") else None
    except ValueError:
        return None


async def _add_passkey(
    request: Request, runtime: Runtime, browser: Browser, person: SignedIn, form: dict[str, str]
) -> Response:
    """Add the passkey that was made on the page which is shown after the proof: no other page has its challenge."""
    organization_id, principal_id = person.organization_id, person.principal_id
    async with runtime.database.transaction(organization_id) as connection:
        made = await service.add_passkey(
            connection,
            Ceremony(runtime, browser, new_passkey_purpose(principal_id)),
            organization_id,
            principal_id=principal_id,
            answer=form.get("credential", ""),
            name=name_of(form),
            now=await runtime.clock.now(connection),
        )
    if isinstance(made, service.Rejected):
        return await _page(request, runtime, browser, person, Refused(made.notice, 403))
    return show_recovery_codes(request, made, following=HERE)


async def _add_app(
    request: Request, runtime: Runtime, browser: Browser, person: SignedIn, form: dict[str, str]
) -> Response:
    enrolment = Enrolment(form.get("nonce", ""), form.get("until", ""))
    organization_id, whose = person.organization_id, {"principal_id": person.principal_id}
    async with runtime.database.transaction(organization_id) as connection:
        now = await runtime.clock.now(connection)
        own = enrolment.is_own(runtime, browser, form, **whose, now=now)
        proven = await get_person(connection, organization_id, **whose)
        has_app = (await service.read_factors(connection, organization_id, **whose)).app is not None
        if own and proven is not None and not has_app:
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
    request: Request,
    runtime: Runtime,
    browser: Browser,
    person: SignedIn,
    refused: Refused | None = None,
    *,
    is_proven: bool = False,
) -> Response:
    organization_id, whose = person.organization_id, {"principal_id": person.principal_id}
    async with runtime.database.transaction(organization_id) as connection:
        now = await runtime.clock.now(connection)
        factors = await service.read_factors(connection, organization_id, **whose)
        is_demanded = await service.must_have_factor(connection, organization_id, is_admin=person.is_admin)
        found = await get_person(connection, organization_id, **whose)
    proof = Proof.make(runtime, browser, person, now=now) if is_proven else None
    asks = factors.passkeys and not is_proven
    return form_page(
        "second_factors.html",
        request,
        refused,
        organization=person.organization_name,
        person=person.name,
        email=person.email,
        app=factors.app,
        factors=factors.factors,
        takes_passkeys=RelyingParty.of(runtime.settings) is not None,
        asked=Ceremony(runtime, browser, _purpose(person)).ask(now=now, factors=factors.passkeys) if asks else None,
        proof=proof and proof.token,
        until=proof and proof.until,
        recovery_codes=factors.recovery_codes,
        has_password=found is not None and found.password_hash is not None,
        is_demanded=is_demanded,
        csrf=browser.form_token(runtime, _purpose(person)),
    )


def _to_sign_in() -> Response:
    return Response(status_code=303, headers={"Location": "sign-in"})


def _purpose(person: SignedIn) -> str:
    return f"secondFactors\n{person.principal_id}"
