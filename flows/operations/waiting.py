"""Texts about runs of syncs that nothing begins."""

from datetime import UTC, datetime, timedelta

from carrel.wire.docstore import DocstoreSync

PATIENCE = timedelta(seconds=60)
"""How long a run may wait for a worker of the service before people are told that it does."""


def waiting_text(sync: DocstoreSync, *, now: datetime | None = None) -> str:
    """Return a warning when a run has not begun for longer than `PATIENCE`, with what to check; else an empty text."""
    if sync.wanted_at is None or (now or datetime.now(UTC)) - sync.wanted_at < PATIENCE:
        return ""
    return (
        "No worker of the service has begun this run yet. It begins when one is free; if no other sync is running, see"
        " that a process of the service runs which has workers for syncs (CARREL_DOCSTORE_WORKERS)."
    )
