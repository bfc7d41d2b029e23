"""The file of deployments: read with its mistakes named, and followed on a Prefect server."""

import asyncio
import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.sorting import DeploymentSort
from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError
from prefect.runner import Runner

from flows import lost_runs
from flows.bulk_upload import bulk_upload
from flows.deployments import read_deployments
from flows.errors import DeploymentsError
from flows.limits import BATCHES, ensure_limits, give_slots_back, one_of_the_batches, set_limits, slots_file
from flows.runs import Runs, RunsError
from flows.scheduling import register
from flows.serving import FLOWS
from flows.settings import FlowSettings
from tests.flows.processes import SERVE, running, said, until

NIGHTLY = """
deployments:
  - name: nightly
    flow: bulk-upload
    source: /srv/handbook
    collection: Handbook
    cron: "0 2 * * *"
    timezone: Europe/Berlin
    options: {internal_public: true}
  - name: members
    flow: collection-add
    source: /srv/manifest.csv
    collection: Handbook
"""
WRONG = """
deployments:
  - name: Bad Name
    flow: bulk-upload
    source: s
    cron: "99 * * * *"
    timezone: Mars/Base
  - flow: nothing
    name: other
  - name: option
    flow: bulk-upload
    source: x
    options:
      internal_publik: true
  - name: option
    flow: bulk-upload
    source: x
  - just text
  - name: carrel
    name: twice
    flow: bulk-upload
    tokens: x
  - name: option
    flow: bulk-uplaod
  - name: all-at-once
    flow: bulk-upload
    colection: Handbook
    cron: 5
    timezone: Mars/Base
    delete_missing: true
    options:
      delete_limit_percent: 300
      hidden: perhaps
      timezone: UTC
  - name: no-collection
    flow: collection-add
    source: /srv/manifest.csv
  - name: snapshot
    flow: permission-snapshot
    source: x
  - flow: bulk-upload
    source: ""
"""
MISTAKES = {
    (3, "Bad Name: name: a name is of small letters, digits and hyphens"),
    (6, 'Bad Name: cron: Invalid cron string: "99 * * * *"'),
    (7, "Bad Name: timezone: Invalid timezone"),
    (8, "other: flow: there is no flow nothing; there are bulk-upload"),
    (
        14,
        "option: options.internal_publik: bulk-upload has no option `internal_publik`; did you mean `internal_public`?",
    ),
    (15, "option: name: another entry has this name"),
    (18, "entry 5: an entry has members"),
    (19, "twice: `source` is missing"),
    (20, "twice: name: name stands there twice"),
    (22, "twice: tokens: there is no member `tokens`"),
    (23, "option: name: another entry has this name"),
    (24, "option: flow: there is no flow bulk-uplaod; there are bulk-upload"),
    (25, "all-at-once: `source` is missing"),
    (27, "all-at-once: colection: there is no member `colection`; did you mean `collection`?"),
    (28, "all-at-once: cron: it must be a text"),
    (29, "all-at-once: timezone: Invalid timezone"),
    (30, "all-at-once: delete_missing: `delete_missing` belongs under `options`"),
    (32, "all-at-once: options.delete_limit_percent: it must be 100 or less"),
    (33, "all-at-once: options.hidden: it must be true or false"),
    (34, "all-at-once: options.timezone: `timezone` stands beside `options`, not under it"),
    (35, "no-collection: `collection` is missing"),
    (40, "snapshot: source: the flow permission-snapshot takes no `source`"),
    (41, "entry 11: `name` is missing"),
    (42, "entry 11: source: it is empty"),
}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The file, with two entries."""
    path = tmp_path / "deployments.yaml"
    path.write_text(NIGHTLY)
    return path


@pytest.fixture
async def client(prefect_api: str) -> Any:
    """A client of the session's Prefect server."""
    assert prefect_api
    async with get_client() as client:
        yield client


@pytest.fixture
def runner() -> Runner:
    """A runner that is never started."""
    return Runner(pause_on_shutdown=False)


def test_the_file_that_comes_with_it_is_empty_and_its_examples_are_right(
    flow_settings: FlowSettings, tmp_path: Path
) -> None:
    """Nothing runs by itself until somebody says so; what the comments show can be taken as it is."""
    assert read_deployments(flow_settings.deployments, flows=FLOWS) == []
    text = flow_settings.deployments.read_text()
    head, _, examples = text.partition("\ndeployments:\n")
    assert "#   name " in head
    path = tmp_path / "examples.yaml"
    path.write_text("deployments:\n" + examples.replace("#  ", "  ").replace("#\n", "\n"))
    assert len(read_deployments(path, flows=FLOWS)) == 2


def test_mistakes_are_all_named_by_line_and_entry(tmp_path: Path) -> None:
    """One message has every mistake of every entry, each with the line it stands in, in words of the file."""
    path = tmp_path / "wrong.yaml"
    path.write_text(WRONG)
    with pytest.raises(DeploymentsError) as raised:
        read_deployments(path, flows=FLOWS)
    lines = [line.removeprefix(f"{path}:").partition(": ") for line in str(raised.value).splitlines()]
    said = sorted((int(number), words) for number, _, words in lines)
    for (line, words), (expected, start) in zip(said, sorted(MISTAKES), strict=True):
        assert (line, words[: len(start)]) == (expected, start)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("deployments:\n  - name: a\n    cron: */5 * * * *\n", ":3: this is no YAML"),
        ("- name: a\n", "one list, under `deployments:`"),
        ("deployments: []\nother: 1\n", "one list, under `deployments:`"),
        ("deployments: []\ndeployments: []\n", ":2: deployments stands there twice"),
        (b"\xff\xfe", "can't be read"),
        ("", "one list, under `deployments:`"),
        ("# Only begun to be written.\n", "one list, under `deployments:`"),
    ],
)
def test_what_is_no_such_file_is_said(tmp_path: Path, text: str | bytes, words: str) -> None:
    """A file that is no YAML, or is YAML of another kind, is refused as a whole; so is one that isn't there."""
    path = tmp_path / "wrong.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DeploymentsError, match=words):
        read_deployments(path, flows=FLOWS)
    with pytest.raises(DeploymentsError, match="can't be read"):
        read_deployments(tmp_path / "none.yaml", flows=FLOWS)


@pytest.mark.parametrize("source", ["s3://key:hush@bucket/p", "https://key:hush@host/p", "s3://bucket/p?token=hush"])
def test_credential_in_a_source_is_refused_before_prefect_keeps_it(tmp_path: Path, source: str) -> None:
    """Parameters of deployments are shown to whoever sees Prefect; the message doesn't repeat it either."""
    path = tmp_path / "secret.yaml"
    path.write_text(f"deployments:\n  - name: a\n    flow: bulk-upload\n    source: {source}\n")
    with pytest.raises(DeploymentsError, match=r"a: source: .*environment") as raised:
        read_deployments(path, flows=FLOWS)
    assert "hush" not in str(raised.value)


async def _registered(path: Path, text: str, runner: Runner) -> None:
    await asyncio.to_thread(path.write_text, text)
    await register(read_deployments(path, flows=FLOWS), runner=runner, flows=FLOWS)


async def _read(client: PrefectClient, name: str) -> DeploymentResponse:
    return await client.read_deployment_by_name(name)


async def _names(client: PrefectClient) -> set[str]:
    return {one.name for one in await client.read_deployments(sort=DeploymentSort.NAME_ASC, limit=200)}


async def test_the_server_follows_the_file(client: PrefectClient, written: Path, runner: Runner) -> None:
    """Entries are added with their parameters and times, changed, and removed; others' deployments stay."""
    other = await runner.aadd_deployment(await bulk_upload.ato_deployment("somebody-elses"))
    await register(read_deployments(written, flows=FLOWS), runner=runner, flows=FLOWS)
    nightly = await _read(client, "bulk-upload/nightly")
    assert nightly.parameters == {
        "source": "/srv/handbook",
        "options": {"internal_public": True, "collection": "Handbook"},
    }
    assert [(one.schedule.cron, one.schedule.timezone) for one in nightly.schedules] == [("0 2 * * *", "Europe/Berlin")]
    assert (await _read(client, "collection-add/members")).schedules == []

    await _registered(written, NIGHTLY.replace("0 2 * * *", "30 3 * * *").partition("  - name: members")[0], runner)
    changed = await _read(client, "bulk-upload/nightly")
    assert (changed.id, [one.schedule.cron for one in changed.schedules]) == (nightly.id, ["30 3 * * *"])
    names = await _names(client)
    assert ("members" in names, "somebody-elses" in names) == (False, True)

    await _registered(written, NIGHTLY.replace('    cron: "0 2 * * *"\n', ""), runner)
    assert (await _read(client, "bulk-upload/nightly")).schedules == []
    await _registered(written, "deployments:\n", runner)
    assert not await _names(client) & {"nightly", "members"}
    await client.delete_deployment(other)


async def test_what_people_paused_stays_paused(client: PrefectClient, written: Path, runner: Runner) -> None:
    """A paused deployment and a paused schedule stay so when they are registered again, changed or not."""
    await register(read_deployments(written, flows=FLOWS), runner=runner, flows=FLOWS)
    nightly = await _read(client, "bulk-upload/nightly")
    await client.pause_deployment(nightly.id)
    await client.update_deployment_schedule(nightly.id, nightly.schedules[0].id, active=False)
    await _registered(written, NIGHTLY.replace("0 2 * * *", "30 3 * * *"), runner)
    again = await _read(client, "bulk-upload/nightly")
    assert (again.paused, [(one.schedule.cron, one.active) for one in again.schedules]) == (
        True,
        [("30 3 * * *", False)],
    )
    await client.resume_deployment(nightly.id)
    await _registered(written, NIGHTLY.replace("    cron:", "    paused: true\n    cron:"), runner)
    assert not (await _read(client, "bulk-upload/nightly")).paused
    await register([], runner=runner, flows=FLOWS)


async def test_batches_wait_for_their_limit(client: PrefectClient, flow_settings: FlowSettings) -> None:
    """The limit is made by a run and set by `serve`; a batch takes a slot of it, and doesn't begin without it."""
    await ensure_limits(flow_settings.model_copy(update={"flows_batches_at_once": 3}))
    await ensure_limits(flow_settings.model_copy(update={"flows_batches_at_once": 5}))
    await set_limits(flow_settings.model_copy(update={"flows_batches_at_once": 1}))
    kept = slots_file(flow_settings, "a ledger")
    async with one_of_the_batches(kept):
        assert (await client.read_global_concurrency_limit_by_name(BATCHES)).active_slots == 1
        second = asyncio.create_task(_one_batch(kept))
        assert not (await asyncio.wait({second}, timeout=0.5))[0]
    await second
    await client.delete_global_concurrency_limit_by_name(BATCHES)
    with pytest.raises(ConcurrencySlotAcquisitionError, match=BATCHES):
        await _one_batch(kept)


async def _one_batch(kept: Path) -> None:
    async with one_of_the_batches(kept):
        pass


_TAKES_SLOT = """
import asyncio, sys
from pathlib import Path
from flows.limits import one_of_the_batches

async def work():
    async with one_of_the_batches(Path(sys.argv[1])):
        print("taken", flush=True)
        await asyncio.sleep(600)

asyncio.run(work())
"""


async def test_slots_of_a_killed_run_are_given_back_by_the_next_one(
    client: PrefectClient, prefect_api: str, flow_settings: FlowSettings
) -> None:
    """A run whose process was killed holds up no run on its source for the minute that its slot's lease lasts."""
    await set_limits(flow_settings.model_copy(update={"flows_batches_at_once": 1}))
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


async def test_lost_runs_are_watched_for_by_one_automation(client: PrefectClient) -> None:
    """It is made once; one of an earlier version is replaced, not joined by another."""
    await lost_runs.watch_for_lost_runs(silence=lost_runs.SILENCE * 2)
    await lost_runs.watch_for_lost_runs()
    (one,) = await client.read_automations_by_name(lost_runs.NAME)
    assert one.trigger.within == lost_runs.SILENCE
    assert {"prefect.flow-run.CompletedWithQuarantine", "prefect.flow-run.Completed"} <= one.trigger.expect
    await lost_runs.watch_for_lost_runs()
    assert [known.id for known in await client.read_automations_by_name(lost_runs.NAME)] == [one.id]


async def test_serve_follows_the_file_while_it_runs(
    prefect_api: str, client: PrefectClient, library: Path, written: Path, flow_settings: FlowSettings
) -> None:
    """An entry that comes later is registered and run; a file that is wrong then changes nothing, and is said.

    A file that is wrong from the beginning ends `serve` with 2 and its mistakes.
    """
    assert flow_settings.base_url
    name = f"later-{uuid4().hex[:8]}"
    entry = f"\n  - name: {name}\n    flow: bulk-upload\n    source: {library}\n"
    environment = {
        "PREFECT_API_URL": prefect_api,
        "CARREL_FLOWS_DEPLOYMENTS": str(written),
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
    }
    with running(*SERVE, **environment) as process, Runs(prefect_api) as runs:
        await until(lambda: _known(runs, "nightly"))
        await asyncio.to_thread(written.write_text, NIGHTLY + entry)
        await until(lambda: _known(runs, name))
        flow_run_id = _start(runs, name)
        assert await until(lambda: runs.run_status(flow_run_id).finished)
        assert runs.run_status(flow_run_id).counts.created == 12
        await asyncio.to_thread(written.write_text, WRONG)
        await asyncio.to_thread(said, process, "other: flow: there is no flow nothing")
        assert _known(runs, name)
        process.terminate()
        await asyncio.to_thread(process.communicate)
    with running(*SERVE, **environment) as process:
        _, errors = await asyncio.to_thread(process.communicate)
    assert process.returncode == 2
    assert "other: flow: there is no flow nothing" in errors
    for mine in await client.read_deployments(sort=DeploymentSort.NAME_ASC, limit=200):
        await client.delete_deployment(mine.id)


def _start(runs: Runs, name: str) -> UUID:
    deployment = runs.call("GET", f"/deployments/name/bulk-upload/{name}")
    return UUID(runs.call("POST", f"/deployments/{deployment['id']}/create_flow_run", {})["id"])


def _known(runs: Runs, name: str) -> bool:
    try:
        return bool(runs.call("GET", f"/deployments/name/bulk-upload/{name}"))
    except RunsError:
        return False


async def test_work_pools_get_the_same_deployments(prefect_api: str, client: PrefectClient) -> None:
    """`prefect deploy --all` registers every flow that is served, under the same name, for a work pool's machines."""
    await client.create_work_pool(WorkPoolCreate(name="carrel", type="process"))
    command = [str(Path(sys.executable).with_name("prefect")), "--no-prompt", "deploy", "--all"]
    deploy = functools.partial(subprocess.run, capture_output=True, text=True, check=False)
    environment = os.environ | {"PREFECT_API_URL": prefect_api}
    done = await asyncio.to_thread(deploy, command, cwd=Path(__file__).parents[2], env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    for name, flow in FLOWS.items():
        deployment = await _read(client, f"{name}/carrel")
        assert (deployment.work_pool_name, deployment.pull_steps) == ("carrel", [])
        assert deployment.entrypoint == f"{flow.fn.__module__}.{flow.fn.__name__}"
        await client.delete_deployment(deployment.id)
    await client.delete_work_pool("carrel")
