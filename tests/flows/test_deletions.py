"""Deleting what vanished from the source: only what was sent from there, and behind a guard."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from carrel import Carrel
from carrel.errors import PermissionDeniedError
from flows.errors import SourceBusyError
from flows.operations.bulk import upload, upload_ledger
from flows.operations.jobs import Hooks, Job, Outcome, open_client, run_in_turn
from flows.operations.ledger.ledger import Ledger
from flows.operations.options import UploadOptions
from flows.operations.sending import deleter
from flows.settings import FlowSettings
from tests.harness.services import RunningService


@pytest.fixture(params=["file", "database"])
def settings(request: pytest.FixtureRequest, flow_settings: FlowSettings) -> FlowSettings:
    """Settings with ledgers in files, and in PostgreSQL."""
    if request.param == "file":
        return flow_settings
    return flow_settings.model_copy(update={"flows_database_url": request.getfixturevalue("database_url")})


async def _run(source: Path, settings: FlowSettings, *, dry_run: bool = False, **options: Any) -> Outcome:
    asked = UploadOptions(delete_missing=True, **options)
    return await upload(str(source), options=asked, settings=settings, dry_run=dry_run)


def _names(service: RunningService) -> set[str]:
    with Carrel(service.api_key, service.base_url) as client:
        return {document.document_external_id for document in client.catalog.list_documents()}


def _files(library: Path) -> set[str]:
    return {path.relative_to(library).as_posix() for path in library.rglob("*.md")}


def _remove(library: Path, *numbers: int) -> None:
    for number in numbers:
        (library / f"shelf-{number % 3}" / f"note-{number}.md").unlink()


async def test_what_vanished_is_shown_then_deleted_then_known_no_more(
    library: Path, settings: FlowSettings, service: RunningService
) -> None:
    """The plan shows the deletion, the run does it, and the next one has nothing to do; others' documents stay."""
    with Carrel(service.api_key, service.base_url) as client:
        client.catalog.upload_file(b"Not of this folder.", file_name="a.txt", document_external_id="elsewhere")
    await _run(library, settings)
    _remove(library, 0, 1)
    planned = await _run(library, settings, dry_run=True)
    assert (planned.plan.delete, planned.plan.held_back) == (2, "")
    assert "2 to delete" in planned.plan.text()
    assert len(_names(service)) == 13
    done = await _run(library, settings)
    assert (done.summary.deleted, done.summary.to_delete, done.summary.unchanged) == (2, 2, 10)
    assert done.summary.complete
    assert "2 of 2 deleted" in done.summary.text()
    assert _names(service) == _files(library) | {"elsewhere"}
    again = await _run(library, settings)
    assert (again.plan.delete, again.summary.deleted) == (0, 0)


async def test_nothing_is_deleted_unasked(library: Path, flow_settings: FlowSettings, service: RunningService) -> None:
    """Without the option a document that vanished stays, and the plan doesn't speak of it."""
    await _run(library, flow_settings)
    _remove(library, 0)
    outcome = await upload(str(library), options=UploadOptions(), settings=flow_settings)
    assert (outcome.plan.delete, outcome.summary.deleted, outcome.summary.held_back) == (0, 0, "")
    assert len(_names(service)) == 12


async def test_source_that_lists_a_tenth_deletes_nothing_and_says_why(
    library: Path, settings: FlowSettings, service: RunningService
) -> None:
    """Beyond the limit nothing is deleted; the plan and the summary say so, until a higher limit is given."""
    await _run(library, settings)
    _remove(library, *range(11))
    planned = await _run(library, settings, dry_run=True)
    held = await _run(library, settings)
    for outcome in (planned, held):
        assert "11 of 12" in outcome.plan.held_back
        assert "limit of 20 %" in outcome.plan.text()
        assert outcome.plan.delete == 0
        assert "`--delete-limit 92`" in outcome.plan.held_back
        assert (outcome.summary.to_delete, outcome.summary.deleted, outcome.summary.progress) == (11, 0, 100.0)
        assert not outcome.summary.complete
        assert outcome.summary.held_back in outcome.summary.text()
    assert len(_names(service)) == 12
    meant = await _run(library, settings, delete_limit_percent=100)
    assert (meant.summary.deleted, meant.summary.held_back) == (11, "")
    assert _names(service) == _files(library)


async def test_empty_source_deletes_nothing_whatever_the_limit(
    library: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """A folder with nothing in it is taken for one that is not mounted."""
    await _run(library, flow_settings)
    for shelf in range(3):
        shutil.rmtree(library / f"shelf-{shelf}")
    outcome = await _run(library, flow_settings, delete_limit_percent=100)
    assert "not mounted" in outcome.summary.held_back
    assert len(_names(service)) == 12


async def test_source_that_was_not_read_whole_deletes_nothing(
    library: Path, flow_settings: FlowSettings, service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder below that can't be listed may hold anything: nothing is deleted, and its name is told."""
    await _run(library, flow_settings)
    _remove(library, 0)
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("shelf-2"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)
    outcome = await _run(library, flow_settings, delete_limit_percent=100)
    assert "shelf-2" in outcome.summary.held_back
    assert len(_names(service)) == 12
    monkeypatch.undo()


async def test_row_that_cannot_be_read_deletes_nothing(
    library: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """A damaged row of a manifest may be any document's; a row whose file is gone keeps its own document alone."""
    manifest = library / "m.jsonl"
    rows = [json.dumps({"path": f"shelf-{number % 3}/note-{number}.md"}) for number in range(12)]
    manifest.write_text("\n".join(rows))
    await _run(manifest, flow_settings)
    manifest.write_text("\n".join(["{damaged", *rows[1:]]))
    damaged = await _run(manifest, flow_settings)
    assert "line 1" in damaged.summary.held_back
    assert len(_names(service)) == 12
    (library / "shelf-2" / "note-2.md").unlink()
    manifest.write_text("\n".join(rows[1:]))
    mended = await _run(manifest, flow_settings)
    assert (mended.summary.deleted, mended.summary.problems, mended.summary.held_back) == (1, 1, "")
    assert _names(service) == {f"shelf-{number % 3}/note-{number}.md" for number in range(1, 12)}


async def test_lost_ledger_deletes_nothing(library: Path, flow_settings: FlowSettings, service: RunningService) -> None:
    """Without its ledger a source has sent nothing, as far as anybody knows."""
    outcome = await _run(library, flow_settings)
    outcome.ledger.path.unlink()
    _remove(library, 0)
    again = await _run(library, flow_settings)
    assert (again.summary.deleted, again.summary.unchanged) == (0, 11)
    assert len(_names(service)) == 12


async def test_document_that_somebody_else_changed_stays(
    library: Path, settings: FlowSettings, service: RunningService
) -> None:
    """A vanished document that was updated by another way since is left alone, and said; one gone is no error."""
    await _run(library, settings)
    _remove(library, 0, 1)
    with Carrel(service.api_key, service.base_url) as client:
        client.catalog.upload_file(b"Ours now.", file_name="a.md", document_external_id="shelf-0/note-0.md")
        for document in client.catalog.list_documents():
            if document.document_external_id == "shelf-1/note-1.md":
                client.catalog.delete_document(document.document_id)
    outcome = await _run(library, settings)
    assert (outcome.plan.delete, outcome.plan.left, outcome.summary.left) == (0, 1, 1)
    assert "left alone" in outcome.summary.text()
    assert outcome.summary.complete
    assert _names(service) == _files(library) | {"shelf-0/note-0.md"}


async def test_document_changed_between_plan_and_deletion_stays(
    library: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """Sending may take hours: what somebody else changes meanwhile is left alone, though the plan had it."""
    await _run(library, flow_settings)
    _remove(library, 0, 1)

    async def change_and_delete(job: Job) -> None:
        with Carrel(service.api_key, service.base_url) as client:
            client.catalog.upload_file(b"Ours now.", file_name="a.md", document_external_id="shelf-0/note-0.md")
        await run_in_turn(job, settings=flow_settings)

    asked = UploadOptions(delete_missing=True)
    outcome = await upload(str(library), options=asked, settings=flow_settings, hooks=Hooks(change_and_delete))
    assert (outcome.plan.delete, outcome.summary.deleted, outcome.summary.left) == (2, 1, 1)
    assert _names(service) == _files(library) | {"shelf-0/note-0.md"}


async def test_run_that_was_taken_over_deletes_no_more(
    library: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """A deletion that another run could know nothing of does not happen: that run may have sent the document again."""
    await _run(library, flow_settings)
    _remove(library, 0)

    async def be_taken_over(job: Job) -> None:
        async with open_client(flow_settings) as client:
            with Ledger.join(flow_settings.ledger(job.ledger), job.claim) as stale:
                send = deleter(client, stale)
                (doomed,) = stale.pending(partition=0, partitions=1, deleting=True)
                with stale._store.write() as connection:
                    connection.exec_driver_sql("UPDATE ledger_runs SET claim = 'another'")
                await send(doomed)

    asked = UploadOptions(delete_missing=True)
    with pytest.raises(SourceBusyError, match="taken this source over"):
        await upload(str(library), options=asked, settings=flow_settings, hooks=Hooks(be_taken_over))
    assert len(_names(service)) == 12


async def test_deletion_that_is_refused_is_in_quarantine(
    library: Path, flow_settings: FlowSettings, service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One document that may not be deleted costs itself alone, is counted and named, and is tried again."""
    await _run(library, flow_settings)
    _remove(library, 0, 1)
    with monkeypatch.context() as broken:
        broken.setattr("flows.operations.jobs.deleter", _refusing)
        outcome = await _run(library, flow_settings)
    assert (outcome.summary.deleted, outcome.summary.undeleted, outcome.summary.quarantined) == (1, 1, 1)
    with upload_ledger(str(library), settings=flow_settings) as ledger:
        ledger.join_latest()
        assert [(one.external_id, one.code) for one in ledger.failures()] == [("shelf-0/note-0.md", "owner_required")]
    again = await _run(library, flow_settings)
    assert (again.summary.deleted, again.summary.quarantined) == (1, 0)
    assert _names(service) == _files(library)


def _refusing(client: Any, ledger: Any, *, upload_as: str | None) -> Any:
    send = deleter(client, ledger, upload_as=upload_as)

    async def refuse(entry: Any) -> Any:
        if entry.document.external_id == "shelf-0/note-0.md":
            raise PermissionDeniedError("no", status=403, code="owner_required")
        return await send(entry)

    return refuse


async def test_moved_document_is_there_before_it_is_gone(
    library: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """All is sent before anything is deleted; interrupted in between, the next run deletes the rest and no more."""
    await _run(library, flow_settings)
    (library / "shelf-0" / "note-0.md").rename(library / "moved.md")
    _remove(library, 1)

    async def only_sends(job: Job) -> None:
        if job.kind == "deletion":
            raise SourceBusyError
        await run_in_turn(job, settings=flow_settings)

    asked = UploadOptions(delete_missing=True)
    with pytest.raises(SourceBusyError):
        await upload(str(library), options=asked, settings=flow_settings, hooks=Hooks(only_sends))
    assert "moved.md" in _names(service)
    assert len(_names(service)) == 13
    outcome = await _run(library, flow_settings)
    assert (outcome.summary.deleted, outcome.summary.created) == (2, 1)
    assert _names(service) == _files(library)


async def test_document_that_was_sent_unheard_of_is_deleted_too(
    library: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """A run killed before it heard that a document had arrived: when that vanishes before the next, it is deleted."""
    late = library / "late.md"
    await _run(library, flow_settings)
    late.write_text("# Late\n\nSent, and never heard of.\n")

    async def send_and_forget(_: Job) -> None:
        """Sends as another run would: this one's ledger hears nothing of it."""
        elsewhere = flow_settings.model_copy(update={"flows_dir": flow_settings.data_dir / "elsewhere"})
        await upload(str(library), options=UploadOptions(), settings=elsewhere)
        raise SourceBusyError

    with pytest.raises(SourceBusyError):
        await upload(str(library), options=UploadOptions(), settings=flow_settings, hooks=Hooks(send_and_forget))
    late.unlink()
    assert "late.md" in _names(service)
    assert (await _run(library, flow_settings)).summary.deleted == 1
    assert _names(service) == _files(library)
