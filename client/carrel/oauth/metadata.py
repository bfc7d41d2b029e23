"""The endpoints of an authorization server: derived from Carrel's address, or read from the server (RFC 8414)."""

from typing import Annotated

import httpx
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from carrel.errors import UnexpectedResponseError

WELL_KNOWN = "/.well-known/oauth-authorization-server"


def _absolute(text: str) -> str:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as exc:
        msg = "must be an address"
        raise ValueError(msg) from exc
    if url.scheme not in {"http", "https"} or not url.host or url.fragment:
        msg = "must be an absolute http or https address without a fragment"
        raise ValueError(msg)
    return text


Address = Annotated[str, AfterValidator(_absolute)]


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
    """Read a server's metadata from a response; raises UnexpectedResponseError when they can't be trusted or used.

    They must name the issuer that was asked (RFC 8414, section 3.3), offer S256, and not lead from https to http.
    """
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
    return UnexpectedResponseError(
        f"The answer {why}; is auth_url the address the service gives itself?",
        status=response.status_code,
        code="unusable_metadata",
        request_id=response.headers.get("x-request-id"),
    )
