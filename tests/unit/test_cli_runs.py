"""What a run prints, for people and for programs."""

import json
from pathlib import Path

import pytest

from cli.runs import show_end, show_plan
from cli.screen import Screen
from flows.operations.ledger.ledger import Ledger
from flows.operations.plan import read_plan
from flows.operations.scan import Scanned
from flows.operations.sources.documents import Problem
from flows.operations.summary import Summary, summarize

NAME = "notes:ship:[bold]\\"


def test_json_says_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in a name is taken for markup or an emoji's code, and what is printed is one line of JSON."""
    Screen(as_json=True).json({"failures": [NAME, "ä"]})
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {"failures": [NAME, "ä"]}


def test_quarantine_is_shown_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Failures are shown with brackets, colons and backslashes as they are."""
    with Ledger.at(tmp_path, target="t", source="s") as ledger:
        ledger.begin()
        ledger.record_problems([Problem(place=NAME, code="c", message="m")])
        show_end(summarize(ledger), ledger, screen=Screen(as_json=False))
    assert NAME in capsys.readouterr().out


def test_plan_names_what_would_not_be_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong with the source is shown with its place and reason before anything is sent."""
    with Ledger.at(tmp_path, target="t", source="s") as ledger:
        ledger.begin()
        ledger.record_problems([Problem(place="line 7", code="file_missing", message="there is no such file.")])
        show_plan(read_plan(ledger), Scanned(problems=1), ledger, screen=Screen(as_json=False))
    shown = capsys.readouterr().out
    assert "! line 7  file_missing: there is no such file." in shown


def test_counts_add_up() -> None:
    """What could not become a document is one of those that are counted in front, as it is of the quarantine."""
    summary = Summary(documents=3, to_send=2, created=1, unchanged=1, failed=1, problems=2)
    assert summary.text() == "5 documents: 1 created, 0 updated, 1 unchanged, 3 in quarantine; 0 bytes sent"
