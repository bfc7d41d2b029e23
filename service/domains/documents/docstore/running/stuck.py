"""Alerts about syncs whose run has stopped without an end."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.alerts import AlertKind
from service.alerting.telling import begin_alert
from service.domains.documents.docstore.queries import list_stuck_syncs
from service.platform.identifiers import NIL
from service.runtime import Runtime

AT_ONCE = 100
STUCK = "run_stuck"


async def begin_stuck(runtime: Runtime, connection: AsyncConnection, organization_id: UUID) -> None:
    """Begin an alert for each sync whose run has told nothing for a quarter of an hour."""
    after = NIL
    while syncs := await list_stuck_syncs(connection, organization_id, after=after, limit=AT_ONCE):
        for sync in syncs:
            await begin_alert(
                runtime,
                connection,
                organization_id,
                kind=AlertKind.SYNC_BEHIND,
                subject=str(sync.sync_id),
                name=sync.name,
                code=STUCK,
            )
        after = syncs[-1].sync_id
