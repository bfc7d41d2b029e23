"""Waiting for what was sent to become searchable."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from carrel import Carrel
from flows.errors import ServiceDownError
from flows.operations.bulk import upload
from flows.operations.jobs import open_client, patience_of
from flows.operations.ledger import Action, Entry, Ledger, State
from flows.operations.options import UploadOptions
from flows.operations.settle import settle
from flows.operations.sources.documents import SourceDocument
from flows.operations.summary import summarize
from flows.settings import FlowSettings
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

    async def nothing_is_done(*_: object, **__: object) -> tuple[int, int]:
        return 12, 0

    with monkeypatch.context() as stalled:
        stalled.setattr("flows.operations.settle._ask_all", nothing_is_done)
        stalled.setattr("flows.operations.settle.STALLED_SECONDS", 0.1)
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
            document = SourceDocument(path=tmp_path, external_id=key, name=key, file_name=key)
            ledger.record([Entry(document, size=1, sha256=bytes(32), fingerprint="f")])
            ledger.apply_plan({key: Action.CREATE})
            document_id = str(uploaded.document_id)
            ledger.sent(key, state=State.UPLOADED, document_id=document_id, sent_bytes=1, fingerprint="f")
        client.catalog.delete_document(document_id)
        async with open_client(flow_settings) as asynchronous:
            await settle(asynchronous, ledger, patience=patience_of(asynchronous, flow_settings))
        summary = summarize(ledger)
        assert (summary.indexing, summary.created, summary.failed) == (0, 1, 1)
        assert [failure.external_id for failure in ledger.failures()] == ["gone"]
