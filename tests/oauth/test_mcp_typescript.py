"""The protocol's official client for TypeScript completes the flow at /mcp, and reads as the person who let it."""

from pathlib import Path

import pytest

from tests.harness.documents import uploaded
from tests.harness.node import install_programs
from tests.oauth.flow import AGENT_SCOPES, an_mcp_client
from tests.oauth.sdk import run_script


@pytest.fixture(scope="module")
def client_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_programs(tmp_path_factory.mktemp("node") / "typescript", Path(__file__).parent / "typescript")


@pytest.mark.long
@pytest.mark.parametrize(("mode", "revision"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_official_client_for_typescript_completes_the_flow(standing, client_folder, mode, revision):
    """Refusal, metadata, PKCE, consent, a port of its own, tools, search, text, refresh, and its end by revocation."""
    text = "# Ferries\n\nThe ferry to Harwell leaves at noon."
    uploaded(standing.service, "ferry", text, file_name="ferry.md", internalPublic="true")
    app = an_mcp_client(standing.service, "http://localhost/callback")
    options = [f"{standing.service.base_url}/mcp", app.client_id, "http://localhost:49152/callback", mode]
    assert run_script(client_folder, standing.person(), *options) == {
        "sentToSignIn": True,
        "scope": " ".join(AGENT_SCOPES),
        "revision": revision,
        "tools": ["search", "fetch", "ask_agent"],
        "text": text,
        "textAfterRefresh": text,
        "wasRefreshed": True,
        "revoked": 200,
        "sentToSignInAfterRevocation": True,
    }
