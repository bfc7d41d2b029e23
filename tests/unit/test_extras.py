"""What comes with which extra: the command line and the following of runs do without the packages of the flows."""

import json
import os
import subprocess
import sys
from importlib import import_module

import pytest
import typer

from cli.app import COMMANDS
from cli.outcome import FLOWS_PACKAGES

# Of the flows' and the service's packages, what their modules import; a module that is None is one that isn't there.
_WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({sorted({*FLOWS_PACKAGES, 'fastapi', 'psycopg'})}))\n"

_HELP_OF_EVERYTHING = """
import typer.main
from cli.app import app, run

def paths(command, *path):
    yield path
    for name in getattr(command, "commands", {}):
        each = command.resolve_command(typer.Context(command), [name])[1]
        yield from paths(each, *path, name)

for path in paths(typer.main.get_command(app)):
    assert run([*path, "--help"]) == 0, path
"""


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
    """Every command's module is imported without what only a request needs: each press of Tab would wait for it."""
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
    commands = (
        ("upload", "."),
        ("plan", "."),
        ("collections", "add", "Shelf", "."),
        ("reindex", "Shelf"),
        ("reindex", "Shelf", "--cancel"),
        ("snapshot", "take"),
        ("quarantine", "list"),
        ("sync", "watch", "things"),
    )
    each = "import json; from cli.app import run\nfor each in json.loads(sys.argv[1]): run([*each, '--json'])"
    ended = _python(each, json.dumps(commands))
    assert ended.returncode == 0, ended.stderr
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [one["exitCode"] for one in told] == [2] * len(commands), told
    assert all("pip install -e '.[cli,flows]'" in one["message"] for one in told), told


def test_who_follows_runs_needs_httpx_alone() -> None:
    ended = _python("import flows.runs")
    assert ended.returncode == 0, ended.stderr
