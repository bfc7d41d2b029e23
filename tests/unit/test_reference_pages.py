"""Pages match the code and the committed results, and shown commands exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.cost import Prices, estimate, to_markdown
from carrel.wire.schemas import descriptions_of
from cli.app import app as carrel_commands
from scripts import endpoints_reference, settings_reference, write_resources
from scripts.settings_reference import ROOMS
from scripts.size import GENERATED
from service.operate.commands import app as service_commands
from tests.harness.requirements import REQUIREMENTS, V0_REQUIREMENTS, V1_REQUIREMENTS


@pytest.mark.parametrize("module", [endpoints_reference, settings_reference])
def test_a_page_is_what_the_code_says(module) -> None:
    """Updated by `make docs`."""
    assert module.PAGE.read_text() == module.reference()


def test_resources_are_what_the_operations_say() -> None:
    """Updated by `make docs`; no further file claims to be generated."""
    generated = write_resources.generate()
    assert {path: path.read_text() for path in generated} == generated
    marked = {path for path in write_resources.FOLDER.rglob("*.py") if path.read_bytes().startswith(GENERATED)}
    assert marked == generated.keys()


def test_every_operation_is_on_its_page() -> None:
    page = endpoints_reference.PAGE.read_text()
    assert all(f"- `{name}`: " in page for name in (*REQUIREMENTS, *V0_REQUIREMENTS, *V1_REQUIREMENTS))


def test_every_setting_says_what_it_is() -> None:
    assert [room.model_fields.keys() - descriptions_of(room).keys() for room in ROOMS.values()] == [set()] * len(ROOMS)


def test_the_page_about_scaling_has_the_costs_that_follow_from_the_last_results() -> None:
    rows = estimate(Prices(core=15, memory=3, disk=0.1), searches=5)
    assert "\n".join(to_markdown(rows)) in (endpoints_reference.PAGE.parent / "scaling.md").read_text()


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
