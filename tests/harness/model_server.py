"""A stand-in OpenAI-compatible endpoint on loopback: real HTTP, real server-sent events, and all kinds of failures."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.harness.http_servers import Handler, serving

KEY = "sk-stand-in-4711"
MODEL = "stand-in"
PIECE = 7
"""Characters per piece of a streamed text: few enough to cut words, citations and addresses."""

Request = dict
Answer = Callable[["Exchange"], None]
Script = Callable[[Request], Answer]


class Exchange:
    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def refuse(self, status: int, body: object, *, content_type: str = "application/json", **headers: str) -> None:
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self._handler.respond(status, content, Content_Type=content_type, **headers)

    def begin(self) -> None:
        self._handler.send_response(200)
        self._handler.send_header("Content-Type", "text/event-stream")
        self._handler.send_header("Transfer-Encoding", "chunked")
        self._handler.end_headers()

    def event(self, data: str) -> None:
        self.write(f"data: {data}\n\n".encode())

    def write(self, content: bytes) -> None:
        self._handler.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        self._handler.wfile.flush()

    def delta(self, delta: dict, *, finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        self.event(json.dumps({"id": "c1", "object": "chat.completion.chunk", "created": 1, "choices": [choice]}))

    def text(self, text: str) -> None:
        for start in range(0, len(text), PIECE):
            self.delta({"content": text[start : start + PIECE]})

    def end(self) -> None:
        self.event("[DONE]")
        self._handler.wfile.write(b"0\r\n\r\n")

    def cut(self) -> None:
        self._handler.wfile.flush()
        self._handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._handler.connection.close()
        self._handler.close_connection = True


def says(text: str, *, finish: str = "stop") -> Answer:
    def answer(exchange: Exchange) -> None:
        exchange.begin()
        exchange.text(text)
        exchange.delta({}, finish=finish)
        exchange.end()

    return answer


def calls(tool: str, *, saying: str = "", **arguments: str) -> Answer:
    written = json.dumps(arguments)

    def answer(exchange: Exchange) -> None:
        exchange.begin()
        exchange.text(saying)
        function = {"name": tool, "arguments": ""}
        exchange.delta({"tool_calls": [{"index": 0, "id": f"call-{tool}", "type": "function", "function": function}]})
        for start in range(0, len(written), PIECE):
            exchange.delta({"tool_calls": [{"index": 0, "function": {"arguments": written[start : start + PIECE]}}]})
        exchange.delta({}, finish="tool_calls")
        exchange.end()

    return answer


def says_at_once(text: str, *, finish: str = "stop") -> Answer:
    return _whole({"role": "assistant", "content": text}, finish)


def fills_in(**arguments) -> Answer:
    return says_at_once(json.dumps(arguments))


def fills_in_tool(**arguments) -> Answer:
    function = {"name": "final_result", "arguments": json.dumps(arguments)}
    calls = [{"id": "call-1", "type": "function", "function": function}]
    return _whole({"role": "assistant", "tool_calls": calls}, "tool_calls")


def _whole(message: dict, finish: str) -> Answer:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    whole = {"id": "c1", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice]}
    return lambda exchange: exchange.refuse(200, whole)


def refuses(status: int, *, code: str = "", message: str = "", **headers: str) -> Answer:
    return lambda exchange: exchange.refuse(status, {"error": {"message": message, "code": code or None}}, **headers)


def is_cut_off(text: str) -> Answer:
    def answer(exchange: Exchange) -> None:
        exchange.begin()
        exchange.text(text)
        exchange.cut()

    return answer


def repeats_slowly(text: str, *, until: threading.Event) -> Answer:
    """Answer with a repeated text, slowly and without an end, until the event is set."""

    def answer(exchange: Exchange) -> None:
        exchange.begin()
        while not until.wait(0.05):
            exchange.text(text)

    return answer


def streams(*events: str) -> Answer:
    def answer(exchange: Exchange) -> None:
        exchange.begin()
        for event in events:
            exchange.event(event)
        exchange.end()

    return answer


@dataclass
class ModelServer:
    """The endpoint: `script` answers requests; requests are recorded."""

    url: str = ""
    script: Script = lambda _request: says("Nothing was scripted.")
    requests: list[Request] = field(default_factory=list[Request])
    keys: list[str] = field(default_factory=list[str])

    def in_turn(self, *answers: Answer) -> None:
        left = list(answers)
        self.script = lambda _request: left.pop(0) if len(left) > 1 else left[0]

    @property
    def settings(self) -> dict:
        return {"model_url": self.url, "model_names": (MODEL,), "model_api_key": KEY}

    def shown(self, request: int = -1) -> str:
        return json.dumps(self.requests[request]["messages"], ensure_ascii=False)

    def tools(self, request: int = -1) -> list[str]:
        return [tool["function"]["name"] for tool in self.requests[request].get("tools", [])]


def passages_in(request: Request) -> list[dict]:
    return [
        passage
        for message in request["messages"]
        if message["role"] == "tool"
        for passage in json.loads(message["content"])
    ]


@contextmanager
def serving_model() -> Generator[ModelServer]:
    model = ModelServer()

    class Endpoint(Handler):
        def answer(self, body: bytes) -> None:
            request = json.loads(body)
            model.requests.append(request)
            model.keys.append(self.headers.get("Authorization", ""))
            script = model.script if self.path == "/v1/chat/completions" else _no_such_path
            with suppress(OSError):
                script(request)(Exchange(self))

    with serving(Endpoint) as url:
        model.url = f"{url}/v1"
        yield model


def _no_such_path(_: Request) -> Answer:
    return refuses(404, message="no such path")
