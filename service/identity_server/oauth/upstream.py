"""Sign-in with another provider. The signed `state`, bound to a browser, and a key yield verifier and nonce."""

import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from fastapi import APIRouter, Request, Response
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.fields import normal_email
from service.identity_server.oauth.account import find_organization
from service.identity_server.oauth.server import Answer
from service.identity_server.oauth.visits import PROMPTS_SIGN_IN, Visit, VisitorDep
from service.identity_server.requests import Parameters, first_of, query_of
from service.identity_server.signin.id_tokens import NotVouched
from service.identity_server.signin.provider import ERROR_NAME, Proof, ProviderAway, SignedInThere, open_provider
from service.identity_server.signin.providers.binding import find_or_bind, update_memberships
from service.identity_server.signin.providers.queries import ChosenProvider, enter_by_domain, enter_by_provider
from service.identity_server.signin.providers.refusals import record_refusal, refusal_of
from service.identity_server.signin.providers.registrations import Registered, open_registration, unknown_provider
from service.identity_server.signin.sessions import Browser, Visitor, begin_session
from service.platform import base64url
from service.platform.errors import BadRequest, ServiceError, require
from service.web.pages.routing import Link, PageRoute, address_from, lead_to, link_to_account, problem

LONGEST = timedelta(minutes=15)
# The member of a state for a sign-in to an account, with the organization, instead of an authorization request.
ACCOUNT = "account"
# The application's session to confirm, if that is the reason for the sign-in.
CONFIRM = "confirm"

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@dataclass(frozen=True)
class _Begun:
    parameters: Parameters
    chosen: ChosenProvider | None
    at: datetime

    @property
    def must_be_new(self) -> bool:
        """Whether the provider must ask the person to prove their identity again, even with a live session."""
        return not {CONFIRM, "max_age"}.isdisjoint(name for name, _ in self.parameters)


@dataclass(frozen=True)
class _Arrival:
    visitor: Visitor
    begun: _Begun
    registered: Registered

    async def vouch(self, *, code: str, state: str, issuer: str | None) -> SignedInThere:
        async with open_provider(self.registered.registration, self.visitor.runtime) as provider:
            proof = _proof(self.visitor, state)
            return await provider.subject(code, proof, issuer=issuer, needs=self.registered.needed_claims())

    async def go_on(self, vouched: SignedInThere) -> Response:
        """Sign the person in, and redirect to the application or account. Raises NotVouched and BadRequest."""
        parameters = dict(self.begun.parameters)
        if "client_id" in parameters:
            return await self._go_to_application(vouched)
        organization_id = (
            self.begun.chosen.organization_id
            if self.begun.chosen
            else await find_organization(self.visitor.runtime, parameters[ACCOUNT])
        )
        if organization_id is None:
            raise NotVouched("unknown")
        family = parameters.get(CONFIRM)
        page = "consents" if family is None else f"confirm?{urlencode({'session': family})}"
        async with self.visitor.runtime.database.transaction(organization_id) as connection:
            renewed = await self._begin_session(connection, organization_id, vouched)
        return renewed.keep(lead_to(f"../../../account/{page}"))

    async def _go_to_application(self, vouched: SignedInThere) -> Response:
        visit = Visit.of(self.visitor, self.begun.parameters)
        async with self.visitor.runtime.database.transaction(None) as connection:
            asked = await visit.open(connection)
            if isinstance(asked, Answer):
                return visit.redirect(asked)
            organization_id = asked.client.organization_id
            if self.begun.chosen and self.begun.chosen.organization_id != organization_id:
                raise _stale_sign_in()
            renewed = await self._begin_session(connection, organization_id, vouched)
        return renewed.keep(visit.show_next(at="../authorize"))

    async def _begin_session(self, connection: Connection, organization_id: UUID, vouched: SignedInThere) -> Browser:
        now = await self.visitor.runtime.clock.now(connection)
        stored, subject, details = self.registered.stored, vouched.subject, dict[str, str]()
        try:
            proven_at = subject.proven_at(now, not_before=self.begun.at if self.begun.must_be_new else None)
            person = await find_or_bind(connection, organization_id, provider=stored, subject=subject, now=now)
        except NotVouched as error:
            error.organization_id = organization_id
            raise
        if stored is not None:
            details = await update_memberships(
                connection, organization_id, provider=stored, person_id=person.principal_id, claims=subject.claims
            )
        there = self.registered.session(self.visitor.runtime, vouched)
        return await begin_session(
            connection,
            self.visitor.browser,
            person=person,
            now=now,
            by="openIdConnect",
            proven_at=proven_at,
            provider=there,
            details=details,
        )


@router.get("/api/oauth/upstream/callback")
async def come_back(visitor: VisitorDep) -> Response:
    """Sign in the person vouched for by the provider, and continue to the application or account; or show a refusal."""
    request, given = visitor.request, first_of(query_of(visitor.request))
    async with visitor.runtime.database.transaction(None) as connection:
        now = await visitor.runtime.clock.now(connection)
    try:
        begun = _require_state(visitor, given.get("state", ""), now=now)
    except BadRequest as error:
        return _not_signed_in(request, error, link_to_account(request))
    try:
        return await _arrive(visitor, begun, given)
    except ServiceError as error:
        return _not_signed_in(request, error, _way_back(request, begun))


async def _arrive(visitor: Visitor, begun: _Begun, given: Mapping[str, str]) -> Response:
    runtime, address = visitor.runtime, visitor.sender
    registered = await open_registration(runtime, begun.chosen)
    _require_code(given, registered.issuer)
    arrival = _Arrival(visitor, begun, registered)
    await runtime.rate_limits.require_few_refused_sign_ins(address)
    try:
        vouched = await arrival.vouch(code=given["code"], state=given["state"], issuer=given.get("iss"))
        return await arrival.go_on(vouched)
    except (NotVouched, ProviderAway) as error:
        if isinstance(error, NotVouched):
            await record_refusal(runtime, registered.stored, error, address=address)
            await runtime.rate_limits.count_refused_sign_in(address)
        raise refusal_of(error) from error


def _require_code(given: Mapping[str, str], issuer: str) -> None:
    """Refuse an answer without a code (RFC 6749, section 4.1.2.1), or from another provider (RFC 9207)."""
    if given.get("iss", issuer) != issuer:
        raise BadRequest("The answer came from another provider. Start the sign-in again.", code="upstream_refused")
    if given.get("error") == "access_denied":
        raise BadRequest(
            "The provider denied access. If you did not decline there yourself, ask an admin of your organization.",
            code="upstream_refused",
        )
    if "code" not in given:
        said = given.get("error", "")
        named = f" ({said})" if ERROR_NAME.fullmatch(said) else ""
        message = f"The provider could not sign you in{named}. Try again, or ask an admin of your organization."
        raise BadRequest(message, code="upstream_refused")


def _not_signed_in(request: Request, error: ServiceError, link: Link) -> Response:
    return problem(request, error, links=[link], title="You are not signed in")


def _way_back(request: Request, begun: _Begun) -> Link:
    parameters = dict(begun.parameters)
    if "client_id" in parameters:
        path = f"api/oauth/authorize?{urlencode(begun.parameters)}"
    else:
        confirmed = parameters.get(CONFIRM)
        path = "account/sign-in" + (f"?{urlencode({CONFIRM: confirmed})}" if confirmed else "")
    return address_from(request, path), "Try again, or sign in another way"


@router.get("/api/oauth/upstream")
@router.get("/api/oauth/upstream/{provider_id:uuid}")
async def leave(visitor: VisitorDep) -> Response:
    """Redirect to a provider, by default that of the settings, on the way to a proven application."""
    visit, provider_id = Visit.of(visitor), visitor.request.path_params.get("provider_id")
    async with visit.runtime.database.transaction(None) as connection:
        asked = await visit.open(connection)
    if isinstance(asked, Answer):
        return visit.redirect(asked)
    chosen = None if provider_id is None else ChosenProvider(asked.client.organization_id, provider_id)
    prompt = next(iter(sorted(asked.prompts & PROMPTS_SIGN_IN)), None)
    begun = _Begun(visit.parameters, chosen, asked.now)
    return await _redirect_to_provider(visitor, begun, prompt=prompt)


@router.get("/account/upstream")
@router.get("/account/upstream/{provider_id:uuid}")
async def leave_for_account(visitor: VisitorDep) -> Response:
    """Redirect to the provider of the path, or deciding about the person's address, by default of the settings."""
    request, given = visitor.request, first_of(query_of(visitor.request))
    email, organization, chosen = given.get("email"), given.get("organization", "-"), None
    provider_id = request.path_params.get("provider_id")
    async with visitor.runtime.database.transaction(None) as connection:
        now = await visitor.runtime.clock.now(connection)
        if provider_id is not None:
            chosen = require(await enter_by_provider(connection, provider_id=provider_id), unknown_provider())
        elif email is not None:
            domain = normal_email(email).rpartition("@")[2]
            chosen = await enter_by_domain(connection, domain=domain) if "\0" not in domain else None
            if chosen is None:
                back = _way_back(request, _Begun(_confirmed_next(given), None, now))
                message = "No provider has this domain. Sign in with your password, or ask an admin."
                return _not_signed_in(request, BadRequest(message, code="unknown_sign_in_domain"), back)
    begun = _Begun([(ACCOUNT, organization), *_confirmed_next(given)], chosen, now)
    return await _redirect_to_provider(visitor, begun, hint=email)


def _confirmed_next(given: Mapping[str, str]) -> Parameters:
    return [(CONFIRM, given[CONFIRM])] if CONFIRM in given else []


async def _redirect_to_provider(
    visitor: Visitor, begun: _Begun, *, prompt: str | None = None, hint: str | None = None
) -> Response:
    request, runtime = visitor.request, visitor.runtime
    chosen = [] if begun.chosen is None else [str(begun.chosen.organization_id), str(begun.chosen.provider_id)]
    content = json.dumps(
        [secrets.token_urlsafe(16), begun.at.timestamp(), urlencode(begun.parameters), *chosen]
    ).encode()
    payload = base64url.encode(content)
    signature = _secret(visitor, f"state\n{payload}")
    state = f"{payload}.{signature}"
    try:
        registered = await open_registration(runtime, begun.chosen)
        async with open_provider(registered.registration, runtime) as provider:
            proof = _proof(visitor, state)
            address = await provider.sign_in_address(
                proof, state=state, prompt=prompt, hint=hint, must_be_new=begun.must_be_new
            )
    except (ProviderAway, ServiceError) as error:
        refused = refusal_of(error) if isinstance(error, ProviderAway) else error
        return _not_signed_in(request, refused, _way_back(request, begun))
    response = Response(status_code=302, headers={"Location": address, "Referrer-Policy": "no-referrer"})
    return visitor.browser.keep_new(response)


def _proof(visitor: Visitor, state: str) -> Proof:
    return Proof(verifier=_secret(visitor, f"verifier\n{state}"), nonce=_secret(visitor, f"nonce\n{state}"))


def _require_state(visitor: Visitor, state: str, *, now: datetime) -> _Begun:
    payload, _, signature = state.partition(".")
    expected = _secret(visitor, f"state\n{payload}")
    if not visitor.browser.known or not hmac.compare_digest(expected.encode(), signature.encode()):
        raise _stale_sign_in()
    _, begun_at, query, *chosen = json.loads(base64url.decode(payload))
    if now.timestamp() - begun_at > LONGEST.total_seconds():
        raise _stale_sign_in()
    provider = ChosenProvider(UUID(chosen[0]), UUID(chosen[1])) if chosen else None
    return _Begun(parse_qsl(query), provider, datetime.fromtimestamp(begun_at, UTC))


def _secret(visitor: Visitor, purpose: str) -> str:
    return base64url.encode(visitor.derive("upstream sign-in", purpose))


def _stale_sign_in() -> BadRequest:
    return BadRequest(
        "This sign-in was finished, has expired, or was started in another browser. Go back to the application and "
        "start again.",
        code="stale_sign_in",
    )
