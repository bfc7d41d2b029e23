"""The quarantine over runs and sources: listed, sent again, and ignored until a change."""

import json

import pytest

from flows.errors import SourceError
from tests.flows.sources import IN_BOTH, IN_DATABASE, Source, note


@IN_BOTH
async def test_quarantine_of_all_sources_lasts_until_each_is_mended(poisoned: Source) -> None:
    other = poisoned.beside("other")
    other.write("blank.txt", "  \n")
    await poisoned.load()
    await other.load()
    expected = {"empty.md": "file_empty", "broken.pdf": "file_corrupt", "blank.txt": "file_without_text"}
    assert await poisoned.quarantine() == expected
    ledgers = {source.source: source.ledger for source in await poisoned.reported()}
    assert set(ledgers) == {str(poisoned), str(other)}
    for name in (other, ledgers[str(other)]):
        assert await poisoned.quarantine(name) == {"blank.txt": "file_without_text"}
    first = {item.since for item in await poisoned.items()}
    poisoned.write("empty.md")
    await poisoned.load(dry_run=True)
    assert await poisoned.quarantine() == expected
    await poisoned.load()
    assert await poisoned.quarantine() == {name: code for name, code in expected.items() if name != "empty.md"}
    assert {item.since for item in await poisoned.items()} < first
    with pytest.raises(SourceError, match="carrel quarantine list"):
        await poisoned.reported("never")


async def test_retry_sends_what_is_in_quarantine_and_nothing_else(poisoned: Source) -> None:
    poisoned.service.new_user("ada@example.com")
    options = {"allowed_users": ["ada@example.com"], "delete_missing": True}
    await poisoned.load(**options)
    poisoned.write("empty.md")
    poisoned.write(note(0), "Changed, but not in quarantine.")
    poisoned.remove(1)
    poisoned.write("new.md", "New, and not in quarantine.")
    summary = (await poisoned.retry()).summary
    assert (summary.documents, summary.created, summary.failed, summary.deleted) == (2, 1, 1, 0)
    assert await poisoned.quarantine() == {"broken.pdf": "file_corrupt"}
    readable = poisoned.documents(as_user="ada@example.com")
    assert (len(readable), "empty.md" in readable, "new.md" in readable) == (13, True, False)
    counts = (await poisoned.load(**options)).summary
    assert (counts.created, counts.updated, counts.deleted, counts.failed, counts.unchanged) == (1, 1, 1, 1, 11)


@IN_DATABASE
async def test_retry_of_chosen_items_leaves_the_others(poisoned: Source) -> None:
    for name in ("gone.md", "late.md"):
        poisoned.write(name, b"")
    await poisoned.load()
    for name in ("empty.md", "late.md"):
        poisoned.write(name)
    (poisoned.folder / "gone.md").unlink()
    (ledger,) = {source.ledger for source in await poisoned.reported()}
    with pytest.raises(SourceError, match=r"Not in the quarantine of .*: notes\.md"):
        await poisoned.retry(ledger, names=["empty.md", "notes.md"])
    assert set(await poisoned.quarantine()) == {"empty.md", "broken.pdf", "late.md", "gone.md"}
    outcome = await poisoned.retry(ledger, names=["empty.md"])
    assert (outcome.summary.documents, outcome.summary.created, outcome.summary.failed) == (1, 1, 0)
    assert set(await poisoned.quarantine()) == {"broken.pdf", "late.md", "gone.md"}
    await poisoned.retry(ledger, names=["gone.md"])
    assert set(await poisoned.quarantine()) == {"broken.pdf", "late.md"}
    assert (await poisoned.retry(ledger)).summary.created == 1
    assert set(await poisoned.quarantine()) == {"broken.pdf"}
    elsewhere = poisoned.using(base_url="http://127.0.0.1:9")
    with pytest.raises(SourceError, match=f"CARREL_BASE_URL={poisoned.settings.base_url}"):
        await elsewhere.retry(ledger)


async def test_retry_of_a_chosen_row_of_a_manifest(source: Source) -> None:
    manifest = source.manifest("path,externalId", "none.md,first", "shelf-0/missing.md,second")
    await source.load(manifest)
    assert set(await source.quarantine()) == {"first", "second"}
    source.write("none.md")
    source.write("shelf-0/missing.md")
    outcome = await source.retry(manifest, names=["second"])
    assert (outcome.summary.documents, outcome.summary.created) == (1, 1)
    assert set(await source.quarantine()) == {"first"}


async def test_retry_reads_rows_and_folders_that_are_mended(source: Source) -> None:
    rows = [json.dumps({"path": name}) for name in (note(0), note(1), note(2), "later.md")]
    manifest = source.manifest(rows[0], "{damaged", *rows[2:], name="m.jsonl")
    first = await source.load(manifest)
    assert (first.summary.created, first.summary.problems) == (2, 2)
    source.manifest(*rows, name="m.jsonl")
    second = await source.retry(manifest)
    assert (second.summary.created, second.summary.documents, second.summary.problems) == (1, 1, 1)
    source.write("later.md")
    third = await source.retry(manifest)
    assert (third.summary.created, third.summary.quarantined) == (1, 0)
    assert await source.quarantine() == {}


@IN_DATABASE
async def test_ignored_item_counts_no_more_until_it_changes(poisoned: Source) -> None:
    await poisoned.load()
    assert await poisoned.ignore("empty.md", "unknown.md") == ["unknown.md"]
    assert await poisoned.quarantine() == {"broken.pdf": "file_corrupt"}
    assert await poisoned.quarantine(ignored=True) == {"broken.pdf": "file_corrupt", "empty.md": "file_empty"}
    planned = await poisoned.load(dry_run=True)
    assert (planned.plan.ignored, planned.plan.refused) == (1, 1)
    again = await poisoned.load(retry_refused=True)
    assert (again.summary.failed, again.summary.ignored, again.plan.ignored) == (1, 1, 1)
    assert await poisoned.ignore("broken.pdf") == []
    retried = await poisoned.retry()
    assert (retried.summary.ignored, retried.summary.quarantined) == (2, 0)
    assert retried.summary.complete
    poisoned.write("empty.md", "\n")
    changed = await poisoned.load()
    assert (changed.summary.failed, changed.summary.ignored) == (1, 1)
    assert await poisoned.quarantine() == {"empty.md": "file_without_text"}
    assert await poisoned.ignore("broken.pdf", undo=True) == []
    assert set(await poisoned.quarantine()) == {"empty.md", "broken.pdf"}
    restored = await poisoned.load()
    assert (restored.summary.failed, restored.summary.ignored) == (2, 0)
    (poisoned.folder / "broken.pdf").unlink()
    await poisoned.load()
    assert set(await poisoned.quarantine(ignored=True)) == {"empty.md"}


async def test_problem_of_the_source_is_ignored_by_its_place(source: Source) -> None:
    (source.folder / "shelf-0" / "gone").symlink_to(source.folder / "nowhere")
    assert not (await source.load()).summary.complete
    await source.ignore("shelf-0/gone")
    second = await source.load()
    assert (second.summary.problems, second.summary.ignored, second.summary.complete) == (0, 1, True)


async def test_collection_and_upload_of_one_source_are_told_apart(source: Source) -> None:
    manifest = source.manifest(json.dumps({"path": note(0)}), name="m.jsonl")
    collection = source.create_collection()
    await source.add_to(collection, manifest)
    (reported,) = await source.reported()
    assert str(reported.document_collection_id) == collection
    assert await source.quarantine(manifest) == {note(0): "not_in_catalog"}
    await source.load(manifest)
    with pytest.raises(SourceError, match=reported.ledger):
        await source.retry(manifest)
    outcome = await source.retry(reported.ledger)
    assert (outcome.summary.created, outcome.summary.quarantined) == (1, 0)
    with source.client() as client:
        members = client.document_collections.list_documents_in_collection(collection)
        assert [found.document_external_id for found in members] == [note(0)]


async def test_document_that_is_ignored_is_left_out_of_a_collection(source: Source) -> None:
    with source.client() as client:
        client.catalog.upload_file(b"Words.", file_name="a.md", document_external_id=note(1))
    manifest = source.manifest(*(json.dumps({"path": note(number)}) for number in range(2)), name="m.jsonl")
    collection = source.create_collection()
    first = await source.add_to(collection, manifest)
    assert (first.summary.created, first.summary.failed) == (1, 1)
    assert await source.ignore(note(0), of=manifest) == []
    again = await source.add_to(collection, manifest)
    assert (again.summary.ignored, again.summary.failed, again.summary.complete) == (1, 0, True)
