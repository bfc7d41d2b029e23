"""`bench.compare`: measurements in turns, and the checkout of the other revision."""

import subprocess
from typing import Any

import pytest

from bench.compare import LOCK, checkout, compare


def test_both_are_measured_in_turns_and_each_value_gets_medians() -> None:
    asked: list[str] = []
    seconds = {"old": iter([9.0, 1.0, 2.0, 4.0]), "new": iter([9.0, 1.0, 1.0, 1.0])}

    def measure(side: Any) -> dict[str, float]:
        asked.append(side)
        return {"seconds": next(seconds[side])}

    side: Any = "old", "new"
    assert compare(measure, *side, turns=3) == [{"what": "seconds", "old": 2.0, "new": 1.0, "new/old": 0.5}]
    assert asked == ["old", "new"] * 4


def test_a_revision_is_checked_out_beside_this_one_unless_it_needs_other_packages(tmp_path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@example.com", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    git("init", "--quiet")
    for lock, text in (("other", "1"), ("same", "2"), ("same", "3")):
        (tmp_path / LOCK).write_text(lock)
        (tmp_path / "code.py").write_text(text)
        git("add", ".")
        git("commit", "--quiet", "--message", text)
    with checkout("HEAD~1", repository=tmp_path) as code:
        assert (code / "code.py").read_text() == "2"
    with pytest.raises(ValueError, match="packages"), checkout("HEAD~2", repository=tmp_path):
        pass
    assert len(git("worktree", "list").splitlines()) == 1
