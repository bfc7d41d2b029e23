"""SQL of the files used by versions, over all organizations, because organizations share contents."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from sqlalchemy import BigInteger, column, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.identity.queries import list_organizations
from service.platform.batches import Batch
from service.platform.database import FILES_LOCK, enter_organization
from service.platform.sql import in_array, rows_after, rows_of
from service.schema.catalog import document_versions, unused_files
from service.schema.tables import deployment

_KEY = "key"


def _lock_key(sha256: bytes) -> int:
    return int.from_bytes(sha256[:8], signed=True)


def keep_file(batch: Batch, *, sha256: bytes) -> None:
    """Protect a content from collection until the transaction ends; by then a version must refer to it."""
    batch.tell("SELECT pg_advisory_xact_lock_shared($1::bigint)", _lock_key(sha256))
    # The next time the content is unused, its period of grace begins again.
    batch.tell("DELETE FROM unused_files WHERE sha256 = $1::bytea", sha256)


async def try_lock_store(connection: Connection) -> bool:
    """Lock the removal of files until the transaction ends; False during another removal or a backup."""
    return bool((await connection.execute(select(func.pg_try_advisory_xact_lock(FILES_LOCK)))).scalar_one())


async def lock_files(connection: Connection, *, sha256s: Collection[bytes]) -> list[bytes]:
    """Lock contents against uploads until the transaction ends; return the contents not locked by an upload."""
    keys = {_lock_key(sha256): sha256 for sha256 in sha256s}
    key = column(_KEY, BigInteger)
    given = rows_of([key], [{_KEY: each} for each in keys])
    locked = await connection.execute(select(given.c.key).where(func.pg_try_advisory_xact_lock(given.c.key)))
    return [keys[each] for each in locked.scalars()]


async def find_used(connection: Connection, *, sha256s: Collection[bytes]) -> set[bytes]:
    """Return contents used by versions of any organization; the transaction must not have entered an organization."""
    used: set[bytes] = set()
    for organization in await list_organizations(connection):
        await enter_organization(connection, organization.organization_id)
        found = await connection.execute(
            select(document_versions.c.file_sha256)
            .distinct()
            .where(
                document_versions.c.organization_id == organization.organization_id,
                in_array(document_versions.c.file_sha256, sha256s),
            )
        )
        used.update(found.scalars())
    return used


async def mark_unused(connection: Connection, *, sizes: Mapping[bytes, int]) -> None:
    """Record contents as unused; contents recorded earlier keep the earlier time."""
    rows = [{"sha256": sha256, "size": size} for sha256, size in sizes.items()]
    given = rows_of([unused_files.c.sha256, unused_files.c.size], rows)
    # Leave out a record that an upload is deleting: inserting it would wait for that upload.
    is_recorded = select(unused_files.c.sha256).where(unused_files.c.sha256 == given.c.sha256).exists()
    unrecorded = select(given.c.sha256, given.c.size).where(~is_recorded)
    new = insert(unused_files).from_select(["sha256", "size"], unrecorded)
    await connection.execute(new.on_conflict_do_nothing())


async def delete_marks(connection: Connection, *, sha256s: Collection[bytes]) -> None:
    await connection.execute(delete(unused_files).where(in_array(unused_files.c.sha256, sha256s)))


async def find_due(
    connection: Connection, *, unused_for: timedelta, after: bytes, limit: int
) -> Sequence[tuple[bytes, int]]:
    """Return pairs (SHA-256, size) of files that were unused for this long, in order, after the SHA-256 `after`."""
    due = select(unused_files.c.sha256, unused_files.c.size).where(unused_files.c.since <= func.now() - unused_for)
    statement = rows_after(due, unused_files.c.sha256, after=after, limit=limit)
    return [(sha256, size) for sha256, size in await connection.execute(statement)]


async def begin_pass(connection: Connection, *, period: timedelta) -> bool:
    """Record the start of a collection pass; False when another pass began less than a period ago."""
    statement = update(deployment).values(files_listed_at=func.now())
    is_due = deployment.c.files_listed_at <= func.now() - period
    return bool((await connection.execute(statement.where(is_due))).rowcount)


async def read_store_id(connection: Connection) -> UUID:
    return (await connection.execute(select(deployment.c.store_id))).scalar_one()
