"""SQL on the job queue's tables beyond the library's own statements."""

from typing import Final, LiteralString

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

# Like the library's procrastinate_fetch_job_v2, but for some tasks only; a job of any task holds its lock.
FETCH: Final[LiteralString] = """
    WITH candidate AS (
        SELECT id FROM procrastinate_jobs AS job
        WHERE status = 'todo' AND task_name = ANY(%(tasks)s::varchar[])
            AND (%(queues)s::varchar[] IS NULL OR queue_name = ANY(%(queues)s::varchar[]))
            AND (scheduled_at IS NULL OR scheduled_at <= now())
            AND NOT EXISTS (
                SELECT FROM procrastinate_jobs AS other
                WHERE job.lock IS NOT NULL AND other.lock = job.lock AND (
                    other.status = 'doing'
                    OR other.status = 'todo' AND (
                        other.priority > job.priority OR other.priority = job.priority AND other.id < job.id))
            )
        ORDER BY priority DESC, id LIMIT 1 FOR UPDATE OF job SKIP LOCKED
    )
    UPDATE procrastinate_jobs SET status = 'doing', worker_id = %(worker_id)s
    FROM candidate WHERE procrastinate_jobs.id = candidate.id
    RETURNING candidate.id, status, task_name, priority, lock, queueing_lock, args, scheduled_at, queue_name, attempts,
        worker_id
"""
# A worker ends or puts back only its own attempt of a job, so that a released job is left to the next worker. Like new
# jobs, the next job of the same lock is announced to workers.
FINISH: Final[LiteralString] = """
    WITH ended AS (
        DELETE FROM procrastinate_jobs WHERE id = %(job_id)s AND attempts = %(attempts)s AND status = 'doing'
        RETURNING id, queue_name, lock
    )
    SELECT pg_notify('procrastinate_queue_v1#' || queue_name, '{"type": "job_inserted", "job_id": ' || id || '}')
    FROM ended WHERE lock IS NOT NULL
"""
# A stop of the service gives no time and counts as no attempt; a job has at most ten attempts.
PUT_BACK: Final[LiteralString] = """
    UPDATE procrastinate_jobs
    SET status = 'todo', attempts = attempts + (%(retry_at)s::timestamptz IS NOT NULL)::int,
        scheduled_at = %(retry_at)s, abort_requested = false
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


async def release_stalled(connection: Connection, *, seconds: float) -> int:
    """Put back the jobs of workers without a heartbeat for `seconds`; return the number of jobs."""
    return (await connection.execute(_RELEASE_STALLED, {"seconds": seconds})).rowcount


async def release_all(connection: Connection) -> int:
    """Put back all jobs in progress. Only safe while no other process can be working."""
    return (await connection.execute(_RELEASE_ALL)).rowcount


async def count_waiting(connection: Connection) -> int:
    statement = text("SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo'")
    return (await connection.execute(statement)).scalar_one()
