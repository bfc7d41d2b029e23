"""A test that fails shows its failure, and the end of what was logged."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.logs import LONGEST_LINE, MOST_LINES, VARIABLE, read_log, shorten_log

ROOT = Path(__file__).parents[2]
FAILING = """
import structlog
from tests.harness.logs import configure_logs

configure_logs()

def deep(depth, told):
    if depth:
        return deep(depth - 1, told)
    raise RuntimeError("seen once")

def test_it():
    for number in range(1000):
        print(f"request {number}")
    try:
        deep(20, "x" * 100)
    except RuntimeError:
        structlog.get_logger().exception("request_failed")
    assert 1 == 2
"""


def shown(folder: Path, **environment: str) -> list[str]:
    """Run a failing test by a pytest of its own, and return what is printed."""
    (folder / "test_failing.py").write_text(FAILING)
    command = [sys.executable, "-m", "pytest", "-p", "tests.harness.logs", "-p", "no:cacheprovider", "-q", str(folder)]
    variables = {name: value for name, value in os.environ.items() if name != VARIABLE}
    ended = subprocess.run(
        [*command, f"--rootdir={folder}", "-c", os.devnull],
        cwd=ROOT,
        env=variables | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 1, ended
    return ended.stdout.splitlines()


def test_a_failure_is_not_lost_in_what_was_logged(tmp_path: Path) -> None:
    """The assertion, the last lines with the exception, and how to see all; with the variable, every line."""
    lines = shown(tmp_path)
    assert len(lines) < 2 * MOST_LINES, lines
    assert any("assert 1 == 2" in line for line in lines)
    assert any("RuntimeError: seen once" in line for line in lines)
    assert any(f"{VARIABLE}=all shows all" in line for line in lines)
    whole = shown(tmp_path, **{VARIABLE: "all"})
    assert {f"request {number}" for number in range(1000)} <= set(whole)
    assert not any("locals" in line for line in whole)


def test_a_short_log_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So is an empty one; a line without an end is cut; a log that isn't there is said to be none."""
    monkeypatch.delenv(VARIABLE, raising=False)
    for text in ("", "one\n", "one\ntwo", "line\n" * MOST_LINES):
        assert shorten_log(text) == text
    long = shorten_log("x" * (2 * LONGEST_LINE))
    assert len(long) < LONGEST_LINE + 200
    assert "no log" in read_log(tmp_path / "none")
