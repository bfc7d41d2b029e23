"""What runs and schedules report to the service, so that somebody is told when they fail."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from flows.errors import SourceError
from flows.operations.jobs import Hooks
from flows.runs import Runs
from flows.serving import read_due
from tests.app.prefect_api import PrefectServer
from tests.flows.sources import Source
from tests.harness.services import RunningService


def _open(source: Source) -> list[tuple[str, str, str]]:
    with source.client() as client:
        return [(one.kind.value, one.name, one.code) for one in client.admin.alerts.list(only_open=True)]


@pytest.fixture
def service(own_service: RunningService) -> RunningService:
    return own_service


def _leases(source: Source) -> list[tuple[bool]]:
    return source.service.execute("SELECT expires_at IS NOT NULL FROM alert_leases")


async def test_a_run_reports_how_it_goes_and_how_it_ended(source: Source) -> None:
    """While it goes on it is a lease; the alert about quarantine outlasts a retry of a part, and ends with the rest."""
    seen: list[tuple[bool]] = []

    async def look(*_: object) -> None:
        async with asyncio.timeout(30):
            while not seen:
                seen.extend(await asyncio.to_thread(_leases, source))
                await asyncio.sleep(0.05)

    empty = source.write("empty.md", b"")
    await source.load(hooks=Hooks(on_plan=look))
    assert seen == [(True,)]
    assert _leases(source) == [(False,)]
    assert _open(source) == [("RUN_QUARANTINE", str(source), "run_quarantine")]
    blank = source.write("blank.md", b"")
    await source.load()
    empty.write_text("It is mended.")
    await source.retry(names=["empty.md"])
    [alert] = source.service.call("admin/alerts/list", {"onlyOpen": True}).json()["alerts"]
    numbers = len([*source.folder.rglob("*.*")]), 1
    assert (alert["documentCount"], alert["quarantinedCount"]) == numbers, "of the source, not of the retry"
    blank.unlink()
    await source.load()
    assert _open(source) == []


async def test_a_run_that_fails_says_why_and_one_that_is_stopped_does_not(source: Source) -> None:
    """The code of the error is the alert's, also at a source's first run; a plan, and a stopped run, begin none."""
    missing = source.beside("missing")
    missing.folder.rmdir()
    with pytest.raises(SourceError):
        await missing.load()
    with pytest.raises(SourceError, match="UTF-8"):
        await source.load("/srv/caf\udce9")
    assert _open(source) == [("RUN_FAILED", name, "source_unreadable") for name in ("/srv/caf\\udce9", str(missing))]
    assert set(_leases(source)) == {(False,)}
    with source.client() as client:
        for one in client.admin.alerts.list():
            client.admin.alerts.end(one.alert_id)
    note = missing.write("note.md", "It is there.")
    await missing.load()
    note.unlink()
    missing.folder.rmdir()
    for dry_run in (True, False):
        with pytest.raises(SourceError):
            await missing.load(dry_run=dry_run)
        assert _open(source) == ([] if dry_run else [("RUN_FAILED", str(missing), "source_unreadable")])

    async def stop(*_: object) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await source.load(hooks=Hooks(on_plan=stop))
    assert len(_open(source)) == 1
    missing.write("note.md", "It is there again.")
    await missing.load()
    assert _open(source) == []


async def test_a_folder_is_the_same_however_it_is_named(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another folder that is called the same where another run starts ends no alert of it; it by another name does."""
    empty, elsewhere = source.write("empty.md", b""), source.beside("elsewhere")
    elsewhere.write("note.md", "The ferry leaves at noon.")
    monkeypatch.chdir(source.folder)
    await source.load(".")
    assert _open(source) == [("RUN_QUARANTINE", str(source), "run_quarantine")]
    monkeypatch.chdir(elsewhere.folder)
    await source.load(".")
    assert len(_open(source)) == 1
    empty.unlink()
    await source.load(f"../{source.folder.name}")
    assert _open(source) == []


def test_schedules_are_due_next_or_since_nothing_started_them(prefect_api: str) -> None:
    """A run that nobody has started makes its schedule late, unless it waits for another run of its schedule."""
    server = PrefectServer(prefect_api)
    made = [
        server.deploy(name=name, paused=paused, schedules=[{"schedule": {"cron": "30 * * * *"}, "active": True}])
        for name, paused in (("on-time", False), ("late", False), ("paused", True))
    ]
    now = datetime.now(UTC)
    window = {"start_time": (now - timedelta(hours=2)).isoformat(), "end_time": (now - timedelta(hours=1)).isoformat()}
    try:
        server._request("POST", f"/deployments/{made[1]}/schedule", window)
        with Runs(prefect_api) as runs:
            due = {one.name: one for one in read_due(runs) if one.subject in made}
            server._request("POST", f"/deployments/{made[1]}/create_flow_run", {"state": {"type": "RUNNING"}})
            [waiting] = [one.due_at for one in read_due(runs) if one.subject == made[1]]
    finally:
        for one in made:
            server.withdraw(one)
        server.close()
    assert waiting > now
    assert due.keys() == {"on-time", "late"}
    assert now < due["on-time"].due_at <= now + timedelta(hours=1)
    assert now - timedelta(hours=2) <= due["late"].due_at <= now - timedelta(hours=1)
