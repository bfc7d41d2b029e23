"""Serving the flows of the file of deployments as local processes, with missed times, lost runs and reports."""

import asyncio
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any, Self

import httpx
from prefect.automations import Automation
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.clients import get_events_subscriber
from prefect.events.filters import EventFilter, EventNameFilter
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound
from prefect.runner import Runner
from prefect.settings import PREFECT_API_URL
from prefect.states import AwaitingRetry

from carrel.errors import CarrelError
from carrel.wire.alerts import MOST_SCHEDULES, ReportedSchedule
from flows.deployments import TAG, Entry, read_served, register
from flows.errors import DeploymentsError, FlowError
from flows.operations.jobs import open_client, outage_policy_of
from flows.operations.reporting import report_ledgers
from flows.processes import is_living
from flows.running import set_batch_limit
from flows.runs import MISSED, SKIPPED, Runs, RunsError, missed_times
from flows.schedules import LONGEST_NAME, list_schedules, next_times
from flows.settings import FlowSettings

_AGAIN_SECONDS = 60.0
_WAITING = {"type": {"any_": ["SCHEDULED"]}, "name": {"any_": ["Scheduled", "Late"]}}
_PAGE = 200


async def report_schedules(settings: FlowSettings, *, say: Callable[[str], None]) -> None:
    """Report every minute, until cancelled, when the schedules of Prefect's server are due."""
    async with get_client() as client:
        api_url = str(client.api_url)
    failed = ""
    with Runs(api_url) as runs:
        while True:
            try:
                schedules = await asyncio.to_thread(read_due, runs)
                async with open_client(settings) as client:
                    await client.alerts.report_schedules(schedules)
                failed = ""
            except (CarrelError, RunsError) as exc:
                if failed != str(exc):  # only if the error is new
                    failed = str(exc)
                    say(f"The due times of schedules could not be reported ({failed}). The next attempt follows.")
            await asyncio.sleep(_AGAIN_SECONDS)


def read_due(runs: Runs) -> list[ReportedSchedule]:
    """Return up to MOST_SCHEDULES active schedules with the next time, or of a late run the time. Raises RunsError."""
    schedules = [item for item in list_schedules(runs) if not item.paused and any(times.cron for times in item.times)]
    since = _waiting_since(runs) if schedules else {}
    due = {item.key: [since[item.key]] if item.key in since else next_times(item.times, 1) for item in schedules}
    return [
        ReportedSchedule(subject=item.key, name=item.name[:LONGEST_NAME] or item.flow, due_at=due[item.key][0])
        for item in schedules
        if due[item.key]
    ][:MOST_SCHEDULES]


def _waiting_since(runs: Runs) -> dict[str, datetime]:
    """Return, by schedule key, the time of the first late run; a run that waits for the previous run is not late."""
    is_running = {"flow_runs": {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}}, "limit": _PAGE}
    busy = {key for row in runs.rows("/flow_runs/filter", is_running) for key in _schedule_keys(row)}
    due = {"expected_start_time": {"before_": datetime.now(UTC).isoformat()}}
    rows = runs.rows(
        "/flow_runs/filter",
        {"flow_runs": {**due, "state": _WAITING}, "sort": "EXPECTED_START_TIME_ASC", "limit": _PAGE},
    )
    since: dict[str, datetime] = {}
    for row in (row for row in reversed(rows) if row.get("auto_scheduled")):
        since |= dict.fromkeys(_schedule_keys(row), datetime.fromisoformat(str(row["expected_start_time"])))
    return {key: at for key, at in since.items() if key not in busy}


def _schedule_keys(run: Mapping[str, Any]) -> set[str]:
    creator: Mapping[str, Any] = run.get("created_by") or {}
    return {str(key) for key in (creator.get("id"), run.get("deployment_id")) if key}


NAME = "carrel: end runs that have gone silent"
SILENCE = timedelta(seconds=120)  # four heartbeats
# An event is named after its state; flows.running names the final states of Carrel's flows.
_ENDS = ("Completed", "CompletedWithQuarantine", "CompletedWithProblems", SKIPPED, "Failed", "Cancelled", "Crashed")
_SILENT = "The run has sent no heartbeat"
MOST_STARTS = 3
"""How often a run is started whose process is killed each time, for example because it takes all memory."""
TAKEN_OVER_FOR = timedelta(hours=1)
"""Runs lost for longer stay lost: the next run of the source does the work."""
_LOOKING_FOR_LOST = 10.0


async def watch_for_lost_runs(*, silence: timedelta = SILENCE) -> None:
    """Create the automation for marking lost runs; the automation of an earlier version is replaced."""
    wanted = _automation(silence)
    async with get_client() as client:
        known = await client.read_automations_by_name(NAME)
    if any(_rule(automation.trigger) == _rule(wanted.trigger) for automation in known):
        return
    for old in known:
        await Automation(**old.model_dump()).adelete()
    await wanted.acreate()


async def keep_taking_over(*, say: Callable[[str], None]) -> None:
    """Take over lost runs until cancelled; an error is reported once until a change."""
    failed = ""
    while True:
        try:
            async with get_client() as client:
                for name in await take_over(client):
                    say(f"The run {name} was lost with its process, and starts again.")
            failed = ""
        except Exception as exc:  # noqa: BLE001 - the server is away: it is asked again
            if failed != repr(exc):
                failed = repr(exc)
                say(f"The check for lost runs failed ({failed}). The next attempt follows.")
        await asyncio.sleep(_LOOKING_FOR_LOST)


async def take_over(client: PrefectClient) -> list[str]:
    """Start runs lost in the last hour again; return their names. Runs with a living process here are left alone."""
    recently = {"after_": datetime.now(UTC) - TAKEN_OVER_FOR}
    lost = FlowRunFilter.model_validate({"state": _in_state(StateType.CRASHED), "end_time": recently})
    # A runner takes a run some seconds before it is due; if the runner ends then, nothing else would begin that run.
    taken = FlowRunFilter.model_validate({"state": _in_state(StateType.PENDING)})
    ours = DeploymentFilter.model_validate({"tags": {"all_": [TAG]}})
    silent = [await client.read_flow_runs(flow_run_filter=which, deployment_filter=ours) for which in (lost, taken)]
    found = [run for runs in silent for run in runs if _is_lost(run)]
    again = AwaitingRetry(message="The process of this run was lost. The run continues in another process.")
    started: list[str] = []
    for run in found:
        if not await asyncio.to_thread(is_living, str(run.id)) and _is_lost(await client.read_flow_run(run.id)):
            answer = await client.set_flow_run_state(run.id, again)
            if answer.status.value == "ACCEPT":
                started.append(run.name)
    return started


def _in_state(state: StateType) -> dict[str, object]:
    return {"type": {"any_": [state]}}


def _is_lost(run: FlowRun) -> bool:
    """Return whether a run went silent, or waits too long for its process, and was started fewer than three times."""
    if (state := run.state) is None or run.deployment_id is None or run.run_count >= MOST_STARTS:
        return False
    if state.is_pending():
        return SILENCE < datetime.now(UTC) - state.timestamp < TAKEN_OVER_FOR
    return state.is_crashed() and (state.message or "").startswith(_SILENT)


def _automation(silence: timedelta) -> Automation:
    message = f"{_SILENT} for {silence.total_seconds():.0f} seconds."
    return Automation(
        name=NAME,
        trigger=EventTrigger(
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.heartbeat", *(f"prefect.flow-run.{state}" for state in _ENDS)},
            match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=silence,
        ),
        actions=[ChangeFlowRunState(name=None, state=StateType.CRASHED, message=message, force=False)],
    )


def _rule(trigger: object) -> list[object]:
    return [getattr(trigger, member, None) for member in ("expect", "after", "within")]


ReadDue = Callable[[], Awaitable[list[FlowRun]]]


async def read_without_missed(client: PrefectClient, read: ReadDue) -> list[FlowRun]:
    """Return the runs found by `read`. Of a schedule's due runs all but the latest are deleted; a tag counts them."""
    while True:
        found, latest, earlier = await read(), dict[object, FlowRun](), list[FlowRun]()
        for run in sorted(found, key=_due_at):
            is_due = _due_at(run) <= datetime.now(UTC) and not run.run_count
            if run.auto_scheduled and run.created_by and is_due:
                if before := latest.get(run.created_by.id):
                    earlier.append(before)
                    number = missed_times(before.tags) + missed_times(run.tags) + 1
                    run.tags = [*(tag for tag in run.tags if not tag.startswith(MISSED)), f"{MISSED}{number}"]
                latest[run.created_by.id] = run
        if not earlier:
            return found
        for run in latest.values():
            await client.update_flow_run(run.id, tags=run.tags)
        for run in earlier:
            with suppress(ObjectNotFound):
                await client.delete_flow_run(run.id)


def _due_at(run: FlowRun) -> datetime:
    return run.next_scheduled_start_time or datetime.max.replace(tzinfo=UTC)


Say = Callable[[str], None]
_Mark = tuple[int, int] | None  # distinguishes states of a file; None: no file

_LOOKING = 2.0
_FIRST_WAIT, _SAYING = 10.0, 30.0
_STARTED = EventFilter(event=EventNameFilter(name=["prefect.flow-run.Scheduled"]))


class _Runner(Runner):
    """Prefect's runner: asks for due runs at each poll and at each start, and skips missed times."""

    async def __aenter__(self) -> Self:
        """Start, but skip missed runs. Prefect has no hook for this; tests notice if a private name moves."""
        await super().__aenter__()
        poller = vars(self)["_scheduled_run_poller"]
        poller._get_scheduled_flow_runs = partial(  # noqa: SLF001
            read_without_missed,
            self._client,
            poller._get_scheduled_flow_runs,  # noqa: SLF001
        )
        return self

    async def begin_at_once(self, *, say: Say) -> None:
        """Ask for due runs at every start event of Prefect, until cancelled; without events, polls find them."""
        say_once = cache(say)
        while True:
            [error] = await asyncio.gather(self._begin_as_told(say_once), return_exceptions=True)
            if error is not None:
                say_once(f"Notices of new runs failed: {error!r}. Polling finds new runs until they return.")
            await asyncio.sleep(_LOOKING)

    async def _begin_as_told(self, say: Say) -> None:
        async with get_events_subscriber(filter=_STARTED) as events:
            say("Notices of new runs arrive.")
            async for _ in events:
                if self.started:
                    await self._get_and_submit_flow_runs()


async def serve_flows(settings: FlowSettings, *, say: Say, limit: int = 4) -> None:
    """Serve the file's deployments until stopped, with at most `limit` active runs; a second run on a source is
    skipped. Serving waits for Prefect. Raises DeploymentsError when the file is wrong or Prefect refuses it; `say`
    tells people later errors in the file, and the registered deployments stay."""
    # Prefect's runner has one folder for all users under the system's, and only its first user can write there.
    folder = settings.data_dir / "flows" / "tmp"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    tempfile.tempdir = str(folder)
    # Prefect 3.8's handler of SIGTERM makes this coroutine, forgets it and exits, which is the intended end.
    warnings.filterwarnings("ignore", message="coroutine 'Runner.astop' was never awaited", category=RuntimeWarning)
    read = _mark(settings.deployments)  # before reading the file, so that changes while reading are noticed
    entries = read_served(settings.deployments)
    # Pausing schedules at the end would wait for a server that may be stopping too; missed starts are run later.
    runner = _Runner(pause_on_shutdown=False, limit=limit)
    await _wait_for_prefect(say=say)
    try:
        await watch_for_lost_runs()
        await set_batch_limit(settings)
        await _register(entries, path=settings.deployments, runner=runner, say=say)
    except (httpx.HTTPError, RuntimeError) as exc:
        raise DeploymentsError(f"Prefect did not accept the deployments: {str(exc) or repr(exc)}") from exc
    say("Serving the flows. Stop with Ctrl-C.")
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
    """Wait until Prefect answers: it may be starting, which takes minutes on a slow machine."""
    said_at = time.monotonic() - _SAYING + _FIRST_WAIT
    async with get_client() as client:
        while error := await client.api_healthcheck():
            if isinstance(error, httpx.HTTPStatusError) and not error.response.is_server_error:
                return  # Prefect refuses it; registering reports the reason
            if time.monotonic() - said_at > _SAYING:
                said_at = time.monotonic()
                address = PREFECT_API_URL.value()
                say(f"Waiting for Prefect at {address} ({error!r}). If it is not starting, run: python -m flows.server")
            await asyncio.sleep(0.5)


async def _register(entries: Sequence[Entry], *, path: Path, runner: Runner, say: Say) -> None:
    removed = await register(entries, runner=runner)
    names = ", ".join(f"{entry.flow.name}/{entry.name}" for entry in entries) or "nothing"
    say(f"{path}: {names} registered" + (f"; {', '.join(removed)} removed" if removed else ""))


async def _follow_file(path: Path, *, seen: _Mark, runner: Runner, say: Say) -> None:
    """Register the deployments again when the file has changed and is steady; a wrong file is reported once."""
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
            say(f"The earlier deployments stay, because the new file is not valid:\n{exc}")
        except Exception as exc:  # noqa: BLE001 - the next change must be seen, whatever happened to this one
            if failed != repr(exc):  # only if the error is new
                failed = repr(exc)
                say(f"{path} has changed but could not be registered ({failed}). The next attempt follows.")


async def _report_ledgers(settings: FlowSettings, *, say: Say) -> None:
    """Report the quarantine of local ledgers that were never reported, for example by earlier versions; only once."""
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
