"""Deployment files: systemd accepts the units, and each process and setting named there exists."""

import json
import os
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from jsonschema.validators import validator_for

from service.runtime import Runtime
from service.web.connections import Connections
from service.web.metrics import Metrics

REPOSITORY = Path(__file__).parents[2]
UNITS = REPOSITORY / "deploy/systemd"
ANALYZE = shutil.which("systemd-analyze")
METRIC = re.compile(r"\bcarrel_[a-z_]+")
SETTING = re.compile(r"\bCARREL_[A-Z0-9_]+")
OPERATING = REPOSITORY / "docs/operating.md"
# Which table of the settings is whose.
SECTIONS = {"service": "service", "app": "workbench", "flows": "flows", "flows.server": "flows"}
COMMAND = re.compile(r"\.venv/bin/python -m .+")


def _compose() -> dict[str, Any]:
    return yaml.safe_load((REPOSITORY / "deploy/compose.yaml").read_text())


def test_each_process_has_a_unit() -> None:
    wanted = set(COMMAND.findall((REPOSITORY / "Procfile").read_text())) - {".venv/bin/python -m sample"}
    assert {COMMAND.search(unit.read_text())[0] for unit in UNITS.glob("*.service")} == wanted  # pyright: ignore[reportOptionalSubscript]


def test_each_setting_exists() -> None:
    paths = [path for path in (REPOSITORY / "deploy").rglob("*") if path.is_file()]
    named = {name for path in paths for name in SETTING.findall(path.read_text())}
    assert named
    assert named <= set(SETTING.findall((REPOSITORY / "docs/settings.md").read_text()))


def test_each_metric_exists() -> None:
    metrics = Metrics(cast("Runtime", None))
    metrics.watch(cast("Connections", None))
    metrics.watch_archive()
    counted = {f"{each.name}_total" if each.type == "counter" else each.name for each in metrics._registry.collect()}  # pyright: ignore[reportPrivateUsage]
    named = {name for path in (REPOSITORY / "deploy/monitoring").iterdir() for name in METRIC.findall(path.read_text())}
    assert named
    assert {name.removesuffix("_bucket") for name in named} <= counted


def test_compose_understands_the_file() -> None:
    compose = _compose()
    schema = json.loads((files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text())
    assert list(validator_for(schema)(schema).iter_errors(compose)) == []
    variables = re.findall(r"\$\{(\w+)(:[?-])", (REPOSITORY / "deploy/compose.yaml").read_text())
    wanted = {name for name, default in variables if default == ":?"}
    told = re.search(r"^umask 077 && cat > deploy/\.env.*?^END$", OPERATING.read_text(), re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"^([A-Z_]+)=", told[0], re.MULTILINE)) == wanted


def test_compose_starts_each_process_and_waits_for_what_is_healthy() -> None:
    services = _compose()["services"]
    own = {name: one for name, one in services.items() if one["image"] == "carrel"}
    commands = {" ".join([".venv/bin/python", *one["command"][1:]]) for one in own.values()}
    assert commands == {COMMAND.search(unit.read_text())[0] for unit in UNITS.glob("*.service")}  # pyright: ignore[reportOptionalSubscript]
    settings = (REPOSITORY / "docs/settings.md").read_text().split("\n## ")
    for one in own.values():
        section = next(each for each in settings if SECTIONS[one["command"][2]] in each.partition("\n")[0])
        named = {name for name in one["environment"] if name.startswith("CARREL_")}
        assert named <= set(SETTING.findall(section)), one["command"]
        assert (one["read_only"], one["cap_drop"]) == (True, ["ALL"])
    for one in services.values():
        assert all("healthcheck" in services[name] for name in one.get("depends_on", {}))
        assert all(network in _compose()["networks"] for network in one["networks"])


def test_the_image_has_the_packages_of_the_lock() -> None:
    pinned = re.compile(r"^([a-z0-9._-]+)==(\S+)", re.MULTILINE)
    whole, run = (
        dict(pinned.findall((REPOSITORY / name).read_text())) for name in ("requirements.lock", "requirements-run.lock")
    )
    assert run.items() <= whole.items()
    assert {"fastapi", "prefect", "streamlit", "typer"} <= run.keys()
    assert not {"pytest", "playwright", "basedpyright", "ruff", "jupyterlab"} & run.keys()


def test_nobody_else_is_the_service() -> None:
    named = {
        unit.stem: set(re.findall(r"^(?:User|StateDirectory)=(.+)$", unit.read_text(), re.MULTILINE))
        for unit in UNITS.glob("*.service")
    }
    service = named.pop("carrel-service")
    assert len(service) == 1
    assert all(len(users) == 1 and users != service for users in named.values())


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
def test_systemd_finds_no_fault(tmp_path: Path) -> None:
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
