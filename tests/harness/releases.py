"""The previous release from the repository's history: its code runs next to ours, with our dependencies."""

import re
import subprocess
import sys
import tarfile
import tomllib
from io import BytesIO
from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.harness.processes import ServiceProcess, environment_without_settings

ROOT = Path(__file__).parents[2]
COMMIT: str = tomllib.loads((ROOT / "releases.toml").read_text())["release"][-1]["commit"]


class ServiceOfBefore(ServiceProcess):
    """The service of the previous release as a process, on a separate tree."""

    # Nothing is imported from the folder that the tests run in, which the processes that it starts look into first.
    program = ("-P", "-m", "service")

    def __init__(self, tree: Path, **environment: str) -> None:
        self.folder = tree
        super().__init__(PYTHONPATH=f"{tree}:{tree / 'client'}", **environment)


def export_release_before(folder: Path) -> Path:
    exported = _ask_git("archive", COMMIT, "service", "client")
    if exported.returncode:
        told = f"the release before, {COMMIT}, is not in this clone's history: {exported.stderr.decode().strip()}."
        if _ask_git("rev-parse", "--is-shallow-repository").stdout.strip() == b"false":
            pytest.fail(f"{told} Let releases.toml name a commit of this branch's history.")
        pytest.skip(f"{told} `git fetch --unshallow` brings the rest of it.")
    with tarfile.open(fileobj=BytesIO(exported.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def head_of_before(tree: Path) -> str:
    [head] = re.findall(r'^HEAD = "(\w+)"', (tree / "service/migrations/__init__.py").read_text(), re.MULTILINE)
    return head


def run_before(tree: Path, *arguments: str, **environment: str) -> None:
    variables = environment_without_settings() | {"PYTHONPATH": f"{tree}:{tree / 'client'}"} | environment
    command = [sys.executable, "-P", *arguments]
    ended = subprocess.run(command, env=variables, cwd=tree, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended


def migrate_before(tree: Path, url: URL) -> None:
    program = "import sys, sqlalchemy, service.migrations as m; m.upgrade(sqlalchemy.make_url(sys.argv[1]))"
    run_before(tree, "-c", program, url.render_as_string(hide_password=False))


def _ask_git(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, check=False)
