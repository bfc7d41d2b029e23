"""The protocol's server, asked by HTTP."""

from fastapi.responses import Response
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from service.mcp.server import server


class Exchange(Response):
    """The answer of the protocol's server to a body that has been read.

    Clients of the newest revision get events where an answer takes long. The library's events for older ones would
    leave a task behind that watches the process, so they get JSON.
    """

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the server answer; whatever it has begun ends with the answer."""
        unread = [self._content]

        async def replay() -> Message:
            return {"type": "http.request", "body": unread.pop(), "more_body": False} if unread else await receive()

        revision = Headers(scope=scope).get(MCP_PROTOCOL_VERSION_HEADER)
        manager = StreamableHTTPSessionManager(
            server(),
            stateless=True,
            json_response=revision is None or revision in HANDSHAKE_PROTOCOL_VERSIONS,
        )
        async with manager.run():
            await manager.handle_request(scope, replay, send)
