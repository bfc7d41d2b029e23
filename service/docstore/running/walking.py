"""Reading the source: all of it the first time, what changed afterwards, and always on from where it stopped.

The first walk goes by id, which every database has in order. Before it begins, the source is asked for its latest
change: what changes behind the walk has a later time, so that the walk by changes that follows finds it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from service.docstore.running import failed
from service.docstore.running.applying import apply_documents
from service.docstore.running.run import Run
from service.docstore.sources import Position
from service.docstore.values import from_extended, to_extended

SNAPSHOT, CHANGES, WALKED = "snapshot", "changes", "walked"
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)


async def walk(run: Run) -> None:
    """Bring over what is new or changed in the source, page by page, each kept before the next is read."""
    is_dated = run.config.source_fields.source_system_updated is not None
    kept = run.sync.cursor or {"phase": None}
    phase = kept["phase"]
    if phase == WALKED and not run.is_new:
        return
    since = Position.from_json(kept["after"]) if phase == CHANGES else None
    if since is not None and run.is_new:
        await failed.try_again(run)
        since = Position(updated=_before(since.updated, run.runtime.settings.docstore_overlap_seconds))
    if since is None:
        # Without times, what changed behind the walk is found by the next whole one alone.
        resumes = phase == SNAPSHOT and (is_dated or not run.is_new)
        since = await _walk_snapshot(run, kept if resumes else None)
    if is_dated:
        await _walk_changes(run, since)


async def _walk_snapshot(run: Run, kept: Mapping[str, Any] | None) -> Position:
    """Walk all documents, on from where `kept` says; returns where the walk by changes is to begin."""
    mark = from_extended(kept["mark"]) if kept else await run.source.newest()
    begin = Position.from_json(kept["after"]) if kept else Position()
    async for page in run.source.snapshot(begin.source_id):
        after = (page.position or begin).to_json()
        cursor = {"phase": SNAPSHOT, "after": after, "mark": to_extended(mark)}
        await apply_documents(run, page.documents, cursor=cursor)
    since = Position(updated=mark)
    is_dated = run.config.source_fields.source_system_updated is not None
    await apply_documents(run, (), cursor=_changes_cursor(since) if is_dated else {"phase": WALKED})
    return since


async def _walk_changes(run: Run, since: Position) -> None:
    async for page in run.source.changes(since):
        cursor = None if page.position is None else _changes_cursor(page.position)
        await apply_documents(run, page.documents, cursor=cursor)


def _changes_cursor(position: Position) -> dict[str, Any]:
    return {"phase": CHANGES, "after": position.to_json()}


def _before(moment: datetime | None, seconds: float) -> datetime | None:
    """Return a time so many seconds earlier, or the earliest there is."""
    if moment is None:
        return None
    try:
        return moment - timedelta(seconds=seconds)
    except OverflowError:
        return _EARLIEST
