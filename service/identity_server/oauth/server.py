# pyright: reportUnknownMemberType=false, reportIncompatibleMethodOverride=false, reportUnknownVariableType=false
# Authlib has no types, and its base classes name some parameters differently.
"""Authlib's authorization server with Carrel's tables, in a thread (`store.in_thread`); the event loop runs the SQL."""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote_plus
from uuid import UUID

from authlib.oauth2 import AuthorizationServer as AuthlibServer
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749.errors import InvalidClientError, InvalidGrantError, InvalidRequestError, InvalidScopeError
from authlib.oauth2.rfc6750 import BearerTokenGenerator

from service.auth import lifetimes
from service.auth.audiences import PREFIXES, names_resource, resource_of
from service.identity_server.oauth import grants
from service.identity_server.oauth.client_documents import is_address
from service.identity_server.oauth.models import Client, Code, Request, Token
from service.identity_server.oauth.store import Store
from service.identity_server.requests import Parameters, with_parameters
from service.platform import secrets

# The characters of an error description (RFC 6749, section 5.2).
NOT_DESCRIPTIVE = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")
NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}
# Errors that Authlib describes badly or not at all.
DESCRIPTIONS = {
    "Invalid 'redirect_uri' in request.": "Send the same redirect_uri as in the authorization request.",
    "invalid_grant": "The code or token is unknown, used, expired or revoked. Send the person to authorize again.",
    "unsupported_grant_type": (
        "Set grant_type to authorization_code or refresh_token. A program without a person sends an API key or a "
        "service-account token to /api/v0."
    ),
}
CHALLENGE_BASIC = 'Basic realm="OAuth clients", charset="UTF-8"'


@dataclass(frozen=True)
class Answer:
    """An endpoint's answer: a redirect if `location` is set, otherwise `body` as JSON."""

    status: int
    body: Mapping[str, object] = field(default_factory=dict[str, object])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    location: str | None = None


class Unusable(Exception):  # noqa: N818 - what the request is
    """An authorization request without a proven client or redirect URI: redirecting is not allowed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AuthorizationServer(AuthlibServer):
    """Authlib's authorization server with Carrel's store, for one request."""

    def __init__(self, store: Store, *, issuer: str) -> None:
        super().__init__()
        self.store = store
        self._issuer = issuer
        seconds = int(lifetimes.ACCESS_TOKEN.total_seconds())
        generator = BearerTokenGenerator(_mint_access_token, _mint_refresh_token, lambda *_: seconds)  # pyright: ignore
        self.register_token_generator("default", generator)
        self.register_grant(grants.CodeGrant, [grants.judge_parameters, grants.S256Required()])  # pyright: ignore
        self.register_grant(grants.RefreshGrant)
        self.register_endpoint(grants.Revocation)

    def open_grant(self, request: Request) -> "grants.CodeGrant | Answer":
        """Return a grant to ask about, or an error. Raises Unusable if redirecting is forbidden (RFC 6749, 4.1.2.1)."""
        try:
            return self.get_consent_grant(request)
        except OAuth2Error as error:
            if error.redirect_uri:
                return self.handle_error_response(request, error)
            raise Unusable(_reason(request)) from error

    def respond(self, request: Request, principal_id: UUID | None, grant: grants.CodeGrant) -> Answer:
        """Redirect with a code for the granted scopes, or with `access_denied` if `principal_id` is None."""
        return cast("Answer", self.create_authorization_response(request, principal_id, grant))

    def refuse(self, request: Request, error: str, description: str) -> Answer:
        parameters = [("error", error), ("error_description", description)]
        return Answer(302, location=self.callback(request.form["redirect_uri"], parameters, request))

    def token(self, request: Request) -> Answer:
        """Answer a request to the token endpoint (RFC 6749, sections 3.2, 5 and 6)."""
        if (problem := grants.malformed(request)) is not None:
            return self.handle_error_response(request, problem)
        return cast("Answer", self.create_token_response(request))

    def revocation(self, request: Request) -> Answer:
        if any(len(values) > 1 for values in request.values.values()):
            return self.handle_error_response(request, grants.repeated_parameter())
        if self._is_described(request) and is_address(request.form["client_id"]) and "token" in request.form:
            return Answer(200, headers=NO_STORE)  # no organization has this token
        return cast("Answer", self.create_endpoint_response("revocation", request))

    def query_client(self, client_id: str | None) -> Client | None:
        return self.store.client(client_id)

    def authenticate_client(self, request: Request, *_: object) -> Client:
        """Return the client, proven by HTTP Basic or form, not both (RFC 6749, section 2.3). Raises
        InvalidRequestError, InvalidClientError, and InvalidGrantError for a described client: only its code or token
        names the organization."""
        authorization = request.headers.get("authorization")
        form = request.form
        if authorization is not None and "client_secret" in form:
            raise InvalidRequestError("Send the client's secret once: in the Authorization header, or in the form.")
        client_id, secret = _basic(authorization) if authorization else (form.get("client_id"), None)
        client = self.query_client(client_id)
        if client is None and self._is_described(request):
            raise InvalidGrantError
        if client is None or not client.check_client_secret(secret or form.get("client_secret", "")):
            raise InvalidClientError(
                "The client is unknown or not approved, or its secret (svc_cs_) is wrong or missing. Compare them with "
                "the page OAuth clients."
            )
        if form.get("client_id", client_id) != client_id:
            raise InvalidRequestError("The form names another client than the Authorization header.")
        self.require_resource(request, client)
        return client

    def _is_described(self, request: Request) -> bool:
        """Return whether the client is named by a document's address and sends no credentials."""
        is_proven = "client_secret" in request.form or "authorization" in request.headers
        return is_address(self.store.named) and not is_proven

    def require_resource(self, request: Request, client: Client) -> None:
        """Raise InvalidTargetError unless each `resource` of a request is the resource of the client's tokens."""
        for resource in request.values.get("resource", ()):
            if not names_resource(resource, client.audience, self._issuer):
                raise grants.InvalidTargetError(
                    f"This client's tokens are for {resource_of(client.audience, self._issuer)}."
                )

    def generate_token(self, *args: Any, scope: str, **options: Any) -> Any:
        """Generate tokens. Raises InvalidScopeError without scopes: Authlib would grant all of the client's scopes."""
        if not scope:
            raise InvalidScopeError("The client is not registered for any scope that the person allowed. Ask an admin.")
        return super().generate_token(*args, scope=scope, **options)

    def save_token(self, token: Mapping[str, str], request: Request) -> None:
        """Mark the code or refresh token as used, then store the new tokens; after the marking no step can fail."""
        client = cast("Client", request.client)
        code = cast("Code | None", request.authorization_code)
        if code is not None:
            source, family_id = code, self.store.begin_family(code, client)
        else:
            source = cast("Token", request.refresh_token)
            family_id = self.store.continue_family(source, client)
        self.store.keep_tokens(token, client=client, family_id=family_id, principal_id=source.row.principal_id)

    def create_oauth2_request(self, request: Request) -> Request:
        """Return the request: it already has the right class."""
        return request

    def send_signal(self, name: str, *args: object, **kwargs: object) -> None:
        """Do nothing: there are no listeners."""

    def handle_response(self, status: int, body: Any, headers: list[tuple[str, str]]) -> Answer:
        if (location := dict(headers).get("Location")) is not None:
            return Answer(status, location=location)
        return Answer(status, body, NO_STORE)

    def handle_error_response(self, request: Request, error: OAuth2Error) -> Answer:
        """Convert an error to an Answer (RFC 6749, sections 4.1.2.1, 5.2), repeating only scopes of the request."""
        # Authlib says Invalid "code" in request for every problem with a code.
        given = error.description or ""
        said = "" if given.startswith("Invalid ") else given
        description = said or DESCRIPTIONS.get(given) or DESCRIPTIONS.get(str(error.error), "") or given
        if (
            isinstance(error, InvalidScopeError)
            and given == InvalidScopeError.description
            and request.client is not None
        ):
            description = request.client.describe_refused(request.form.get("scope", ""))
        description = NOT_DESCRIPTIVE.sub("", description)
        parameters = [("error", str(error.error)), *([("error_description", description)] if description else [])]
        if error.redirect_uri:
            return Answer(302, location=self.callback(error.redirect_uri, parameters, request))
        if isinstance(error, InvalidClientError):
            return Answer(401, dict(parameters), {**NO_STORE, "WWW-Authenticate": CHALLENGE_BASIC})
        return Answer(400, dict(parameters), NO_STORE)

    def callback(self, redirect_uri: str, parameters: Parameters, request: Request) -> str:
        """Return the client's redirect address, with the request's state and the issuer (RFC 9207)."""
        states = request.values.get("state", ())
        state = [("state", states[0])] if len(states) == 1 else []
        return with_parameters(redirect_uri, [*parameters, *state, ("iss", self._issuer)])


def _reason(request: Request) -> str:
    """Explain why there is no redirect, without revealing whether a client is unknown, unapproved or unregistered."""
    if len(request.values.get("client_id", ())) != 1:
        return "It must send client_id exactly once."
    if request.client is None and "redirect_uri" in request.form:
        return (
            "Its client_id is unknown, or an admin has not approved it yet (page OAuth clients). Or its redirect_uri "
            "differs from the registered address; scheme, port and slashes must match."
        )
    return "It must send redirect_uri exactly once."


def _mint_access_token(*, client: Any, **_: object) -> str:
    return secrets.mint(PREFIXES[client.audience]).value.get_secret_value()


def _mint_refresh_token(**_: object) -> str:
    return secrets.mint(secrets.REFRESH_TOKEN).value.get_secret_value()


def _basic(authorization: str) -> tuple[str | None, str]:
    """Return a client's id and secret from an Authorization header (RFC 6749, 2.3.1); (None, "") if unreadable."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None, ""
    try:
        name, _, secret = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None, ""
    return unquote_plus(name), unquote_plus(secret)
