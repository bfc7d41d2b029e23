"""A client of another language that knows nothing of Carrel completes the flow: Node's oauth4webapi."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.oauth.conftest import Standing
from tests.oauth.flow import SCOPE
from tests.oauth.sdk import callback

SOURCES = Path(__file__).parent / "node"
INSTALL = ["npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"]


@pytest.fixture(scope="session")
def node_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script and its library, installed as the lock's hash has it.

    Without Node, or offline and without npm's cache, the tests are skipped; where CI=true and Node is there, they fail.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not on this machine")
    folder = tmp_path_factory.mktemp("node") / "client"
    shutil.copytree(SOURCES, folder)
    installed = subprocess.run(INSTALL, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if installed.returncode != 0:
        lines = [line for line in installed.stderr.splitlines() if line.startswith("npm error")]
        reason = f"npm can't install oauth4webapi: {' '.join(lines[:3]) or installed.returncode}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


@pytest.mark.parametrize("way", ["basic", "post"])
def test_oauth4webapi_completes_the_flow(standing: Standing, node_folder: Path, way: str) -> None:
    """Metadata, PKCE, state and issuer, code exchange, a call, refresh and revocation, by HTTP Basic or form fields."""
    app = standing.app
    options = [app.service.base_url, app.client_id, app.client_secret, app.redirect_uri, SCOPE, way]
    with subprocess.Popen(
        ["node", "flow.mjs", *options],  # noqa: S607 - whichever Node there is
        cwd=node_folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        sent_to = process.stdout.readline().strip()
        answer = callback(standing.person(), sent_to) if sent_to else ""
        output, errors = process.communicate(f"{answer}\n", timeout=60)
    assert process.returncode == 0, errors
    assert json.loads(output) == {
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
    assert set(packages) == {"node_modules/oauth4webapi"}
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert "://" not in json.dumps(lock)
