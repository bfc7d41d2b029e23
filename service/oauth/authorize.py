"""GET and POST /api/oauth/authorize: signing in, and being asked (RFC 6749, section 4.1).

Every page's address is the authorization request itself, and its forms go to that address: so two tabs don't know of
each other, going back shows the page anew, and nothing is kept until somebody has signed in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode, urlsplit
from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.oauth_clients import ApiScope
from service.audit.service import Change, record_for
from service.dependencies import RuntimeDep
from service.errors import BadRequest, TooMany
from service.oauth import queries
from service.oauth.grants import CodeGrant
from service.oauth.meanings import meanings_to
from service.oauth.models import Client
from service.oauth.models import Request as OAuthRequest
from service.oauth.requests import Parameters, first_of, form_of, query_of
from service.oauth.scopes import covers
from service.oauth.server import Answer, AuthorizationServer, Unusable
from service.oauth.store import Store, in_thread
from service.pages import page
from service.pages.routing import PageRoute, depth_of
from service.runtime import Runtime
from service.signin.attempts import Attempt, try_password
from service.signin.browsers import Browser
from service.signin.sessions import SignedIn, begin_session, end_session, find_session

# What of `prompt` asks for another person or another sign-in; it is done once somebody has signed in.
PROMPTS_SIGN_IN = frozenset({"login", "select_account"})
WRONG = "The email address or the password is wrong."
STALE = "This page was out of date. Please try again."

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/api/oauth/authorize")
async def authorize(request: Request, runtime: RuntimeDep) -> Response:
    """Ask the person to sign in and to allow what the client asks for; nothing they allowed before is asked again."""
    visit = Visit.of(request, runtime)
    async with runtime.database.transaction(None) as connection:
        asked = await visit.open(connection)
        if isinstance(asked, Answer):
            return visit.redirect(asked)
        return await _next_page(visit, asked)


@router.post("/api/oauth/authorize")
async def decide(request: Request, runtime: RuntimeDep) -> Response:
    """Take what a person did on one of the pages."""
    visit = Visit.of(request, runtime)
    form = first_of(await form_of(request))
    if form.get("action") == "signIn":
        return await _sign_in(visit, form)
    async with runtime.database.transaction(None) as connection:
        asked = await visit.open(connection)
        if isinstance(asked, Answer):
            return visit.redirect(asked)
        if asked.person is None:
            return visit.again()
        if not visit.sent(form, visit.consent_purpose(asked.person)):
            return await _next_page(visit, asked, notice=STALE)
        return await _decided(visit, asked, action=form.get("action"), person=asked.person)


@dataclass(frozen=True)
class Asked:
    """An authorization request of a proven client, in the transaction it is judged in."""

    connection: AsyncConnection
    server: AuthorizationServer
    request: OAuthRequest
    grant: CodeGrant
    person: SignedIn | None
    now: datetime

    @property
    def client(self) -> Client:
        """Who asks."""
        return self.request.client

    @property
    def redirect_uri(self) -> str:
        """Where the answer goes."""
        return self.request.form["redirect_uri"]

    @property
    def prompts(self) -> frozenset[str]:
        """What the client wants the person to be asked, whatever was asked before."""
        return frozenset(self.request.form.get("prompt", "").split(" "))

    @property
    def scopes(self) -> tuple[str, ...]:
        """What the client asks for."""
        return tuple((self.client.get_allowed_scope(self.request.form.get("scope")) or "").split(" "))

    def refuse(self, error: str, description: str) -> Answer:
        """Send the client an error."""
        return self.server.refuse(self.request, error, description)

    async def respond(self, principal_id: UUID | None) -> Answer:
        """Send the client a code for this person, or `access_denied` for nobody."""
        return await in_thread(self.server.respond, self.request, principal_id, self.grant)


@dataclass(frozen=True)
class Visit:
    """A browser at an authorization request's address."""

    request: Request
    runtime: Runtime
    browser: Browser
    parameters: Parameters

    @classmethod
    def of(cls, request: Request, runtime: Runtime, parameters: Parameters | None = None) -> "Visit":
        """The visit that a request is part of; its authorization request is in its query unless it is given."""
        asked = query_of(request) if parameters is None else parameters
        return cls(request, runtime, Browser.of(request, runtime), asked)

    async def open(self, connection: AsyncConnection) -> Asked | Answer:
        """Judge the authorization request, and look who is signed in.

        Raises BadRequest when nobody can be sent back anywhere.
        """
        now = await self.runtime.clock.now(connection)
        server = AuthorizationServer(Store(connection, now), issuer=self.runtime.settings.issuer)
        request = OAuthRequest("GET", parameters=self.parameters)
        try:
            grant = await in_thread(server.open_grant, request)
        except Unusable as error:
            raise BadRequest(
                f"The application you came from sent a request that can't be used. {error.reason} "
                "Tell those who run the application.",
                code="unusable_authorization_request",
            ) from error
        if isinstance(grant, Answer):
            return grant
        person = await find_session(connection, self.browser, now=now)
        return Asked(connection, server, request, grant, person, now)

    @property
    def address(self) -> str:
        """The authorization request, as a link relative to itself."""
        return f"authorize?{urlencode(self.parameters)}"

    def again(self, *, at: str = "authorize") -> Response:
        """Show the next page of the same request, which lies `at` there; what it wanted to have done first is done."""
        parameters = [(name, value) for name, value in self.parameters if name != "prompt"]
        prompts = [value.split(" ") for name, value in self.parameters if name == "prompt"]
        left = [prompt for prompt in (prompts[0] if prompts else []) if prompt not in PROMPTS_SIGN_IN]
        query = urlencode([*parameters, *([("prompt", " ".join(left))] if left else [])])
        return Response(status_code=303, headers={"Location": f"{at}?{query}"})

    def redirect(self, answer: Answer) -> Response:
        """Send the browser to the client; never so that it sends a form on (RFC 9700, section 4.12)."""
        status = 303 if self.request.method == "POST" else 302
        headers = {"Location": answer.location or "", "Referrer-Policy": "no-referrer"}
        return Response(status_code=status, headers=headers)

    def sent(self, form: dict[str, str], purpose: str) -> bool:
        """Whether the form is one of ours, made for this browser."""
        return self.browser.sent(self.runtime, form.get("csrf", ""), purpose=purpose)

    def consent_purpose(self, person: SignedIn) -> str:
        """What a consent form is good for: this very request, of this person."""
        return f"consent\n{person.principal_id}\n{urlencode(self.parameters)}"


async def _next_page(visit: Visit, asked: Asked, *, notice: str | None = None) -> Response:
    person, prompts = asked.person, asked.prompts
    if person is None or prompts & PROMPTS_SIGN_IN:
        if "none" in prompts:
            return visit.redirect(asked.refuse("login_required", "Nobody is signed in."))
        return _sign_in_page(visit, asked, notice=notice)
    scopes = grantable(asked.scopes, person)
    if not scopes:
        return visit.redirect(asked.refuse("access_denied", "Only an admin can allow api:admin."))
    allowed = await queries.get_consent(
        asked.connection,
        person.organization_id,
        principal_id=person.principal_id,
        client_id=asked.client.client_id,
    )
    new = [scope for scope in scopes if not covers(allowed, scope)]
    if not new and "consent" not in prompts:
        asked.request.granted = scopes
        return visit.redirect(await asked.respond(person.principal_id))
    if "none" in prompts:
        return visit.redirect(asked.refuse("consent_required", "The person has not allowed this."))
    return await _consent_page(visit, asked, person=person, new=new if allowed else (), notice=notice)


def grantable(scopes: Sequence[str], person: SignedIn) -> tuple[str, ...]:
    """What this person can allow: `api:admin` only an admin (RFC 6749, section 3.3: the rest is left out)."""
    return tuple(scope for scope in scopes if person.is_admin or scope != ApiScope.ADMIN)


async def _sign_in(visit: Visit, form: dict[str, str]) -> Response:
    async with visit.runtime.database.transaction(None) as connection:
        asked = await visit.open(connection)
    if isinstance(asked, Answer):
        return visit.redirect(asked)
    if not visit.browser.known:
        return _without_cookie(visit)
    if not visit.sent(form, "signIn"):
        # Another tab may have signed in meanwhile: then there is nothing left to ask here.
        return visit.again() if asked.person else _sign_in_page(visit, asked, notice=STALE, status=403)
    email = form.get("email", "")
    attempt = Attempt(
        organization_id=asked.client.organization_id,
        email=email,
        password=SecretStr(form.get("password", "")),
        address=visit.request.client.host if visit.request.client else "unknown",
    )
    try:
        person = await try_password(visit.runtime, attempt)
    except TooMany as error:
        return _sign_in_page(visit, asked, notice=error.message, email=email, status=429, headers=error.headers)
    if person is None:
        return _sign_in_page(visit, asked, notice=WRONG, email=email, status=403)
    async with visit.runtime.database.transaction(person.organization_id) as connection:
        now = await visit.runtime.clock.now(connection)
        browser = await begin_session(connection, visit.browser, person=person, now=now, by_password=True)
    response = visit.again()
    browser.keep(response)
    return response


def _without_cookie(visit: Visit) -> Response:
    """Send on whoever brings no cookie, without giving one: a form on another site would replace the person's."""
    return page(
        "message.html",
        depth=depth_of(visit.request),
        status=403,
        title="Please try again",
        message=STALE,
        hint="If you see this again, let your browser keep cookies of this address until it is closed.",
        again=visit.address,
        request_id=None,
    )


async def _decided(visit: Visit, asked: Asked, *, action: str | None, person: SignedIn) -> Response:
    if action == "allow":
        return await _allow(visit, asked, person=person)
    if action == "deny":
        return visit.redirect(await asked.respond(None))
    if action == "switch":
        await end_session(asked.connection, visit.browser, organization_id=person.organization_id)
        return visit.again()
    raise BadRequest("This form has no such button. Go back and try again.")


async def _allow(visit: Visit, asked: Asked, *, person: SignedIn) -> Response:
    scopes = grantable(asked.scopes, person)
    if not scopes:
        return visit.redirect(asked.refuse("access_denied", "Only an admin can allow api:admin."))
    await queries.put_consent(
        asked.connection,
        person.organization_id,
        principal_id=person.principal_id,
        client_id=asked.client.client_id,
        scopes=scopes,
        now=asked.now,
    )
    change = Change("consent.grant", "oauthClient", asked.client.client_id, details={"scopes": list(scopes)})
    await record_for(asked.connection, person.organization_id, actor_id=person.principal_id, change=change)
    asked.request.granted = scopes
    return visit.redirect(await asked.respond(person.principal_id))


def _sign_in_page(
    visit: Visit,
    asked: Asked,
    *,
    notice: str | None = None,
    email: str = "",
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> Response:
    upstream = visit.runtime.settings.oidc_issuer
    response = page(
        "sign_in.html",
        depth=depth_of(visit.request),
        status=status,
        leads_to=[asked.redirect_uri],
        headers=headers,
        organization=asked.client.organization_name,
        client=asked.client.name,
        action=visit.address,
        csrf=visit.browser.form_token(visit.runtime, "signIn"),
        notice=notice,
        email=email,
        upstream=None if upstream is None else urlsplit(upstream).hostname,
        upstream_address=visit.address.replace("authorize?", "upstream?", 1),
    )
    if not visit.browser.known:
        visit.browser.keep(response)
    return response


async def _consent_page(
    visit: Visit, asked: Asked, *, person: SignedIn, new: Sequence[str], notice: str | None
) -> Response:
    scopes = grantable(asked.scopes, person)
    meanings = await meanings_to(asked.connection, person, scopes=scopes)
    return page(
        "consent.html",
        depth=depth_of(visit.request),
        status=403 if notice else 200,
        leads_to=[asked.redirect_uri],
        organization=person.organization_name,
        person=person.name,
        email=person.email,
        client=asked.client.name,
        scopes=[{"meaning": meaning, "is_new": scope in new} for scope, meaning in zip(scopes, meanings, strict=True)],
        left_out=len(scopes) < len(asked.scopes),
        returns_to=urlsplit(asked.redirect_uri).netloc,
        action=visit.address,
        csrf=visit.browser.form_token(visit.runtime, visit.consent_purpose(person)),
        notice=notice,
    )
