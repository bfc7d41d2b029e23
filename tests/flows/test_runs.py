"""The flows as Prefect runs them: states, artifacts, deployments, and a run that is killed."""

import asyncio
import json
import logging
import os
import signal
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
import yaml
from prefect.client.schemas.objects import State

from carrel import Carrel
from carrel.wire.collections import CustomMetadataSchema
from flows.bulk_upload import bulk_upload
from flows.collection_add import collection_add
from flows.errors import RefusedError, SourceError
from flows.operations.bulk import upload_ledger
from flows.operations.ledger.registry import list_sources
from flows.operations.options import CollectionOptions, UploadOptions
from flows.runs import Runs, RunsError, RunStatus
from flows.schedule_changes import pause_schedule, resume_schedule
from flows.schedules import Schedule, list_schedules, look_at
from flows.settings import FlowSettings
from tests.flows.processes import CARREL, SERVE, running, until
from tests.harness.services import RunningService

pytestmark = pytest.mark.usefixtures("withdrawn")


async def _flow_state(flow: Any, *arguments: Any) -> State[Any]:
    return await flow(*arguments, return_state=True)


def _documents(service: RunningService) -> list[str]:
    with Carrel(service.api_key, service.base_url) as client:
        return sorted(document.document_external_id for document in client.catalog.list_documents())


@pytest.mark.usefixtures("flow_settings")
async def test_flow_tells_its_plan_counts_and_failures(
    prefect_api: str, library: Path, service: RunningService
) -> None:
    """A run's plan, counts, progress and quarantine can be read by its id, and its state says how it ended."""
    (library / "empty.md").write_bytes(b"")
    state = await _flow_state(bulk_upload, str(library))
    assert (state.type.value, state.name) == ("COMPLETED", "CompletedWithQuarantine")
    flow_run_id = state.state_details.flow_run_id
    assert flow_run_id is not None
    with Runs(prefect_api) as runs:
        status = await asyncio.to_thread(runs.run_status, flow_run_id)
        assert flow_run_id in await asyncio.to_thread(runs.recent)
    assert (status.state, status.finished, status.phase, status.progress) == ("COMPLETED", True, "done", 100.0)
    assert (status.counts.created, status.counts.problems, status.counts.documents) == (12, 1, 12)
    assert status.counts.sent_bytes == _size(library)
    assert [(row["document"], row["code"]) for row in status.failures] == [("empty.md", "file_empty")]
    assert "| create | 12 |" in status.plan
    assert (status.planned["create"], status.planned["problems"]) == (12, 1)
    assert len(_documents(service)) == 12


@pytest.mark.usefixtures("prefect_api", "flow_settings")
async def test_small_batches_send_everything_once(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run cut into many task runs sends each document once."""
    monkeypatch.setenv("CARREL_FLOWS_BATCH_SIZE", "3")
    state = await _flow_state(bulk_upload, str(library))
    counts = await state.aresult()
    assert (counts["created"], counts["quarantined"]) == (12, 0)


@pytest.mark.usefixtures("prefect_api", "flow_settings")
async def test_an_error_of_ours_is_logged_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """A source that isn't there is said on the console in its own words, with no way through the code before them."""
    logger = logging.getLogger("prefect.flow_runs")
    logger.addHandler(caplog.handler)
    try:
        with pytest.raises(SourceError):
            await bulk_upload("/there/is/no/such/folder")
    finally:
        logger.removeHandler(caplog.handler)
    assert {record.exc_info for record in caplog.records} == {None}


@pytest.mark.usefixtures("prefect_api", "flow_settings")
async def test_refused_key_fails_the_run_with_what_to_do(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that the service does not know stops the run at once, naming the setting."""
    monkeypatch.setenv("CARREL_API_KEY", f"svc_key_{'unknown' * 6}")
    with pytest.raises(RefusedError, match="CARREL_API_KEY"):
        await bulk_upload(str(library))


@pytest.mark.usefixtures("prefect_api", "flow_settings")
async def test_collection_add_brings_metadata_and_names_what_is_missing(library: Path, service: RunningService) -> None:
    """Documents of the catalog join a collection with their metadata; one the catalog lacks is quarantined."""
    await bulk_upload(str(library))
    (library / "later.md").write_text("not uploaded")
    rows = [
        {"path": "shelf-0/note-0.md", "metadata": {"team": "pier"}},
        {"path": "shelf-1/note-1.md", "metadata": {"team": "deck"}},
        {"path": "later.md"},
    ]
    manifest = library / "m.jsonl"
    manifest.write_text("\n".join(json.dumps(row) for row in rows))
    with Carrel(service.api_key, service.base_url) as client:
        schema = CustomMetadataSchema.model_validate({"fields": [{"name": "team", "type": "STRING"}]})
        created = client.document_collections.create_document_collection("Notes", custom_metadata_schema=schema)
        collection = created.document_collection_id
        options = CollectionOptions(collection="Notes")
        first = await (await _flow_state(collection_add, str(manifest), options)).aresult()
        assert (first["created"], first["failed"]) == (2, 1)
        listed = client.document_collections.list_documents_in_collection(collection)
        metadata = {found.document_external_id: found.custom_metadata for found in listed}
        assert metadata == {"shelf-0/note-0.md": {"team": "pier"}, "shelf-1/note-1.md": {"team": "deck"}}
        second = await (await _flow_state(collection_add, str(manifest), options)).aresult()
        assert (second["created"], second["unchanged"], second["failed"]) == (0, 2, 1)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.md"))


@pytest.mark.usefixtures("flow_settings")
@pytest.mark.parametrize("after", [1, 5, 9])
async def test_killed_run_is_finished_by_the_next_one(library: Path, service: RunningService, after: int) -> None:
    """Killed at some moment and run again: every document is there, once, at its first version."""
    environment = {"CARREL_FLOWS_CONCURRENCY": "1"}
    with running(CARREL, "upload", str(library), "--direct", "--json", **environment) as process:
        await until(lambda: len(_documents(service)) >= after or process.poll() is not None)
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = len(_documents(service))
    with running(CARREL, "upload", str(library), "--direct", "--json") as process:
        output, errors = await asyncio.to_thread(process.communicate)
    assert process.returncode == 0, errors
    counts = json.loads(output)
    assert counts["documents"] == 12
    assert counts["created"] + counts["unchanged"] == 12
    assert counts["waiting"] == 0
    assert len(_documents(service)) == 12
    with Carrel(service.api_key, service.base_url) as client:
        assert {document.document_version for document in client.catalog.list_documents()} == {1}
    assert before >= after


async def test_second_run_on_a_busy_source_says_so(library: Path, flow_settings: FlowSettings) -> None:
    """While a run has the source, another one ends with exit code 5 and names the first one's process."""
    with upload_ledger(str(library), settings=flow_settings) as ledger:
        ledger.begin()
        with running(CARREL, "upload", str(library), "--direct", "--json") as process:
            output, _ = await asyncio.to_thread(process.communicate)
    assert process.returncode == 5
    answer = json.loads(output)
    assert answer["outcome"] == "source_busy"
    assert str(os.getpid()) in answer["message"]


@pytest.fixture
def nothing_served(prefect_api: str) -> None:
    """Remove the deployments that other tests have left on the session's Prefect server."""
    with httpx.Client(base_url=prefect_api) as prefect:
        for deployment in prefect.post("/deployments/filter", json={}).raise_for_status().json():
            prefect.delete(f"/deployments/{deployment['id']}").raise_for_status()


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_served")
async def test_plans_and_retries_are_worked_over_http(
    prefect_api: str, library: Path, tmp_path: Path, service: RunningService, flow_settings: FlowSettings
) -> None:
    """Served flows plan without sending, and send again what is mended of what could not be loaded.

    Who starts a run twice with one key has started one; the list of runs has them with their counts, newest first, and
    that of schedules what the file says, which can be paused and resumed. What `serve` writes lies in the data folder,
    not where another user's may stand in the way; stopped, it ends without a warning.
    """
    (library / "empty.md").write_bytes(b"")
    (library / "broken.pdf").write_bytes(b"%PDF-1.7 this is no PDF")
    entries = tmp_path / "deployments.yaml"
    parameters = {"source": str(library), "options": {"internal_public": True}}
    entry = {"name": "yearly", "entrypoint": "flows.bulk_upload.bulk_upload", "parameters": parameters}
    offered = yaml.safe_load(FlowSettings().deployments.read_text())["deployments"]
    written = [*offered, entry | {"schedules": [{"cron": "0 0 1 1 *"}]}]
    entries.write_text(json.dumps({"deployments": written}))
    environment = {"PREFECT_API_URL": prefect_api, "CARREL_FLOWS_DEPLOYMENTS": str(entries)}
    environment["PREFECT_RUNNER_POLL_FREQUENCY"] = "1"
    with Runs(prefect_api) as runs, pytest.raises(RunsError, match="python -m flows serve"):
        await asyncio.to_thread(runs.start_upload, str(library))
    with running(*SERVE, **environment) as process, Runs(prefect_api) as runs:

        def served() -> bool:
            try:
                return any(one.name == "yearly" for one in list_schedules(runs))
            except RunsError:
                return False

        async def ended(flow_run_id: UUID) -> RunStatus:
            await until(lambda: runs.run_status(flow_run_id).finished)
            return await asyncio.to_thread(runs.run_status, flow_run_id)

        await until(served)
        options = UploadOptions(internal_public=True)
        plan = await ended(runs.start_plan(str(library), options, person="ada@example.com", key="once"))
        assert (plan.state, plan.only_plans, plan.person) == ("COMPLETED", True, "ada@example.com")
        assert (plan.planned["create"], plan.planned["delete"], plan.counts.waiting) == (13, 0, 13)
        assert _documents(service) == []
        assert runs.start_plan(str(library), options, key="once") == plan.flow_run_id

        loaded = await ended(runs.start_upload(str(library), options))
        assert (loaded.counts.created, loaded.counts.quarantined, loaded.by_schedule) == (12, 2, False)
        (source,) = list_sources(flow_settings)
        (library / "empty.md").write_text("Mended.")
        sent = await ended(runs.start_retry(source.ledger, source.source))
        assert (sent.flow, sent.source, sent.state) == ("quarantine-retry", str(library), "COMPLETED")
        assert (sent.counts.created, sent.counts.quarantined) == (1, 1)
        assert [row["document"] for row in sent.failures] == ["broken.pdf"]

        page = runs.page(size=2)
        assert [run.flow_run_id for run in page.runs] == [sent.flow_run_id, loaded.flow_run_id]
        assert page.runs[1].counts == loaded.counts
        assert runs.page(size=2, number=1).runs[0].flow_run_id == plan.flow_run_id
        assert page.total >= 3

        yearly = _schedule_named(runs, "yearly")
        seen = look_at(runs, [yearly])[yearly.key]
        assert seen.last is None
        assert [(at.month, at.day, at.hour) for at in seen.next_at] == [(1, 1, 0)] * 3
        pause_schedule(runs, yearly)
        assert _schedule_named(runs, "yearly").paused
        resume_schedule(runs, yearly)
        assert not _schedule_named(runs, "yearly").paused
        by_hand = await ended(runs.start_deployment(yearly.deployment_id, {}))
        assert (by_hand.counts.unchanged, look_at(runs, [yearly])[yearly.key].last) == (
            13,
            runs.statuses([runs.call("GET", f"/flow_runs/{by_hand.flow_run_id}")])[0],
        )
        process.terminate()
        _, errors = await asyncio.to_thread(process.communicate)
    assert "RuntimeWarning" not in errors
    assert (flow_settings.data_dir / "flows" / "tmp" / "runner_storage").is_dir()


def _schedule_named(runs: Runs, name: str) -> Schedule:
    return next(one for one in list_schedules(runs) if one.name == name)


async def test_runs_says_what_to_start_when_prefect_is_not_there() -> None:
    """Without a Prefect server the message names the command that starts it."""
    runs = Runs("http://127.0.0.1:9/api", http_client=httpx.Client(timeout=1))
    with runs, pytest.raises(RunsError, match=r"python -m flows\.server"):
        runs.recent()
