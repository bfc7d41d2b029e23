"""What the conformance suite of the protocol expects of a server: tools, resources and prompts with set contents.

It takes the place of the service's own tools behind the service's endpoint: callers, bodies and transport are the
service's.
"""

from typing import Any

from mcp.server.lowlevel import Server
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmbeddedResource,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    ListPromptsResult,
    ListResourcesResult,
    ListToolsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    Tool,
    UnsubscribeRequestParams,
)

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
IMAGE = ImageContent(data=PIXEL, mime_type="image/png")


def embedded(uri: str) -> EmbeddedResource:
    """A text within a result."""
    text = "This is an embedded resource content."
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type="text/plain", text=text))


RESULTS = {
    "test_simple_text": [TextContent(text="This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [AudioContent(data=SILENCE, mime_type="audio/wav")],
    "test_embedded_resource": [embedded("test://embedded-resource")],
    "test_multiple_content_types": [TextContent(text="Text:"), IMAGE, embedded("test://mixed-content-resource")],
    "test_error_handling": [TextContent(text="This tool intentionally returns an error for testing")],
}
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}
PROMPTS = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
}


async def list_tools(_context: Any, _params: Any) -> ListToolsResult:
    """List the tools."""
    plain = [Tool(name=name, description=name, input_schema={"type": "object"}) for name in RESULTS]
    schema = Tool(name="json_schema_2020_12_tool", description="A schema", input_schema=SCHEMA)
    return ListToolsResult(tools=[*plain, schema])


async def call_tool(_context: Any, params: CallToolRequestParams) -> CallToolResult:
    """Answer with what is set."""
    return CallToolResult(content=list(RESULTS[params.name]), is_error=params.name == "test_error_handling")


async def list_resources(_context: Any, _params: Any) -> ListResourcesResult:
    """List the resources."""
    uris = ("test://static-text", "test://static-binary", "test://watched-resource")
    return ListResourcesResult(resources=[Resource(uri=uri, name=uri) for uri in uris])


async def read_resource(_context: Any, params: ReadResourceRequestParams) -> ReadResourceResult:
    """Read one."""
    if params.uri == "test://static-binary":
        return ReadResourceResult(contents=[BlobResourceContents(uri=params.uri, mime_type="image/png", blob=PIXEL)])
    text = '{"id": "123", "templateTest": true, "data": "Data for ID: 123"}' if "template" in params.uri else "Text."
    return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, mime_type="text/plain", text=text)])


async def list_prompts(_context: Any, _params: Any) -> ListPromptsResult:
    """List the prompts."""
    return ListPromptsResult(
        prompts=[
            Prompt(
                name=name, description=name, arguments=[PromptArgument(name=each, required=True) for each in arguments]
            )
            for name, arguments in PROMPTS.items()
        ]
    )


async def get_prompt(_context: Any, params: GetPromptRequestParams) -> GetPromptResult:
    """Fill one in."""
    given = params.arguments or {}
    contents: list[Any] = [TextContent(text=f"A prompt for testing. {' '.join(given.values())}")]
    if "resourceUri" in given:
        contents.insert(0, embedded(given["resourceUri"]))
    if params.name == "test_prompt_with_image":
        contents.insert(0, IMAGE)
    return GetPromptResult(messages=[PromptMessage(role="user", content=content) for content in contents])


async def complete(_context: Any, _params: CompleteRequestParams) -> CompleteResult:
    """Offer nothing."""
    return CompleteResult(completion=Completion(values=[], total=0, has_more=False))


async def do_nothing(_context: Any, _params: Any) -> EmptyResult:
    """Take a message that nothing comes of."""
    return EmptyResult()


def reference_server() -> Server[Any]:
    """Make the server."""
    server = Server(
        "reference",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
    )
    # Deprecated, so that naming them above warns.
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, do_nothing)
    server.add_request_handler("resources/subscribe", SubscribeRequestParams, do_nothing)
    server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, do_nothing)
    return server
