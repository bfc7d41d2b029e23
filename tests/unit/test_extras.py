"""What comes with which extra: the command line and the following of runs do without the packages of the flows."""

import json
import subprocess
import sys

from cli.outcome import FLOWS_PACKAGES

# Of the flows' and the service's packages, what their modules import; a module that is None is one that isn't there.
_WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({sorted({*FLOWS_PACKAGES, 'fastapi', 'psycopg'})}))\n"

_HELP_OF_EVERYTHING = """
import typer.main
from cli.app import app, run

def paths(command, *path):
    yield path
    for name, each in getattr(command, "commands", {}).items():
        yield from paths(each, *path, name)

for path in paths(typer.main.get_command(app)):
    assert run([*path, "--help"]) == 0, path
"""


def _python(code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", _WITHOUT + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_command_tells_its_options_with_the_cli_extra_alone() -> None:
    """`carrel` starts, and so quickly, without anything that the flows need; so does each command's --help."""
    ended = _python(_HELP_OF_EVERYTHING)
    assert ended.returncode == 0, ended.stderr
    for command in ("upload", "reindex", "snapshot take", "sync launch", "access explain"):
        assert f"Usage: carrel {command} [" in ended.stdout


def test_a_command_that_loads_says_what_it_needs() -> None:
    """It ends as wrong usage does, in a line and for programs, and names what to install."""
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
    """The workbench starts and follows runs without what carries them out."""
    ended = _python("import flows.runs")
    assert ended.returncode == 0, ended.stderr
