"""The endpoints for clients: token, revocation and server metadata."""

from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from carrel.wire.oauth_clients import OAuthAudience
from carrel.wire.scopes import ApiScope
from service.auth.audiences import WELL_KNOWN, resource_of
from service.identity_server.oauth.describing import with_client_of_secret
from service.identity_server.oauth.grants import CLIENT_AUTHENTICATION
from service.identity_server.oauth.models import Request as OAuthRequest
from service.identity_server.oauth.server import NO_STORE, Answer, AuthorizationServer
from service.identity_server.oauth.store import Store, in_thread
from service.identity_server.requests import first_of, form_of
from service.platform.errors import ServiceError
from service.runtime import Runtime
from service.web.dependencies import RuntimeDep
from service.web.errors import OwnErrorsRoute
from service.web.pages.confidential import refuse_readable

METADATA = "/.well-known/oauth-authorization-server"


class ClientRoute(OwnErrorsRoute):
    """A route with all errors as JSON (RFC 6749, section 5.2)."""

    def refuse(self, request: Request, error: ServiceError) -> Response:
        """Answer errors raised before the authorization server can judge the request."""
        del request
        return _refusal(error)


router = APIRouter(route_class=ClientRoute, include_in_schema=False)


@router.post("/api/oauth/token")
async def token(request: Request, runtime: RuntimeDep) -> Response:
    """Return tokens for a code or a refresh token (RFC 6749, sections 4.1.3 and 6)."""
    return await _answer(request, runtime, AuthorizationServer.token)


@router.post("/api/oauth/revoke")
async def revoke(request: Request, runtime: RuntimeDep) -> Response:
    """Revoke a token (RFC 7009)."""
    return await _answer(request, runtime, AuthorizationServer.revocation)


@router.get(METADATA)
@router.get(METADATA + "/{path:path}")
@router.get("/.well-known/openid-configuration")
async def metadata(runtime: RuntimeDep, path: str = "") -> Response:
    """Return the metadata (RFC 8414), also at OpenID Connect's address, tried first by some libraries; no ID tokens."""
    issuer = runtime.settings.issuer
    if path and f"/{path}" != urlsplit(issuer).path:
        raise ServiceError(f"The only issuer here is {issuer}. Check its address.", code="not_found", status=404)
    return JSONResponse(description(issuer), headers={"Cache-Control": "public, max-age=300"})


@router.get(WELL_KNOWN)
@router.get(WELL_KNOWN + "/{path:path}")
async def protected_resource(runtime: RuntimeDep, path: str = "") -> Response:
    """Return the metadata of the resource that accepts tokens of /mcp clients (RFC 9728), also at the host's root."""
    issuer = runtime.settings.issuer
    own = urlsplit(resource_of(OAuthAudience.MCP, issuer)).path
    if path and f"/{path}".removesuffix("/") != own:
        raise ServiceError(f"The only resource here is {own}. Check its path.", code="not_found", status=404)
    return JSONResponse(describe_mcp(issuer), headers={"Cache-Control": "public, max-age=300"})


def describe_mcp(issuer: str) -> dict[str, object]:
    """Return the metadata of /mcp (RFC 9728, section 2), without scopes for admins; a client may still request them."""
    return {
        "resource": resource_of(OAuthAudience.MCP, issuer),
        "authorization_servers": [issuer],
        "scopes_supported": [ApiScope.CATALOG_READ.value, ApiScope.AGENT_MESSAGE.value],
        "bearer_methods_supported": ["header"],
        "resource_name": "Carrel",
        "resource_documentation": f"{issuer}/docs",
    }


def description(issuer: str) -> dict[str, object]:
    """Return the server's metadata (RFC 8414, section 2)."""
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/api/oauth/authorize",
        "token_endpoint": f"{issuer}/api/oauth/token",
        "token_endpoint_auth_methods_supported": CLIENT_AUTHENTICATION,
        "revocation_endpoint": f"{issuer}/api/oauth/revoke",
        "revocation_endpoint_auth_methods_supported": CLIENT_AUTHENTICATION,
        "scopes_supported": [scope.value for scope in ApiScope],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
    }


async def _answer(
    request: Request, runtime: Runtime, endpoint: Callable[[AuthorizationServer, OAuthRequest], Answer]
) -> Response:
    """Answer from a transaction that is always committed: a refusal may have revoked tokens."""
    refuse_readable(request, runtime)
    sent = await form_of(request)
    async with runtime.database.transaction(None) as connection:
        parameters = await with_client_of_secret(connection, sent)
        asked = OAuthRequest("POST", parameters=parameters, headers=request.headers)
        named = first_of(sent).get("client_id", "")
        store = Store(connection, await runtime.clock.now(connection), named=named)
        answer = await in_thread(endpoint, AuthorizationServer(store, issuer=runtime.settings.issuer), asked)
    if answer.status == HTTPStatus.UNAUTHORIZED:
        await runtime.rate_limits.count_failure(request.client.host if request.client else None)
    return JSONResponse(dict(answer.body), status_code=answer.status, headers=dict(answer.headers))


def _refusal(error: ServiceError) -> Response:
    """Answer an error unknown to RFC 6749: `invalid_request` for an unreadable form; 429 and 503 say when to retry."""
    name = {429: "temporarily_unavailable", 503: "temporarily_unavailable"}.get(
        error.status, "invalid_request" if error.status < 500 else "server_error"
    )
    status = 400 if error.status == 415 else error.status
    headers = {**error.headers, **NO_STORE}
    return JSONResponse({"error": name, "error_description": error.message}, status_code=status, headers=headers)
