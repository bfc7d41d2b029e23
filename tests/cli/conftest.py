"""The command line as a separate process with its own environment, against the real service."""

import json
import os
import pty
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness.forking import ForkedProgram, ForkServer
from tests.harness.services import RunningService

AGAIN_SECONDS = 1.0
RUN = "from tests.cli.preloaded import main; main()"
COMMAND = str(Path(sys.executable).with_name("carrel"))


@dataclass(frozen=True)
class Ended:
    """A command's exit code and output; on a terminal both streams are in `out`."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        members: dict = json.loads(self.out)
        assert members["exitCode"] == self.code, self
        return members


Run = Callable[..., Ended]
Load = Callable[..., tuple[Ended, dict]]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    for number in range(3):
        (folder / f"note-{number}.md").write_text(f"# Note {number}\n\nThe ferry number {number} leaves at noon.\n")
    return folder


def ran(run: Run, *arguments: str, exit_code: int = 0) -> dict:
    ended = run(*arguments, "--json")
    assert ended.code == exit_code, ended
    return ended.json


def environment_for(service: RunningService | None, **changes: str | None) -> dict[str, str]:
    values = (
        {"PATH": os.defpath, "CARREL_BASE_URL": service.base_url, "CARREL_API_KEY": service.api_key} if service else {}
    )
    return {name: value for name, value in {**values, **changes}.items() if value is not None}


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """A process with the command line and all commands imported."""
    server = ForkServer("tests.cli.preloaded", environment=environment_for(None))
    yield server
    server.close()


@pytest.fixture
def run(fork_server: ForkServer, service: RunningService, tmp_path: Path) -> Run:
    """Run `carrel` without a terminal, in the test's folder with a data folder; keywords change the environment."""
    own = {"CARREL_DATA_DIR": str(tmp_path / "data"), "CARREL_FLOWS_OUTAGE_SECONDS": "0"}

    def run(*arguments: str, **changes: str | None) -> Ended:
        environment = environment_for(service, **own | changes)
        ended = fork_server.run("-c", RUN, *arguments, environment=environment, folder=tmp_path, timeout=90)
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return run


@pytest.fixture
def load(run: Run) -> Load:

    def load(*arguments: str, **changes: str | None) -> tuple[Ended, dict]:
        ended = run(*arguments, "--json", **changes)
        return ended, ended.json

    return load


@pytest.fixture
def run_on_terminal(fork_server: ForkServer, service: RunningService, tmp_path: Path) -> Run:
    """Run `carrel` on a terminal, and type `answer` at the question; None interrupts the command there."""

    def run(*arguments: str, answer: str | None) -> Ended:
        ours, theirs = pty.openpty()
        environment = environment_for(service, TERM="xterm-256color", COLUMNS="100")
        streams = [theirs] * 3
        process = fork_server.start("-c", RUN, *arguments, environment=environment, streams=streams, folder=tmp_path)
        os.close(theirs)
        try:
            seen = _converse(ours, process, answer=answer)
            code = process.wait(10)
        finally:
            process.kill()
        os.close(ours)
        return Ended(code, seen, "")

    return run


def _converse(terminal: int, process: ForkedProgram, *, answer: str | None) -> str:
    """Answer a program's question on its terminal. Python can lose an early interrupt, so interrupts are repeated."""
    seen, asked, pressed = b"", False, 0.0
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if asked and answer is None and time.monotonic() - pressed > AGAIN_SECONDS:
            process.send_signal(signal.SIGINT)
            pressed = time.monotonic()
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # the program ended, and the terminal with it
            break
        if not chunk:
            break
        seen += chunk
        if not asked and b"(n)" in seen:
            asked = True
            time.sleep(0.3)  # until it reads, what is typed may be meant for whatever ran before
            if answer is not None:
                os.write(terminal, answer.encode())
    return seen.decode()
