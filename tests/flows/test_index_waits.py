"""Waiting for what was sent to become searchable."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from carrel import Carrel
from flows.errors import ServiceDownError
from flows.operations.bulk import upload
from flows.operations.index_waits import wait_until_indexed
from flows.operations.jobs import Hooks, Job, open_client, outage_policy_of, run_in_turn
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import Entry
from flows.operations.ledger.states import Action, State
from flows.operations.options import UploadOptions
from flows.operations.quarantine import retry
from flows.operations.sent import Sent
from flows.operations.sources.documents import SourceDocument
from flows.operations.summary import summarize
from flows.settings import FlowSettings
from tests.flows.quarantined import ignore, listed
from tests.harness.services import RunningService


async def test_documents_uploaded_as_a_user_are_waited_for_as_that_user(
    library: Path,
    flow_settings: FlowSettings,
    make_service: Callable[..., RunningService],
) -> None:
    """A document only its uploader may read, still being indexed when its upload is answered, is waited for."""
    slow = make_service(inline_indexing_seconds=0)
    slow.new_user("ada@example.com")
    slow.new_user("bob@example.com")
    with Carrel(slow.api_key, slow.base_url) as client:
        key = client.admin.api_keys.create("loader", owner_email="bob@example.com", may_act_for_users=True).api_key
    settings = flow_settings.model_copy(update={"base_url": slow.base_url, "api_key": SecretStr(key)})
    options = UploadOptions(upload_as_user_email="ada@example.com")
    outcome = await upload(str(library), options=options, settings=settings)
    assert (outcome.summary.created, outcome.summary.quarantined, outcome.summary.indexing) == (12, 0, 0)


async def test_index_that_does_not_come_is_no_success(
    library: Path,
    flow_settings: FlowSettings,
    make_service: Callable[..., RunningService],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run that was to end with everything searchable fails when that stalls, and goes on from there once it comes."""
    slow = make_service(inline_indexing_seconds=0)
    settings = flow_settings.model_copy(update={"base_url": slow.base_url, "api_key": SecretStr(slow.api_key)})

    async def nothing_is_done(*_: object, **__: object) -> None:
        pass

    with monkeypatch.context() as stalled:
        stalled.setattr("flows.operations.index_waits._IndexWait._ask_one", nothing_is_done)
        stalled.setattr("flows.operations.index_waits.STALLED_SECONDS", 0.1)
        with pytest.raises(ServiceDownError, match=r"12 documents .* Run again"):
            await upload(str(library), options=UploadOptions(), settings=settings)
    outcome = await upload(str(library), options=UploadOptions(), settings=settings)
    assert (outcome.plan.resumed, outcome.summary.created, outcome.summary.indexing) == (12, 12, 0)


async def test_document_deleted_meanwhile_costs_itself_alone(
    tmp_path: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """While the index is waited for, a document that is deleted is quarantined, and the others settle."""
    with Ledger.at(tmp_path, target="t", source="s") as ledger, Carrel(service.api_key, service.base_url) as client:
        ledger.begin()
        for key in ("kept", "gone"):
            uploaded = client.catalog.upload_file(b"Some words.", file_name="a.txt", document_external_id=key)
            document = SourceDocument(path=str(tmp_path), external_id=key, name=key, file_name=key)
            ledger.record([Entry(document, size=1, sha256=bytes(32), fingerprint="f")])
            ledger.apply_plan({key: Action.CREATE})
            document_id = str(uploaded.document_id)
            ledger.mark_sent(key, Sent(State.UPLOADED, document_id, 1, "f"))
        client.catalog.delete_document(document_id)
        async with open_client(flow_settings) as asynchronous:
            await wait_until_indexed(asynchronous, ledger, outages=outage_policy_of(asynchronous, flow_settings))
        summary = summarize(ledger)
        assert (summary.indexing, summary.created, summary.failed) == (0, 1, 1)
        assert [failure.external_id for failure in ledger.failures()] == ["gone"]


_BROKEN = """
    UPDATE space_documents SET indexed_version = NULL, attempts = 5, error = 'out of order',
        claimed_until = now() + interval '1 hour'
    WHERE document_id = (SELECT document_id FROM documents WHERE external_id = 'shelf-1/note-1.md')
"""
_MENDED = "UPDATE space_documents SET indexed_version = version, attempts = 0, error = NULL, claimed_until = NULL"


@pytest.fixture
async def unsearchable(library: Path, flow_settings: FlowSettings, make_service: Callable[..., RunningService]) -> Any:
    """Run an upload at whose end one of the twelve documents is stored and has no index; its service and settings."""
    slow = make_service(inline_indexing_seconds=0)
    settings = flow_settings.model_copy(update={"base_url": slow.base_url, "api_key": SecretStr(slow.api_key)})

    async def break_one(job: Job) -> None:
        await run_in_turn(job, settings=settings)
        with slow.owner_connection() as connection:
            pending = "SELECT count(*) FROM space_documents WHERE indexed_version IS DISTINCT FROM version"
            while connection.execute(pending).fetchone() != (0,):  # noqa: ASYNC110 - it happens in the service
                await asyncio.sleep(0.05)
            connection.execute(_BROKEN)

    first = await upload(str(library), options=UploadOptions(), settings=settings, hooks=Hooks(run_batches=break_one))
    assert (first.summary.created, first.summary.failed) == (11, 1)
    return slow, settings


async def test_index_that_failed_is_asked_after_by_later_runs(library: Path, unsearchable: Any) -> None:
    """Run again or retried, waited for or not, a document whose index is not there stays in quarantine until it is."""
    slow, settings = unsearchable
    source = str(library)
    planned = await upload(source, options=UploadOptions(), settings=settings, dry_run=True)
    assert (planned.plan.unchanged, planned.plan.resumed, planned.plan.sends) == (12, 0, 0)
    for options in (UploadOptions(), UploadOptions(wait_for_index=False), UploadOptions()):
        again = (await upload(source, options=options, settings=settings)).summary
        assert (again.documents, again.unchanged, again.failed, again.indexing) == (12, 11, 1, 0), options
        assert not again.complete
        assert await listed(settings) == {"shelf-1/note-1.md": "indexing_failed"}
    retried = (await retry(source, settings=settings)).summary
    assert (retried.documents, retried.failed) == (1, 1)
    assert await listed(settings) == {"shelf-1/note-1.md": "indexing_failed"}
    with slow.owner_connection() as connection:
        connection.execute(_MENDED)
    well = (await retry(source, settings=settings)).summary
    assert (well.unchanged, well.quarantined, well.complete) == (1, 0, True)
    assert await listed(settings) == {}


async def test_index_that_failed_is_ignored_when_told(library: Path, unsearchable: Any) -> None:
    """A person may set it aside; it stays so over runs."""
    _, settings = unsearchable
    await ignore(settings, str(library), "shelf-1/note-1.md")
    for _ in range(2):
        again = (await upload(str(library), options=UploadOptions(), settings=settings)).summary
        assert (again.unchanged, again.ignored, again.complete) == (11, 1, True)
    assert await listed(settings, ignored=True) == {"shelf-1/note-1.md": "indexing_failed"}
