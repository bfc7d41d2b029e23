"""Collecting files: contents without any document version are marked, and removed after a period of grace. Files are
found by listing the store, so neither a crash nor a refused upload leaves a file for ever. Every version keeps its
file, because:

- An upload stores its file. Then, in the transaction that saves the version, it locks the content (`keep_file`, a
  shared lock) and stores the file again if it is gone by then (`FileStore.ensure`).
- The collector locks the content exclusively, then looks for versions in a statement that sees all earlier commits.
  So either the collector sees the upload's version, or the upload sees that the file is gone.
- A new version of the same bytes has a locked document, and the earlier version refers to the file all the time.
- The collector's lock ends with its transaction, after every begun deletion was answered, even on an error or a stop
  (`_delete_files`). Only a killed collector, or a lost database, leaves deletions running, as long as a store takes.
- A backup holds FILES_LOCK from before its snapshot until it is written, and no file is removed until then.
- A file noted as not archived stays until archived, because moments of the archive refer to it.

The collector waits for no lock, but leaves locked contents to a later pass. So it causes no deadlock, and uploads wait
only while the same content is removed. The next pass removes the marked files, or marks, left by a kill. Row-level
security shows one organization at a time, so versions are looked for in each. Of several collectors, the first makes
the only pass of a period."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from service.domains.documents.files import queries
from service.platform.database import Database
from service.platform.files import UNTOUCHED_SECONDS, FileStore
from service.platform.logs import logger
from service.platform.settings import Settings
from service.runtime import Runtime

# The files removed under one lock, for which uploads of the same contents wait.
AT_ONCE = 100
LONGEST_PERIOD_SECONDS = 3600.0


def collect_seconds(settings: Settings) -> float:
    """Return the seconds between passes over the whole store: 24 passes in a period of grace, at least hourly."""
    return min(max(settings.file_grace_hours * 3600 / 24, settings.sweep_seconds), LONGEST_PERIOD_SECONDS)


async def collect_when_due(runtime: Runtime) -> None:
    """Collect, unless a worker or replica on the same database began a pass less than a period ago."""
    period = timedelta(seconds=collect_seconds(runtime.settings))
    async with runtime.database.transaction(None) as connection:
        is_due = await queries.begin_pass(connection, period=period)
    if is_due:
        await collect_files(runtime)


async def collect_files(runtime: Runtime) -> int:
    """Mark unused files, remove due files, and return their number; none in a foreign store. Raises an error last."""
    database, files = runtime.database, runtime.files
    grace = timedelta(hours=runtime.settings.file_grace_hours)
    if not await _is_own(database, files):
        return 0
    # Remove first: marking needs room in the database.
    removed, _ = await _remove_due(database, files, unused_for=grace)
    await asyncio.to_thread(files.remove_leftovers, untouched_seconds=UNTOUCHED_SECONDS)
    batches = files.list_stored()
    while batch := await asyncio.to_thread(next, batches, None):
        sizes = {stored.sha256: stored.size for stored in batch}
        async with database.transaction(None) as connection:
            used = await queries.find_used(connection, sha256s=sizes)
            unused = {sha256: size for sha256, size in sizes.items() if sha256 not in used}
            if unused:
                await queries.mark_unused(connection, sizes=unused)
    more, errors = await _remove_due(database, files, unused_for=grace)
    if errors:
        raise errors[0]
    return removed + more


async def _is_own(database: Database, files: FileStore) -> bool:
    """Return whether the store is this deployment's, else log. Claim a store without owner unless no file is known."""
    async with database.transaction(None, read_only=True) as connection:
        store_id = await queries.read_store_id(connection)
    may_claim = await asyncio.to_thread(files.has_owner) or not await _holds_only_unknown(database, files)
    if may_claim and await asyncio.to_thread(files.claim, store_id):
        return True
    logger.error(
        "files_not_collected",
        reason="The file store holds another deployment's files. Set CARREL_FILES_URL to a separate store.",
    )
    return False


async def _holds_only_unknown(database: Database, files: FileStore) -> bool:
    batches, is_empty = files.list_stored(), True
    while batch := await asyncio.to_thread(next, batches, None):
        is_empty = False
        async with database.transaction(None, read_only=True) as connection:
            if await queries.find_used(connection, sha256s=[stored.sha256 for stored in batch]):
                return False
    return not is_empty


async def _remove_due(
    database: Database, files: FileStore, *, unused_for: timedelta
) -> tuple[int, list[BaseException]]:
    """Remove the files unused for this long, except unarchived; return their number, and the store's errors."""
    removed, size, after = 0, 0, b""
    errors: list[BaseException] = []
    while True:
        async with database.transaction(None) as connection:
            if not await queries.try_lock_store(connection):
                break
            due = dict(await queries.find_due(connection, unused_for=unused_for, after=after, limit=AT_ONCE))
            if not due:
                break
            locked = await queries.lock_files(connection, sha256s=due)
            used = await queries.find_used(connection, sha256s=locked)
            unused = [sha256 for sha256 in locked if sha256 not in used and not files.is_unarchived(sha256)]
            failed = await _delete_files(files, unused)
            await queries.delete_marks(connection, sha256s=set(locked) - set(failed))
        after = max(due)
        errors.extend(failed.values())
        gone = set(unused) - set(failed)
        removed += len(gone)
        size += sum(due[sha256] for sha256 in gone)
    if removed:
        logger.info("files_collected", files=removed, bytes=size)
    return removed, errors


async def _delete_files(files: FileStore, sha256s: Sequence[bytes]) -> dict[bytes, BaseException]:
    """Delete contents; return those left, with errors. Waits for every deletion, because the locks end next."""
    deleting = asyncio.gather(*(files.delete(sha256) for sha256 in sha256s), return_exceptions=True)
    cancelled: asyncio.CancelledError | None = None
    while not deleting.done():
        try:
            await asyncio.shield(deleting)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return {sha256: error for sha256, error in zip(sha256s, deleting.result(), strict=True) if error is not None}
