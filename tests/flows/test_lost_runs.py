"""Lost runs are marked, and started again by a process serving the deployment."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import psutil
import pytest
from prefect.client.orchestration import PrefectClient, get_client
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Crashed, Pending, Running

from flows import serving as lost_runs
from flows.bulk_upload import bulk_upload
from flows.deployments import TAG
from flows.processes import living
from flows.runs import Runs
from service.platform.postgres.host import server_account
from tests.flows.processes import PATIENCE_SECONDS, SERVE, prefect_server, until
from tests.flows.serving import deploy
from tests.harness.proxy import UPLOAD, Fault, faulty
from tests.harness.stack import free_port

SILENT = "The run has sent no heartbeat for 120 seconds."


async def test_lost_runs_are_watched_for_by_one_automation(client: PrefectClient) -> None:
    await lost_runs.watch_for_lost_runs(silence=lost_runs.SILENCE * 2)
    await lost_runs.watch_for_lost_runs()
    (one,) = await client.read_automations_by_name(lost_runs.NAME)
    assert one.trigger.within == lost_runs.SILENCE
    assert {"prefect.flow-run.CompletedWithQuarantine", "prefect.flow-run.Completed"} <= one.trigger.expect
    await lost_runs.watch_for_lost_runs()
    assert [known.id for known in await client.read_automations_by_name(lost_runs.NAME)] == [one.id]


async def test_a_lost_run_is_started_again_a_few_times(client: PrefectClient) -> None:
    deployment_id = await deploy("lost", tags=[TAG])
    foreign_id = await deploy("of-another-project")
    foreign = await client.create_flow_run_from_deployment(foreign_id, parameters={"source": "x"})
    await client.set_flow_run_state(foreign.id, Crashed(message=SILENT))
    run = await client.create_flow_run_from_deployment(deployment_id, parameters={"source": "x"})
    by_hand = await client.create_flow_run(bulk_upload, parameters={"source": "x"})
    await client.set_flow_run_state(by_hand.id, Crashed(message=SILENT))
    for _ in range(lost_runs.MOST_STARTS - 1):
        await client.set_flow_run_state(run.id, Running(), force=True)
        await client.set_flow_run_state(run.id, Crashed(message=SILENT))
        assert await lost_runs.take_over(client) == [run.name]
        assert (await client.read_flow_run(run.id)).state_name == "AwaitingRetry"
        assert await lost_runs.take_over(client) == []
    await client.set_flow_run_state(run.id, Running(), force=True)
    await client.set_flow_run_state(run.id, Crashed(message=SILENT))
    other = await client.create_flow_run_from_deployment(deployment_id, parameters={"source": "x"})
    await client.set_flow_run_state(other.id, Crashed(message="Flow run process exited with status code -9."))
    assert await lost_runs.take_over(client) == []
    await client.delete_deployment(deployment_id)
    await client.delete_deployment(foreign_id)


async def test_a_run_without_a_living_process_begins_again(client, tmp_path, monkeypatch) -> None:
    """A living process was suspended, or cut off from Prefect: a second process would repeat the work. A run of an
    ended process would wait forever, and the schedule count as busy."""
    monkeypatch.setenv("CARREL_DATA_DIR", str(tmp_path))
    deployment_id = await deploy("cut-off", tags=[TAG])
    run = await client.create_flow_run_from_deployment(deployment_id, parameters={"source": "x"})
    await client.set_flow_run_state(run.id, Crashed(message=SILENT))
    with living(str(run.id)):
        assert await lost_runs.take_over(client) == []
    assert await lost_runs.take_over(client) == [run.name]
    taken = await client.create_flow_run_from_deployment(deployment_id, parameters={"source": "x"}, state=Pending())
    assert await lost_runs.take_over(client) == [], "a process may have taken it just now"
    monkeypatch.setattr(lost_runs, "SILENCE", timedelta(0))
    assert await lost_runs.take_over(client) == [taken.name]
    await client.delete_deployment(deployment_id)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_a_run_of_a_lost_machine_goes_on_on_another_one(
    prefect_on_postgresql: str, database_url, library: Path, service, flow_settings
) -> None:
    names = documents_of(library)
    one, two = library.parent / "one", library.parent / "two"
    with (
        temporary_settings({PREFECT_API_URL: prefect_on_postgresql}),
        faulty(flow_settings.base_url, rates={Fault.LATENCY: 1.0}) as proxy,
        Runs(prefect_on_postgresql) as runs,
    ):
        environment = {
            "PREFECT_API_URL": prefect_on_postgresql,
            "CARREL_BASE_URL": proxy.base_url,
            "CARREL_FLOWS_DATABASE_URL": database_url.get_secret_value(),
            "CARREL_FLOWS_CONCURRENCY": "1",
            "CARREL_FLOWS_OUTAGE_SECONDS": "600",
        }
        with serving(one, **environment) as killed:
            deployment = await until(lambda: deployment_of(runs), seconds=PATIENCE_SECONDS)
            run_id = await start(deployment, source=library)
            await until(lambda: proxy.count(UPLOAD) >= 3, seconds=PATIENCE_SECONDS)
            proxy.refusal = Fault.UNAVAILABLE  # until the other one serves
            with serving(two, **environment):
                said = two / "said"
                await until(lambda: b"Serving the flows" in said.read_bytes(), seconds=PATIENCE_SECONDS)
                sent = proxy.count(UPLOAD)
                lose(killed)
                proxy.refusal = None
                await until(lambda: runs.run_status(run_id).state == "COMPLETED", seconds=2 * PATIENCE_SECONDS)
                assert b"was lost with its process" in await asyncio.to_thread(said.read_bytes)
        assert 3 <= sent < len(names)
        # One may have been on its way when the machine died.
        assert proxy.count(UPLOAD) in {len(names), len(names) + 1}
        assert runs.rows("/flow_runs/filter", {"flow_runs": {"id": {"any_": [str(run_id)]}}})[0]["run_count"] == 2
    listed = service.call("catalog/listDocuments", {"pageSize": 100}).json()["documents"]
    assert sorted(document["documentExternalId"] for document in listed) == names


def documents_of(library: Path) -> list[str]:
    return sorted(str(path.relative_to(library)) for path in library.rglob("*.md"))


async def start(deployment: UUID, *, source: Path) -> UUID:
    async with get_client() as client:
        return (await client.create_flow_run_from_deployment(deployment, parameters={"source": str(source)})).id


@contextmanager
def serving(folder: Path, **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    folder.mkdir()
    settings = {"CARREL_DATA_DIR": str(folder), "PREFECT_HOME": str(folder / "prefect")} | environment
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(SERVE, env=os.environ | settings, stderr=said, stdout=said)
        try:
            yield process
        finally:
            lose(process)


def lose(machine: "subprocess.Popen[bytes]") -> None:
    if machine.poll() is None:
        for process in [psutil.Process(machine.pid), *psutil.Process(machine.pid).children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        machine.wait(60)


def deployment_of(runs: Runs) -> UUID | None:
    rows = runs.rows("/deployments/filter", {"flows": {"name": {"any_": ["bulk-upload"]}}})
    return next((UUID(row["id"]) for row in rows if row["name"] == "carrel"), None)


@pytest.fixture
def prefect_on_postgresql(tmp_path: Path) -> Iterator[str]:
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        pytest.skip("no PostgreSQL is installed in /usr/lib/postgresql")
    with postgresql(programs[-1]) as url:
        with prefect_server(tmp_path, PREFECT_API_DATABASE_CONNECTION_URL=url) as api:
            yield api
        assert not [*(tmp_path / "prefect").glob("*.db")]


@contextmanager
def postgresql(programs: Path) -> Iterator[str]:
    account = server_account()
    with tempfile.TemporaryDirectory() as parent:
        shutil.chown(parent, account.pw_uid, account.pw_gid)
        port = free_port()

        def call(program: str, *arguments: str) -> None:
            command = [programs / program, "-D", f"{parent}/data", *arguments]
            user = account.pw_name if os.geteuid() == 0 else None
            subprocess.run(command, cwd=parent, user=user, stdout=subprocess.DEVNULL, check=True, timeout=60)

        call("initdb", "-A", "trust", "-U", "prefect", "--no-sync")
        call("pg_ctl", "start", "-w", "-l", f"{parent}/log", "-o", f"-p {port} -k {parent} -h 127.0.0.1 -F")
        try:
            yield f"postgresql+asyncpg://prefect@127.0.0.1:{port}/postgres"
        finally:
            call("pg_ctl", "stop", "-m", "immediate")
