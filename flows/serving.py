"""Serving the flows: single deployments to start, and those of the file, run as processes of this machine."""

import asyncio
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.deployments.runner import RunnerDeployment
from prefect.runner import Runner
from prefect.types.entrypoint import EntrypointType

from flows.bulk_upload import bulk_upload
from flows.collection_add import collection_add
from flows.deployments import AnyFlow, Entry, read_deployments
from flows.docstore_sync import docstore_sync
from flows.errors import FlowError, ServiceDownError
from flows.limits import set_limits
from flows.lost_runs import watch_for_lost_runs
from flows.permission_snapshot import permission_snapshot
from flows.quarantine import quarantine, quarantine_retry
from flows.reindex import reindex
from flows.runs import DEPLOYMENT
from flows.scheduling import register
from flows.settings import FlowSettings

FLOWS: Mapping[str, AnyFlow] = {
    flow.name: flow
    for flow in (
        bulk_upload,
        collection_add,
        docstore_sync,
        permission_snapshot,
        quarantine,
        quarantine_retry,
        reindex,
    )
}
"""Every flow that is served, by its name."""

Say = Callable[[str], None]
_Mark = tuple[int, int] | None  # what tells one state of a file from another; None: it isn't there

_STARTING = timedelta(seconds=120)
_LOOKING = 2.0


async def serve_flows(settings: FlowSettings, *, say: Say, limit: int = 4) -> None:
    """Serve each flow as a deployment named `carrel`, and the file's entries, until stopped.

    Runs that are started or due run here, at most `limit` at a time. Runs on different sources run side by side; a
    second one on the same source stops at once and says why. Raises ServiceDownError when Prefect stays away, and
    DeploymentsError when the file is wrong; a file that becomes wrong later is reported, and the registered deployments
    stay. `say` gets messages for people.
    """
    _set_temporary_folder(settings.data_dir / "flows" / "tmp")
    # Prefect 3.8's handler of SIGTERM makes this coroutine, forgets it and exits, which is all that is wanted.
    warnings.filterwarnings("ignore", message="coroutine 'Runner.astop' was never awaited", category=RuntimeWarning)
    read = _mark(settings.deployments)  # before it is read: what is written meanwhile is seen afterwards
    entries = read_deployments(settings.deployments, flows=FLOWS)
    await _wait_for_prefect()
    await watch_for_lost_runs()
    await set_limits(settings)
    # Pausing them at the end would wait for a server that may be stopping too; what is started meanwhile is run later.
    runner = Runner(pause_on_shutdown=False, limit=limit)
    for flow in FLOWS.values():
        await runner.aadd_deployment(await _is_started_by_hand(flow))
    await _register(entries, path=settings.deployments, runner=runner, say=say)
    say("Serving the flows; stop with Ctrl-C.")
    following = asyncio.create_task(_follow_file(settings.deployments, seen=read, runner=runner, say=say))
    try:
        await runner.start()
    finally:
        following.cancel()


async def _is_started_by_hand(flow: AnyFlow) -> RunnerDeployment:
    return await flow.ato_deployment(DEPLOYMENT, entrypoint_type=EntrypointType.MODULE_PATH)


async def _register(entries: Sequence[Entry], *, path: Path, runner: Runner, say: Say) -> None:
    removed = await register(entries, runner=runner, flows=FLOWS)
    names = ", ".join(entry.name for entry in entries) or "nothing"
    say(f"{path}: {names} registered" + (f"; {', '.join(removed)} removed" if removed else ""))


async def _follow_file(path: Path, *, seen: _Mark, runner: Runner, say: Say) -> None:
    """Register the entries again when the file has changed and is equal in two looks, so not half written.

    A wrong file is reported once, and nothing is changed. Other errors are retried.
    """
    before, failed = seen, ""
    while True:
        await asyncio.sleep(_LOOKING)
        now = _mark(path)
        rests, before = now == before, now
        if now == seen or not rests:
            continue
        try:
            await _register(read_deployments(path, flows=FLOWS), path=path, runner=runner, say=say)
            seen, failed = now, ""
        except FlowError as exc:
            seen = now
            say(f"What was registered before stays, since the new file could not be:\n{exc}")
        except Exception as exc:  # noqa: BLE001 - the next change must be seen, whatever happened to this one
            if failed != repr(exc):  # not every two seconds
                failed = repr(exc)
                say(f"{path} has changed and could not be registered ({failed}); it is tried again.")


def _mark(path: Path) -> _Mark:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _set_temporary_folder(folder: Path) -> None:
    """Set this process's folder for temporary files: the runner's is shared by all users, and only one can write."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    tempfile.tempdir = str(folder)


async def _wait_for_prefect() -> None:
    """Wait for Prefect's server, which may still be starting; raise its last error when it stays away."""
    deadline = time.monotonic() + _STARTING.total_seconds()
    async with get_client() as client:
        while (error := await client.api_healthcheck()) is not None:
            if time.monotonic() > deadline:
                msg = f"Prefect does not answer at {client.api_url}. Start it: `python -m flows.server`."
                raise ServiceDownError(msg) from error
            await asyncio.sleep(0.5)
