"""Python programs forked from a process with all imports, the longest part of a start. Each has separate arguments,
environment, folder and streams, and ends as if started by Python."""

import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import IO, Any

ROOT = Path(__file__).parents[2]
ANSWER_SECONDS = 240
MESSAGE_BYTES = 1 << 20
CODE_BYTES = 16


class ForkedProgram:
    """A running or ended program, with the interface of `subprocess.Popen`."""

    def __init__(self, pid: int, ending: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ending: int | None = ending

    def poll(self) -> int | None:
        """Return the exit status, negative after a signal, or None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit status; raises `TimeoutExpired` after `timeout` seconds."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self._ending is not None and select.select([self._ending], [], [], timeout)[0]:
            code = os.read(self._ending, CODE_BYTES)
            os.close(self._ending)
            self._ending = None
            if not code:
                message = f"the process that forked {self.pid} has ended, and nobody knows how this one will"
                raise RuntimeError(message)
            self.returncode = int(code)
        return self.returncode


class ForkServer:
    """A process with imported modules and an environment; it forks for each program."""

    def __init__(self, *modules: str, environment: Mapping[str, str]) -> None:
        self._asking, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asking.settimeout(ANSWER_SECONDS)
        self._turn = Lock()
        command = [sys.executable, "-m", __name__, *modules]
        with theirs:
            self._process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=theirs.fileno())

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(
        self, *arguments: str, environment: Mapping[str, str], streams: Sequence[int], folder: Path | None = None
    ) -> ForkedProgram:
        asked = {"arguments": arguments, "environment": dict(environment), "folder": str(folder or Path.cwd())}
        ending, told = os.pipe()
        try:
            with self._turn:
                socket.send_fds(self._asking, [json.dumps(asked).encode()], [*streams, told])
                return ForkedProgram(int(self._asking.recv(CODE_BYTES)), ending)
        except BaseException:
            os.close(ending)
            raise
        finally:
            os.close(told)

    def run(
        self, *arguments: str, environment: Mapping[str, str], typed="", folder: Path | None = None, timeout: float
    ) -> "subprocess.CompletedProcess[str]":
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(typed.encode())
            given.seek(0)
            streams = [each.fileno() for each in (given, out, err)]
            program = self.start(*arguments, environment=environment, streams=streams, folder=folder)
            try:
                code = program.wait(timeout)
            finally:
                program.kill()
            return subprocess.CompletedProcess(arguments, code, _text(out), _text(err))

    def close(self) -> None:
        self._asking.close()
        self._process.wait(60)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def main() -> None:
    for name in sys.argv[1:]:
        import_module(name)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=os.dup(0)) as asking:
        begun = _fork_until_closed(asking)
    if begun is not None:
        _become(*begun)


def _fork_until_closed(asking: socket.socket) -> tuple[Mapping[str, Any], Sequence[int]] | None:
    running = dict[int, tuple[int, int]]()
    while True:
        ready = select.select([asking.fileno(), *running], [], [])[0]
        for ended in running.keys() & ready:
            pid, told = running.pop(ended)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with suppress(BrokenPipeError):  # nobody wants to know any more
                os.write(told, str(code).encode())
            os.close(told)
            os.close(ended)
        if asking.fileno() not in ready:
            continue
        message, descriptors, *_ = socket.recv_fds(asking, MESSAGE_BYTES, 4)
        if not message:
            return None
        *streams, told = descriptors
        child = os.fork()
        if child == 0:
            for descriptor in (told, *running, *(told for _, told in running.values())):
                os.close(descriptor)
            return json.loads(message), streams
        running[os.pidfd_open(child)] = child, told
        for stream in streams:
            os.close(stream)
        asking.send(str(child).encode())


def _become(asked: Mapping[str, Any], streams: Sequence[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    tempfile.tempdir = None  # the environment says where it is
    switch, program, *arguments = asked["arguments"]
    sys.argv = [switch, *arguments]
    if switch == "-m":
        runpy.run_module(program, run_name="__main__", alter_sys=True)
        return
    # Processes that it starts by multiprocessing look for its file, which it has none of.
    sys.modules["__main__"] = module = ModuleType("__main__")
    exec(compile(program, "<string>", "exec"), module.__dict__)  # noqa: S102 - as `python -c` does


if __name__ == "__main__":
    main()
