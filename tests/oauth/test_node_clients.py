"""Node clients complete the flow: the protocol's official client at /mcp, and oauth4webapi."""

import json
from pathlib import Path

import pytest

from tests.harness.documents import uploaded
from tests.harness.node import SOURCES, install_programs
from tests.oauth.flow import AGENT_SCOPES, SCOPE, an_mcp_client
from tests.oauth.sdk import run_script


@pytest.fixture(scope="module")
def client_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_programs(tmp_path_factory.mktemp("node") / "typescript", Path(__file__).parent / "typescript")


@pytest.mark.long
@pytest.mark.parametrize(("mode", "revision"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_official_client_for_typescript_completes_the_flow(standing, client_folder, mode, revision):
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


@pytest.fixture(scope="module")
def node_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_programs(tmp_path_factory.mktemp("node") / "client")


@pytest.mark.parametrize("way", ["basic", "post"])
def test_oauth4webapi_completes_the_flow(standing, node_folder: Path, way: str) -> None:
    app = standing.app
    options = [app.service.base_url, app.client_id, app.client_secret, app.redirect_uri, SCOPE, way]
    assert run_script(node_folder, standing.person(), *options) == {
        "email": standing.email,
        "scope": SCOPE,
        "expiresIn": 3600,
        "refreshAfterwards": "invalid_grant",
        "callAfterwards": "bearer",
    }


def test_the_lock_names_no_host() -> None:
    """Any registry or mirror can serve the locked hashes."""
    lock = json.loads((SOURCES / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert {"node_modules/oauth4webapi", "node_modules/oidc-provider"} <= set(packages)
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert not any("resolved" in package for package in packages.values())
