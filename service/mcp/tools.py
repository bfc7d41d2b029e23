"""What a tool is: its name and its words for the client's model, its arguments, its result, and what it does."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mcp_types import Tool as ToolDescription
from mcp_types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, ValidationError

from carrel.wire.operations import ApiOperation
from service.mcp.calls import Call
from service.platform.errors import from_validation


class Arguments(BaseModel):
    """The arguments of a tool: unknown ones are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Result(BaseModel):
    """The result of a tool."""

    model_config = ConfigDict(frozen=True)


Given = TypeVar("Given", bound=Arguments)


@dataclass(frozen=True)
class Tool(Generic[Given]):
    """A tool that those see and call who may call all of its operations of the API.

    `only_reads`: it changes nothing, so that clients need not ask the person each time.
    """

    name: str
    title: str
    description: str
    operations: tuple[ApiOperation[Any, Any], ...]
    arguments: type[Given]
    result: type[Result]
    run: Callable[[Call, Given], Awaitable[Result]]
    only_reads: bool = True

    def describe(self) -> ToolDescription:
        """Describe the tool to a client."""
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
        """Do what the tool does; raise Forbidden, BadRequest naming wrong arguments, or what the operation raises."""
        for operation in self.operations:
            call.require(operation)
        try:
            given = self.arguments.model_validate(arguments or {})
        except ValidationError as error:
            # They are named as they are, whatever else an argument's name may stand for in an address.
            raise from_validation([{**one, "loc": ("body", *one["loc"])} for one in error.errors()]) from error
        return await self.run(call, given)
