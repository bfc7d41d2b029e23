"""What deployments start from: systemd understands the units, and each process and setting named there exists."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import cast

import pytest

from service.runtime import Runtime
from service.web.connections import Connections
from service.web.metrics import Metrics

REPOSITORY = Path(__file__).parents[2]
UNITS = REPOSITORY / "deploy/systemd"
ANALYZE = shutil.which("systemd-analyze")
METRIC = re.compile(r"\bcarrel_[a-z_]+")
SETTING = re.compile(r"\bCARREL_[A-Z0-9_]+")
COMMAND = re.compile(r"\.venv/bin/python -m .+")


def test_each_process_has_a_unit() -> None:
    """But for the one that greets who tries the sample."""
    wanted = set(COMMAND.findall((REPOSITORY / "Procfile").read_text())) - {".venv/bin/python -m sample"}
    assert {COMMAND.search(unit.read_text())[0] for unit in UNITS.glob("*.service")} == wanted  # pyright: ignore[reportOptionalSubscript]


def test_each_setting_exists() -> None:
    """The reference of settings has those that the units and the image set."""
    files = [path for path in (REPOSITORY / "deploy").rglob("*") if path.is_file()]
    named = {name for path in files for name in SETTING.findall(path.read_text())}
    assert named
    assert named <= set(SETTING.findall((REPOSITORY / "docs/settings.md").read_text()))


def test_each_metric_exists() -> None:
    """What the dashboard draws and the alert rules look at is counted."""
    metrics = Metrics(cast("Runtime", None))
    metrics.watch(cast("Connections", None))
    counted = {f"{each.name}_total" if each.type == "counter" else each.name for each in metrics._registry.collect()}  # pyright: ignore[reportPrivateUsage]
    named = {name for path in (REPOSITORY / "deploy/monitoring").iterdir() for name in METRIC.findall(path.read_text())}
    assert named
    assert {name.removesuffix("_bucket") for name in named} <= counted


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
