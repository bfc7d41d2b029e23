"""POST /mcp: a client's message, authenticated and limited as in the API. No state is kept: any replica answers, and a
revoked credential counts at once. The protocol's library takes almost a second and 13 MB to import, so it is loaded
with the first message, or when a client is sent to sign in."""

import asyncio
from functools import cache
from http import HTTPStatus
from importlib import import_module
from typing import Any, cast
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import JSONResponse, Response
from starlette.background import BackgroundTask

from service.platform.bodies import read_at_most
from service.platform.errors import BadRequest, Forbidden, ServiceError, TooLarge, require
from service.platform.logs import redact_credentials, request_id
from service.web.dependencies import MCP_PATH, CallerDep, RuntimeDep
from service.web.errors import OwnErrorsRoute
from service.web.multipart import declared_length
from service.web.routing import decode

# The longest message to an agent, with room for the rest of the request.
MOST_BYTES = 256 * 1024
# JSON-RPC 2.0, section 5.1.
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INTERNAL_ERROR = -32603


class MessageRoute(OwnErrorsRoute):
    """A route with errors in JSON-RPC 2.0 form, section 5.1, because clients show no other messages."""

    def refuse(self, request: Request, error: ServiceError) -> Response:
        """Return the response to a request refused before the protocol's server is called."""
        del request
        return _refusal(error)


router = APIRouter(route_class=MessageRoute)


async def require_own_origin(request: Request, runtime: RuntimeDep) -> None:
    """Refuse requests from another site's page (DNS rebinding). Browsers send the origin, programs send no origin."""
    origin = request.headers.get("origin")
    own = urlsplit(runtime.settings.issuer)
    if origin is not None and origin != f"{own.scheme}://{own.netloc}":
        raise Forbidden("Pages of other sites may not call this endpoint.", code="foreign_origin")


_OPTIONS: dict[str, Any] = {"include_in_schema": False, "dependencies": [Depends(require_own_origin)]}


@router.get(MCP_PATH, **_OPTIONS)
@router.get(f"{MCP_PATH}/", **_OPTIONS)
async def refuse_to_stream(_caller: CallerDep) -> Response:
    """Refuse to send unrequested messages. By this request some clients learn, from 401, where to get a token."""
    raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "POST"})


@router.post(MCP_PATH, **_OPTIONS)
@router.post(f"{MCP_PATH}/", **_OPTIONS)
async def exchange(request: Request, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Answer a message of a client; 403 with a challenge if the token lacks a scope that the person could grant."""
    body = await _read(request)
    try:
        message = decode(body)
    except BadRequest as error:
        return _refusal(error, PARSE_ERROR)
    await _load_once()
    from service.mcp.scopes import require_scopes  # noqa: PLC0415 - see `_load`
    from service.mcp.server import Exchange  # noqa: PLC0415 - likewise

    try:
        await require_scopes(request, runtime, caller, message)
    except Forbidden as error:
        return _refusal(error, message_id=_id_of(message))
    return Exchange(body)


async def _load_once() -> None:
    # Load in a thread only once, because threads are too few for one per message.
    if not _load.cache_info().currsize:
        await asyncio.to_thread(_load)


@cache
def _load() -> None:
    import_module("service.mcp.scopes")


async def _read(request: Request) -> bytes:
    is_too_large = (declared_length(request) or 0) > MOST_BYTES
    received = None if is_too_large else await read_at_most(request.stream(), most_bytes=MOST_BYTES)
    return require(received, TooLarge(f"The message is larger than {MOST_BYTES:,} bytes. Send less at a time."))


def _id_of(message: object) -> str | int | None:
    """Return the id of a request, to be repeated in the response (JSON-RPC 2.0, section 5)."""
    given = cast("dict[str, object]", message).get("id") if isinstance(message, dict) else None
    return given if isinstance(given, str | int) and not isinstance(given, bool) else None


def _refusal(error: ServiceError, code: int = INVALID_REQUEST, *, message_id: str | int | None = None) -> Response:
    code = INTERNAL_ERROR if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR else code
    data = {"code": error.code, "requestId": request_id()}
    said = {"code": code, "message": redact_credentials(error.message), "data": data}
    body = {"jsonrpc": "2.0", "id": message_id, "error": said}
    # After signing in, the client will soon send its first message.
    then = BackgroundTask(_load) if error.status == HTTPStatus.UNAUTHORIZED else None
    return JSONResponse(body, status_code=error.status, headers=error.headers, background=then)
