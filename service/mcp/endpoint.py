"""POST /mcp: one message of a client, whose caller is authenticated and whose body is read as those of the API are.
Nothing is kept between messages: any replica answers any of them, and a credential that was revoked counts from the
next one on. The protocol's library takes almost a second to import, and 13 MB: it is loaded with the first message, or
before it, when a client is sent to sign in."""

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
from service.platform.errors import BadRequest, Forbidden, ServiceError, TooLarge
from service.platform.logs import redact_credentials, request_id
from service.web.dependencies import MCP_PATH, CallerDep, RuntimeDep
from service.web.errors import OwnErrorsRoute
from service.web.multipart import declared_length
from service.web.routing import decode

# The longest message to an agent, with room around it.
MOST_BYTES = 256 * 1024
# JSON-RPC 2.0, section 5.1.
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INTERNAL_ERROR = -32603


class MessageRoute(OwnErrorsRoute):
    """A route whose every error is one of JSON-RPC 2.0, section 5.1: clients show its words, and no others."""

    def refuse(self, request: Request, error: ServiceError) -> Response:
        """Answer what is refused before the protocol's server is asked."""
        del request
        return _refusal(error)


router = APIRouter(route_class=MessageRoute)


async def require_own_origin(request: Request, runtime: RuntimeDep) -> None:
    """Refuse what a page of another site sends, whichever address a name of that site leads to (DNS rebinding). A
    browser names the page's origin with each POST; programs name none."""
    origin = request.headers.get("origin")
    own = urlsplit(runtime.settings.issuer)
    if origin is not None and origin != f"{own.scheme}://{own.netloc}":
        raise Forbidden("Pages of other sites may not call this endpoint.", code="foreign_origin")


_OPTIONS: dict[str, Any] = {"include_in_schema": False, "dependencies": [Depends(require_own_origin)]}


@router.get(MCP_PATH, **_OPTIONS)
@router.get(f"{MCP_PATH}/", **_OPTIONS)
async def refuse_to_stream(_caller: CallerDep) -> Response:
    """Refuse to send messages unasked; some clients begin with this, and learn from 401 where to get a token."""
    raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "POST"})


@router.post(MCP_PATH, **_OPTIONS)
@router.post(f"{MCP_PATH}/", **_OPTIONS)
async def exchange(request: Request, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Answer a message of a client; 403 with a challenge where its token lacks a scope that the person could allow."""
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
    # The first time from a thread, of which there are too few for each message to take one.
    if not _load.cache_info().currsize:
        await asyncio.to_thread(_load)


@cache
def _load() -> None:
    """Import the protocol's library and all that answers by it."""
    import_module("service.mcp.scopes")


async def _read(request: Request) -> bytes:
    is_too_large = (declared_length(request) or 0) > MOST_BYTES
    received = None if is_too_large else await read_at_most(request.stream(), most_bytes=MOST_BYTES)
    if received is None:
        raise TooLarge(f"The message is larger than {MOST_BYTES:,} bytes. Send less at a time.")
    return received


def _id_of(message: object) -> str | int | None:
    """Return the id of a request, which its answer repeats (JSON-RPC 2.0, section 5)."""
    given = cast("dict[str, object]", message).get("id") if isinstance(message, dict) else None
    return given if isinstance(given, str | int) and not isinstance(given, bool) else None


def _refusal(error: ServiceError, code: int = INVALID_REQUEST, *, message_id: str | int | None = None) -> Response:
    """Return an error of the protocol with the service's own code in its data; no id for a message that is not read."""
    code = INTERNAL_ERROR if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR else code
    data = {"code": error.code, "requestId": request_id()}
    said = {"code": code, "message": redact_credentials(error.message), "data": data}
    body = {"jsonrpc": "2.0", "id": message_id, "error": said}
    # A client that is sent to sign in sends its first message soon after.
    then = BackgroundTask(_load) if error.status == HTTPStatus.UNAUTHORIZED else None
    return JSONResponse(body, status_code=error.status, headers=error.headers, background=then)
