"""What the pages tell people to type is there: code that tests run, commands that parse."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.app import app as carrel_commands
from service.operate.commands import app as service_commands

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMANDS = {"carrel": carrel_commands, "python -m service": service_commands}


def commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for language, block in BLOCK.findall(page.read_text()):
            if language not in {"console", "bash"}:
                continue
            for line in block.replace("\\\n", " ").splitlines():
                if language == "console" and not line.startswith("$ "):
                    continue
                for command in re.split(r"&&|\|", line.removeprefix("$ ")):
                    yield page.name, re.sub(r"^(\w+=\S+\s+)+", "", command.strip()).replace(".venv/bin/", "")


def test_the_code_of_a_page_is_run() -> None:
    tests = [test for path in (ROOT / "tests").rglob("test_*.py") if "run_code_of(" in (test := path.read_text())]
    pages = [page.name for page in PAGES if "```python" in page.read_text()]
    assert [name for name in pages if not any(f'"{name}"' in test for test in tests)] == []


@pytest.mark.parametrize("program", COMMANDS)
def test_the_commands_of_the_pages_parse(program: str) -> None:
    shown = [(page, line) for page, line in commands() if f"{line} ".startswith(f"{program} ")]
    assert len(shown) > 5
    for page, line in shown:
        arguments = shlex.split(line, comments=True)[len(program.split()) :]
        result = CliRunner().invoke(COMMANDS[program], [*arguments, "--help"])
        assert result.exit_code == 0, f"{page}: {line}\n{result.output}"


def test_the_targets_of_the_pages_are_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"(?:^\$ |`)make ([a-z-]+)", page.read_text(), re.MULTILINE)}
    assert {"up", "test", "notebooks"} <= named <= targets
