"""Every command in the documentation exists, with all options."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(?:console|sh|cron)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# What wrong usage is told by; of its kinds typer has this one under a name of its own.
UsageError = typer.BadParameter.__mro__[1]
PROMPT = "$ "
# Where the shell begins another command.
SEPARATORS = frozenset({"&&", "||", ";", "|"})


def parse(words: list[str]) -> None:
    """Parse a command without running it; raise UsageError."""
    command, name, rest = typer.main.get_command(app), "carrel", words
    context = typer.Context(command, info_name=name)
    while isinstance(command, TyperGroup):
        name, command, rest = command.resolve_command(context, rest)
        parent, context = context, typer.Context(command, parent=context, info_name=name)
    command.make_context(name, rest, parent=parent)


def commands_of(page: Path) -> Iterator[list[str]]:
    for block in BLOCK.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            yield from _carrels(shlex.split(line.removeprefix(PROMPT), comments=True))


def _carrels(words: list[str]) -> Iterator[list[str]]:
    command: list[str] = []
    for word in [*words, ";"]:
        if word in SEPARATORS:
            if command and Path(command[0]).name == "carrel" and "=" not in command[0]:  # a setting may end so
                yield command[1:]
            command = []
        else:
            command.append(word)


SHOWN = [(page.name, command) for page in PAGES for command in commands_of(page)]


@pytest.fixture(autouse=True)
def _readers_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create the files and folders used by some commands."""
    monkeypatch.chdir(tmp_path)
    for name in ("users.csv", "groups.csv", "memberships.csv"):
        (tmp_path / name).touch()
    for name in ("OLD", "NEW"):
        (tmp_path / name).mkdir()


def test_there_are_commands() -> None:
    assert len(SHOWN) > 20
    assert {command[0] for _, command in SHOWN} >= {"upload", "plan", "search", "sync", "directory", "reindex"}


@pytest.mark.parametrize(("page", "command"), SHOWN, ids=[" ".join(command) for _, command in SHOWN])
def test_a_command_of_the_documentation_is_understood(page: str, command: list[str]) -> None:
    try:
        parse(command)
    except UsageError as error:
        pytest.fail(f"{page}: carrel {shlex.join(command)}: {error.format_message()}")


@pytest.mark.parametrize("wrong", ["uplaod reports", "upload reports --everybody", "sync create", "search"])
def test_a_mistake_would_be_found(wrong: str) -> None:
    with pytest.raises(UsageError):
        parse(wrong.split())
