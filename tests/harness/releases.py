"""The release before, as the repository's history has it: its code runs beside ours, with our dependencies."""

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from tests.harness.processes import ServiceProcess

ROOT = Path(__file__).parents[2]
COMMIT = (ROOT / "tests/data/release-before").read_text().strip()


class ServiceOfBefore(ServiceProcess):
    """The service of the release before as a process, on a tree of it."""

    # Nothing is imported from the folder that the tests run in.
    program = ("-P", "-m", "service")

    def __init__(self, tree: Path, **environment: str) -> None:
        super().__init__(PYTHONPATH=f"{tree}:{tree / 'client'}", **environment)


def export_release_before(folder: Path) -> Path:
    """Write the tree of the release before to a folder; skips the test where the history doesn't reach so far back."""
    command = ["git", "-C", str(ROOT), "archive", COMMIT, "service", "client"]
    exported = subprocess.run(command, capture_output=True, check=False)
    if exported.returncode:
        pytest.skip(f"the release before is not in this clone's history: {exported.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(exported.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder
