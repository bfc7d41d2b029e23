"""SQL on the job queue's tables beyond the library's own statements."""

from typing import Final, LiteralString

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

# A worker ends and puts back what it took up, and nothing that was released since: that counts as another attempt.
# Workers are told, as of what is enqueued, that the next job of the same lock may begin.
FINISH: Final[LiteralString] = """
    WITH ended AS (
        DELETE FROM procrastinate_jobs WHERE id = %(job_id)s AND attempts = %(attempts)s AND status = 'doing'
        RETURNING id, queue_name, lock
    )
    SELECT pg_notify('procrastinate_queue_v1#' || queue_name, '{"type": "job_inserted", "job_id": ' || id || '}')
    FROM ended WHERE lock IS NOT NULL
"""
PUT_BACK: Final[LiteralString] = """
    UPDATE procrastinate_jobs
    SET status = 'todo', attempts = attempts + 1, scheduled_at = %(retry_at)s, abort_requested = false
    WHERE id = %(job_id)s AND attempts = %(attempts)s AND status = 'doing'
"""
# Nothing was tried, so it isn't counted as an attempt.
LEAVE: Final[LiteralString] = """
    UPDATE procrastinate_jobs SET status = 'todo', scheduled_at = %(retry_at)s
    WHERE id = %(job_id)s AND attempts = %(attempts)s AND status = 'doing'
"""
_RELEASE = "UPDATE procrastinate_jobs SET status = 'todo', attempts = attempts + 1, abort_requested = false"
_RELEASE_STALLED = text(
    f"""
    {_RELEASE} WHERE status = 'doing' AND NOT EXISTS (
        SELECT FROM procrastinate_workers
        WHERE id = worker_id AND last_heartbeat > now() - make_interval(secs => :seconds))
    """
)
_RELEASE_ALL = text(f"{_RELEASE} WHERE status = 'doing'")


async def release_stalled(connection: AsyncConnection, *, seconds: float) -> int:
    """Put back jobs of workers without a heartbeat for so long; return the number of jobs."""
    return (await connection.execute(_RELEASE_STALLED, {"seconds": seconds})).rowcount


async def release_all(connection: AsyncConnection) -> int:
    """Put back all jobs in progress; only where no other process can be working."""
    return (await connection.execute(_RELEASE_ALL)).rowcount


async def count_waiting(connection: AsyncConnection) -> int:
    """Count the jobs that no worker has taken."""
    statement = text("SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo'")
    return (await connection.execute(statement)).scalar_one()
