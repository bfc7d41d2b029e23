"""Schedules made by people, and the file of deployments, on a real Prefect server."""

import asyncio
import contextlib
import functools
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from prefect import flow
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.sorting import DeploymentSort
from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError
from prefect.exceptions import ObjectNotFound
from prefect.runner import Runner
from prefect.server.schemas.schedules import CronSchedule

from flows import schedules as plans
from flows.bulk_upload import bulk_upload
from flows.deployments import TAG, read_deployments
from flows.errors import DeploymentsError
from flows.running import BATCHES, batch_slot, ensure_batch_limit, give_slots_back, set_batch_limit, slots_file
from flows.runs import FLOWS, NotServedError, Runs, tag_of_this_machine
from flows.schedules import Draft, InvalidScheduleError, ScheduleChangedError, Times
from flows.settings import FlowSettings
from tests.flows.serving import deploy, register_entries, schedule_named, waiting_runs
from tests.harness.cases import cases, script

EVERY_MINUTE = Times("* * * * *")
ADA, BEN = "ada@example.com", "ben@example.com"


@pytest.fixture(scope="module")
async def served(withdrawn: None) -> None:
    del withdrawn
    await deploy("carrel", tags=[TAG])


def _draft(source: str, times: Times = EVERY_MINUTE, *, name: str = "Handbook") -> Draft:
    return Draft(name, "bulk-upload", {"source": source, "options": {}}, times)


@pytest.mark.usefixtures("served")
def test_it_is_changed_and_started_by_hand(schedules: Runs) -> None:
    mondays, tuesdays = Times("0 2 * * 1", "Europe/Berlin"), Times("0 2 * * 2", "Europe/Berlin")
    plans.add_schedule(schedules, _draft("/srv/one", tuesdays), person=ADA)
    plans.pause_schedule(schedules, schedule_named(schedules))
    plans.change_schedule(schedules, schedule_named(schedules), _draft("/srv/two", mondays), person=BEN)
    changed = schedule_named(schedules)
    assert changed.parameters == {"source": "/srv/two", "options": {}}
    assert (changed.times, changed.paused) == ([mondays], True)
    assert changed.label is not None
    assert (changed.label.made_by, changed.label.changed_by) == (ADA, BEN)
    run = plans.run_schedule(schedules, changed, person=BEN, key="once")
    assert plans.run_schedule(schedules, changed, person=BEN, key="once") == run
    last = plans.look_at(schedules, [changed])[changed.key].last
    assert last is not None
    assert (last.flow_run_id, last.person, last.source) == (run, BEN, "/srv/two")


@pytest.mark.usefixtures("served")
def test_of_two_who_change_it_at_once_the_last_is_told(schedules: Runs) -> None:
    plans.add_schedule(schedules, _draft("/srv/one"), person=ADA)
    read = schedule_named(schedules)
    plans.change_schedule(schedules, read, _draft("/srv/two"), person=BEN)
    with pytest.raises(ScheduleChangedError, match=BEN):
        plans.change_schedule(schedules, read, _draft("/srv/three"), person=ADA)
    with pytest.raises(ScheduleChangedError, match=BEN):
        plans.delete_schedule(schedules, read)
    assert schedule_named(schedules).parameters["source"] == "/srv/two"
    plans.delete_schedule(schedules, schedule_named(schedules))
    for change in (plans.pause_schedule, plans.resume_schedule):
        with pytest.raises(ScheduleChangedError, match="deleted"):
            change(schedules, read)
    assert not plans.list_schedules(schedules)


@pytest.mark.usefixtures("served")
def test_one_made_twice_is_one_and_a_deletion_leaves_others(schedules: Runs) -> None:
    first = plans.add_schedule(schedules, _draft("/srv/one"), key="form")
    assert plans.add_schedule(schedules, _draft("/srv/one"), key="form") == first
    plans.add_schedule(schedules, _draft("/srv/two", name="Reports"))
    assert len(plans.list_schedules(schedules)) == 2
    plans.delete_schedule(schedules, schedule_named(schedules))
    assert waiting_runs(schedules, schedule_named(schedules, "Reports"))


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("source", ["s3://key:hush@bucket/p", "https://host/p?token=hush"])
def test_what_prefect_would_show_is_refused(schedules: Runs, source: str) -> None:
    with pytest.raises(InvalidScheduleError) as raised:
        plans.add_schedule(schedules, _draft(source))
    assert "hush" not in str(raised.value)
    with pytest.raises(InvalidScheduleError, match="name"):
        plans.add_schedule(schedules, _draft("/srv/one", name=" "))
    assert not plans.list_schedules(schedules)


def test_nothing_is_kept_or_started_where_nobody_serves(prefect_api: str) -> None:
    with Runs(prefect_api) as runs:
        with pytest.raises(NotServedError, match="flows serve"):
            plans.add_schedule(runs, Draft("x", "no-such-flow", {}, EVERY_MINUTE))
        with pytest.raises(NotServedError, match="python -m flows serve"):
            runs.start("no-such-flow", {})


@pytest.mark.parametrize(("cron", "timezone", "words"), cases("times_that_are_none_are_said"))
def test_times_that_are_none_are_said(cron: str, timezone: str, words: str) -> None:
    with pytest.raises(plans.InvalidTimesError, match=words):
        plans.check_times(Times(cron, timezone))


@pytest.mark.parametrize("cron", ["*/15 * * * *", "0 2 * * *", "30 6 * * 1-5", "0 4 1 * *", "@daily", "0 0 13 * 5"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"])
async def test_the_times_shown_are_those_that_prefect_runs(cron: str, zone: str) -> None:
    after = datetime(2026, 10, 24, 12, 7, 30, tzinfo=UTC)
    theirs = await CronSchedule(cron=cron, timezone=zone).get_dates(5, start=after)
    ours = plans.next_times([Times(cron, zone)], 5, after=after)
    assert [f"{at.astimezone(ZoneInfo(zone)):%c}" for at in ours] == [f"{at:%c}" for at in theirs]
    assert timedelta(0) < ours[0] - after


NIGHTLY = script("schedules_nightly.txt")
WRONG = Path("tests/data/wrong-deployments.yaml").read_text()
MISTAKES = [
    (number, line.partition("#= ")[2]) for number, line in enumerate(WRONG.split("\n"), start=1) if "#= " in line
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deployments.yaml"


def test_the_file_that_comes_with_it_offers_every_flow_and_its_examples_are_right(flow_settings, file) -> None:
    offered = read_deployments(flow_settings.deployments)
    assert {entry.flow.name for entry in offered} == set(FLOWS)
    assert {(entry.name, len(entry.schedules)) for entry in offered} == {("carrel", 0)}
    head, _, rest = flow_settings.deployments.read_text().partition("\ndeployments:\n")
    assert "#   name " in head
    file.write_text(f"{head}\ndeployments:\n" + rest.replace("#  ", "  ").replace("#\n", "\n"))
    assert [len(entry.schedules) for entry in read_deployments(file)] == [0] * len(offered) + [1, 1]


def test_mistakes_are_all_named_by_line_and_entry(file: Path) -> None:
    file.write_text(WRONG)
    with pytest.raises(DeploymentsError) as raised:
        read_deployments(file)
    lines = [line.removeprefix(f"{file}:").partition(": ") for line in str(raised.value).splitlines()]
    said = sorted((int(number), words) for number, _, words in lines)
    for (line, words), (expected, start) in zip(said, MISTAKES, strict=True):
        assert (line, words[: len(start)]) == (expected, start)


@pytest.mark.parametrize(("text", "words"), cases("files_that_declare_no_deployments"))
def test_what_is_no_such_file_is_said(file: Path, text: str | None, words: str) -> None:
    if text is not None:
        file.write_bytes(text.encode("latin-1"))
    with pytest.raises(DeploymentsError, match=words):
        read_deployments(file)


@pytest.mark.parametrize("source", ["s3://key:hush@bucket/p", "https://key:hush@host/p", "s3://bucket/p?token=hush"])
def test_credential_in_a_source_is_refused_before_prefect_keeps_it(file: Path, source: str) -> None:
    """Prefect shows parameters of deployments to all users."""
    entry = f"- {{name: a, entrypoint: flows.bulk_upload.bulk_upload, parameters: {{source: '{source}'}}}}"
    file.write_text(f"deployments: \n{entry}\n")
    with pytest.raises(DeploymentsError, match=r"a: parameters: source: .*environment") as raised:
        read_deployments(file)
    assert "hush" not in str(raised.value)


async def _register(file: Path, text: str) -> None:
    await asyncio.to_thread(file.write_text, text)
    await register_entries(read_deployments(file))


async def _names(client: PrefectClient) -> set[str]:
    return {one.name for one in await client.read_deployments(sort=DeploymentSort.NAME_ASC, limit=200)}


async def test_the_server_follows_the_file(client: PrefectClient, file: Path) -> None:
    other = await deploy("somebody-elses")
    former = await flow(bulk_upload.fn, name="quarantine").ato_deployment("carrel", tags=[TAG])
    await Runner(pause_on_shutdown=False).aadd_deployment(former)
    assert (await client.read_deployment_by_name("quarantine/carrel")).tags == [TAG]
    await _register(file, NIGHTLY)
    with pytest.raises(ObjectNotFound):
        await client.read_deployment_by_name("quarantine/carrel")
    nightly = await client.read_deployment_by_name("bulk-upload/nightly")
    assert nightly.tags == [TAG, tag_of_this_machine()]
    assert nightly.parameters == {
        "source": "/srv/handbook",
        "options": {"internal_public": True, "collection": "Handbook"},
    }
    assert [(one.schedule.cron, one.schedule.timezone) for one in nightly.schedules] == [("0 2 * * *", "Europe/Berlin")]
    assert (await client.read_deployment_by_name("collection-add/members")).schedules == []

    alone = NIGHTLY.partition("  - name: members")[0]
    await _register(file, alone.replace("0 2 * * *", "30 3 * * *"))
    changed = await client.read_deployment_by_name("bulk-upload/nightly")
    assert (changed.id, [one.schedule.cron for one in changed.schedules]) == (nightly.id, ["30 3 * * *"])
    names = await _names(client)
    assert ("members" in names, "somebody-elses" in names) == (False, True)

    await _register(file, alone.replace('{cron: "0 2 * * *", timezone: Europe/Berlin}', ""))
    assert (await client.read_deployment_by_name("bulk-upload/nightly")).schedules == []
    await _register(file, "deployments:\n")
    assert not await _names(client) & {"nightly", "members"}
    await client.delete_deployment(other)


async def test_what_people_paused_stays_paused(client: PrefectClient, file: Path) -> None:
    alone = NIGHTLY.partition("  - name: members")[0]
    await _register(file, alone)
    nightly = await client.read_deployment_by_name("bulk-upload/nightly")
    await client.pause_deployment(nightly.id)
    await client.update_deployment_schedule(nightly.id, nightly.schedules[0].id, active=False)
    await _register(file, alone.replace("0 2 * * *", "30 3 * * *"))
    again = await client.read_deployment_by_name("bulk-upload/nightly")
    assert (again.paused, [(one.schedule.cron, one.active) for one in again.schedules]) == (
        True,
        [("30 3 * * *", False)],
    )
    await client.resume_deployment(nightly.id)
    await _register(file, alone.replace("    schedules:", "    paused: true\n    schedules:"))
    assert not (await client.read_deployment_by_name("bulk-upload/nightly")).paused
    await register_entries([])


async def test_batches_wait_for_their_limit(client: PrefectClient, flow_settings: FlowSettings) -> None:
    """A run creates the limit, and `serve` sets it; a batch doesn't begin without a slot."""
    with contextlib.suppress(ObjectNotFound):  # of what was served before
        await client.delete_global_concurrency_limit_by_name(BATCHES)
    await ensure_batch_limit(flow_settings.model_copy(update={"flows_batches_at_once": 3}))
    await ensure_batch_limit(flow_settings.model_copy(update={"flows_batches_at_once": 5}))
    assert (await client.read_global_concurrency_limit_by_name(BATCHES)).limit == 3
    await set_batch_limit(flow_settings.model_copy(update={"flows_batches_at_once": 1}))
    assert (await client.read_global_concurrency_limit_by_name(BATCHES)).limit == 1
    kept = slots_file(flow_settings, "a ledger")
    async with batch_slot(kept):
        assert (await client.read_global_concurrency_limit_by_name(BATCHES)).active_slots == 1
        second = asyncio.create_task(_one_batch(kept))
        assert not (await asyncio.wait({second}, timeout=0.5))[0]
    await second
    await client.delete_global_concurrency_limit_by_name(BATCHES)
    with pytest.raises(ConcurrencySlotAcquisitionError, match=BATCHES):
        await _one_batch(kept)


async def _one_batch(kept: Path) -> None:
    async with batch_slot(kept):
        pass


_TAKES_SLOT = script("schedules_takes_slot.txt")


async def test_slots_of_a_killed_run_are_given_back_by_the_next_one(client, prefect_api, flow_settings) -> None:
    """A killed run's lease would block further runs of the source for a minute."""
    await set_batch_limit(flow_settings.model_copy(update={"flows_batches_at_once": 1}))
    kept = slots_file(flow_settings, "a ledger")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _TAKES_SLOT, str(kept), env=os.environ | {"PREFECT_API_URL": prefect_api}, stdout=-1
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"taken\n"
    process.kill()
    await process.communicate()
    assert (await client.read_global_concurrency_limit_by_name(BATCHES)).active_slots == 1
    await give_slots_back(kept)
    assert (await client.read_global_concurrency_limit_by_name(BATCHES)).active_slots == 0
    await _one_batch(kept)
    await give_slots_back(kept)  # of slots that were given back, nothing is left to do
    assert not kept.exists()
    await client.delete_global_concurrency_limit_by_name(BATCHES)


@pytest.mark.slow
async def test_work_pools_get_the_same_deployments(prefect_api: str, client: PrefectClient) -> None:
    """`prefect deploy --all` registers every served flow, under the same name, for a work pool's machines."""
    await client.create_work_pool(WorkPoolCreate(name="carrel", type="process"))
    command = [str(Path(sys.executable).with_name("prefect")), "--no-prompt", "deploy", "--all"]
    call = functools.partial(subprocess.run, capture_output=True, text=True, check=False)
    environment = os.environ | {"PREFECT_API_URL": prefect_api}
    done = await asyncio.to_thread(call, command, cwd=Path(__file__).parents[2], env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    for entry in read_deployments(FlowSettings().deployments):
        deployment = await client.read_deployment_by_name(f"{entry.flow.name}/carrel")
        assert (deployment.work_pool_name, deployment.pull_steps) == ("carrel", [])
        assert deployment.entrypoint == f"{entry.flow.fn.__module__}.{entry.flow.fn.__name__}"
        await client.delete_deployment(deployment.id)
    await client.delete_work_pool("carrel")
