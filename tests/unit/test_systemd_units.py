"""The systemd units: systemd understands them, and they start what the Procfile of `make up` starts."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
UNITS = REPOSITORY / "deploy/systemd"
ANALYZE = shutil.which("systemd-analyze")
COMMAND = re.compile(r"\.venv/bin/python -m .+")


def test_each_process_has_a_unit() -> None:
    """But for the one that greets who tries the sample."""
    wanted = set(COMMAND.findall((REPOSITORY / "Procfile").read_text())) - {".venv/bin/python -m sample"}
    assert {COMMAND.search(unit.read_text())[0] for unit in UNITS.glob("*.service")} == wanted  # pyright: ignore[reportOptionalSubscript]


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    """With Carrel installed where the units look for it, and nobody but systemd's own units beside them."""
    shutil.copytree(UNITS, tmp_path / "units")
    for file in (tmp_path / "units").rglob("*.*"):
        if file.is_file():
            file.write_text(file.read_text().replace("/opt/carrel", str(REPOSITORY)))
    told = subprocess.run(
        [str(ANALYZE), "verify", "--man=no", *map(str, sorted((tmp_path / "units").glob("*.service")))],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path / 'units'}:"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.returncode, told.stderr) == (0, "")
