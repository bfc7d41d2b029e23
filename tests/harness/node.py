"""Independent Node programs, with libraries locked by hash."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "oauth" / "node"
INSTALL = ["npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"]


def install_programs(folder: Path, sources: Path = SOURCES) -> Path:
    """Copy the programs into a new folder and install their libraries. Without Node, or offline without npm's cache,
    the test is skipped; with CI=true and Node it fails."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not on this machine")
    shutil.copytree(sources, folder)
    installed = subprocess.run(INSTALL, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if installed.returncode != 0:
        lines = [line for line in installed.stderr.splitlines() if line.startswith("npm error")]
        reason = f"npm can't install what the lock names: {' '.join(lines[:3]) or installed.returncode}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
