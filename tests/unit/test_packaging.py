"""Installing the project elsewhere: the SDK alone, and the dependencies of each extra."""

import json
import os
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from importlib import import_module
from pathlib import Path

import pytest
import typer

import carrel
from cli.app import COMMANDS
from cli.outcome import FLOWS_PACKAGES
from tests.harness.cases import cases, script

ROOT = Path(__file__).parents[2]


def _build(folder: Path, into: Path) -> "subprocess.CompletedProcess[str]":
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
    assert held == {*modules, "carrel/py.typed", "carrel/wire/formats.json", "carrel/wire/schemas.json"}


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
    """Packages named `app`, `cli`, `flows` and `service` must not be in site-packages: no wheel of them is built."""
    built = _build(ROOT, tmp_path)
    assert built.returncode != 0
    assert "pip install ./client" in built.stderr
    assert list(tmp_path.glob("*.whl")) == []


# Of the flows' and the service's packages, what their modules import; a module that is None is one that isn't there.
_WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({sorted({*FLOWS_PACKAGES, 'fastapi', 'psycopg'})}))\n"

_HELP_OF_EVERYTHING = script("packaging_help.txt")


LARGE = {
    *("fastapi", "flows", "httpx", "numpy", "obstore", "pandas", "prefect", "pyarrow", "pydantic", "rich"),
    "sqlalchemy",
}
_IMPORTED = """
import sys
from cli.app import run
ended = run(sys.argv[1:])
sys.stderr.write(" ".join(sys.modules))
sys.exit(ended)
"""


def _python(code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", _WITHOUT + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_command_tells_its_options_with_the_cli_extra_alone() -> None:
    ended = _python(_HELP_OF_EVERYTHING)
    assert ended.returncode == 0, ended.stderr
    for command in ("upload", "reindex", "snapshot take", "sync launch", "access explain"):
        assert f"Usage: carrel {command} [" in ended.stdout


@pytest.mark.parametrize("option", ["--version", "--help", "complete"])
def test_version_help_and_completion_import_next_to_nothing(option: str) -> None:
    completing = {"_CARREL_COMPLETE": "complete_bash", "COMP_WORDS": "carrel pe", "COMP_CWORD": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", _IMPORTED, *([] if option == "complete" else [option])],
        env={**os.environ, **completing} if option == "complete" else None,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ("people" in ended.stdout) == (option != "--version")
    imported = set(ended.stderr.split())
    # typer itself has pydantic check what a command is given.
    assert imported & LARGE <= ({"pydantic"} if option == "complete" else set())
    own = {name for name in imported if name.startswith(("cli.", "carrel."))}
    assert own == {"cli.app", "cli.exit_codes", "carrel._version"}


def test_completing_what_follows_a_command_imports_no_client() -> None:
    """Each press of Tab would wait for imports needed only by requests."""
    ended = _python(
        "from importlib import import_module\nfrom cli.app import COMMANDS\n"
        "for place, _ in COMMANDS.values(): import_module(place.partition(':')[0])\n"
        "print(sorted({'httpx', 'pandas', 'carrel._client'} & set(sys.modules)))"
    )
    assert (ended.returncode, ended.stdout.strip()) == (0, "[]"), ended.stderr


def test_every_command_is_where_it_is_said_to_be() -> None:
    for name, (place, what) in COMMANDS.items():
        module, _, attribute = place.partition(":")
        found = getattr(import_module(module), attribute)
        assert isinstance(found, typer.Typer) or (found.__doc__ or "").startswith(what.removesuffix(".")), name


def test_a_command_that_loads_says_what_it_needs() -> None:
    commands = cases("commands_that_load")
    each = "import json; from cli.app import run\nfor each in json.loads(sys.argv[1]): run([*each, '--json'])"
    ended = _python(each, json.dumps(commands))
    assert ended.returncode == 0, ended.stderr
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [one["exitCode"] for one in told] == [2] * len(commands), told
    assert all("pip install -e '.[cli,flows]'" in one["message"] for one in told), told


def test_who_follows_runs_needs_httpx_alone() -> None:
    ended = _python("import flows.runs")
    assert ended.returncode == 0, ended.stderr
