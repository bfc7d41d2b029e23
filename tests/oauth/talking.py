"""Using /mcp: as plain HTTP of revision 2026-07-28, and by the protocol's official client."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import httpx2

from tests.harness.lazy import lazily
from tests.harness.processes import ServiceProcess
from tests.harness.services import RunningService

if TYPE_CHECKING:
    from mcp.client import Client
    from mcp.client.client import ConnectMode

client, streamable_http = lazily("mcp.client"), lazily("mcp.client.streamable_http")

REVISION = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": REVISION, "io.modelcontextprotocol/clientCapabilities": {}}


def send(service: RunningService | ServiceProcess, token: str | None, method: str, /, **params: Any) -> httpx.Response:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    headers = {"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": REVISION, "Mcp-Method": method}
    if name := params.get("name") or params.get("uri"):
        headers["Mcp-Name"] = name
    if token is None:
        return httpx.post(f"{service.base_url}/mcp", json=message, headers=headers, timeout=60)
    # By a connection that stays, and to each worker by turns where there are several.
    return service.http.post("/mcp", json=message, headers={**headers, "Authorization": f"Bearer {token}"})


def result(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    return response.json()["result"]


def use(service: RunningService, token: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
    answer = result(send(service, token, "tools/call", name=tool, arguments=arguments))
    assert not answer.get("isError"), answer
    return answer["structuredContent"]


def refusal(service: RunningService, token: str, tool: str, /, **arguments: Any) -> str:
    answer = result(send(service, token, "tools/call", name=tool, arguments=arguments))
    assert answer["isError"], answer
    [content] = answer["content"]
    return content["text"]


def tools(service: RunningService, token: str) -> list[str]:
    return [tool["name"] for tool in result(send(service, token, "tools/list"))["tools"]]


@asynccontextmanager
async def official_client(service: RunningService, token: str, mode: "ConnectMode") -> AsyncGenerator["Client"]:
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http:
        transport = streamable_http.streamable_http_client(f"{service.base_url}/mcp", http_client=http)
        async with client.Client(transport, mode=mode) as connected:
            yield connected
