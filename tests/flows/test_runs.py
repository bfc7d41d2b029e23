"""The flows as Prefect runs them: states, artifacts and results."""

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest
from prefect.client.schemas.objects import State

from flows.bulk_upload import bulk_upload
from flows.collection_add import collection_add
from flows.errors import RefusedError, SourceError
from flows.operations.options import CollectionOptions
from flows.quarantine import quarantine_retry
from flows.runs import Runs, RunsError
from tests.flows.sources import Source, note


async def _flow_state(flow: Any, *arguments: Any) -> State[Any]:
    return await flow(*arguments, return_state=True)


async def test_flow_tells_its_plan_counts_and_failures(prefect_api, source, monkeypatch) -> None:
    """A run is read by its id, with its end. Split into task runs, it sends each document once; a retry sends more."""
    monkeypatch.setenv("CARREL_FLOWS_BATCH_SIZE", "3")
    source.write("empty.md", b"")
    state = await _flow_state(bulk_upload, str(source))
    assert (state.type.value, state.name) == ("COMPLETED", "CompletedWithQuarantine")
    flow_run_id = state.state_details.flow_run_id
    assert flow_run_id is not None
    with Runs(prefect_api) as runs:
        status = await asyncio.to_thread(runs.run_status, flow_run_id)
        newest = await asyncio.to_thread(runs.page)
        assert flow_run_id in {one.flow_run_id for one in newest.runs}
    assert (status.state, status.finished, status.phase, status.progress) == ("COMPLETED", True, "done", 100.0)
    assert (status.counts.created, status.counts.problems, status.counts.documents) == (12, 1, 12)
    assert status.counts.sent_bytes == sum((source.folder / name).stat().st_size for name in source.files())
    assert [(row["document"], row["code"]) for row in status.failures] == [("empty.md", "file_empty")]
    assert "| create | 12 |" in status.plan
    assert (status.planned["create"], status.planned["problems"]) == (12, 1)
    assert len(source.documents()) == 12
    source.write("empty.md")
    retried = await _flow_state(quarantine_retry, str(source))
    assert (retried.name, (await retried.aresult())["created"]) == ("Completed", 1)


@pytest.mark.usefixtures("prefect_api")
async def test_an_error_of_ours_is_logged_without_a_traceback(source, caplog, monkeypatch) -> None:
    """A source that isn't there, and a key that is refused, are said in words that name what to change."""
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
    """Documents of the catalog join a collection with their metadata; one the catalog lacks is quarantined."""
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
    first = await (await _flow_state(collection_add, str(manifest), options)).aresult()
    assert (first["created"], first["failed"]) == (2, 1)
    with source.client() as client:
        listed = client.document_collections.list_documents_in_collection(collection)
        metadata = {found.document_external_id: found.custom_metadata for found in listed}
    assert metadata == {note(0): {"team": "pier"}, note(1): {"team": "deck"}}
    second = await (await _flow_state(collection_add, str(manifest), options)).aresult()
    assert (second["created"], second["unchanged"], second["failed"]) == (0, 2, 1)


async def test_runs_says_what_to_start_when_prefect_is_not_there() -> None:
    runs = Runs("http://127.0.0.1:9/api", http_client=httpx.Client(timeout=1))
    with runs, pytest.raises(RunsError, match=r"python -m flows\.server"):
        runs.rows("/flow_runs/filter", {})
