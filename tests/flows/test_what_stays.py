"""Documents that a run must not delete though its source doesn't show them, and what a plan leaves behind."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from carrel import Carrel
from flows.operations.bulk import upload
from flows.operations.jobs import Hooks, Job, Outcome, run_in_turn
from flows.operations.options import UploadOptions
from flows.operations.quarantine import retry
from flows.settings import FlowSettings
from tests.harness.services import RunningService


@pytest.fixture(params=["file", "database"])
def settings(request: pytest.FixtureRequest, flow_settings: FlowSettings) -> FlowSettings:
    """Settings with ledgers in files, and in PostgreSQL."""
    if request.param == "file":
        return flow_settings
    return flow_settings.model_copy(update={"flows_database_url": request.getfixturevalue("database_url")})


async def _run(source: Path | str, settings: FlowSettings, *, dry_run: bool = False, **options: Any) -> Outcome:
    asked = UploadOptions(delete_missing=True, **options)
    return await upload(str(source), options=asked, settings=settings, dry_run=dry_run)


def _names(service: RunningService, *, as_user: str | None = None) -> set[str]:
    with Carrel(service.api_key, service.base_url) as client:
        return {document.document_external_id for document in client.catalog.list_documents(user_email=as_user)}


def _replace(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    for number in range(80):
        (folder / f"other-{number}.md").write_text(f"# Other {number}\n\nSomething else.\n")


async def test_another_larger_folder_in_the_place_of_a_source_deletes_nothing(
    library: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """The limit is of what was there before: however much is new, all that was sent before is not a fifth of it."""
    await _run(library, flow_settings)
    _replace(library)
    outcome = await _run(library, flow_settings)
    assert "12 of 12" in outcome.summary.held_back
    assert (outcome.summary.created, outcome.summary.deleted) == (80, 0)
    assert len(_names(service)) == 92


async def test_document_that_another_source_has_stays(
    library: Path, tmp_path: Path, settings: FlowSettings, service: RunningService
) -> None:
    """A document that moved to another source, or is in both, is that one's too: it stays until neither has it."""
    other = tmp_path / "other"
    (other / "shelf-0").mkdir(parents=True)
    await _run(library, settings)
    (library / "shelf-0" / "note-0.md").rename(other / "shelf-0" / "note-0.md")
    assert (await _run(other, settings)).summary.unchanged == 1
    outcome = await _run(library, settings)
    assert (outcome.plan.delete, outcome.plan.left, outcome.summary.deleted) == (0, 1, 0)
    assert "another source" in outcome.plan.text()
    assert "shelf-0/note-0.md" in _names(service)
    (other / "shelf-0" / "note-0.md").unlink()
    (other / "else.md").write_text("Something else.")
    await _run(other, settings)
    assert (await _run(library, settings)).summary.deleted == 1


async def test_document_that_moves_to_another_source_during_the_run_stays(
    library: Path, tmp_path: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """Another source may have found it since the plan was made: it is asked again right before the deletion."""
    other = tmp_path / "other"
    (other / "shelf-0").mkdir(parents=True)
    await _run(library, flow_settings)
    (library / "shelf-0" / "note-0.md").rename(other / "shelf-0" / "note-0.md")

    async def load_other_and_delete(job: Job) -> None:
        await _run(other, flow_settings)
        await run_in_turn(job, settings=flow_settings)

    asked = UploadOptions(delete_missing=True)
    outcome = await upload(str(library), options=asked, settings=flow_settings, hooks=Hooks(load_other_and_delete))
    assert (outcome.plan.delete, outcome.summary.deleted, outcome.summary.left) == (1, 0, 1)
    assert "shelf-0/note-0.md" in _names(service)


async def test_hidden_files_that_are_not_asked_for_stay(
    library: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """A run without the option for hidden files doesn't look at them, so it can't miss them."""
    hidden = library / ".drafts" / "a.md"
    hidden.parent.mkdir()
    hidden.write_text("# Draft\n\nNot finished.\n")
    await _run(library, flow_settings, hidden=True)
    outcome = await _run(library, flow_settings)
    assert (outcome.plan.delete, outcome.summary.deleted) == (0, 0)
    assert ".drafts/a.md" in _names(service)
    hidden.unlink()
    assert (await _run(library, flow_settings, hidden=True)).summary.deleted == 1


@pytest.mark.parametrize("pattern", ["**/*.md", "*/note-*.md"])
async def test_pattern_that_meets_a_folder_it_cannot_list_deletes_nothing(
    library: Path,
    flow_settings: FlowSettings,
    service: RunningService,
    monkeypatch: pytest.MonkeyPatch,
    pattern: str,
) -> None:
    """What a pattern can't look into may hold documents: it is in quarantine, and nothing is deleted."""
    source = f"{library}/{pattern}"
    await _run(source, flow_settings)
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("shelf-2"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)
    outcome = await _run(source, flow_settings, delete_limit_percent=100)
    monkeypatch.undo()
    assert "shelf-2" in outcome.summary.held_back
    assert outcome.summary.problems >= 1
    assert len(_names(service)) == 12


async def test_plan_is_no_sending(
    library: Path, tmp_path: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """What was only planned here and came by another way is not this source's to delete."""
    late = library / "late.md"
    await _run(library, flow_settings)
    late.write_text("# Late\n\nSent from elsewhere.\n")
    await _run(library, flow_settings, dry_run=True)
    elsewhere = flow_settings.model_copy(update={"flows_dir": tmp_path / "elsewhere"})
    await _run(library, elsewhere)
    await _run(library, flow_settings)
    late.unlink()
    outcome = await _run(library, flow_settings)
    assert outcome.summary.deleted == 0
    assert "late.md" in _names(service)


async def test_plan_changes_nothing_of_what_a_retry_does(
    library: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """A plan with other options is a question: what is sent again goes to the readers that the last run named."""
    service.new_user("ada@example.com")
    (library / "empty.md").write_bytes(b"")
    await _run(library, flow_settings)
    await _run(library, flow_settings, dry_run=True, internal_public=True)
    (library / "empty.md").write_text("Mended.")
    assert (await retry(str(library), settings=flow_settings)).summary.created == 1
    assert "empty.md" not in _names(service, as_user="ada@example.com")
