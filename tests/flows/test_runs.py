"""The flows run by Prefect: states, artifacts, results, and reports to the service."""

import asyncio
import json
import logging
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from flows.bulk_upload import bulk_upload
from flows.collection_add import collection_add
from flows.errors import RefusedError, SourceError
from flows.operations.jobs import Hooks
from flows.operations.options import CollectionOptions
from flows.quarantine import quarantine_retry
from flows.runs import Runs, RunsError
from flows.serving import read_due
from tests.app.prefect_api import PrefectServer
from tests.flows.serving import state_of, status_of
from tests.flows.sources import Source, note
from tests.harness.services import RunningService


async def test_flow_tells_its_plan_counts_and_failures(prefect_api, source, monkeypatch) -> None:
    monkeypatch.setenv("CARREL_FLOWS_BATCH_SIZE", "3")
    source.write("empty.md", b"")
    state = await state_of(bulk_upload, str(source))
    assert (state.type.value, state.name) == ("COMPLETED", "CompletedWithQuarantine")
    status = await status_of(prefect_api, state)
    assert (status.state, status.finished, status.phase, status.progress) == ("COMPLETED", True, "done", 100.0)
    assert (status.counts.created, status.counts.problems, status.counts.documents) == (12, 1, 12)
    assert status.counts.sent_bytes == sum((source.folder / name).stat().st_size for name in source.files())
    assert [(row["document"], row["code"]) for row in status.failures] == [("empty.md", "file_empty")]
    assert "| to create | 12 |" in status.plan
    assert (status.planned["create"], status.planned["problems"]) == (12, 1)
    assert len(source.documents()) == 12
    source.write("empty.md")
    retried = await state_of(quarantine_retry, str(source))
    assert (retried.name, (await retried.aresult())["created"]) == ("Completed", 1)


@pytest.mark.usefixtures("prefect_api")
async def test_an_error_of_ours_is_logged_without_a_traceback(source, caplog, monkeypatch) -> None:
    logger = logging.getLogger("prefect.flow_runs")
    logger.addHandler(caplog.handler)
    try:
        with pytest.raises(SourceError):
            await bulk_upload("/there/is/no/such/folder")
        monkeypatch.setenv("CARREL_API_KEY", f"svc_key_{'unknown' * 6}")
        with pytest.raises(RefusedError, match="CARREL_API_KEY"):
            await bulk_upload(str(source))
    finally:
        logger.removeHandler(caplog.handler)
    assert {record.exc_info for record in caplog.records} == {None}


@pytest.mark.usefixtures("prefect_api")
async def test_collection_add_brings_metadata_and_names_what_is_missing(source: Source) -> None:
    rows = [
        {"path": note(0), "metadata": {"team": "pier"}},
        {"path": note(1), "metadata": {"team": "deck"}},
        {"path": "later.md"},
    ]
    with source.client() as client:
        for number in range(2):
            client.catalog.upload_file(b"Words.", file_name="a.md", document_external_id=note(number))
    source.write("later.md", "not uploaded")
    manifest = source.manifest(*map(json.dumps, rows), name="m.jsonl")
    collection, options = source.create_collection("team"), CollectionOptions(collection="Notes")
    first = await (await state_of(collection_add, str(manifest), options)).aresult()
    assert (first["created"], first["failed"]) == (2, 1)
    with source.client() as client:
        listed = client.document_collections.list_documents_in_collection(collection)
        metadata = {found.document_external_id: found.custom_metadata for found in listed}
    assert metadata == {note(0): {"team": "pier"}, note(1): {"team": "deck"}}
    second = await (await state_of(collection_add, str(manifest), options)).aresult()
    assert (second["created"], second["unchanged"], second["failed"]) == (0, 2, 1)


async def test_runs_says_what_to_start_when_prefect_is_not_there() -> None:
    runs = Runs("http://127.0.0.1:9/api", http_client=httpx.Client(timeout=1))
    with runs, pytest.raises(RunsError, match=r"python -m flows\.server"):
        runs.rows("/flow_runs/filter", {})


def _open(source: Source) -> list[tuple[str, str, str]]:
    with source.client() as client:
        return [(one.kind.value, one.name, one.code) for one in client.admin.alerts.list(only_open=True)]


@pytest.fixture
def service(own_service: RunningService) -> RunningService:
    return own_service


def _leases(source: Source) -> list[tuple[bool]]:
    return source.service.execute("SELECT expires_at IS NOT NULL FROM alert_leases")


async def test_a_run_reports_how_it_goes_and_how_it_ended(source: Source) -> None:
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
