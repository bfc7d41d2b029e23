"""The quarantine over runs and sources: listed, sent again, ignored until it changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from carrel import Carrel
from carrel.wire.collections import CustomMetadataSchema
from flows.errors import SourceError
from flows.operations.bulk import upload
from flows.operations.collecting import add_to_collection
from flows.operations.jobs import Outcome
from flows.operations.options import CollectionOptions, UploadOptions
from flows.operations.quarantine import retry
from flows.settings import FlowSettings
from tests.flows.quarantined import ignore, items_of, listed, reported
from tests.harness.services import RunningService


@pytest.fixture(params=["file", "database"])
def settings(request: pytest.FixtureRequest, flow_settings: FlowSettings) -> FlowSettings:
    """Settings with ledgers in files, and in PostgreSQL."""
    if request.param == "file":
        return flow_settings
    return flow_settings.model_copy(update={"flows_database_url": request.getfixturevalue("database_url")})


@pytest.fixture
def poisoned(library: Path) -> Path:
    """The library with two files that can't be read in it."""
    (library / "empty.md").write_bytes(b"")
    (library / "broken.pdf").write_bytes(b"%PDF-1.7 this is no PDF")
    return library


async def _upload(source: Path, settings: FlowSettings, **options: Any) -> Outcome:
    return await upload(str(source), options=UploadOptions(**options), settings=settings)


async def test_quarantine_of_all_sources_lasts_until_each_is_mended(
    poisoned: Path, tmp_path: Path, settings: FlowSettings
) -> None:
    """Every source's items are listed with what they are of, through plans and runs; mended ones are listed no more."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "blank.txt").write_text("  \n")
    await _upload(poisoned, settings)
    await _upload(other, settings)
    expected = {"empty.md": "file_empty", "broken.pdf": "file_corrupt", "blank.txt": "file_without_text"}
    assert await listed(settings) == expected
    ledgers = {source.source: source.ledger for source in await reported(settings)}
    assert set(ledgers) == {str(poisoned), str(other)}
    for name in (str(other), ledgers[str(other)]):
        assert await listed(settings, name) == {"blank.txt": "file_without_text"}
    first = {item.since for item in await items_of(settings)}
    (poisoned / "empty.md").write_text("Mended.")
    await upload(str(poisoned), options=UploadOptions(), settings=settings, dry_run=True)
    assert await listed(settings) == expected
    await _upload(poisoned, settings)
    assert await listed(settings) == {name: code for name, code in expected.items() if name != "empty.md"}
    assert {item.since for item in await items_of(settings)} < first
    with pytest.raises(SourceError, match="carrel quarantine list"):
        await reported(settings, str(tmp_path / "never"))


async def test_retry_sends_what_is_in_quarantine_and_nothing_else(
    poisoned: Path, settings: FlowSettings, service: RunningService
) -> None:
    """Only what is in quarantine is sent again, mended ones arrive, the others stay there; options are kept."""
    service.new_user("ada@example.com")
    await _upload(poisoned, settings, allowed_users=["ada@example.com"], delete_missing=True)
    (poisoned / "empty.md").write_text("Mended.")
    (poisoned / "shelf-0" / "note-0.md").write_text("Changed, but not in quarantine.")
    (poisoned / "shelf-1" / "note-1.md").unlink()
    (poisoned / "new.md").write_text("New, and not in quarantine.")
    outcome = await retry(str(poisoned), settings=settings)
    summary = outcome.summary
    assert (summary.documents, summary.created, summary.failed, summary.deleted) == (2, 1, 1, 0)
    assert await listed(settings) == {"broken.pdf": "file_corrupt"}
    with Carrel(service.api_key, service.base_url) as client:
        readable = {found.document_external_id for found in client.catalog.list_documents(user_email="ada@example.com")}
    assert len(readable) == 13
    assert "empty.md" in readable
    assert "new.md" not in readable
    following = await _upload(poisoned, settings, allowed_users=["ada@example.com"], delete_missing=True)
    counts = following.summary
    assert (counts.created, counts.updated, counts.deleted, counts.failed, counts.unchanged) == (1, 1, 1, 1, 11)


async def test_retry_of_chosen_items_leaves_the_others(poisoned: Path, settings: FlowSettings) -> None:
    """Of two that are mended the named one is sent; the other stays in quarantine, also when a named one is gone."""
    for name in ("gone.md", "late.md"):
        (poisoned / name).write_bytes(b"")
    await _upload(poisoned, settings)
    for name in ("empty.md", "late.md"):
        (poisoned / name).write_text("Mended.")
    (poisoned / "gone.md").unlink()
    (ledger,) = {source.ledger for source in await reported(settings)}
    with pytest.raises(SourceError, match=r"Not in the quarantine of .*: notes\.md"):
        await retry(ledger, names=["empty.md", "notes.md"], settings=settings)
    assert set(await listed(settings)) == {"empty.md", "broken.pdf", "late.md", "gone.md"}
    outcome = await retry(ledger, names=["empty.md"], settings=settings)
    assert (outcome.summary.documents, outcome.summary.created, outcome.summary.failed) == (1, 1, 0)
    assert set(await listed(settings)) == {"broken.pdf", "late.md", "gone.md"}
    await retry(ledger, names=["gone.md"], settings=settings)
    assert set(await listed(settings)) == {"broken.pdf", "late.md"}
    assert (await retry(ledger, settings=settings)).summary.created == 1
    assert set(await listed(settings)) == {"broken.pdf"}


async def test_retry_of_a_chosen_row_of_a_manifest(library: Path, flow_settings: FlowSettings) -> None:
    """A row is named by its external id, though its ledger has it by its line."""
    manifest = library / "manifest.csv"
    manifest.write_text("path,externalId\nnone.md,first\nshelf-0/missing.md,second\n")
    await _upload(manifest, flow_settings)
    assert set(await listed(flow_settings)) == {"first", "second"}
    (library / "none.md").write_text("Here now.")
    (library / "shelf-0" / "missing.md").write_text("Here, too.")
    outcome = await retry(str(manifest), names=["second"], settings=flow_settings)
    assert (outcome.summary.documents, outcome.summary.created) == (1, 1)
    assert set(await listed(flow_settings)) == {"first"}


async def test_retry_reads_rows_and_folders_that_are_mended(library: Path, flow_settings: FlowSettings) -> None:
    """A row of a manifest that could not be read is found again by its line, whatever document it turns out to be."""
    manifest = library / "m.jsonl"
    rows = [json.dumps({"path": f"shelf-{number % 3}/note-{number}.md"}) for number in range(4)]
    manifest.write_text("\n".join([rows[0], "{damaged", rows[2], json.dumps({"path": "later.md"})]))
    first = await _upload(manifest, flow_settings)
    assert (first.summary.created, first.summary.problems) == (2, 2)
    manifest.write_text("\n".join([*rows[:3], json.dumps({"path": "later.md"})]))
    second = await retry(str(manifest), settings=flow_settings)
    assert (second.summary.created, second.summary.documents, second.summary.problems) == (1, 1, 1)
    (library / "later.md").write_text("Here now.")
    third = await retry(str(manifest), settings=flow_settings)
    assert (third.summary.created, third.summary.quarantined) == (1, 0)
    assert await listed(flow_settings) == {}


async def test_ignored_item_counts_no_more_until_it_changes(poisoned: Path, settings: FlowSettings) -> None:
    """What is ignored is not sent, listed or counted, by plans, runs, retries; changed, or undone, it counts again."""
    source = str(poisoned)
    await _upload(poisoned, settings)
    assert await ignore(settings, source, "empty.md", "unknown.md") == ["unknown.md"]
    assert await listed(settings) == {"broken.pdf": "file_corrupt"}
    assert await listed(settings, ignored=True) == {"broken.pdf": "file_corrupt", "empty.md": "file_empty"}
    planned = await upload(source, options=UploadOptions(), settings=settings, dry_run=True)
    assert (planned.plan.ignored, planned.plan.refused) == (1, 1)
    again = await _upload(poisoned, settings, retry_refused=True)
    assert (again.summary.failed, again.summary.ignored, again.plan.ignored) == (1, 1, 1)
    assert await ignore(settings, source, "broken.pdf") == []
    retried = await retry(source, settings=settings)
    assert (retried.summary.ignored, retried.summary.quarantined) == (2, 0)
    assert retried.summary.complete
    (poisoned / "empty.md").write_text("\n")
    changed = await _upload(poisoned, settings)
    assert (changed.summary.failed, changed.summary.ignored) == (1, 1)
    assert await listed(settings) == {"empty.md": "file_without_text"}
    assert await ignore(settings, source, "broken.pdf", undo=True) == []
    assert set(await listed(settings)) == {"empty.md", "broken.pdf"}
    restored = await _upload(poisoned, settings)
    assert (restored.summary.failed, restored.summary.ignored) == (2, 0)
    (poisoned / "broken.pdf").unlink()
    await _upload(poisoned, settings)
    assert set(await listed(settings, ignored=True)) == {"empty.md"}


async def test_problem_of_the_source_is_ignored_by_its_place(library: Path, flow_settings: FlowSettings) -> None:
    """A link that leads nowhere can be ignored too; the run is then complete, and nothing hidden is deleted for it."""
    (library / "shelf-0" / "gone").symlink_to(library / "nowhere")
    first = await _upload(library, flow_settings)
    assert not first.summary.complete
    await ignore(flow_settings, str(library), "shelf-0/gone")
    second = await _upload(library, flow_settings)
    assert (second.summary.problems, second.summary.ignored, second.summary.complete) == (0, 1, True)


async def test_retry_of_what_went_to_another_service_is_refused(poisoned: Path, flow_settings: FlowSettings) -> None:
    """A ledger's name says where its source was loaded: elsewhere there is nothing to retry, and no success."""
    await _upload(poisoned, flow_settings)
    (source,) = await reported(flow_settings)
    elsewhere = flow_settings.model_copy(update={"base_url": "http://127.0.0.1:9"})
    with pytest.raises(SourceError, match=f"CARREL_BASE_URL={flow_settings.base_url}"):
        await retry(source.ledger, settings=elsewhere)


async def test_collection_and_upload_of_one_source_are_told_apart(
    library: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """One manifest loaded and added to a collection: which of them is meant has to be said, and each is retried so."""
    manifest = library / "m.jsonl"
    manifest.write_text(json.dumps({"path": "shelf-0/note-0.md"}))
    with Carrel(service.api_key, service.base_url) as client:
        created = client.document_collections.create_document_collection(
            "Notes", custom_metadata_schema=CustomMetadataSchema.model_validate({"fields": []})
        )
        collection = str(created.document_collection_id)
        await add_to_collection(str(manifest), options=CollectionOptions(collection=collection), settings=flow_settings)
        (source,) = await reported(flow_settings)
        assert str(source.document_collection_id) == collection
        assert await listed(flow_settings, str(manifest)) == {"shelf-0/note-0.md": "not_in_catalog"}
        await _upload(manifest, flow_settings)
        with pytest.raises(SourceError, match=source.ledger):
            await retry(str(manifest), settings=flow_settings)
        outcome = await retry(source.ledger, settings=flow_settings)
        assert (outcome.summary.created, outcome.summary.quarantined) == (1, 0)
        members = client.document_collections.list_documents_in_collection(collection)
        assert [found.document_external_id for found in members] == ["shelf-0/note-0.md"]


async def test_document_that_is_ignored_is_left_out_of_a_collection(
    library: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """One that no catalog has counts no more, nor one that can't be added and is the same; the others are added."""
    await _upload(library, flow_settings)
    manifest = library / "m.jsonl"
    manifest.write_text("\n".join(json.dumps({"path": f"shelf-{n % 3}/note-{n}.md"}) for n in range(2)))
    with Carrel(service.api_key, service.base_url) as client:
        schema = CustomMetadataSchema.model_validate({"fields": []})
        created = client.document_collections.create_document_collection("Notes", custom_metadata_schema=schema)
        (gone,) = (one for one in client.catalog.list_documents() if one.document_external_id == "shelf-0/note-0.md")
        client.catalog.delete_document(gone.document_id)
    options = CollectionOptions(collection=str(created.document_collection_id))
    first = await add_to_collection(str(manifest), options=options, settings=flow_settings)
    assert (first.summary.created, first.summary.failed) == (1, 1)
    assert await ignore(flow_settings, str(manifest), "shelf-0/note-0.md") == []
    again = await add_to_collection(str(manifest), options=options, settings=flow_settings)
    assert (again.summary.ignored, again.summary.failed, again.summary.complete) == (1, 0, True)
