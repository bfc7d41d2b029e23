"""Programs that tests fork run as those that Python starts anew."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.harness.forking import ForkServer

SHOW = """
import atexit, os, sys
atexit.register(print, "ended")
print(__name__, sys.argv, os.getcwd(), sorted(os.environ.items()), sys.stdin.read())
print(sorted(os.listdir("/proc/self/fd")))
sys.exit("wrong")
"""
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "OWN": "é"}


@pytest.fixture
def fork_server() -> Iterator[ForkServer]:
    """A process that has imported nothing of its own accord."""
    server = ForkServer(environment=dict(os.environ))
    yield server
    server.close()


def test_a_forked_program_is_like_one_that_python_starts(fork_server: ForkServer, tmp_path: Path) -> None:
    """It has its own arguments, environment, folder and streams, and no descriptor of the process that forked it."""
    arguments = ("-c", SHOW, "one", "-m")
    silent, says = os.pipe()
    running = fork_server.start("-c", "input()", environment=ENVIRONMENT, streams=[silent, 1, 2])
    forked = fork_server.run(*arguments, environment=ENVIRONMENT, typed="typed é", folder=tmp_path, timeout=60)
    assert running.poll() is None
    running.kill()
    assert running.wait(60) == running.poll() == -signal.SIGKILL
    os.close(silent)
    os.close(says)
    command = [sys.executable, *arguments]
    started = subprocess.run(
        command, env=ENVIRONMENT, input="typed é", cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (forked.returncode, forked.stdout, forked.stderr) == (1, started.stdout, started.stderr)
    assert "ended" in forked.stdout


def test_a_program_that_takes_too_long_is_killed(fork_server: ForkServer) -> None:
    """As by `subprocess.run`: it doesn't go on."""
    with pytest.raises(subprocess.TimeoutExpired):
        fork_server.run("-c", "import time; time.sleep(60)", environment=ENVIRONMENT, timeout=0.1)
    _, alive = psutil.wait_procs(psutil.Process(fork_server.pid).children(), timeout=10)
    assert not alive
