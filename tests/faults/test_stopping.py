"""Ctrl-C on `make up`."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.jobs import until

SLOW = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(8), print("ended in its own time", flush=True), sys.exit(0)))
print("started", flush=True)
time.sleep(60)
"""


def heed_interrupts() -> None:
    """Let Ctrl-C end the program as on any terminal, also where these tests run in the background and ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
def test_process_that_needs_longer_to_stop_is_waited_for(tmp_path: Path) -> None:
    """What takes eight seconds to finish after Ctrl-C ends by itself and is not killed, and nothing has failed."""
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "Procfile").write_text(f"slow: exec {sys.executable} {tmp_path}/slow.py\nquick: sleep 60\n")
    output = tmp_path / "output"
    with output.open("wb") as file:
        command = [sys.executable, "-m", "scripts.up", "--app-root", str(tmp_path), "start"]
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            preexec_fn=heed_interrupts,  # noqa: PLW1509 - it takes no lock
        )
    until(lambda: "started\n" in output.read_text())
    process.send_signal(signal.SIGINT)
    assert process.wait(40) == 0
    assert "ended in its own time" in output.read_text()
    assert "SIGKILL" not in output.read_text()
