"""The Prefect server of Carrel starts runs by schedule."""

import asyncio
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import timedelta

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from sqlalchemy import text

from flows.__main__ import main
from flows.server import let_writers_wait, look_less_often
from tests.app.prefect_api import PrefectServer
from tests.flows.processes import PATIENCE_SECONDS, until
from tests.harness.stack import ROOT

pytestmark = pytest.mark.timeout(600)


@pytest.mark.slow
async def test_a_deployment_with_a_schedule_has_runs_ahead(prefect_api: str) -> None:
    with closing(PrefectServer(prefect_api)) as server:
        schedule = {"active": True, "schedule": {"cron": "0 2 * * *", "timezone": "UTC"}}
        nightly = server.deploy("nightly", schedules=[schedule])
        runs = await until(lambda: server.runs_of(nightly), seconds=PATIENCE_SECONDS)
        assert {run["state_type"] for run in runs} == {"SCHEDULED"}
        assert all("T02:00:00" in run["expected_start_time"] for run in runs)
        server.withdraw(nightly)


async def test_writers_at_once_wait_for_each_other(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.server.database.configurations import AioSqliteConfiguration  # noqa: PLC0415 - a third of a second

    monkeypatch.setattr(AioSqliteConfiguration, "begin_transaction", AioSqliteConfiguration.begin_transaction)
    let_writers_wait()
    database = AioSqliteConfiguration(connection_url=f"sqlite+aiosqlite:///{tmp_path}/prefect.db")
    engine = await database.engine()

    async def add() -> None:
        async with await database.session(engine) as session, database.begin_transaction(session):
            count = (await session.execute(text("SELECT count(*) FROM runs"))).scalar()
            await asyncio.sleep(0.02)
            await session.execute(text("INSERT INTO runs VALUES (:number)"), {"number": count})

    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE runs (number int PRIMARY KEY)"))
    await asyncio.gather(*(add() for _ in range(4)))
    async with engine.connect() as connection:
        assert (await connection.execute(text("SELECT count(*) FROM runs"))).scalar() == 4
    await engine.dispose()


async def test_a_background_task_of_prefect_begins_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker polls rarely, so events must wake it."""
    from docket import Docket  # noqa: PLC0415 - as above
    from prefect.server.api import background_workers  # noqa: PLC0415 - as above

    monkeypatch.setattr(background_workers, "Worker", vars(background_workers)["Worker"])
    monkeypatch.setattr("flows.server.LOOKING", timedelta(hours=1))
    look_less_often()
    ran = asyncio.Event()

    async def run() -> None:
        ran.set()

    async with Docket("tests", url="memory://tests") as docket, asyncio.timeout(PATIENCE_SECONDS):
        docket.register(run)
        async with vars(background_workers)["Worker"](docket) as worker:
            working = asyncio.create_task(worker.run_forever())
            for _ in range(2):
                await docket.add(run)()
                await ran.wait()
                ran.clear()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


@pytest.mark.parametrize(("argument", "code"), [("--help", 0), ("--port", 2)])
def test_it_says_how_it_is_used(argument: str, code: int) -> None:
    command = [sys.executable, "-m", "flows.server", argument]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == code
    assert "PREFECT_API_URL" in ended.stdout + ended.stderr


@pytest.mark.usefixtures("collected")
async def test_a_prefect_that_stays_away_ends_serving_as_it_ends_carrel(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("CARREL_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        monkeypatch.setenv("CARREL_FLOWS_DEPLOYMENTS", str(tmp_path / "none.yaml"))
        assert await asyncio.to_thread(main, ["serve"]) == 2
