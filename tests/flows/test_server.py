"""The Prefect server that comes with Carrel starts runs by schedule."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from sqlalchemy import text

from flows import serving
from flows.__main__ import main
from flows.server import let_writers_wait
from tests.flows.processes import PATIENCE_SECONDS
from tests.harness.stack import ROOT

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def server(prefect_api: str) -> Iterator[httpx.Client]:
    """The server as a process of its own, answering."""
    with httpx.Client(base_url=prefect_api, timeout=60) as client:
        yield client


def asked(server: httpx.Client, path: str, body: dict[str, Any]) -> Any:
    """What the server answers; while its own start keeps its database busy it answers 503, as its clients know."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (answer := server.post(path, json=body)).status_code == 503 and time.monotonic() < deadline:
        time.sleep(0.5)
    return answer.raise_for_status().json()


@pytest.mark.slow
def test_a_deployment_with_a_schedule_has_runs_ahead(server: httpx.Client) -> None:
    """Each at its time, waiting for who serves the deployment."""
    flow = asked(server, "/flows/", {"name": "nightly"})
    deployment = {
        "name": "carrel",
        "flow_id": flow["id"],
        "schedules": [{"active": True, "schedule": {"cron": "0 2 * * *", "timezone": "UTC"}}],
    }
    made = asked(server, "/deployments/", deployment)
    wanted = {"deployments": {"id": {"any_": [made["id"]]}}}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (runs := asked(server, "/flow_runs/filter", wanted)):
        assert time.monotonic() < deadline, "nothing was scheduled"
        time.sleep(0.5)
    assert {run["state_type"] for run in runs} == {"SCHEDULED"}
    assert all("T02:00:00" in run["expected_start_time"] for run in runs)
    server.delete(f"/deployments/{made['id']}").raise_for_status()


async def test_writers_at_once_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads before it writes, as Prefect's own do; none fails because another was quicker."""
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


@pytest.mark.parametrize(("argument", "code"), [("--help", 0), ("--port", 2)])
def test_it_says_how_it_is_used(argument: str, code: int) -> None:
    """And starts nothing."""
    command = [sys.executable, "-m", "flows.server", argument]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == code
    assert "PREFECT_API_URL" in ended.stdout + ended.stderr


async def test_a_prefect_that_stays_away_ends_serving_as_it_ends_carrel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With 4, since there is nothing to change but the time; a wrong file of deployments ends it with 2."""
    monkeypatch.setenv("CARREL_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(serving, "_STARTING", timedelta(0))
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        assert await asyncio.to_thread(main, ["serve"]) == 4
        assert "python -m flows.server" in capsys.readouterr().err
        monkeypatch.setenv("CARREL_FLOWS_DEPLOYMENTS", str(tmp_path / "none.yaml"))
        assert await asyncio.to_thread(main, ["serve"]) == 2
