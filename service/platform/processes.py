"""Forked processes: sending orders, restarting, and receiving signals."""

import asyncio
import ctypes
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import util
from socket import socket, socketpair
from types import FrameType
from typing import Self, cast

from service.platform.background import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS

# Orders to a process (STOP, DRAIN), and its report (READY).
STOP, DRAIN, READY = b"s", b"d", b"r"
PR_SET_PDEATHSIG = 1  # prctl(2)


class ForkedProcess:
    """A forked process; the sentinel descriptor closes at the end. A fork without room leaks nothing and is retried."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.sentinel, end = os.pipe()
        try:
            self.pid = os.fork()
        except OSError:
            os.close(self.sentinel)
            os.close(end)
            raise
        if self.pid == 0:
            os.close(self.sentinel)
            os.set_inheritable(end, True)  # a program that replaces this process inherits it
            _do_and_end(work)
        os.close(end)
        self._status: int | None = None

    @property
    def exitcode(self) -> int | None:
        """The exit status, or minus the number of the fatal signal; None while running."""
        if self._status is None:
            self._wait(os.WNOHANG)
        return self._status

    def kill(self) -> None:
        if self.exitcode is None:
            os.kill(self.pid, signal.SIGKILL)

    def join(self) -> None:
        if self._status is None:
            self._wait(0)

    def close(self) -> None:
        os.close(self.sentinel)

    def _wait(self, options: int) -> None:
        pid, status = os.waitpid(self.pid, options)
        if pid:
            self._status = os.waitstatus_to_exitcode(status)


@dataclass(eq=False)
class Child:
    name: str
    process: ForkedProcess
    orders: socket
    # The worker's row of figures: a worker and its replacement have the same name, but separate rows.
    row: int | None = None
    began: float = field(default_factory=time.monotonic)
    is_ready: bool = False
    # When the worker was ordered to end in favor of a replacement.
    leaving_since: float | None = None
    stops: int = 0

    def stop(self, times: int) -> None:
        """Order the process to stop, until `times` orders have been sent in total."""
        while self.stops < times:
            self.order(STOP)
            self.stops += 1

    def order(self, command: bytes) -> None:
        """Send an order to the process; an ended process is ignored."""
        with suppress(OSError):
            self.orders.send(command)

    def hear(self) -> None:
        """Set `is_ready` if the process has reported READY."""
        with suppress(OSError):
            self.is_ready = self.is_ready or READY in self.orders.recv(16)


class Orders(asyncio.Protocol):
    """The parent's orders, each passed to `obey`. When the parent ends, this process runs `at_death` and ends at once.
    Only a transport notices the end despite unread data."""

    def __init__(self, obey: Callable[[bytes], None], at_death: Callable[[], None]) -> None:
        self._obey = obey
        self._at_death = at_death
        self._transport: asyncio.WriteTransport | None = None

    @classmethod
    async def listen(
        cls, orders: socket, obey: Callable[[bytes], None], *, at_death: Callable[[], None] = lambda: None
    ) -> Self:
        loop = asyncio.get_running_loop()
        orders.setblocking(False)
        _, listening = await loop.create_unix_connection(lambda: cls(obey, at_death), sock=orders)
        return listening

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._obey(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._transport is not None:
            self._at_death()
            os._exit(1)

    def say(self, message: bytes) -> None:
        if self._transport is not None:
            self._transport.write(message)

    def close(self) -> None:
        if self._transport is not None:
            transport, self._transport = self._transport, None
            transport.close()


@dataclass
class Restarts:
    """The number of consecutive early exits of a process, and the earliest time of its next start."""

    in_a_row: int = 0
    due: float | None = None

    def plan(self, *, lived: float) -> float:
        """Plan the next start: at once, or after a pause growing with consecutive early exits; return the pause."""
        self.in_a_row = 0 if lived > LONGEST_PAUSE_SECONDS else self.in_a_row + 1
        pause = FIRST_PAUSE_SECONDS * 2 ** (self.in_a_row - 2) if self.in_a_row > 1 else 0.0
        pause = min(pause, LONGEST_PAUSE_SECONDS)
        self.due = time.monotonic() + pause
        return pause

    def is_due(self) -> bool:
        return self.due is not None and time.monotonic() >= self.due


class Signals:
    """The received signals: how many to stop, and whether to replace the workers. Each makes `wakes` readable. While
    `is_starting`, a second signal to stop raises KeyboardInterrupt."""

    def __init__(self) -> None:
        self.stops = 0
        self.restart = False
        self.is_starting = True
        self.wakes, self._wake = socketpair()
        for end in (self.wakes, self._wake):
            end.setblocking(False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)

    def forget(self) -> None:
        """Leave signals to the supervisor; a forked process calls this first."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _ignore)
        self.wakes.close()
        self._wake.close()

    def clear_wakes(self) -> None:
        with suppress(BlockingIOError):
            self.wakes.recv(64)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self.restart = True
            return
        self.stops += 1
        if self.is_starting and self.stops > 1:
            raise KeyboardInterrupt


def go_on_when_parent_dies() -> None:
    """On Linux, resume a stopped process (SIGSTOP) when the parent dies, so the process can end."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT)


def end_when_parent_dies(orders: socket) -> None:
    """End the process at once when the parent dies, even while blocked; needs no event loop."""
    hang_up = select.poll()
    hang_up.register(orders, 0)

    def watch() -> None:
        hang_up.poll()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _do_and_end(work: Callable[[], None]) -> None:
    status = 1
    try:
        work()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - there is nobody else to tell of it
        traceback.print_exc()
    finally:
        with suppress(Exception):
            # multiprocessing does the same for its own processes: remove the files of the readers' sockets.
            util._run_finalizers()  # noqa: SLF001 # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        os._exit(status)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Ignore a signal. Unlike SIG_IGN, a handler isn't inherited by started programs."""
