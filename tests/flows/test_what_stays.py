"""Documents that a run must not delete though its source doesn't show them, and what a plan leaves behind."""

import shutil
from dataclasses import replace

import pytest

from flows.operations.deletions import mark_of_deletions
from flows.operations.jobs import Hooks, Job, run_in_turn
from flows.operations.ledger.ledger import Ledger
from flows.operations.loading import upload
from flows.operations.named import name_documents, names_as_csv
from flows.operations.options import UploadOptions
from flows.operations.summary import GONE
from tests.flows.sources import IN_BOTH, Source, note, unlisted

DELETING = UploadOptions(delete_missing=True)


@pytest.fixture
def source(source: Source) -> Source:
    """The library, of whose documents runs delete what vanished."""
    return replace(source, usual={"delete_missing": True})


def _move(source: Source, other: Source) -> None:
    other.write(note(0), (source.folder / note(0)).read_bytes())
    source.remove(0)


async def test_another_larger_folder_in_the_place_of_a_source_deletes_nothing(source: Source) -> None:
    """The limit is of what was there before: however much is new, all that was sent before is not a fifth of it."""
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
    """A document that moved to another source, or is in both, is that one's too: it stays until neither has it."""
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
    """Another source may have found it since the plan was made: it is asked again right before the deletion."""
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
    """The second source is told which one has the name, and how to tell them apart; a copy or a moved folder loads."""
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
    """Confirmed by name, the deletion needs no higher limit; of other names it is held back."""
    await source.load(delete_missing=False)
    source.remove(*range(5))
    kept = await source.load(delete_missing=False)
    assert (kept.plan.gone, kept.summary.gone, kept.summary.deleted, kept.summary.complete) == (5, 5, 0, True)
    assert "5 gone from the source, which stay" in kept.plan.text()
    with Ledger(kept.ledger) as ledger:
        ledger.join_latest()
        rows, mark = list(name_documents(ledger)), mark_of_deletions(ledger)
        assert {(row["what"], row["path"]) for row in rows} == {(GONE, note(number)) for number in range(5)}
        assert names_as_csv(ledger).count(GONE) == 5
    source.remove(5)
    lenient = DELETING.model_copy(update={"delete_limit_percent": 100})
    for options, confirmed in ((DELETING, mark), (lenient, "")):
        held = await upload(str(source), options=options, settings=source.settings, confirmed=confirmed)
        assert ("not the documents that were confirmed" in held.summary.held_back, held.summary.deleted) == (True, 0)
    source.write(note(5), "# It is there again\n")
    done = await upload(str(source), options=DELETING, settings=source.settings, confirmed=mark)
    assert (done.summary.deleted, done.summary.held_back) == (5, "")
    for number in range(5, 12):
        source.remove(number)
    emptied = await source.load(delete_missing=False)
    assert (emptied.summary.gone, emptied.summary.complete) == (7, False)
    assert "not mounted" in emptied.summary.text()
    source.write(note(5), "# It is there again\n")
    await (elsewhere := source.using(flows_dir=source.settings.data_dir / "elsewhere")).load(dry_run=True)
    assert "this ledger has sent none" in elsewhere.remarks()[-1]
    source.remove(5)
    with Ledger(emptied.ledger) as ledger:
        ledger.join_latest()
        mark = mark_of_deletions(ledger)
    for confirmed, deleted in (("-", 0), (mark, 7)):
        done = await upload(str(source), options=DELETING, settings=source.settings, confirmed=confirmed)
        assert (done.summary.deleted, bool(done.summary.held_back)) == (deleted, not deleted)


async def test_hidden_files_that_are_not_asked_for_stay(source: Source) -> None:
    """A run without the option for hidden files doesn't look at them, so it can't miss them."""
    hidden = source.write(".drafts/a.md", "# Draft\n\nNot finished.\n")
    await source.load(hidden=True)
    outcome = await source.load()
    assert (outcome.plan.delete, outcome.summary.deleted) == (0, 0)
    assert ".drafts/a.md" in source.documents()
    hidden.unlink()
    assert (await source.load(hidden=True)).summary.deleted == 1


@pytest.mark.parametrize("pattern", ["**/*.md", "*/note-*.md"])
async def test_pattern_that_meets_a_folder_it_cannot_list_deletes_nothing(source: Source, pattern: str) -> None:
    """What a pattern can't look into may hold documents: it is in quarantine."""
    await source.load(f"{source}/{pattern}")
    with unlisted("shelf-2"):
        outcome = await source.load(f"{source}/{pattern}", delete_limit_percent=100)
    assert "shelf-2" in outcome.summary.held_back
    assert outcome.summary.problems >= 1
    assert len(source.documents()) == 12


async def test_plan_is_no_sending(source: Source) -> None:
    """What was only planned here and came by another way is not this source's to delete."""
    await source.load()
    late = source.write("late.md", "# Late\n\nSent from elsewhere.\n")
    await source.load(dry_run=True)
    await source.using(flows_dir=source.settings.data_dir / "elsewhere").load()
    await source.load()
    late.unlink()
    assert (await source.load()).summary.deleted == 0
    assert "late.md" in source.documents()


async def test_plan_changes_nothing_of_what_a_retry_does(source: Source) -> None:
    """A plan with other options is a question: what is sent again goes to the readers that the last run named."""
    source.service.new_user("ada@example.com")
    source.write("empty.md", b"")
    await source.load()
    await source.load(dry_run=True, internal_public=True)
    source.write("empty.md")
    assert (await source.retry()).summary.created == 1
    assert "empty.md" not in source.documents(as_user="ada@example.com")
