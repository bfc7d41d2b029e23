"""The first half of the code grant (RFC 6749, 4.1): endpoints (also RFC 8414), the person's address, the callback."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

import httpx
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from carrel._calls import unexpected_response
from carrel.errors import AccessDeniedError, AuthorizationError, CallbackError, UnexpectedResponseError

WELL_KNOWN = "/.well-known/oauth-authorization-server"


def _require_absolute(text: str) -> str:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as exc:
        raise ValueError("must be an address") from exc
    if url.scheme not in {"http", "https"} or not url.host or url.fragment:
        raise ValueError("must be an absolute http or https address without a fragment")
    return text


Address = Annotated[str, AfterValidator(_require_absolute)]


class ServerMetadata(BaseModel):
    """The metadata of an authorization server (RFC 8414, section 2)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    issuer: Address
    authorization_endpoint: Address
    token_endpoint: Address
    revocation_endpoint: Address | None = None
    code_challenge_methods_supported: tuple[str, ...] = ()
    authorization_response_iss_parameter_supported: bool = False


def metadata_at(auth_url: str) -> ServerMetadata:
    """Return the endpoints of the Carrel at an address, without a request."""
    return ServerMetadata(
        issuer=auth_url,
        authorization_endpoint=f"{auth_url}/api/oauth/authorize",
        token_endpoint=f"{auth_url}/api/oauth/token",
        revocation_endpoint=f"{auth_url}/api/oauth/revoke",
        code_challenge_methods_supported=("S256",),
        authorization_response_iss_parameter_supported=True,
    )


def description_url(issuer: str) -> httpx.URL:
    """Return the address of an issuer's metadata; the issuer's own path comes last (RFC 8414, section 3.1)."""
    url = httpx.URL(issuer)
    return url.copy_with(path=WELL_KNOWN + url.path.rstrip("/"))


def metadata_from(response: httpx.Response, *, issuer: str) -> ServerMetadata:
    """Read a server's metadata. Raises UnexpectedResponseError unless they name the issuer, S256 and https."""
    try:
        described = ServerMetadata.model_validate_json(response.content)
    except ValidationError as exc:
        raise _unusable(response, "isn't the metadata of an authorization server") from exc
    if described.issuer != issuer:
        raise _unusable(response, f"is about another issuer than {issuer}")
    if "S256" not in described.code_challenge_methods_supported:
        raise _unusable(response, "offers no PKCE with S256")
    endpoints = (described.authorization_endpoint, described.token_endpoint, described.revocation_endpoint)
    if issuer.startswith("https:") and any(each and not each.startswith("https:") for each in endpoints):
        raise _unusable(response, "leads from https to plain http")
    return described


def _unusable(response: httpx.Response, why: str) -> UnexpectedResponseError:
    message = f"The answer {why}. Check that auth_url is the service's public URL"
    return unexpected_response(response, message, code="unusable_metadata")


MOST_PARAMETERS = 50
LONGEST_DESCRIPTION = 300


class AuthorizationRequest(BaseModel):
    """An authorization request. Keep the request on the server, in the person's session, under its `state`. Never send
    the whole request to the browser: with `code_verifier` and the callback's code, anyone can get the tokens. `repr`
    shows no secret; `model_dump_json` includes secrets. Use a request for one callback only."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    url: str = Field(repr=False)
    state: str = Field(repr=False)
    code_verifier: str = Field(repr=False)
    redirect_uri: str
    scopes: tuple[str, ...] = ()


def begin(
    server: ServerMetadata, client_id: str, *, redirect_uri: str, scopes: Sequence[str], how: Mapping[str, str | None]
) -> AuthorizationRequest:
    """Create a request with a new state and verifier (RFC 6749, section 10.12; RFC 7636, section 4)."""
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
    parameters = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "scope": " ".join(scopes),
        "state": state,
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": "S256",
        **how,
    }
    sent = {name: value for name, value in parameters.items() if value}
    url = httpx.URL(server.authorization_endpoint).copy_merge_params(sent)
    return AuthorizationRequest(
        url=str(url), state=state, code_verifier=verifier, redirect_uri=redirect_uri, scopes=tuple(scopes)
    )


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a verifier: base64url of its SHA-256, without padding (RFC 7636, section 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode("ascii")


def code_of(callback: str, request: AuthorizationRequest, server: ServerMetadata) -> str:
    """Return a callback's code. Raises CallbackError for another request, and AuthorizationError for an error in it."""
    parameters = _parameters(callback)
    state = parameters.get("state", "").encode("utf-8", "surrogatepass")
    if not hmac.compare_digest(state, request.state.encode()):
        raise CallbackError("The callback's state differs from the request's. Begin again.", code="state_mismatch")
    _check_issuer(parameters.get("iss"), server)
    if "error" in parameters:
        raise _error(parameters["error"], parameters.get("error_description", ""))
    if "code" not in parameters:
        raise CallbackError("The callback has neither a code nor an error. Begin again.", code="code_missing")
    return parameters["code"]


def _parameters(callback: str) -> dict[str, str]:
    """Return the callback's non-empty parameters (RFC 6749, section 3.1). Raises CallbackError for a repetition."""
    query = urlsplit(callback).query if "?" in callback else callback
    try:
        pairs = parse_qsl(query, max_num_fields=MOST_PARAMETERS)
    except ValueError as exc:
        raise CallbackError("The callback has too many parameters.", code="invalid_callback") from exc
    parameters = dict(pairs)
    if len(parameters) != len(pairs):
        raise CallbackError("The callback has a parameter twice.", code="invalid_callback")
    return parameters


def _check_issuer(issuer: str | None, server: ServerMetadata) -> None:
    """Raise CallbackError for a response of another server (RFC 9207, section 2.4)."""
    if issuer is None and not server.authorization_response_iss_parameter_supported:
        return
    if issuer != server.issuer:
        message = f"The callback isn't from {server.issuer}. Check that auth_url is the service's public URL"
        raise CallbackError(message, code="issuer_mismatch")


def _error(code: str, description: str) -> AuthorizationError:
    kind = AccessDeniedError if code == "access_denied" else AuthorizationError
    fallback = "It was not allowed" if kind is AccessDeniedError else "The authorization server sent no code"
    return kind(readable(description) or fallback, code=readable(code))


def readable(text: str) -> str:
    """Return text from another server as one line for a message, of at most 300 characters."""
    return "".join(char for char in text[:LONGEST_DESCRIPTION] if char.isprintable())
