"""What runs and schedules report to the service, so that somebody is told when they fail."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from carrel import Carrel
from flows.errors import SourceError
from flows.operations.bulk import upload
from flows.operations.jobs import Hooks
from flows.operations.options import UploadOptions
from flows.runs import Runs
from flows.schedule_reports import read_due
from flows.settings import FlowSettings
from tests.app.prefect_api import PrefectServer
from tests.harness.services import RunningService


def _open(service: RunningService) -> list[tuple[str, str, str]]:
    with Carrel(service.api_key, service.base_url) as client:
        return [(one.kind.value, one.name, one.code) for one in client.admin.alerts.list(only_open=True)]


@pytest.fixture
def service(own_service: RunningService) -> RunningService:
    """A service with a database of its own, whose rows are looked at."""
    return own_service


def _leases(service: RunningService) -> list[tuple[bool]]:
    with service.owner_connection() as connection:
        return connection.execute("SELECT expires_at IS NOT NULL FROM alert_leases").fetchall()


async def test_a_run_reports_how_it_goes_and_how_it_ended(
    service: RunningService, library: Path, flow_settings: FlowSettings
) -> None:
    """While it goes on it is a lease; what couldn't be loaded is an alert until a run loads everything."""
    seen: list[tuple[bool]] = []

    async def look(*_: object) -> None:
        async with asyncio.timeout(30):
            while not seen:
                seen.extend(await asyncio.to_thread(_leases, service))
                await asyncio.sleep(0.05)

    (library / "empty.md").write_bytes(b"")
    await upload(str(library), options=UploadOptions(), settings=flow_settings, hooks=Hooks(on_plan=look))
    assert seen == [(True,)]
    assert _leases(service) == [(False,)]
    assert _open(service) == [("RUN_QUARANTINE", str(library), "run_quarantine")]
    (library / "empty.md").unlink()
    await upload(str(library), options=UploadOptions(), settings=flow_settings)
    assert _open(service) == []


async def test_a_run_that_fails_says_why_and_one_that_is_stopped_does_not(
    service: RunningService, library: Path, flow_settings: FlowSettings
) -> None:
    """The code of the error is the alert's; a plan, and a run that somebody stops, begin none.

    Nor does one over what no run has ever read, as after a mistyped path.
    """
    folder = library.parent / "missing"
    missing, note = str(folder), folder / "note.md"
    with pytest.raises(SourceError):
        await upload(missing, options=UploadOptions(), settings=flow_settings)
    assert _open(service) == []
    folder.mkdir()
    note.write_text("It is there.")
    await upload(missing, options=UploadOptions(), settings=flow_settings)
    note.unlink()
    folder.rmdir()
    for dry_run in (True, False):
        with pytest.raises(SourceError):
            await upload(missing, options=UploadOptions(), settings=flow_settings, dry_run=dry_run)
        assert _open(service) == ([] if dry_run else [("RUN_FAILED", missing, "source_unreadable")])

    async def stop(*_: object) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await upload(str(library), options=UploadOptions(), settings=flow_settings, hooks=Hooks(on_plan=stop))
    assert len(_open(service)) == 1
    folder.mkdir()
    note.write_text("It is there again.")
    await upload(missing, options=UploadOptions(), settings=flow_settings)
    assert _open(service) == []


async def test_a_folder_is_the_same_however_it_is_named(
    service: RunningService, library: Path, flow_settings: FlowSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another folder that is called the same where another run starts ends no alert of it; it by another name does."""
    (library / "empty.md").write_bytes(b"")
    (library.parent / "elsewhere").mkdir()
    (library.parent / "elsewhere" / "note.md").write_text("The ferry leaves at noon.")
    monkeypatch.chdir(library)
    await upload(".", options=UploadOptions(), settings=flow_settings)
    assert _open(service) == [("RUN_QUARANTINE", str(library), "run_quarantine")]
    monkeypatch.chdir(library.parent / "elsewhere")
    await upload(".", options=UploadOptions(), settings=flow_settings)
    assert len(_open(service)) == 1
    (library / "empty.md").unlink()
    await upload(f"../{library.name}", options=UploadOptions(), settings=flow_settings)
    assert _open(service) == []


async def test_a_name_that_is_no_text_is_refused_in_words(service: RunningService, flow_settings: FlowSettings) -> None:
    """What the service can't be told as it is doesn't hide why the run failed."""
    with pytest.raises(SourceError, match="UTF-8"):
        await upload("/srv/caf\udce9", options=UploadOptions(), settings=flow_settings)
    assert _open(service) == []
    assert _leases(service) == [(False,)]


def test_schedules_are_due_next_or_since_nothing_started_them(prefect_api: str) -> None:
    """What is paused is not due; a run that nobody has started makes its schedule late."""
    server = PrefectServer(prefect_api)
    hourly = {"schedule": {"cron": "30 * * * *"}, "active": True}
    made = [
        server.deploy(name=name, paused=paused, schedules=[hourly])
        for name, paused in (("on-time", False), ("late", False), ("paused", True))
    ]
    now = datetime.now(UTC)
    window = {"start_time": (now - timedelta(hours=2)).isoformat(), "end_time": (now - timedelta(hours=1)).isoformat()}
    try:
        server._request("POST", f"/deployments/{made[1]}/schedule", window)
        with Runs(prefect_api) as runs:
            due = {one.name: one for one in read_due(runs) if one.subject in made}
    finally:
        for one in made:
            server.withdraw(one)
        server.close()
    assert due.keys() == {"on-time", "late"}
    assert now < due["on-time"].due_at <= now + timedelta(hours=1)
    assert now - timedelta(hours=2) <= due["late"].due_at <= now - timedelta(hours=1)
