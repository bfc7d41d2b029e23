"""The command line as a process of its own, with nothing of this one's environment, against the real service."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.app import COMMANDS
from tests.harness.forking import ForkServer
from tests.harness.services import RunningService

AGAIN_SECONDS = 5.0
COMMAND_SECONDS = 90
# What `carrel` does, in a process that has nothing to clean up.
RUN = """
import os, sys
from cli.app import run
sys.argv[0], code = "carrel", 70
try:
    code = run()
    sys.stdout.flush()
    sys.stderr.flush()
finally:
    os._exit(code)
"""
COMMAND = str(Path(sys.executable).with_name("carrel"))


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed; on a terminal both streams are `out`."""

    code: int
    out: str
    err: str


Run = Callable[..., Ended]


def environment_for(service: RunningService | None, **changes: str | None) -> dict[str, str]:
    """Return a bare environment with the service's address and key, and these changes (None: without it)."""
    values = (
        {"PATH": os.defpath, "CARREL_BASE_URL": service.base_url, "CARREL_API_KEY": service.api_key} if service else {}
    )
    return {name: value for name, value in {**values, **changes}.items() if value is not None}


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """A process that has imported the command line and each of its commands."""
    modules = {place.partition(":")[0] for place, _ in COMMANDS.values()}
    server = ForkServer("cli.app", "carrel._client", *modules, environment=environment_for(None))
    yield server
    server.close()


@pytest.fixture
def run(fork_server: ForkServer, service: RunningService, tmp_path: Path) -> Run:
    """Run `carrel` without a terminal, in the test's folder; keywords change the environment."""

    def run(*arguments: str, **changes: str | None) -> Ended:
        environment = environment_for(service, **changes)
        ended = fork_server.run(
            "-c", RUN, *arguments, environment=environment, folder=tmp_path, timeout=COMMAND_SECONDS
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return run


@pytest.fixture
def run_on_terminal(service: RunningService, tmp_path: Path) -> Run:
    """Run `carrel` on a terminal, and type `answer` when it asks; None interrupts it there."""

    def run(*arguments: str, answer: str | None) -> Ended:
        ours, theirs = pty.openpty()
        environment = environment_for(service, TERM="xterm-256color", COLUMNS="100")
        with subprocess.Popen(
            [COMMAND, *arguments],
            cwd=tmp_path,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=_heed_interrupts,  # noqa: PLW1509 - it takes no lock
        ) as process:
            os.close(theirs)
            try:
                seen = _converse(ours, process, answer=answer)
                code = process.wait(10)
            finally:
                process.kill()
        os.close(ours)
        return Ended(code, seen, "")

    return run


def _heed_interrupts() -> None:
    """Let Ctrl-C end the program as on any terminal, also where these tests run in the background and ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _converse(terminal: int, process: "subprocess.Popen[bytes]", *, answer: str | None) -> str:
    """Read what a terminal shows until its program ends, answering its question.

    Python can lose an interrupt in the moment before it begins to wait for a line: it is pressed again, as people do.
    """
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
