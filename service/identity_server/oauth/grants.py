# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# Authlib has no types, and its base classes name some parameters differently.
"""Authlib's grants (RFC 6749, 7009, 7636) with Carrel's rules: S256 always, and single-use codes and refresh tokens."""

import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import errors
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, RefreshTokenGrant
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge

from service.identity_server.oauth.models import Client, Code, Request, Token
from service.platform import base64url, secrets

if TYPE_CHECKING:
    from service.identity_server.oauth.server import AuthorizationServer

CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}", re.ASCII)
# Members that an authorization request may have once, without the client's proof (RFC 6749, section 3.1; RFC 7636).
ONCE = ("response_type", "response_mode", "scope", "state", "prompt", "code_challenge", "code_challenge_method")


# How a client authenticates at the endpoints; "none" is for public clients.
CLIENT_AUTHENTICATION = ["client_secret_basic", "client_secret_post", "none"]


class InvalidTargetError(OAuth2Error):
    """The request asks for tokens for a resource other than the client's (RFC 8707, section 2)."""

    error = "invalid_target"


class S256Required(CodeChallenge):
    """PKCE for every client. Authlib's own `required` covers only public clients."""

    SUPPORTED_CODE_CHALLENGE_METHOD = ["S256"]  # noqa: RUF012 - Authlib's

    def validate_code_challenge(self, grant: "CodeGrant", _result: object) -> None:
        """Refuse an authorization request without an S256 challenge (RFC 7636, section 4.4.1)."""
        form = grant.request.form
        if "code_challenge" not in form or "code_challenge_method" not in form:
            raise errors.InvalidRequestError(
                "Send code_challenge and code_challenge_method=S256: PKCE is required (RFC 7636)."
            )
        if form["code_challenge_method"] != "S256":
            raise errors.InvalidRequestError(
                "Set code_challenge_method to S256. The default of RFC 7636, plain, is not accepted."
            )
        if not CHALLENGE.fullmatch(form["code_challenge"]):
            raise errors.InvalidRequestError("The code_challenge must be the base64url of a SHA-256, without padding.")

    def validate_code_verifier(self, grant: "CodeGrant", _result: object) -> None:
        """Raise OAuth2Error unless the challenge is the SHA-256 of a valid verifier (RFC 7636, sections 4.1, 4.6)."""
        verifier = grant.request.form.get("code_verifier", "")
        if not VERIFIER.fullmatch(verifier):
            raise errors.InvalidRequestError("Send the code_verifier: 43 to 128 letters, digits, or any of -._~")
        challenge = base64url.encode(hashlib.sha256(verifier.encode()).digest())
        code = cast("Code", grant.request.authorization_code)
        if not hmac.compare_digest(challenge, code.code_challenge):
            raise errors.InvalidGrantError("The code_verifier does not match the code_challenge of this code.")


class CodeGrant(AuthorizationCodeGrant):
    """The authorization code grant (RFC 6749, section 4.1)."""

    TOKEN_ENDPOINT_AUTH_METHODS = CLIENT_AUTHENTICATION
    request: Request
    server: "AuthorizationServer"

    @classmethod
    def check_authorization_endpoint(cls, _: Request) -> bool:
        return True

    @staticmethod
    def validate_no_multiple_request_parameter(request: Request) -> None:
        """Refuse a request with two clients or two redirect URIs; other repeated parameters are checked later."""
        if any(len(request.values.get(name, ())) > 1 for name in ("client_id", "redirect_uri")):
            raise errors.InvalidRequestError("Send client_id and redirect_uri once each.")

    @staticmethod
    def validate_authorization_redirect_uri(request: Request, client: Client) -> str:
        """Return the request's redirect URI; raise if it isn't registered for the client."""
        redirect_uri = request.form.get("redirect_uri")
        if redirect_uri is None or not client.check_redirect_uri(redirect_uri):
            raise errors.InvalidRequestError("The redirect_uri is missing, or is not registered for the client.")
        return redirect_uri

    def create_authorization_response(self, redirect_uri: str, grant_user: UUID | None) -> Any:
        """Redirect with a new code, or with `access_denied`. The redirect URI's query is kept."""
        if grant_user is None:
            raise errors.AccessDeniedError(redirect_uri=redirect_uri)
        code = secrets.mint(secrets.AUTHORIZATION_CODE).value.get_secret_value()
        self.server.store.keep_code(code, client=self.request.client, principal_id=grant_user, request=self.request)
        return 302, "", [("Location", self.server.callback(redirect_uri, [("code", code)], self.request))]

    def query_authorization_code(self, code: str, client: Client) -> Code | None:
        return self.server.store.code(code, client)

    def delete_authorization_code(self, authorization_code: Code) -> None:
        """Keep the code so that a second use can be detected; Authlib would delete the code."""

    def authenticate_user(self, authorization_code: Code) -> UUID | None:
        """Return the consenting person, or None if no longer active."""
        principal_id = authorization_code.row.principal_id
        return principal_id if self.server.store.is_active(self.request.client, principal_id) else None


class RefreshGrant(RefreshTokenGrant):
    """The refresh token grant (RFC 6749, section 6), with rotation (RFC 9700, section 4.14.2)."""

    TOKEN_ENDPOINT_AUTH_METHODS = CLIENT_AUTHENTICATION
    INCLUDE_NEW_REFRESH_TOKEN = True
    request: Request
    server: "AuthorizationServer"

    def authenticate_refresh_token(self, refresh_token: str) -> Token | None:
        return self.server.store.refresh_token(refresh_token, self.request.client)

    def authenticate_user(self, refresh_token: Token) -> UUID:
        """Return the token's person, already found active when the token was read."""
        return refresh_token.row.principal_id

    def revoke_old_credential(self, refresh_token: Token) -> None:
        """Do nothing: `AuthorizationServer.save_token` has already marked the old token as used."""


class Revocation(RevocationEndpoint):
    """Token revocation (RFC 7009). The request's hint is ignored: a token's prefix tells its kind."""

    CLIENT_AUTH_METHODS = CLIENT_AUTHENTICATION
    server: "AuthorizationServer"

    def authenticate_token(self, request: Request, client: Client) -> Token | None:
        """Return the token to revoke, None when unknown. Raises OAuth2Error without a token or for another client's."""
        if "token" not in request.form:
            raise errors.InvalidRequestError("The token is missing. Send the token to revoke.")
        token = self.server.store.any_token(request.form["token"], client)
        if token is not None and not token.check_client(client):
            raise errors.InvalidGrantError("This token belongs to another client. Revoke it with that client.")
        return token

    def revoke_token(self, token: Token, request: Request) -> None:
        """Revoke a token; for a refresh token, its whole family."""
        self.server.store.revoke(token, request.client)


def judge_parameters(grant: CodeGrant) -> None:
    """Register the check of an authorization request's remaining parameters, to run once its client is proven."""

    def judge(grant: CodeGrant, _redirect_uri: str) -> None:
        form, values = grant.request.form, grant.request.values
        if any(len(values.get(name, ())) > 1 for name in ONCE):
            raise repeated_parameter()
        if "response_type" not in form:
            raise errors.InvalidRequestError("Send response_type=code.")
        if form["response_type"] != "code":
            raise errors.UnsupportedResponseTypeError("", "Send response_type=code, the only type.")
        if form.get("response_mode", "query") != "query":
            raise errors.InvalidRequestError("Send response_mode=query, the only mode, or leave it out.")
        grant.server.require_resource(grant.request, grant.request.client)

    grant.register_hook("before_validate_authorization_request_payload", judge)


def malformed(request: Request) -> OAuth2Error | None:
    """Return the error of a token request without a grant type or with a repeated parameter, if any."""
    if any(len(values) > 1 for name, values in request.values.items() if name != "resource"):
        return repeated_parameter()
    if "grant_type" not in request.form:
        return errors.InvalidRequestError("Send grant_type: authorization_code or refresh_token.")
    return None


def repeated_parameter() -> errors.InvalidRequestError:
    return errors.InvalidRequestError("Send each parameter once.")
