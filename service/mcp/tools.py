"""A tool's definition: name and description for the model, arguments, result, and function, run as its caller."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

from mcp.server.context import ServerRequestContext
from mcp_types import Tool as ToolDescription
from mcp_types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection as Connection
from starlette.requests import Request

from carrel.wire.operations import ApiOperation
from service.auth.authorization import authorize, may_call
from service.auth.callers import Caller
from service.runtime import Runtime
from service.web.dependencies import CALLER, read_snapshot
from service.web.guidance import refuse_members

Context = ServerRequestContext[Any, Request]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Call:
    request: Request
    runtime: Runtime
    caller: Caller

    @classmethod
    def of(cls, context: Context) -> "Call":
        request = context.request
        assert request is not None  # noqa: S101 - no other transport is served
        return cls(request, cast("Runtime", request.app.state.runtime), cast("Caller", request.scope[CALLER]))

    @property
    def reader(self) -> Caller:
        """The caller without admin rights: documents visible only in admin lists are not for an agent."""
        return replace(self.caller, is_admin=False)

    def require(self, operation: ApiOperation[Any, Any]) -> None:
        authorize(self.caller, operation.requires)

    def may(self, operation: ApiOperation[Any, Any]) -> bool:
        return may_call(self.caller, operation.requires)

    async def read(self, read: Callable[[Connection], Awaitable[Found]]) -> Found:
        """Return the result of `read` in a snapshot, on a standby if available."""
        return await read_snapshot(self.request, self.runtime, self.caller, read)


class Arguments(BaseModel):
    """The arguments of a tool; unknown arguments are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Result(BaseModel):
    """The result of a tool."""

    model_config = ConfigDict(frozen=True)


Given = TypeVar("Given", bound=Arguments)


@dataclass(frozen=True)
class Tool(Generic[Given]):
    """A tool for callers allowed to use its API operations. `only_reads`: clients need not ask the person each time."""

    name: str
    title: str
    description: str
    operations: tuple[ApiOperation[Any, Any], ...]
    arguments: type[Given]
    result: type[Result]
    run: Callable[[Call, Given], Awaitable[Result]]
    only_reads: bool = True

    def describe(self) -> ToolDescription:
        return ToolDescription(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.arguments.model_json_schema(),
            output_schema=self.result.model_json_schema(mode="serialization"),
            annotations=ToolAnnotations(
                title=self.title, read_only_hint=self.only_reads, destructive_hint=False, open_world_hint=False
            ),
        )

    async def call(self, call: Call, arguments: dict[str, Any] | None) -> Result:
        """Run the tool. Raises Forbidden, BadRequest naming wrong arguments, or the errors of the operation."""
        for operation in self.operations:
            call.require(operation)
        try:
            given = self.arguments.model_validate(arguments or {})
        except ValidationError as error:
            # Name arguments as sent, even if an address would give the name another meaning.
            named = [{**item, "loc": ("body", *item["loc"])} for item in error.errors()]
            raise refuse_members(named, self.arguments) from error
        return await self.run(call, given)


def tool(
    *, title: str, description: str, operations: tuple[ApiOperation[Any, Any], ...], only_reads: bool = True
) -> Callable[[Callable[[Call, Given], Awaitable[Result]]], Tool[Given]]:
    """Make a function a tool, with its name, arguments and result."""

    def make(run: Callable[[Call, Given], Awaitable[Result]]) -> Tool[Given]:
        types = run.__annotations__
        return Tool(run.__name__, title, description, operations, types["arguments"], types["return"], run, only_reads)

    return make
