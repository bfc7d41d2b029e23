"""Where the tests' temporary files lie."""

import os
import tempfile
from pathlib import Path

import pytest

from tests.harness.memory import use_memory


@pytest.fixture(autouse=True)
def _kept_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests choose a folder, and no later test find it."""
    monkeypatch.setattr(tempfile, "tempdir", tempfile.gettempdir())
    # Set first, so that it is put back even where it was missing.
    monkeypatch.setenv("TMPDIR", "")
    monkeypatch.delenv("TMPDIR")


def test_temporary_files_lie_in_memory_where_there_is_room(tmp_path: Path) -> None:
    """This process and those it starts make them there."""
    use_memory(tmp_path, needed_bytes=0)
    assert tempfile.gettempdir() == str(tmp_path)
    assert os.environ["TMPDIR"] == str(tmp_path)


def test_a_folder_that_is_named_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sets TMPDIR has a reason."""
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    use_memory(tmp_path, needed_bytes=0)
    assert tempfile.gettempdir() != str(tmp_path)
    assert os.environ["TMPDIR"] == "/elsewhere"


@pytest.mark.parametrize(("name", "needed_bytes"), [("", 2**62), ("missing", 0)])
def test_without_room_temporary_files_stay_on_the_disk(tmp_path: Path, name: str, needed_bytes: int) -> None:
    """A container may have a few megabytes there, or nothing."""
    use_memory(tmp_path / name, needed_bytes=needed_bytes)
    assert tempfile.gettempdir() != str(tmp_path / name)
    assert "TMPDIR" not in os.environ
