"""Dependencies declared by endpoints as annotations. Authentication is a separate message: an endpoint that streams or
embeds holds no connection. `ConnectionDep` is the request's transaction, `SnapshotDep` only reads."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, TypeVar, cast

from fastapi import Depends, Request, Response
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.auth.audiences import MCP_PATH, challenge
from service.auth.callers import Caller, Version, authenticate, identify, note_use
from service.platform.errors import Forbidden, Unauthenticated
from service.runtime import Runtime
from service.runtime.standbys import Source

CALLER = "carrel.caller"
POSITION = "carrel.position"
SNAPSHOT = "carrel.snapshot"
STOPPING = "carrel.stopping"
V0_PREFIX = "/api/v0"
V1_PREFIX = "/api/v1"

Found = TypeVar("Found")


async def current_runtime(request: Request) -> Runtime:
    return cast("Runtime", request.app.state.runtime)


def version_of(request: Request) -> Version:
    """Return the API version in the request's path. Each version has its own credentials (seed, "Versioning")."""
    path = str(request.scope.get("path"))
    if path == MCP_PATH or path.startswith(f"{MCP_PATH}/"):
        return "mcp"
    return "v1" if path.startswith(f"{V1_PREFIX}/") else "v0"


RuntimeDep = Annotated[Runtime, Depends(current_runtime)]


async def current_caller(request: Request, runtime: RuntimeDep) -> Caller:
    """Authenticate and count the request once, and return the caller. Raises 401 or 403, or 429 beyond a limit."""
    if CALLER not in request.scope:
        caller = await _authenticate(request, runtime)
        await runtime.rate_limits.count_request(caller.credential_id)
        request.scope[CALLER] = caller
    return cast("Caller", request.scope[CALLER])


async def _authenticate(request: Request, runtime: Runtime) -> Caller:
    """Return the caller; also ask for the primary's position, count a failure, and note the credential's use."""
    try:
        identification = identify(
            request.headers.get("authorization"),
            keys=runtime.keys,
            version=version_of(request),
            clock_offset=runtime.clock.offset,
        )
        request.scope[POSITION] = runtime.standbys.ask(identification.batch)
        await runtime.database.read(None, identification.batch)
        caller = identification.caller()
    except (Unauthenticated, Forbidden) as error:
        if isinstance(error, Unauthenticated):
            fault = "invalid_token" if "authorization" in request.headers else None
            issuer = runtime.settings.issuer if version_of(request) == "mcp" else None
            error.headers["WWW-Authenticate"] = challenge(issuer, error=fault)
        await runtime.rate_limits.count_failure(request.client.host if request.client else None)
        raise
    if identification.is_to_be_noted:
        async with runtime.database.transaction(caller.organization_id) as connection:
            await note_use(connection, caller)
    return caller


@asynccontextmanager
async def reauthenticate(request: Request, runtime: Runtime) -> AsyncGenerator[tuple[Connection, Caller]]:
    """Open a transaction in the caller's organization, with a fresh check of the credential before a late response.
    Raises Unauthenticated or Forbidden."""
    async with runtime.database.transaction(None) as connection:
        caller = await authenticate(
            connection,
            request.headers.get("authorization"),
            keys=runtime.keys,
            version=version_of(request),
            clock_offset=runtime.clock.offset,
        )
        yield connection, caller


def is_stopping(request: Request) -> bool:
    return STOPPING in request.scope


CallerDep = Annotated[Caller, Depends(current_caller)]


async def request_connection(runtime: RuntimeDep, caller: CallerDep) -> AsyncGenerator[Connection]:
    async with runtime.database.transaction(caller.organization_id) as connection:
        yield connection


ConnectionDep = Annotated[Connection, Depends(request_connection, scope="function")]


async def request_snapshot(request: Request) -> Connection:
    """Return the request's read transaction, opened by the route: all statements see a single moment."""
    return cast("Connection", request.scope[SNAPSHOT])


SnapshotDep = Annotated[Connection, Depends(request_snapshot)]


async def read_snapshot(
    request: Request, runtime: Runtime, caller: Caller, read: Callable[[Connection], Awaitable[Found]]
) -> Found:
    """Return the result of `read` in a read-only transaction on a standby or, then repeated, the primary."""

    async def read_from(source: Source) -> Found:
        if source.primary.is_distributed:
            # No snapshot spans several servers, so a later statement must see changes since an earlier statement.
            opened = source.primary.transaction(caller.organization_id, read_only=True)
        else:
            opened = source.snapshot(caller.organization_id, read_only=True)
        async with opened as connection:
            return await read(connection)

    return await runtime.standbys.read(runtime.database, request.scope[POSITION], read_from)


async def answer_from_snapshot(
    request: Request, runtime: Runtime, caller: Caller, answer: Callable[[], Awaitable[Response]]
) -> Response:
    """Run `answer` in the request's read transaction. Read the body first, so the transaction waits for no client."""

    async def read(connection: Connection) -> Response:
        request.scope[SNAPSHOT] = connection
        return await answer()

    return await read_snapshot(request, runtime, caller, read)
