"""Processes of runs, forked from a process with the flows already imported: a run begins within a second."""

import asyncio
import atexit
import fcntl
import gc
import importlib
import os
import runpy
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from multiprocessing import forkserver, get_context, resource_tracker, util
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from socket import AF_UNIX, socket
from typing import Any

from anyio.abc import TaskStatus
from prefect.runner import _starter_engine

from flows.settings import FlowSettings

RUN_ID = "PREFECT__FLOW_RUN_ID"
"""The variable for the run's id, passed by Prefect to a process."""
_ENGINE = "prefect.engine"
_PRELOADED = [
    _ENGINE,
    "prefect.flow_engine",
    "flows.agent_evaluation",
    "flows.bulk_upload",
    "flows.collection_add",
    "flows.docstore_sync",
    "flows.permission_snapshot",
    "flows.quarantine",
    "flows.reindex",
]


def start_runs_by_forking() -> None:
    """Fork a process with the imported flows, from which Prefect forks runs; call this before any thread starts."""
    for name in _PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # keeps shared memory shared
    resource_tracker.ensure_running()
    path, (alive, ours) = str(Path(util.get_temp_dir()) / "runs"), os.pipe()
    with socket(AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        if not (pid := os.fork()):
            try:
                os.close(ours)
                forkserver.main(listener.detach(), alive, ())
            finally:
                os._exit(0)
    os.close(alive)
    server = vars(forkserver)["_forkserver"]
    server.set_forkserver_preload(_PRELOADED)
    # The library has no option for this, nor has the runner; tests notice if one of these names moves.
    server._forkserver_address, server._forkserver_alive_fd, server._forkserver_pid = path, ours, pid  # noqa: SLF001
    setattr(_starter_engine, "run_process", _run_process)  # noqa: B010 - its type is narrower


async def _run_process(
    command: object,
    *,
    task_status: TaskStatus[Any],
    task_status_handler: Callable[[ForkServerProcess], Any],
    env: Mapping[str, str | None],
    **_: object,
) -> None:
    """Replace Prefect's `run_process`: fork a process, not `command`, and wait for its end; kill it when cancelled."""
    del command
    environment = {name: value for name, value in env.items() if value is not None}
    process = get_context("forkserver").Process(target=_run_engine, args=(environment,))
    await asyncio.to_thread(process.start)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(process.sentinel, ended.set)
    try:
        task_status.started(task_status_handler(process))
        await ended.wait()
    finally:
        asyncio.get_running_loop().remove_reader(process.sentinel)
        if not ended.is_set():
            process.kill()
        process.join()


def _run_engine(environment: Mapping[str, str]) -> None:

    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [_ENGINE]
    with living(environment[RUN_ID]):
        try:
            del sys.modules[_ENGINE]  # otherwise Python warns that it is already imported
            runpy.run_module(_ENGINE, run_name="__main__")
        finally:
            # A forked process ends without these functions, which send the last lines of the run's log.
            atexit._run_exitfuncs()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


@contextmanager
def living(run_id: str) -> Generator[None]:
    """Hold the lock that marks the process of a run as alive, even while suspended."""
    file = _lock_of(run_id)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            file.unlink(missing_ok=True)


def is_living(run_id: str) -> bool:
    """Return whether a process of this machine and user holds the run's lock; remove a dead process's lock file."""
    try:
        with (file := _lock_of(run_id)).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink(missing_ok=True)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _lock_of(run_id: str) -> Path:
    return FlowSettings().data_dir / "flows" / "living" / run_id
