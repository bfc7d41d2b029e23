"""Requests to an authorization server as flows, which return tokens or raise typed errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlencode

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError

from carrel import errors
from carrel._calls import Connection, error_from, exchange, retry_after, unexpected_response
from carrel._drivers import Flow, Request
from carrel.oauth import authorization
from carrel.oauth.tokens import TokenResponse, Tokens

FORM = "application/x-www-form-urlencoded"
ERRORS: Mapping[str, type[errors.TokenRequestError]] = {
    "invalid_grant": errors.InvalidGrantError,
    "invalid_client": errors.InvalidClientError,
}


@dataclass(frozen=True, slots=True)
class Endpoints:
    """An authorization server, the application, and the connection's options; safe to share between threads."""

    server: authorization.ServerMetadata
    client_id: str
    client_secret: str = field(repr=False)
    connection: Connection

    def redeem(self, callback: str, request: authorization.AuthorizationRequest) -> Flow[Tokens]:
        """Exchange a callback's code (RFC 6749, section 4.1.3; RFC 7636, section 4.5)."""
        form = {
            "grant_type": "authorization_code",
            "code": authorization.code_of(callback, request, self.server),
            "redirect_uri": request.redirect_uri,
            "code_verifier": request.code_verifier,
        }
        asked_at = datetime.now(UTC)
        answer = yield from self._request_tokens(form)
        return answer.tokens(asked_at=asked_at, scope=" ".join(request.scopes) or None)

    def refresh(self, tokens: Tokens) -> Flow[Tokens]:
        """Exchange a refresh token (RFC 6749, section 6), which is then used up. SignInRequiredError without any."""
        if tokens.refresh_token is None:
            msg = "The access token has expired, and there is no refresh token. Send the person to authorize again."
            raise errors.SignInRequiredError(msg, code="sign_in_required")
        asked_at = datetime.now(UTC)
        answer = yield from self._request_tokens({"grant_type": "refresh_token", "refresh_token": tokens.refresh_token})
        return answer.tokens(asked_at=asked_at, asked=tokens)

    def revoke(self, tokens: Tokens | str) -> Flow[None]:
        """Revoke a token, even an unknown token, and those issued with it (RFC 7009). Raises ConfigurationError if the
        server has no revocation endpoint."""
        if self.server.revocation_endpoint is None:
            raise errors.ConfigurationError("The authorization server has no revocation endpoint")
        token = tokens if isinstance(tokens, str) else tokens.refresh_token or tokens.access_token
        yield from self._post(self.server.revocation_endpoint, {"token": token})

    def discover(self) -> Flow[authorization.ServerMetadata]:
        """Fetch the server's metadata (RFC 8414)."""
        issuer, connection = self.server.issuer, self.connection
        url = authorization.description_url(issuer)
        request = Request(url, connection.headers, b"", connection.timeout, method="GET")
        response = yield from exchange(request, connection.retries)
        return authorization.metadata_from(response, issuer=issuer)

    def _request_tokens(self, form: Mapping[str, str]) -> Flow[TokenResponse]:
        response = yield from self._post(self.server.token_endpoint, form)
        try:
            return TokenResponse.model_validate_json(response.content)
        except ValidationError as exc:
            message = "The answer has no Bearer token. Check that auth_url is the address of a Carrel service"
            raise unexpected_response(response, message) from exc

    def _post(self, url: str, form: Mapping[str, str]) -> Flow[httpx.Response]:
        headers = self.connection.headers.copy()
        headers["Content-Type"] = FORM
        proof = {"client_id": self.client_id, "client_secret": self.client_secret}
        body = urlencode({**form, **proof}).encode("ascii")
        request = Request(httpx.URL(url), headers, body, self.connection.timeout)
        return (yield from exchange(request, self.connection.retries, refusal=refusal))


class _ErrorResponse(BaseModel):
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    error: str
    error_description: str = ""


def refusal(response: httpx.Response) -> errors.APIError:
    """Build the exception for a response that is not 2xx, from the authorization server or another server."""
    try:
        body = _ErrorResponse.model_validate_json(response.content)
    except ValidationError:
        return error_from(response)
    return ERRORS.get(body.error, errors.TokenRequestError)(
        authorization.readable(body.error_description) or "The authorization server refused",
        status=response.status_code,
        code=authorization.readable(body.error),
        request_id=response.headers.get("x-request-id"),
        retry_after=retry_after(response.headers),
    )
