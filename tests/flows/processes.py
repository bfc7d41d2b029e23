"""Processes of the flows and of `carrel`, for killing, serving and waiting in tests."""

import asyncio
import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TypeVar

from tests.harness.first_start import folder_of_run
from tests.harness.processes import environment_without_settings, free_port, wait_until_answering
from tests.harness.stack import ROOT

PATIENCE_SECONDS = 240.0

T = TypeVar("T")
CARREL = str(Path(sys.executable).with_name("carrel"))
SERVE = (sys.executable, "-m", "flows", "serve")


@contextmanager
def running(*command: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def until(condition: Callable[[], T], *, seconds: float = 90) -> T:
    async with asyncio.timeout(seconds):
        while not (found := await asyncio.to_thread(condition)):  # noqa: ASYNC110 - no event comes from a process
            await asyncio.sleep(0.05)
        return found


def said(process: "subprocess.Popen[str]", words: str) -> None:
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if words in line:
            return
    raise AssertionError("".join(lines))


@contextmanager
def prefect_server(folder: Path, **environment: str) -> Iterator[str]:
    """Run Prefect's server as `make up` does, by default with its state in the folder; yield the address. The first
    server creates tables, which takes seconds; later servers copy the database."""
    url = f"http://127.0.0.1:{free_port()}/api"
    kept = environment_without_settings("PREFECT_")
    settings = {"PREFECT_API_URL": url, "CARREL_DATA_DIR": str(folder), "PREFECT_SERVER_UI_ENABLED": "false"}
    with (folder / "output").open("wb") as output, ExitStack() as made_meanwhile:
        if "PREFECT_API_DATABASE_CONNECTION_URL" not in environment:
            made_meanwhile.enter_context(_tables_made_once(folder / "prefect" / "prefect.db"))
        command = [sys.executable, "-m", "flows.server"]
        process = subprocess.Popen(command, cwd=ROOT, env=kept | settings | environment, stdout=output, stderr=output)
        try:
            wait_until_answering(f"{url}/health", process, output=folder / "output")
            made_meanwhile.close()
            yield url
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def _tables_made_once(database: Path) -> Iterator[None]:
    """Begin with the database made by the first server of this run in such a block; later servers wait."""
    made = folder_of_run() / "prefect.db"
    with (folder_of_run() / "prefect.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            yield
            unfinished = made.with_suffix(".part")
            with closing(sqlite3.connect(database)) as first, closing(sqlite3.connect(unfinished)) as copy:
                first.backup(copy)
            unfinished.rename(made)
            return
    database.parent.mkdir()
    shutil.copy(made, database)
    yield
