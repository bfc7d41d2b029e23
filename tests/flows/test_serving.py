"""`python -m flows serve` on a real Prefect server: schedules fire, and runs are started and followed over HTTP."""

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import psutil
import pytest
import yaml
from prefect.client.schemas.objects import FlowRun

from flows.deployments import read_served
from flows.operations.ledger.quarantine import list_sources
from flows.operations.loading import open_ledger
from flows.operations.options import UploadOptions
from flows.runs import Runs, RunStatus
from flows.schedules import Draft, Schedule, Times, add_schedule, look_at, pause_schedule, resume_schedule
from flows.serving import read_without_missed
from flows.settings import SHIPPED
from tests.flows.processes import said, until
from tests.flows.serving import deploy, register_entries, schedule_named, serving, waiting_runs
from tests.flows.sources import Source

pytestmark = [pytest.mark.usefixtures("withdrawn"), pytest.mark.timeout(600)]
ADA, BEN = "ada@example.com", "ben@example.com"


def _entry(name: str, source: Source, **members: object) -> dict[str, object]:
    parameters = {"source": str(source), "options": {"internal_public": True}}
    return {"name": name, "entrypoint": "flows.bulk_upload.bulk_upload", "parameters": parameters, **members}


def _write(file: Path, *entries: object) -> None:
    file.write_text(json.dumps({"deployments": entries}))


def _fire(runs: Runs, schedule: Schedule) -> None:
    """Create the latest due run of a monthly schedule, as Prefect's scheduler does ahead of time."""
    window = {"start_time": (datetime.now(UTC) - timedelta(days=32)).isoformat(), "max_runs": 1}
    runs.call("POST", f"/deployments/{schedule.deployment_id}/schedule", window)


def _created(runs: Runs, schedule: Schedule) -> int:
    made = runs.rows("/flow_runs/filter", {"flow_runs": {"created_by": {"id_": [schedule.key]}}})
    return sum(one.counts.created for one in runs.statuses(made) if one.state == "COMPLETED")


def _reported(source: Source) -> list[str]:
    with source.client() as client:
        return [one.source for one in client.sources.list_sources()]


async def test_a_schedule_fires_with_its_parameters_and_survives_serve_and_the_file(
    schedules: Runs, prefect_api: str, source: Source, tmp_path: Path
) -> None:
    broken, runs = source.beside("broken"), schedules
    broken.write("empty.md", b"")
    await broken.load()
    with source.client() as client:
        (reported,) = client.sources.list_sources()
        client.sources.remove_source(reported.source_id)
    _write(file := tmp_path / "schedules.yaml")
    with serving(prefect_api, file) as process:
        parameters = {"source": str(source), "options": {"include": ["*.md"]}}
        add_schedule(runs, Draft("Handbook", "bulk-upload", parameters, Times("0 0 1 * *")), person=ADA)
        made = schedule_named(runs)
        _fire(runs, made)
        assert await until(lambda: _created(runs, made), seconds=240) == 12
        last = look_at(runs, [made])[made.key].last
        assert last is not None
        assert (last.by_schedule, last.schedule_name, last.source) == (True, "Handbook", str(source))
        await until(lambda: str(broken) in _reported(source))
        assert await source.quarantine(broken) == {"empty.md": "file_empty"}
        pause_schedule(runs, made, person=BEN)
        paused = schedule_named(runs)
        assert (paused.paused, paused.parameters) == (True, made.parameters)
        assert paused.label is not None
        assert (paused.label.made_by, paused.label.changed_by) == (ADA, BEN)
        await until(lambda: not waiting_runs(runs, paused))
        process.terminate()
        _, errors = await asyncio.to_thread(process.communicate)
    assert "RuntimeWarning" not in errors
    assert (source.settings.data_dir / "flows" / "tmp" / "runner_storage").is_dir()
    _write(file, _entry("other", source))
    await register_entries(read_served(file))
    assert schedule_named(runs) == paused
    runs.call("POST", f"/deployments/{paused.deployment_id}/schedule", {})  # what Prefect's scheduler does
    assert not waiting_runs(runs, paused)
    resume_schedule(runs, paused, person=BEN)
    assert waiting_runs(runs, paused)
    assert schedule_named(runs).parameters == made.parameters


async def test_a_start_begins_by_event_in_a_forked_process_and_a_busy_source_is_skipped(
    prefect_api: str, source: Source, tmp_path: Path
) -> None:
    _write(file := tmp_path / "none.yaml")
    with serving(prefect_api, file, PREFECT_RUNNER_POLL_FREQUENCY="600") as process, Runs(prefect_api) as runs:
        assert runs.read_files_here("bulk-upload")

        async def ended() -> RunStatus:
            run = runs.start_upload(str(source), UploadOptions(), dry_run=True)
            await until(lambda: runs.run_status(run).finished)
            return await asyncio.to_thread(runs.run_status, run)

        await asyncio.to_thread(said, process, "Notices of new runs arrive")
        with open_ledger(str(source), settings=source.settings) as busy:
            busy.begin()
            status = await ended()
        assert (status.state, status.skipped) == ("COMPLETED", True)
        assert f"is loading this source (process {os.getpid()}" in status.message
        done = await ended()
        assert (done.skipped, done.planned["create"]) == (False, 12)
        assert done.started_at
        assert done.due_at
        assert done.started_at - done.due_at < timedelta(seconds=30)
        serving_them = psutil.Process(process.pid)
        (warm,) = [one for one in serving_them.children() if one.cmdline() == serving_them.cmdline()]
        assert warm.num_threads() == 1  # a process with threads must not be forked
        warm.kill()
        assert (await ended()).state == "COMPLETED"


async def test_missed_times_run_once(client, schedules: Runs) -> None:
    deployment_id = await deploy("carrel")
    add_schedule(schedules, Draft("Often", "bulk-upload", {"source": "x"}, Times("* * * * *")))
    made = schedule_named(schedules, "Often")
    window = {"start_time": (datetime.now(UTC) - timedelta(minutes=6)).isoformat(), "max_runs": 5, "min_runs": 5}
    schedules.call("POST", f"/deployments/{deployment_id}/schedule", window)

    async def read() -> list[FlowRun]:
        return await client.get_scheduled_flow_runs_for_deployments([deployment_id], datetime.now(UTC))

    assert len(before := await read()) >= 5
    (kept,) = await read_without_missed(client, read)
    assert kept.id == max(before, key=lambda run: str(run.next_scheduled_start_time)).id
    assert (await asyncio.to_thread(schedules.run_status, kept.id)).missed == len(before) - 1
    assert [run.id for run in await read_without_missed(client, read)] == [kept.id]
    assert len(waiting_runs(schedules, made)) >= 1


@pytest.mark.slow
async def test_plans_and_retries_are_worked_over_http(prefect_api: str, poisoned: Source, tmp_path: Path) -> None:
    offered = yaml.safe_load(SHIPPED.read_text())["deployments"]
    _write(file := tmp_path / "entries.yaml", *offered)
    with serving(prefect_api, file) as process, Runs(prefect_api) as runs:
        _write(file, *offered, _entry("yearly", poisoned, schedules=[{"cron": "0 0 1 1 *"}]))
        await asyncio.to_thread(said, process, "bulk-upload/yearly")

        async def ended(flow_run_id: UUID) -> RunStatus:
            await until(lambda: runs.run_status(flow_run_id).finished)
            return await asyncio.to_thread(runs.run_status, flow_run_id)

        options = UploadOptions(internal_public=True)
        plan = await ended(runs.start_upload(str(poisoned), options, dry_run=True, person=ADA, key="once"))
        assert (plan.state, plan.only_plans, plan.person) == ("COMPLETED", True, ADA)
        assert (plan.planned["create"], plan.planned["delete"], plan.counts.waiting) == (13, 0, 13)
        assert poisoned.documents() == set()
        assert runs.start_upload(str(poisoned), options, dry_run=True, key="once") == plan.flow_run_id

        loaded = await ended(runs.start_upload(str(poisoned), options))
        assert (loaded.counts.created, loaded.counts.quarantined, loaded.by_schedule) == (12, 2, False)
        (known,) = list_sources(poisoned.settings)
        poisoned.write("empty.md")
        sent = await ended(runs.start_retry(known.ledger, known.source))
        assert (sent.flow, sent.source, sent.state) == ("quarantine-retry", str(poisoned), "COMPLETED")
        assert (sent.counts.created, sent.counts.quarantined) == (1, 1)
        assert [row["document"] for row in sent.failures] == ["broken.pdf"]

        page = runs.page(size=2)
        assert [run.flow_run_id for run in page.runs] == [sent.flow_run_id, loaded.flow_run_id]
        assert page.runs[1].counts == loaded.counts
        assert runs.page(size=2, number=1).runs[0].flow_run_id == plan.flow_run_id
        assert page.total >= 3

        yearly = schedule_named(runs, "yearly")
        seen = look_at(runs, [yearly])[yearly.key]
        assert seen.last is None
        assert [(at.month, at.day, at.hour) for at in seen.next_at] == [(1, 1, 0)] * 3
        pause_schedule(runs, yearly)
        assert schedule_named(runs, "yearly").paused
        resume_schedule(runs, yearly)
        assert not schedule_named(runs, "yearly").paused
        by_hand = await ended(runs.start_deployment(yearly.deployment_id, {}))
        again = runs.statuses([runs.call("GET", f"/flow_runs/{by_hand.flow_run_id}")])[0]
        assert (by_hand.counts.unchanged, look_at(runs, [yearly])[yearly.key].last) == (13, again)
