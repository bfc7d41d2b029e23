"""A stand-in of somebody's endpoint on loopback: real HTTP, which takes and answers JSON."""

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from tests.harness.http_servers import Handler, serving

Answer = tuple[int, object]
"""A status, and a body: JSON, or bytes as they are."""
Respond = Callable[[str, Mapping[str, str], dict], Answer]
"""What answers a request's path, headers and body."""


@contextmanager
def serving_json(respond: Respond) -> Generator[str]:

    class Endpoint(Handler):
        def answer(self, body: bytes) -> None:
            status, answer = respond(self.path, self.headers, json.loads(body))
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.respond(status, content, Content_Type="application/json")

    with serving(Endpoint) as url:
        yield f"{url}/v1"
