"""A client of another language that knows nothing of Carrel completes the flow: Node's oauth4webapi."""

import json
from pathlib import Path

import pytest

from tests.harness.node import SOURCES, install_programs
from tests.oauth.flow import SCOPE
from tests.oauth.sdk import run_script


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
    """Any registry or mirror can serve what its hash holds."""
    lock = json.loads((SOURCES / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert {"node_modules/oauth4webapi", "node_modules/oidc-provider"} <= set(packages)
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert not any("resolved" in package for package in packages.values())
