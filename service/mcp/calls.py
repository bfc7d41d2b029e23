"""A call of a client: whose it is, and what it may do; the same as of a request to the API."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from mcp.server.context import ServerRequestContext
from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.requests import Request

from carrel.wire.operations import ApiOperation
from service.auth.authorization import authorize, may_call
from service.auth.callers import Caller
from service.runtime import Runtime
from service.web.dependencies import CALLER, read_snapshot

Context = ServerRequestContext[Any, Request]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Call:
    """A call, in the HTTP request that has authenticated its caller."""

    request: Request
    runtime: Runtime
    caller: Caller

    @classmethod
    def of(cls, context: Context) -> "Call":
        """Return the call that a handler of the protocol was given."""
        request = context.request
        assert request is not None  # noqa: S101 - no other transport is served
        return cls(request, cast("Runtime", request.app.state.runtime), cast("Caller", request.scope[CALLER]))

    @property
    def reader(self) -> Caller:
        """The caller without an admin's rights: documents that only an admin's lists show are no text for an agent."""
        return replace(self.caller, is_admin=False)

    def require(self, operation: ApiOperation[Any, Any]) -> None:
        """Raise Forbidden unless the caller may call an operation of the API."""
        authorize(self.caller, operation.requires)

    def may(self, operation: ApiOperation[Any, Any]) -> bool:
        """Return whether the caller may call an operation of the API."""
        return may_call(self.caller, operation.requires)

    async def read(self, read: Callable[[AsyncConnection], Awaitable[Found]]) -> Found:
        """Return what is read in a snapshot, of a standby where there is one."""
        return await read_snapshot(self.request, self.runtime, self.caller, read)
