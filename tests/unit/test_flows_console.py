"""What a run prints, for people and for programs."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from flows.console import print_json, show_end
from flows.operations.documents import Problem
from flows.operations.ledger import Ledger
from flows.operations.summary import summarize

NAME = "notes:ship:[bold]\\"


def test_json_says_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in a name is taken for markup or an emoji's code, and what is printed is one line of JSON."""
    print_json({"failures": [NAME, "ä"]})
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {"failures": [NAME, "ä"]}


def test_quarantine_is_shown_as_it_is(tmp_path: Path) -> None:
    """A table of failures shows names with brackets, colons and backslashes as they are."""
    console = Console(file=io.StringIO(), width=200, emoji=False)
    with Ledger.at(tmp_path, target="t", source="s") as ledger:
        ledger.begin()
        ledger.record_problems([Problem(place=NAME, code="c", message="m")])
        show_end(summarize(ledger), ledger, console=console)
    assert isinstance(console.file, io.StringIO)
    assert NAME in console.file.getvalue()
