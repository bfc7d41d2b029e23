"""Guarded deletion of documents missing from the source."""

import json
import shutil
from dataclasses import replace

import pytest

from carrel.errors import PermissionDeniedError
from flows.errors import SourceBusyError
from flows.operations.deletions import mark_of_deletions
from flows.operations.jobs import Hooks, Job, open_client, run_in_turn
from flows.operations.ledger.ledger import Ledger
from flows.operations.loading import open_ledger, upload
from flows.operations.named import name_documents, names_as_csv
from flows.operations.options import UploadOptions
from flows.operations.sending import deleter
from flows.operations.summary import GONE
from tests.flows.sources import IN_BOTH, IN_DATABASE, Source, note, unlisted


@pytest.fixture
def source(source: Source) -> Source:
    """The library; runs delete missing documents."""
    return replace(source, usual={"delete_missing": True})


def _change_elsewhere(source: Source, number: int) -> None:
    with source.client() as client:
        client.catalog.upload_file(b"Ours now.", file_name="a.md", document_external_id=note(number))


@IN_BOTH
async def test_what_vanished_is_shown_then_deleted_then_known_no_more(source: Source) -> None:
    with source.client() as client:
        client.catalog.upload_file(b"Not of this folder.", file_name="a.txt", document_external_id="elsewhere")
    await source.load()
    source.remove(0, 1)
    planned = await source.load(dry_run=True)
    assert (planned.plan.delete, planned.plan.held_back) == (2, "")
    assert "2 to delete" in planned.plan.text()
    assert len(source.documents()) == 13
    done = await source.load()
    assert (done.summary.deleted, done.summary.to_delete, done.summary.unchanged) == (2, 2, 10)
    assert done.summary.complete
    assert "2 of 2 deleted" in done.summary.text()
    assert source.documents() == source.files() | {"elsewhere"}
    again = await source.load()
    assert (again.plan.delete, again.summary.deleted) == (0, 0)


async def test_source_that_lists_a_tenth_deletes_nothing_and_says_why(source: Source) -> None:
    await source.load()
    source.remove(*range(11))
    unasked = await source.load(delete_missing=False)
    assert (unasked.plan.delete, unasked.summary.deleted, unasked.summary.held_back) == (0, 0, "")
    planned = await source.load(dry_run=True)
    held = await source.load()
    for outcome in (planned, held):
        assert "11 of 12" in outcome.plan.held_back
        assert "limit of 20 %" in outcome.plan.text()
        assert outcome.plan.delete == 0
        assert "`--delete-limit 92`" in outcome.plan.held_back
        assert (outcome.summary.to_delete, outcome.summary.deleted, outcome.summary.progress) == (11, 0, 100.0)
        assert not outcome.summary.complete
        assert outcome.summary.held_back in outcome.summary.text()
    assert len(source.documents()) == 12
    meant = await source.load(delete_limit_percent=100)
    assert (meant.summary.deleted, meant.summary.held_back) == (11, "")
    assert source.documents() == source.files()


async def test_source_that_was_not_read_whole_or_is_empty_deletes_nothing(source: Source) -> None:
    await source.load()
    source.remove(0)
    with unlisted("shelf-2"):
        outcome = await source.load(delete_limit_percent=100)
    assert "shelf-2" in outcome.summary.held_back
    for shelf in range(3):
        shutil.rmtree(source.folder / f"shelf-{shelf}")
    outcome = await source.load(delete_limit_percent=100)
    assert "not be mounted" in outcome.summary.held_back
    assert len(source.documents()) == 12


async def test_row_that_cannot_be_read_deletes_nothing(source: Source) -> None:
    """A damaged row of a manifest may be any document's; a row with a missing file keeps only its own document."""
    rows = [json.dumps({"path": note(number)}) for number in range(12)]
    manifest = source.manifest(*rows, name="m.jsonl")
    await source.load(manifest)
    source.manifest("{damaged", *rows[1:], name="m.jsonl")
    assert "line 1" in (await source.load(manifest)).summary.held_back
    assert len(source.documents()) == 12
    source.remove(2)
    source.manifest(*rows[1:], name="m.jsonl")
    mended = await source.load(manifest)
    assert (mended.summary.deleted, mended.summary.problems, mended.summary.held_back) == (1, 1, "")
    assert source.documents() == {note(number) for number in range(1, 12)}


async def test_lost_ledger_deletes_nothing(source: Source) -> None:
    """Without a ledger a source's sent documents are unknown."""
    outcome = await source.load()
    outcome.ledger.path.unlink()
    source.remove(0)
    again = await source.load()
    assert (again.summary.deleted, again.summary.unchanged) == (0, 11)
    assert len(source.documents()) == 12


@IN_DATABASE
async def test_document_that_somebody_else_changed_stays(source: Source) -> None:
    await source.load()
    source.remove(0, 1)
    _change_elsewhere(source, 0)
    with source.client() as client:
        (gone,) = (one for one in client.catalog.list_documents() if one.document_external_id == note(1))
        client.catalog.delete_document(gone.document_id)
    outcome = await source.load()
    assert (outcome.plan.delete, outcome.plan.left, outcome.summary.left) == (0, 1, 1)
    assert "in another source, kept" in outcome.summary.text()
    assert outcome.summary.complete
    assert source.documents() == source.files() | {note(0)}


async def test_document_changed_between_plan_and_deletion_stays(source: Source) -> None:
    await source.load()
    source.remove(0, 1)

    async def change_and_delete(job: Job) -> None:
        _change_elsewhere(source, 0)
        await run_in_turn(job, settings=source.settings)

    outcome = await source.load(hooks=Hooks(change_and_delete))
    assert (outcome.plan.delete, outcome.summary.deleted, outcome.summary.left) == (2, 1, 1)
    assert source.documents() == source.files() | {note(0)}


async def test_run_that_was_taken_over_deletes_no_more(source: Source) -> None:
    await source.load()
    source.remove(0)

    async def be_taken_over(job: Job) -> None:
        async with open_client(source.settings) as client:
            with Ledger.join(source.settings.ledger(job.ledger), job.claim) as stale:
                send = deleter(client, stale)
                (doomed,) = stale.pending(partition=0, partitions=1, deleting=True)
                with stale._store.write() as connection:
                    connection.exec_driver_sql("UPDATE ledger_runs SET claim = 'another'")
                await send(doomed)

    with pytest.raises(SourceBusyError, match="taken over this source"):
        await source.load(hooks=Hooks(be_taken_over))
    assert len(source.documents()) == 12


async def test_deletion_that_is_refused_is_in_quarantine(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    await source.load()
    source.remove(0, 1)
    with monkeypatch.context() as broken:
        broken.setattr("flows.operations.jobs.deleter", _refusing)
        outcome = await source.load()
    assert (outcome.summary.deleted, outcome.summary.undeleted, outcome.summary.quarantined) == (1, 1, 1)
    with open_ledger(str(source), settings=source.settings) as ledger:
        ledger.join_latest()
        assert [(one.external_id, one.code) for one in ledger.failures()] == [(note(0), "owner_required")]
    again = await source.load()
    assert (again.summary.deleted, again.summary.quarantined) == (1, 0)
    assert source.documents() == source.files()


def _refusing(client, ledger, *, upload_as: str | None):
    send = deleter(client, ledger, upload_as=upload_as)

    async def refuse(entry):
        if entry.document.external_id == note(0):
            raise PermissionDeniedError("no", status=403, code="owner_required")
        return await send(entry)

    return refuse


async def test_moved_document_is_there_before_it_is_gone(source: Source) -> None:
    await source.load()
    (source.folder / note(0)).rename(source.folder / "moved.md")
    source.remove(1)

    async def only_sends(job: Job) -> None:
        if job.kind == "deletion":
            raise SourceBusyError
        await run_in_turn(job, settings=source.settings)

    with pytest.raises(SourceBusyError):
        await source.load(hooks=Hooks(only_sends))
    assert "moved.md" in source.documents()
    assert len(source.documents()) == 13
    outcome = await source.load()
    assert (outcome.summary.deleted, outcome.summary.created) == (2, 1)
    assert source.documents() == source.files()


async def test_document_that_was_sent_unheard_of_is_deleted_too(source: Source) -> None:
    await source.load()
    late = source.write("late.md", "# Late\n\nSent, and never heard of.\n")

    async def send_and_forget(_: Job) -> None:
        await source.using(flows_dir=source.settings.data_dir / "elsewhere").load(delete_missing=False)
        raise SourceBusyError

    with pytest.raises(SourceBusyError):
        await source.load(hooks=Hooks(send_and_forget), delete_missing=False)
    late.unlink()
    assert "late.md" in source.documents()
    assert (await source.load()).summary.deleted == 1
    assert source.documents() == source.files()


DELETING = UploadOptions(delete_missing=True)


def _move(source: Source, other: Source) -> None:
    other.write(note(0), (source.folder / note(0)).read_bytes())
    source.remove(0)


async def test_another_larger_folder_in_the_place_of_a_source_deletes_nothing(source: Source) -> None:
    """The limit is a share of the earlier documents, however many are new."""
    await source.load()
    shutil.rmtree(source.folder)
    for number in range(61):
        source.write(f"other-{number}.md", f"# Other {number}\n\nSomething else.\n")
    outcome = await source.load()
    assert "12 of 12" in outcome.summary.held_back
    assert (outcome.summary.created, outcome.summary.deleted) == (61, 0)
    assert len(source.documents()) == 73


@IN_BOTH
async def test_document_that_another_source_has_stays(source: Source) -> None:
    """A document moved to another source, or in both, stays until neither has it."""
    other = source.beside("other")
    await source.load()
    _move(source, other)
    assert (await other.load()).summary.unchanged == 1
    outcome = await source.load()
    assert (outcome.plan.delete, outcome.plan.left, outcome.summary.deleted) == (0, 1, 0)
    assert "another source" in outcome.plan.text()
    assert note(0) in source.documents()
    other.remove(0)
    other.write("else.md", "Something else.")
    await other.load()
    assert (await source.load()).summary.deleted == 1


async def test_document_that_moves_to_another_source_during_the_run_stays(source: Source) -> None:
    """Another source may have found it since the plan, so the run checks right before the deletion."""
    other = source.beside("other")
    await source.load()
    _move(source, other)

    async def load_other_and_delete(job: Job) -> None:
        await other.load()
        await run_in_turn(job, settings=source.settings)

    outcome = await source.load(hooks=Hooks(load_other_and_delete))
    assert (outcome.plan.delete, outcome.summary.deleted, outcome.summary.left) == (1, 0, 1)
    assert note(0) in source.documents()


async def test_another_file_of_the_same_external_id_replaces_nothing(source: Source) -> None:
    other = source.beside("other")
    source = replace(source, folder=source.folder.rename(source.folder.with_name("of two\nlines")))
    await source.load()
    other.write(note(0), "# Another note of the same name\n")
    other.write(note(1), (source.folder / note(1)).read_bytes())
    for _ in range(2):
        outcome = await other.load()
        assert (outcome.plan.sends, outcome.summary.forbidden, outcome.summary.unchanged) == (0, 1, 1)
    assert await source.quarantine(other) == {note(0): "external_id_in_two_sources"}
    assert str(source) in (await source.items(other))[0].message
    assert (await source.load()).summary.unchanged == 12
    source.remove(0)
    assert (await other.load()).summary.updated == 1


async def test_what_is_gone_stays_and_is_named_until_its_deletion_is_confirmed(source: Source) -> None:
    await source.load(delete_missing=False)
    source.remove(*range(5))
    kept = await source.load(delete_missing=False)
    assert (kept.plan.gone, kept.summary.gone, kept.summary.deleted, kept.summary.complete) == (5, 5, 0, True)
    assert "5 gone from the source, kept" in kept.plan.text()
    with Ledger(kept.ledger) as ledger:
        ledger.join_latest()
        rows, mark = list(name_documents(ledger)), mark_of_deletions(ledger)
        assert {(row["what"], row["path"]) for row in rows} == {(GONE, note(number)) for number in range(5)}
        assert [row["path"] for row in name_documents(ledger, limit=9)] == sorted(map(note, range(5)))
        assert names_as_csv(ledger).count(GONE) == 5
    source.remove(5)
    lenient = DELETING.model_copy(update={"delete_limit_percent": 100})
    for options, confirmed in ((DELETING, mark), (lenient, "")):
        held = await upload(str(source), options=options, settings=source.settings, confirmed=confirmed)
        assert ("than the documents that you confirmed" in held.summary.held_back, held.summary.deleted) == (True, 0)
    source.write(note(5), "# It is there again\n")
    done = await upload(str(source), options=DELETING, settings=source.settings, confirmed=mark)
    assert (done.summary.deleted, done.summary.held_back) == (5, "")
    for number in range(5, 12):
        source.remove(number)
    emptied = await source.load(delete_missing=False)
    assert (emptied.summary.gone, emptied.summary.complete) == (7, False)
    assert "not be mounted" in emptied.summary.text()
    source.write(note(5), "# It is there again\n")
    await (elsewhere := source.using(flows_dir=source.settings.data_dir / "elsewhere")).load(dry_run=True)
    assert "1 document with an external id of this source, and this ledger has sent none" in elsewhere.remarks()[-1]
    source.remove(5)
    with Ledger(emptied.ledger) as ledger:
        ledger.join_latest()
        mark = mark_of_deletions(ledger)
    for confirmed, deleted in (("-", 0), (mark, 7)):
        done = await upload(str(source), options=DELETING, settings=source.settings, confirmed=confirmed)
        assert (done.summary.deleted, bool(done.summary.held_back)) == (deleted, not deleted)


async def test_hidden_files_that_are_not_asked_for_stay(source: Source) -> None:
    hidden = source.write(".drafts/a.md", "# Draft\n\nNot finished.\n")
    await source.load(hidden=True)
    outcome = await source.load()
    assert (outcome.plan.delete, outcome.summary.deleted) == (0, 0)
    assert ".drafts/a.md" in source.documents()
    hidden.unlink()
    assert (await source.load(hidden=True)).summary.deleted == 1


@pytest.mark.parametrize("pattern", ["**/*.md", "*/note-*.md"])
async def test_pattern_that_meets_a_folder_it_cannot_list_deletes_nothing(source: Source, pattern: str) -> None:
    await source.load(f"{source}/{pattern}")
    with unlisted("shelf-2"):
        outcome = await source.load(f"{source}/{pattern}", delete_limit_percent=100)
    assert "shelf-2" in outcome.summary.held_back
    assert outcome.summary.problems >= 1
    assert len(source.documents()) == 12


async def test_plan_is_no_sending(source: Source) -> None:
    await source.load()
    late = source.write("late.md", "# Late\n\nSent from elsewhere.\n")
    await source.load(dry_run=True)
    await source.using(flows_dir=source.settings.data_dir / "elsewhere").load()
    await source.load()
    late.unlink()
    assert (await source.load()).summary.deleted == 0
    assert "late.md" in source.documents()


async def test_plan_changes_nothing_of_what_a_retry_does(source: Source) -> None:
    """A plan with different options doesn't change the readers used by the retry."""
    source.service.new_user("ada@example.com")
    source.write("empty.md", b"")
    await source.load()
    await source.load(dry_run=True, internal_public=True)
    source.write("empty.md")
    assert (await source.retry()).summary.created == 1
    assert "empty.md" not in source.documents(as_user="ada@example.com")
