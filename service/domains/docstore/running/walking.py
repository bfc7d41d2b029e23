"""Reading the source: all of it the first time, what changed afterwards, and always on from where it stopped.

The first walk goes by id, which every database has in order. Before it begins, the source is asked for its latest
change: what changes behind the walk has a later time, so that the walk by changes that follows finds it. A time that
lies in the future says nothing of that: no walk begins later than the moment at which the one before it did.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from service.domains.docstore.running import failed
from service.domains.docstore.running.applying import apply_documents
from service.domains.docstore.running.run import Run
from service.domains.docstore.sources import Position
from service.domains.docstore.values import from_extended, to_extended

SNAPSHOT, CHANGES, WALKED = "snapshot", "changes", "walked"
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)


async def walk(run: Run) -> None:
    """Bring over what is new or changed in the source, page by page, each kept before the next is read."""
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
    """Walk all documents, on from where `kept` says; returns where the walk by changes is to begin."""
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
    """Return where a walk by changes goes on, or the next one begins, and the moment at which it began."""
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
