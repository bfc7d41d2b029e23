"""An authorization request and the requesting browser (RFC 6749, section 4.1.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated
from urllib.parse import urlencode
from uuid import UUID

from fastapi import Depends, Request, Response
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.identity_server.oauth.client_documents import is_address
from service.identity_server.oauth.describing import with_client_of
from service.identity_server.oauth.grants import CodeGrant
from service.identity_server.oauth.models import Client
from service.identity_server.oauth.models import Request as OAuthRequest
from service.identity_server.oauth.server import Answer, AuthorizationServer, Unusable
from service.identity_server.oauth.store import Store, in_thread
from service.identity_server.requests import Parameters, first_of, query_of
from service.identity_server.signin.sessions import Browser, SignedIn, Visitor, find_session
from service.platform.errors import BadRequest
from service.platform.networks import without_local_port
from service.web.dependencies import RuntimeDep
from service.web.pages.routing import lead_to

# Values of `prompt` that demand a new sign-in or another person; the sign-in fulfils them.
PROMPTS_SIGN_IN = frozenset({"login", "select_account"})


async def current_visitor(request: Request, runtime: RuntimeDep) -> Visitor:
    return Visitor(request, runtime, Browser.of(request, runtime))


VisitorDep = Annotated[Visitor, Depends(current_visitor)]


@dataclass(frozen=True)
class AuthorizationRequest:
    """An authorization request of a proven client, in the transaction judging it."""

    connection: Connection
    server: AuthorizationServer
    request: OAuthRequest
    grant: CodeGrant
    person: SignedIn | None
    now: datetime

    @property
    def client(self) -> Client:
        return self.request.client

    @property
    def redirect_uri(self) -> str:
        return self.request.form["redirect_uri"]

    @property
    def prompts(self) -> frozenset[str]:
        """The client's `prompt` values."""
        return frozenset(self.request.form.get("prompt", "").split(" "))

    @property
    def scopes(self) -> tuple[str, ...]:
        return tuple((self.client.get_allowed_scope(self.request.form.get("scope")) or "").split(" "))

    @property
    def may_be_another_program(self) -> bool:
        """Whether an unauthenticated local program gets the response: always ask then (RFC 8252, section 8.6)."""
        return self.client.is_public and without_local_port(self.redirect_uri) is not None

    def is_workbench(self, address: str | None) -> bool:
        """Return whether the client is the workbench. The workbench needs no consent: codes go only to the workbench's
        address, and tokens need the secret."""
        own = self.client.is_confidential_at([f"{address}/oauth/callback"])
        return address is not None and own

    def is_too_old(self, person: SignedIn) -> bool:
        """Return whether the client wants a newer sign-in than the person's (`max_age`, RFC 9470, section 4)."""
        most = self.request.form.get("max_age", "")
        if not (most.isascii() and most.isdecimal()):
            return False
        return person.confirmed_at is None or (self.now - person.confirmed_at).total_seconds() > int(most)

    def grant_scopes(self, scopes: Sequence[str], person: SignedIn) -> None:
        self.request.granted, self.request.confirmed_at = tuple(scopes), person.confirmed_at

    def refuse(self, error: str, description: str) -> Answer:
        return self.server.refuse(self.request, error, description)

    async def respond(self, principal_id: UUID | None) -> Answer:
        """Redirect to the client with a code for this person, or with `access_denied` for None."""
        return await in_thread(self.server.respond, self.request, principal_id, self.grant)


@dataclass(frozen=True)
class Visit(Visitor):
    """A browser at the address of an authorization request."""

    parameters: Parameters

    @classmethod
    def of(cls, visitor: Visitor, parameters: Parameters | None = None) -> "Visit":
        """Build the visit of a request; the authorization request is `parameters`, by default the request's query."""
        asked = query_of(visitor.request) if parameters is None else parameters
        return cls(visitor.request, visitor.runtime, visitor.browser, asked)

    async def open(self, connection: Connection) -> AuthorizationRequest | Answer:
        """Return the judged request and its person, or an error. Raises BadRequest if redirecting isn't allowed."""
        now = await self.runtime.clock.now(connection)
        named = first_of(self.parameters).get("client_id", "")
        server = AuthorizationServer(Store(connection, now, named=named), issuer=self.runtime.settings.issuer)
        known = await find_session(connection, self.browser, now=now) if is_address(named) else None
        request = OAuthRequest("GET", parameters=await with_client_of(connection, self.parameters, known))
        try:
            grant = await in_thread(server.open_grant, request)
        except Unusable as error:
            raise BadRequest(
                f"The application you came from sent an invalid request. {error.reason} Tell the operators of that "
                "application.",
                code="unusable_authorization_request",
            ) from error
        if isinstance(grant, Answer):
            return grant
        person = await find_session(connection, self.browser, now=now)
        return AuthorizationRequest(connection, server, request, grant, person, now)

    @property
    def address(self) -> str:
        """The authorization request as a relative link to itself."""
        return f"authorize?{urlencode(self.parameters)}"

    def show_next(self, *, at: str = "authorize") -> Response:
        """Redirect to the request's next page, at the address `at`, without the prompts already done."""
        return lead_to(self.next_address(at=at))

    def next_address(self, *, at: str = "authorize") -> str:
        parameters = [(name, value) for name, value in self.parameters if name not in {"prompt", "max_age"}]
        prompts = [value.split(" ") for name, value in self.parameters if name == "prompt"]
        left = [prompt for prompt in (prompts[0] if prompts else []) if prompt not in PROMPTS_SIGN_IN]
        query = urlencode([*parameters, *([("prompt", " ".join(left))] if left else [])])
        return f"{at}?{query}"

    def redirect(self, answer: Answer) -> Response:
        """Redirect the browser to the client, never repeating a form there (RFC 9700, section 4.12)."""
        status = 303 if self.request.method == "POST" else 302
        headers = {"Location": answer.location or "", "Referrer-Policy": "no-referrer"}
        return Response(status_code=status, headers=headers)

    def consent_purpose(self, person: SignedIn) -> str:
        return f"consent\n{person.principal_id}\n{urlencode(self.parameters)}"
