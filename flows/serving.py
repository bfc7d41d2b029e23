"""Serving the flows: what the file of deployments declares, run as processes of this machine."""

import asyncio
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Self

import httpx
from prefect.client.orchestration import get_client
from prefect.events.clients import get_events_subscriber
from prefect.events.filters import EventFilter, EventNameFilter
from prefect.runner import Runner
from prefect.settings import PREFECT_API_URL

from flows.deployments import Entry, read_served, register
from flows.errors import DeploymentsError, FlowError
from flows.lost_runs import keep_taking_over, watch_for_lost_runs
from flows.missed_times import read_without_missed
from flows.operations.jobs import open_client, outage_policy_of
from flows.operations.reporting import report_ledgers
from flows.running import set_limits
from flows.schedule_reports import report_schedules
from flows.settings import FlowSettings

Say = Callable[[str], None]
_Mark = tuple[int, int] | None  # what tells one state of a file from another; None: it isn't there

_LOOKING = 2.0
_FIRST_WAIT, _SAYING = 10.0, 30.0
_STARTED = EventFilter(event=EventNameFilter(name=["prefect.flow-run.Scheduled"]))


class _Runner(Runner):
    """Prefect's runner, which asks for due runs at each poll and at each start, and leaves missed times out."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        # Prefect has no hook here; tests tell if one of these private names moves.
        poller = vars(self)["_scheduled_run_poller"]
        poller._get_scheduled_flow_runs = partial(  # noqa: SLF001
            read_without_missed,
            self._client,
            poller._get_scheduled_flow_runs,  # noqa: SLF001
        )
        return self

    async def begin_at_once(self, *, say: Say) -> None:
        """Ask for due runs whenever Prefect tells of a start, until cancelled; without such events polls find them."""
        say_once = cache(say)
        while True:
            [error] = await asyncio.gather(self._begin_as_told(say_once), return_exceptions=True)
            if error is not None:
                say_once(f"Starts can't be followed: {error!r}. Polls find new runs meanwhile.")
            await asyncio.sleep(_LOOKING)

    async def _begin_as_told(self, say: Say) -> None:
        async with get_events_subscriber(filter=_STARTED) as events:
            say("Starts are followed as they happen.")
            async for _ in events:
                if self.started:
                    await self._get_and_submit_flow_runs()


async def serve_flows(settings: FlowSettings, *, say: Say, limit: int = 4) -> None:
    """Offer the file's deployments until stopped.

    At most `limit` runs go on at a time. A second run on the same source is skipped. It waits for
    Prefect. Raises DeploymentsError when the file is wrong or Prefect refuses it; one that becomes wrong later is said,
    and what was registered stays. `say` takes the lines for people."""
    # Prefect's runner has one folder for all users under the system's, which only the first of them can write to.
    folder = settings.data_dir / "flows" / "tmp"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    tempfile.tempdir = str(folder)
    # Prefect 3.8's handler of SIGTERM makes this coroutine, forgets it and exits, which is all that is wanted.
    warnings.filterwarnings("ignore", message="coroutine 'Runner.astop' was never awaited", category=RuntimeWarning)
    _refuse_former_file()
    read = _mark(settings.deployments)  # before it is read: what is written meanwhile is seen afterwards
    entries = read_served(settings.deployments)
    # Pausing them at the end would wait for a server that may be stopping too; what is started meanwhile is run later.
    runner = _Runner(pause_on_shutdown=False, limit=limit)
    await _wait_for_prefect(say=say)
    try:
        await watch_for_lost_runs()
        await set_limits(settings)
        await _register(entries, path=settings.deployments, runner=runner, say=say)
    except (httpx.HTTPError, RuntimeError) as exc:
        raise DeploymentsError(f"Prefect did not take the deployments: {str(exc) or repr(exc)}") from exc
    say("Serving the flows; stop with Ctrl-C.")
    beside = [
        asyncio.create_task(work)
        for work in (
            _follow_file(settings.deployments, seen=read, runner=runner, say=say),
            _report_ledgers(settings, say=say),
            report_schedules(settings, say=say),
            keep_taking_over(say=say),
            runner.begin_at_once(say=say),
        )
    ]
    try:
        await runner.start()
    finally:
        for task in beside:
            task.cancel()


async def _wait_for_prefect(*, say: Say) -> None:
    """Wait until Prefect answers: it may be starting beside this process, which takes minutes on a slow machine."""
    said_at = time.monotonic() - _SAYING + _FIRST_WAIT
    async with get_client() as client:
        while error := await client.api_healthcheck():
            if isinstance(error, httpx.HTTPStatusError) and not error.response.is_server_error:
                return  # Prefect refuses: registering says why
            if time.monotonic() - said_at > _SAYING:
                said_at = time.monotonic()
                address = PREFECT_API_URL.value()
                say(f"Waiting for Prefect at {address} ({error!r}). Unless it is starting, run: python -m flows.server")
            await asyncio.sleep(0.5)


def _refuse_former_file() -> None:
    former = Path(__file__).with_name("deployments.yaml")
    if former.exists():
        msg = f"{former} is not read any more. Move its entries to prefect.yaml (see docs/schedules.md) and remove it."
        raise DeploymentsError(msg)


async def _register(entries: Sequence[Entry], *, path: Path, runner: Runner, say: Say) -> None:
    removed = await register(entries, runner=runner)
    names = ", ".join(f"{entry.flow.name}/{entry.name}" for entry in entries) or "nothing"
    say(f"{path}: {names} registered" + (f"; {', '.join(removed)} removed" if removed else ""))


async def _follow_file(path: Path, *, seen: _Mark, runner: Runner, say: Say) -> None:
    """Register anew when the file has changed and is the same at two looks. A wrong file is reported once."""
    before, failed = seen, ""
    while True:
        await asyncio.sleep(_LOOKING)
        now = _mark(path)
        rests, before = now == before, now
        if now == seen or not rests:
            continue
        try:
            await _register(read_served(path), path=path, runner=runner, say=say)
            seen, failed = now, ""
        except FlowError as exc:
            seen = now
            say(f"What was registered before stays, since the new file could not be:\n{exc}")
        except Exception as exc:  # noqa: BLE001 - the next change must be seen, whatever happened to this one
            if failed != repr(exc):  # not every two seconds
                failed = repr(exc)
                say(f"{path} has changed and could not be registered ({failed}); it is tried again.")


async def _report_ledgers(settings: FlowSettings, *, say: Say) -> None:
    """Report once what is in quarantine in ledgers here that were never reported, as those of earlier versions."""
    try:
        async with open_client(settings) as client:
            remarks = await report_ledgers(client, settings=settings, outages=outage_policy_of(client, settings))
    except Exception as exc:  # noqa: BLE001 - whatever it is, the flows are served, and each run reports its own
        remarks = [f"The quarantine of the ledgers here was not reported to the service ({exc}). Runs report it."]
    for remark in remarks:
        say(remark)


def _mark(path: Path) -> _Mark:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
