"""`python -m scripts.up start`: start the parts in the Procfile, watch them, and stop all their processes at the end.

Two processes do that. The starter stays in the terminal and forwards Ctrl-C and the end of the terminal. The keeper
runs in its own session: it starts the parts and prints their output. It stops them when the starter asks or has ended
for any reason (a pipe between the two closes). On Linux the parts also end with the keeper. The keeper adopts and ends
the processes that a part leaves running, such as PostgreSQL after a kill.
"""

import argparse
import ctypes
import os
import pwd
import re
import selectors
import shlex
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dotenv import dotenv_values

from sample.ports import find_taken_ports, ports_of
from scripts.up_output import Output

# More than the service gives to requests in flight (30 s), and then to its database.
STOPPING_SECONDS = 60
# After the terminal has closed, no person waits for requests in flight.
HUNG_UP_SECONDS = 7
# During its start, the service obeys the first signal late and the second signal at once.
SECOND_SIGNAL_SECONDS = 3
# Processes that the parts left running, such as PostgreSQL, get SIGINT, then SIGKILL.
LEFTOVER_SECONDS = 3
SILENCE_SECONDS = 1.0
LOOK_SECONDS = 0.2
READY, SERVING = "Carrel is up.", "Serving the flows;"
# By default glibc gives threads up to eight heaps for each core, and keeps freed memory in them.
MEMORY = {"MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_MMAP_THRESHOLD_": "131072"}
# Names for people, of parts with a short name.
NAMES = {"welcome": "the sample organization"}
SYSTEM = "make up"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
STOP, HANG_UP = b"s", b"h"
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PROCFILE_LINE = re.compile(r"^([A-Za-z0-9_-]+):\s*(.+)$")


@dataclass
class Part:
    """A started part: its process, and the reading end of its output pipe."""

    name: str
    pid: int
    output: int
    rest: bytes = b""
    status: int | None = None


class Keeper:
    """Start the parts, print their output, and stop them all when a part or the starter ends."""

    def __init__(self, lifeline: int, environment: Mapping[str, str], output: Output) -> None:
        self._lifeline = lifeline
        self._environment = environment
        self._output = output
        self._selector = selectors.DefaultSelector()
        self._parts: list[Part] = []
        self._began = time.monotonic()
        self._is_up = False
        self._ready: set[str] = set()
        self._looked_at = 0.0
        self._stops = 0
        self._stopping_since: float | None = None
        self._signalled_at = 0.0
        self._has_hung_up = False
        self._status = 0

    def run(self, commands: Mapping[str, str], root: Path) -> int:
        """Start the parts, and return the exit status when all have ended."""
        for number in STOPPING:
            signal.signal(number, self._obey)
        # Reading from the terminal fails in another session.
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        self._selector.register(self._lifeline, selectors.EVENT_READ)
        self._output.say(SYSTEM, f"Starting {', '.join(commands)}. The first start takes a minute or more.")
        for name, command in commands.items():
            if self._stopping_since is None:
                self._parts.append(self._start(name, command, root))
        while any(part.status is None for part in self._parts):
            self._look()
        self._end_leftovers()
        for part in self._parts:
            self._read(part)
        self._output.tell_late(age=0)
        return self._status

    def _obey(self, number: int, _frame: object) -> None:
        self._stop(is_hang_up=number == signal.SIGHUP)

    def _start(self, name: str, command: str, root: Path) -> Part:
        arguments = shlex.split(command)
        # `exec` in a Procfile is a shell command, and no shell runs here.
        arguments = arguments[1:] if arguments[0] == "exec" else arguments
        reading, writing = os.pipe()
        keeper = os.getpid()
        # Between the fork and the child's own handlers, the child would run the keeper's handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                for number in (*STOPPING, signal.SIGPIPE):
                    signal.signal(number, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
                tell_kernel(PR_SET_PDEATHSIG, signal.SIGTERM)
                if os.getppid() != keeper:
                    os._exit(1)
                os.chdir(root)
                os.dup2(writing, 1)
                os.dup2(writing, 2)
                os.execvpe(arguments[0], arguments, self._environment)  # noqa: S606 - the Procfile names it
            except OSError as error:
                os.write(2, f"{arguments[0]} can't be started: {error.strerror}\n".encode())
            finally:
                os._exit(127)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
        os.close(writing)
        os.set_blocking(reading, False)
        part = Part(name, pid, reading)
        self._selector.register(reading, selectors.EVENT_READ, part)
        return part

    def _look(self) -> None:
        """Handle output, requests of the starter and ended parts for a moment, then print progress."""
        for key, _ in self._selector.select(LOOK_SECONDS):
            if key.data is not None:
                self._read(key.data)
            else:
                self._hear()
        self._reap()
        self._output.tell_late()
        if self._output.is_broken and not self._has_hung_up:
            self._stop(is_hang_up=True)
        if self._stopping_since is None:
            self._say_progress()
        else:
            self._insist()

    def _hear(self) -> None:
        said = os.read(self._lifeline, 16)
        if not said:
            self._selector.unregister(self._lifeline)
        self._stop(is_hang_up=not said or HANG_UP in said)

    def _read(self, part: Part) -> None:
        while True:
            try:
                piece = os.read(part.output, 65536)
            except BlockingIOError:
                return
            except OSError:
                piece = b""
            *lines, part.rest = (part.rest + piece).split(b"\n")
            if not piece:
                with suppress(KeyError):
                    self._selector.unregister(part.output)
                lines, part.rest = [part.rest] if part.rest else [], b""
            for line in lines:
                text = line.decode("utf-8", "replace").rstrip("\r")
                self._is_up = self._is_up or READY in text
                if SERVING in text:
                    self._ready.add(part.name)
                self._output.take(part.name, text)
            if not piece:
                return

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            for part in self._parts:
                if part.pid == pid:
                    self._take_end(part, os.waitstatus_to_exitcode(status))

    def _take_end(self, part: Part, status: int) -> None:
        part.status = status
        self._read(part)
        self._output.tell_late(age=0)
        if self._stopping_since is None:
            reason = f"ended with status {status}" if status >= 0 else f"was ended by {signal.Signals(-status).name}"
            self._output.say(SYSTEM, f"{part.name} {reason}. Its lines above say why. Stopping the other parts.")
            self._status = (status if status > 0 else 128 - status) or 1
            self._stop(is_hang_up=False)

    def _say_progress(self) -> None:
        """Print each part that begins to answer. During the start, print the missing parts every second."""
        now = time.monotonic()
        if self._is_up or now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        for name, port in ports_of(self._environment).items():
            if name not in self._ready and any(part.name == name for part in self._parts) and answers(port):
                self._ready.add(name)
                self._output.say(SYSTEM, f"{name} answers after {now - self._began:.0f} s.")
        if now - self._output.said_at >= SILENCE_SECONDS:
            waiting = [NAMES.get(part.name, part.name) for part in self._parts if part.name not in self._ready]
            self._output.say(SYSTEM, f"Starting, {now - self._began:.0f} s. Not ready yet: {', '.join(waiting)}.")

    def _stop(self, *, is_hang_up: bool) -> None:
        """Begin to stop, or signal the parts again."""
        self._has_hung_up = self._has_hung_up or is_hang_up
        if self._stopping_since is None:
            self._stopping_since = time.monotonic()
            self._output.say(SYSTEM, "Stopping. Press Ctrl-C again to stop at once.")
        self._signal(signal.SIGTERM)

    def _insist(self) -> None:
        """Signal again, kill parts that take too long, and print the parts that still run."""
        now = time.monotonic()
        lasts = now - (self._stopping_since or now)
        is_hurried = self._has_hung_up or not self._is_up
        if is_hurried and self._stops < 2 and now - self._signalled_at > SECOND_SIGNAL_SECONDS:
            self._signal(signal.SIGTERM)
        if lasts > (HUNG_UP_SECONDS if self._has_hung_up else STOPPING_SECONDS):
            self._signal(signal.SIGKILL)
        if now - self._output.said_at >= SILENCE_SECONDS:
            left = ", ".join(part.name for part in self._parts if part.status is None) or "processes of the parts"
            self._output.say(SYSTEM, f"Stopping, {lasts:.0f} s. Still running: {left}.")

    def _signal(self, number: signal.Signals) -> None:
        self._stops += 1
        self._signalled_at = time.monotonic()
        for part in self._parts:
            if part.status is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(part.pid, number)

    def _end_leftovers(self) -> None:
        """End the processes that the parts left running."""
        import psutil  # noqa: PLC0415 - a start needs none of it

        def is_left(process: psutil.Process) -> bool:
            with suppress(psutil.Error):  # the process has ended
                return process.status() != "zombie"
            return False

        asked: set[int] = set()
        deadline = time.monotonic() + LEFTOVER_SECONDS
        while True:
            self._reap()
            left = list(filter(is_left, psutil.Process().children(recursive=True)))
            if not left:
                return
            is_late = time.monotonic() > deadline
            for process in left:
                with suppress(psutil.Error):
                    if is_late:
                        process.kill()
                    elif process.pid not in asked:
                        process.send_signal(signal.SIGINT)
                        asked.add(process.pid)
            time.sleep(0.05)


def tell_kernel(option: int, value: int) -> None:
    """Set an option of this process on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value)


def answers(port: int) -> bool:
    """Return whether a program listens on a port of this machine."""
    with socket.socket() as client:
        client.settimeout(0.2)
        return client.connect_ex(("127.0.0.1", port)) == 0


def read_environment(path: Path) -> dict[str, str]:
    """Return the environment, with the file's settings as defaults."""
    try:
        read = dotenv_values(path, interpolate=False)
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"{path} can't be read: {error}. Give this user the right to read it, or name another with --env.")
    settings = {name: value for name, value in read.items() if value is not None}
    for name in sorted(settings.keys() & os.environ.keys()):
        if settings[name] != os.environ[name]:
            sys.stderr.write(f"{name} in {path.name} is not used: the environment has another value.\n")
    environment = MEMORY | settings | dict(os.environ)
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:  # programs need a name and home folder, and this user has no entry
        environment.setdefault("USER", str(os.geteuid()))
        environment.setdefault("HOME", environment.get("CARREL_DATA_DIR", "/"))
    return environment


def read_procfile(path: Path) -> dict[str, str]:
    """Return the commands of the parts by their names."""
    lines = map(_PROCFILE_LINE.match, path.read_text().splitlines())
    return {line[1]: line[2] for line in lines if line}


def traces_file(environment: Mapping[str, str]) -> Path:
    """Return the file of tracebacks, in the data folder."""
    if named := environment.get("CARREL_DATA_DIR"):
        return Path(named) / "make-up.log"
    import platformdirs  # noqa: PLC0415 - only where no setting names the folder

    root = Path("/var/lib/carrel") if os.geteuid() == 0 else platformdirs.user_data_path("carrel")
    return root / "make-up.log"


def require_folder(folder: Path, setting: str) -> None:
    """Make a folder that parts write to; exit with one sentence where this user can't use it."""
    try:
        folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK | os.X_OK) else "this user may not write there"
    except OSError as error:
        reason = str(error.strerror)
    if reason:
        sys.exit(f"The folder {folder} can't be used: {reason}. Set {setting} in .env to another.")


def keep(lifeline: int, environment: Mapping[str, str], commands: Mapping[str, str], root: Path) -> int:
    """Run the keeper."""
    os.setsid()
    tell_kernel(PR_SET_CHILD_SUBREAPER, 1)
    is_whole = environment.get("CARREL_LOG_LEVEL", "").upper() == "DEBUG"
    output = Output(traces_file(environment), width=max(map(len, [*commands, SYSTEM])), is_whole=is_whole)
    return Keeper(lifeline, environment, output).run(commands, root)


def main() -> int:
    """Run the starter: wait for the keeper, and forward the terminal's signals."""
    parser = argparse.ArgumentParser(prog="python -m scripts.up", description="Start what the Procfile names.")
    parser.add_argument("--env", default=".env", help="the file of settings (.env)")
    parser.add_argument("--app-root", type=Path, default=Path(), help="the folder of the Procfile")
    parser.add_argument("start", choices=["start"])
    chosen = parser.parse_args()
    root: Path = chosen.app_root
    environment = read_environment(root / chosen.env)
    commands = read_procfile(root / "Procfile")
    if taken := list(find_taken_ports(environment, commands)):
        sys.stderr.writelines(f"{line}\n" for line in taken)
        return 1
    os.environ.update(environment)  # includes the home folder of a user without an entry
    require_folder(traces_file(environment).parent, "CARREL_DATA_DIR")
    if "workbench" in commands:
        import platformdirs  # noqa: PLC0415 - only the workbench has its own state folder

        folder = environment.get("CARREL_APP_DIR") or platformdirs.user_data_path("carrel-workbench")
        require_folder(Path(folder), "CARREL_APP_DIR")
    reading, writing = os.pipe()
    stopped_by: list[int] = []
    parent = os.getppid()

    def pass_on(number: int, _frame: object) -> None:
        stopped_by.append(number)
        is_hang_up = number == signal.SIGHUP or os.getppid() != parent
        with suppress(OSError):
            os.write(writing, HANG_UP if is_hang_up else STOP)

    signal.signal(signal.SIGINT, pass_on)
    signal.signal(signal.SIGTERM, pass_on)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, pass_on)
    keeper = os.fork()
    if keeper == 0:
        os.close(writing)
        try:
            os._exit(keep(reading, environment, commands, root))
        except BaseException as error:  # noqa: BLE001 - the last place that can report it
            sys.stderr.write(f"make up failed: {error!r}\n")
            os._exit(1)
    os.close(reading)
    if "MAKELEVEL" in environment:  # make waits for this process
        tell_kernel(PR_SET_PDEATHSIG, signal.SIGTERM)
    _, status = os.waitpid(keeper, 0)
    # A stop by Ctrl-C isn't a failure.
    return 0 if stopped_by else abs(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    sys.exit(main())
