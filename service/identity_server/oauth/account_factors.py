"""GET and POST /account/second-factor. Changes need a passkey, or password and factor: a session isn't enough."""

from fastapi import APIRouter, Response

from service.identity_server.oauth.proving import Proof, prove
from service.identity_server.oauth.second_factor import STALE, Step, form_page, passkey_name_of, show_recovery_codes
from service.identity_server.oauth.visits import VisitorDep
from service.identity_server.requests import first_of, form_of
from service.identity_server.signin.attempts import Refused
from service.identity_server.signin.factors import service
from service.identity_server.signin.factors.codes import Enrolment
from service.identity_server.signin.factors.passkeys import Ceremony, RelyingParty, new_passkey_purpose
from service.identity_server.signin.factors.pending import UNFIT
from service.identity_server.signin.queries import Person, get_person
from service.identity_server.signin.sessions import OwnPage, SignedIn
from service.platform.errors import BadRequest
from service.platform.identifiers import to_uuid
from service.web.pages.routing import PageRoute, lead_to

PATH = "/account/second-factor"
HERE = "second-factor"

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(PATH)
async def show_factors(visitor: VisitorDep) -> Response:
    page = await OwnPage.open(visitor)
    return lead_to("sign-in") if page is None else await _show(page)


@router.post(PATH)
async def change_factors(visitor: VisitorDep) -> Response:
    """Add or remove a second factor, or make recovery codes, after a proof of identity. Raises BadRequest."""
    form, page = first_of(await form_of(visitor.request)), await OwnPage.open(visitor)
    if page is None:
        return lead_to("sign-in")
    if form.get("action") == "addApp":
        return await _add_app(page, form)
    if not page.is_own_form(form, _purpose(page.person)):
        return await _show(page, STALE)
    if form.get("action") == "addPasskey":
        return await _add_passkey(page, form)
    proven = await _prove(page, form)
    if isinstance(proven, Refused):
        return await _show(page, proven)
    return await _change(page, proven, action=form.get("action", ""))


async def _prove(page: OwnPage, form: dict[str, str]) -> Person | Refused:
    # A new passkey needs a new proof: an earlier proof could be renewed for ever.
    if "proof" not in form or form.get("action") == "passkey":
        return await prove(page, form, purpose=_purpose(page.person))
    proof = Proof(form["proof"], form.get("until", ""))
    async with page.transaction() as connection:
        counts = proof.is_valid(page, now=await page.runtime.clock.now(connection))
        found = await get_person(connection, **page.whose)
    return found if found is not None and counts else STALE


async def _change(page: OwnPage, proven: Person, *, action: str) -> Response:
    if action == "passkey":
        return await _show(page, is_proven=True)
    step, name = _step(page), page.person.organization_name
    async with page.transaction() as connection:
        now = await page.runtime.clock.now(connection)
        had = await service.read_factors(connection, **page.whose)
        if action == "showApp" and had.app is None:
            return step.show_new_app(proven, Enrolment.begin(now=now), None, organization_name=name)
        if action == "showPasskey":
            csrf = page.form_token(_purpose(page.person))
            return step.show_new_passkey(proven, had.factors, organization_name=name, csrf=csrf, now=now)
        if action == "makeCodes" and had.factors:
            made = await service.make_recovery_codes(connection, **page.whose)
            return show_recovery_codes(page.request, made, following=HERE)
        if (factor_id := to_uuid(action.partition("remove ")[2])) is not None:
            await service.remove_factor(connection, **page.whose, factor_id=factor_id)
            return lead_to(HERE)
    raise BadRequest("This form has no such button. Go back and try again.")


async def _add_passkey(page: OwnPage, form: dict[str, str]) -> Response:
    """Add a passkey made on the page shown after the proof: only that page has the challenge."""
    async with page.transaction() as connection:
        made = await service.add_passkey(
            connection,
            Ceremony(page, new_passkey_purpose(page.person.principal_id)),
            **page.whose,
            answer=form.get("credential", ""),
            name=passkey_name_of(form),
            now=await page.runtime.clock.now(connection),
        )
    if isinstance(made, service.Rejected):
        return await _show(page, Refused(made.notice, 403))
    return show_recovery_codes(page.request, made, following=HERE)


async def _add_app(page: OwnPage, form: dict[str, str]) -> Response:
    runtime, person = page.runtime, page.person
    enrolment = Enrolment(form.get("nonce", ""), form.get("until", ""))
    async with page.transaction() as connection:
        now = await runtime.clock.now(connection)
        own = enrolment.is_own(page, form, principal_id=person.principal_id, now=now)
        proven = await get_person(connection, **page.whose)
        has_app = (await service.read_factors(connection, **page.whose)).app is not None
        if own and proven is not None and not has_app:
            secret, code = enrolment.secret(page), form.get("code", "")
            made = await service.add_app(connection, runtime.keys, **page.whose, secret=secret, code=code, now=now)
            if made is not None:
                return show_recovery_codes(page.request, made, following=HERE)
            return _step(page).show_new_app(
                proven, enrolment, Refused(UNFIT, 403), organization_name=person.organization_name
            )
    return await _show(page, STALE)


def _step(page: OwnPage) -> Step:
    return Step(page, action=HERE, done=HERE)


async def _show(page: OwnPage, refused: Refused | None = None, *, is_proven: bool = False) -> Response:
    person = page.person
    async with page.transaction() as connection:
        now = await page.runtime.clock.now(connection)
        factors = await service.read_factors(connection, **page.whose)
        is_demanded = await service.must_have_factor(connection, person.organization_id, is_admin=person.is_admin)
        found = await get_person(connection, **page.whose)
    proof = Proof.make(page, now=now) if is_proven else None
    asks = factors.passkeys and not is_proven
    return form_page(
        "second_factors.html",
        page.request,
        refused,
        person=person,
        has=factors,
        takes_passkeys=RelyingParty.of(page.runtime.settings) is not None,
        asked=Ceremony(page, _purpose(person)).ask(now=now, factors=factors.passkeys) if asks else None,
        proof=proof,
        has_password=found is not None and found.password_hash is not None,
        is_demanded=is_demanded,
        csrf=page.form_token(_purpose(person)),
    )


def _purpose(person: SignedIn) -> str:
    return f"secondFactors\n{person.principal_id}"
