"""What of this project can be installed elsewhere: the SDK alone, with its types and its licence."""

import os
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import carrel

ROOT = Path(__file__).parents[2]


def _build(folder: Path, into: Path) -> "subprocess.CompletedProcess[str]":
    """Build a folder's wheel with what is installed here; no index is asked for anything."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    offline = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(
        [*command, "--wheel-dir", str(into), str(folder)], env=offline, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("wheel")
    built = _build(ROOT / "client", into)
    assert built.returncode == 0, built.stdout + built.stderr
    (found,) = into.glob("*.whl")
    return found


def test_the_wheel_of_the_sdk_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        (licence,) = [name for name in archive.namelist() if name.endswith("/licenses/LICENSE")]
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()
    client = ROOT / "client"
    modules = {str(path.relative_to(client)) for path in (client / "carrel").rglob("*.py")}
    assert held == {*modules, "carrel/py.typed", "carrel/wire/formats.json"}


def test_the_wheel_of_the_sdk_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    assert (metadata["Name"], metadata["Version"]) == ("carrel-sdk", carrel.__version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    wanted = [each.partition(";") for each in metadata.get_all("Requires-Dist", [])]
    assert {_importable(requirement) for requirement, _, extra in wanted if not extra} == _imported_by_the_sdk()
    assert [_importable(requirement) for requirement, _, extra in wanted if extra] == ["pandas", "tqdm"]


def _importable(requirement: str) -> str:
    return re.split(r"[<>=]", requirement)[0].replace("-", "_")


def _imported_by_the_sdk() -> set[str]:
    lines = [
        line.split()[1].split(".")[0]
        for path in (ROOT / "client" / "carrel").rglob("*.py")
        for line in path.read_text().splitlines()
        if line.startswith(("import ", "from "))
    ]
    return {name for name in lines if name not in sys.stdlib_module_names} - {"carrel"}


def test_the_project_is_installed_where_it_lies_or_not_at_all(tmp_path: Path) -> None:
    """Packages named `app`, `cli`, `flows` and `service` reach nobody's site-packages: no wheel of them is built."""
    built = _build(ROOT, tmp_path)
    assert built.returncode != 0
    assert "pip install ./client" in built.stderr
    assert list(tmp_path.glob("*.whl")) == []
