"""Processes of the flows and of `carrel`, for tests that kill them, serve with them, or wait for what they do."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
CARREL = str(Path(sys.executable).with_name("carrel"))
SERVE = (sys.executable, "-m", "flows", "serve")


@contextmanager
def running(*command: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a command beside the test, whose environment it has; it is killed at the end."""
    process = subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def until(condition: Callable[[], T], *, seconds: float = 90) -> T:
    """Return the first true thing that `condition` returns."""
    async with asyncio.timeout(seconds):
        while not (found := await asyncio.to_thread(condition)):  # noqa: ASYNC110 - no event comes from a process
            await asyncio.sleep(0.05)
        return found


def said(process: "subprocess.Popen[str]", words: str) -> None:
    """Read what a process says to people until it has said this."""
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if words in line:
            return
    raise AssertionError("".join(lines))
