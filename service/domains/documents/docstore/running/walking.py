"""Reading the source: all documents in the first run, then changes, each time from the position that was saved.

The first walk goes by id, which every database has in order. Before it begins, the latest change is read from the
source: a change made during the walk has a later time, so that the following walk by changes finds it. A time in the
future proves nothing: no walk begins later than the moment at which the one before it began.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from service.domains.documents.docstore.running import failed
from service.domains.documents.docstore.running.applying import apply_documents
from service.domains.documents.docstore.running.run import Run
from service.domains.documents.docstore.sources import Position
from service.domains.documents.docstore.values import from_extended, to_extended

SNAPSHOT, CHANGES, WALKED = "snapshot", "changes", "walked"
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)


async def walk(run: Run) -> None:
    """Bring new and changed documents of the source over, page by page; each page is saved before the next is read."""
    is_dated = run.config.source_fields.source_system_updated is not None
    kept = run.sync.cursor or {"phase": None}
    phase = kept["phase"]
    if phase == WALKED and not run.is_new:
        return
    # Without times, what changed behind a walk is found by the next whole one alone.
    resumes = phase in {SNAPSHOT, CHANGES} and (is_dated or not run.is_new)
    if resumes and run.is_new:
        await failed.retry_failures(run)
    if resumes and phase == CHANGES:
        await _walk_changes(run, *await _read_position(run, kept))
        return
    since = await _walk_snapshot(run, kept if resumes else None)
    if is_dated:
        await _walk_changes(run, since, began=await _read_now(run))


async def _walk_snapshot(run: Run, kept: Mapping[str, Any] | None) -> Position:
    """Bring all documents over, from the saved position `kept` on; return where the walk by changes begins."""
    mark = from_extended(kept["mark"]) if kept else _earlier(await run.source.newest(), await _read_now(run))
    begin = Position.from_json(kept["after"]) if kept else Position()
    async for page in run.source.snapshot(begin.source_id):
        after = (page.position or begin).to_json()
        cursor = {"phase": SNAPSHOT, "after": after, "mark": to_extended(mark)}
        await apply_documents(run, page.documents, cursor=cursor)
    since = Position(updated=mark)
    is_dated = run.config.source_fields.source_system_updated is not None
    await apply_documents(run, (), cursor=_changes_cursor(since, began=mark) if is_dated else {"phase": WALKED})
    return since


async def _walk_changes(run: Run, since: Position, began: datetime | None) -> None:
    async for page in run.source.changes(since):
        cursor = None if page.position is None else _changes_cursor(page.position, began=began)
        await apply_documents(run, page.documents, cursor=cursor)


async def _read_position(run: Run, kept: Mapping[str, Any]) -> tuple[Position, datetime | None]:
    """Return the position of a walk by changes, continued or new, and the moment at which that walk began."""
    stopped, began = Position.from_json(kept["after"]), from_extended(kept["began"])
    if not run.is_new:
        return stopped, began
    seconds = run.runtime.settings.docstore_overlap_seconds
    return Position(updated=_before(_earlier(stopped.updated, began), seconds)), await _read_now(run)


def _changes_cursor(position: Position, *, began: datetime | None) -> dict[str, Any]:
    return {"phase": CHANGES, "after": position.to_json(), "began": to_extended(began)}


async def _read_now(run: Run) -> datetime:
    async with run.transaction() as connection:
        return await run.runtime.clock.now(connection)


def _earlier(moment: datetime | None, other: datetime | None) -> datetime | None:
    """Return the earlier of two moments; None, before all of them, when either is."""
    return None if moment is None or other is None else min(moment, other)


def _before(moment: datetime | None, seconds: float) -> datetime | None:
    """Return a time so many seconds earlier, or the earliest there is."""
    if moment is None:
        return None
    try:
        return moment - timedelta(seconds=seconds)
    except OverflowError:
        return _EARLIEST
