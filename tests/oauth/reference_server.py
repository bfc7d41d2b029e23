"""The tools, resources and prompts expected by the conformance suite, in place of the service's tools."""

from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
IMAGE = types.ImageContent(data=PIXEL, mime_type="image/png")


def embedded(uri: str) -> types.EmbeddedResource:
    text = "This is an embedded resource content."
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type="text/plain", text=text))


RESULTS = {
    "test_simple_text": [types.TextContent(text="This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [types.AudioContent(data=SILENCE, mime_type="audio/wav")],
    "test_embedded_resource": [embedded("test://embedded-resource")],
    "test_multiple_content_types": [types.TextContent(text="Text:"), IMAGE, embedded("test://mixed-content-resource")],
    "test_error_handling": [types.TextContent(text="This tool intentionally returns an error for testing")],
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


async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
    plain = [types.Tool(name=name, description=name, input_schema={"type": "object"}) for name in RESULTS]
    schema = types.Tool(name="json_schema_2020_12_tool", description="A schema", input_schema=SCHEMA)
    return types.ListToolsResult(tools=[*plain, schema])


async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    return types.CallToolResult(content=list(RESULTS[params.name]), is_error=params.name == "test_error_handling")


async def list_resources(_context: Any, _params: Any) -> types.ListResourcesResult:
    uris = ("test://static-text", "test://static-binary", "test://watched-resource")
    return types.ListResourcesResult(resources=[types.Resource(uri=uri, name=uri) for uri in uris])


async def read_resource(_context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    if params.uri == "test://static-binary":
        return types.ReadResourceResult(
            contents=[types.BlobResourceContents(uri=params.uri, mime_type="image/png", blob=PIXEL)]
        )
    text = '{"id": "123", "templateTest": true, "data": "Data for ID: 123"}' if "template" in params.uri else "Text."
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=params.uri, mime_type="text/plain", text=text)]
    )


async def list_prompts(_context: Any, _params: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=name,
                description=name,
                arguments=[types.PromptArgument(name=each, required=True) for each in arguments],
            )
            for name, arguments in PROMPTS.items()
        ]
    )


async def get_prompt(_context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    given = params.arguments or {}
    contents: list[Any] = [types.TextContent(text=f"A prompt for testing. {' '.join(given.values())}")]
    if "resourceUri" in given:
        contents.insert(0, embedded(given["resourceUri"]))
    if params.name == "test_prompt_with_image":
        contents.insert(0, IMAGE)
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content) for content in contents])


async def complete(_context: Any, _params: types.CompleteRequestParams) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))


async def do_nothing(_context: Any, _params: Any) -> types.EmptyResult:
    return types.EmptyResult()


def reference_server() -> Server[Any]:
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
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, do_nothing)
    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, do_nothing)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, do_nothing)
    return server
