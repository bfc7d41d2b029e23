"""What uploads would do, asked before anything is sent: one look for up to a thousand documents."""

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.catalog import PlanAction, PlannedUpload
from service.callers import Caller
from service.catalog import queries
from service.identifiers import document_id_for


async def plan_uploads(
    connection: AsyncConnection, caller: Caller, *, planned: Sequence[PlannedUpload]
) -> list[PlanAction]:
    """Return, in the order asked, what uploading each document would do for this caller.

    FORBIDDEN tells that the external id belongs to somebody's document, as the upload's 403 would; nothing else of it.
    """
    ids = [document_id_for(caller.organization_id, each.document_external_id) for each in planned]
    states = await queries.upload_states(connection, caller, document_ids=ids)
    return [_action(states.get(document_id), each.fingerprint) for document_id, each in zip(ids, planned, strict=True)]


def _action(state: tuple[str | None, bool] | None, fingerprint: str) -> PlanAction:
    if state is None:
        return PlanAction.CREATE
    stored, may_update = state
    if not may_update:
        return PlanAction.FORBIDDEN
    return PlanAction.UNCHANGED if stored == fingerprint else PlanAction.UPDATE
