"""The service's process: start, available processors, and the end of forked processes."""

import errno
import gc
import os
import signal
import sys
import tempfile
from multiprocessing import process as processes
from multiprocessing import util
from multiprocessing.connection import wait
from unittest.mock import Mock

import psutil
import pytest

from service.__main__ import without_collecting
from service.platform.processes import ForkedProcess
from service.platform.settings import quotas
from tests.harness.cases import cases


def stop_with_an_error() -> None:
    raise LookupError


def never_end() -> None:
    while True:
        signal.pause()


def become_another_program() -> None:
    os.execv(sys.executable, [sys.executable, "-c", "import signal; signal.pause()"])  # noqa: S606


def listen_in_a_folder() -> None:
    processes.current_process()._config.pop("tempdir", None)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    util.get_temp_dir()  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.parametrize(
    ("work", "status"),
    [
        (lambda: None, 0),
        (lambda: sys.exit(3), 3),
        (stop_with_an_error, 1),
        (never_end, -9),
        (become_another_program, -9),
    ],
)
def test_the_end_of_a_process_is_noticed(work, status: int) -> None:
    process = ForkedProcess(work)
    if status < 0:
        assert wait([process.sentinel], 0.05) == []
        assert process.exitcode is None
        process.kill()
    assert wait([process.sentinel], 20) == [process.sentinel]
    process.join()
    assert process.exitcode == status
    process.kill()  # another process may have its number by now
    process.close()


def test_a_process_removes_the_folder_of_its_sockets(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """A worker makes a folder for readers, and workers are often replaced."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    process = ForkedProcess(listen_in_a_folder)
    assert wait([process.sentinel], 20) == [process.sentinel]
    process.join()
    assert process.exitcode == 0
    assert list(tmp_path.iterdir()) == []
    process.close()


def test_a_process_that_can_not_be_forked_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without room for processes, starts may be repeated for days."""
    monkeypatch.setattr(os, "fork", Mock(side_effect=BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")))
    before = psutil.Process().num_fds()
    with pytest.raises(BlockingIOError):
        ForkedProcess(never_end)
    assert psutil.Process().num_fds() == before


def test_garbage_is_looked_for_again_after_the_imports():
    left_alone = gc.get_freeze_count()
    with without_collecting():
        assert not gc.isenabled()
        made: list[list[int]] = [[] for _ in range(100)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= left_alone + len(made)


@pytest.mark.parametrize(("groups", "files", "expected"), cases("quotas_of_control_groups"))
def test_quotas_of_control_groups(tmp_path, groups, files, expected) -> None:
    (tmp_path / "groups").write_text(groups) if groups is not None else None
    for name, text in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.with_name("cpu.cfs_period_us").write_text("100000")
    assert list(quotas(tmp_path / "groups", tmp_path / "mount")) == expected
