"""What uploads would do, asked before anything is sent: one look for up to a thousand documents."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.uploads import PlanAction, PlannedUpload, UploadPlan
from service.auth.callers import Caller
from service.domains.documents.catalog import queries
from service.platform.identifiers import document_id_for


async def plan_uploads(connection: Connection, caller: Caller, *, planned: Sequence[PlannedUpload]) -> list[UploadPlan]:
    """Return, in the order asked, what uploading each document would do for this caller. FORBIDDEN tells that the
    external id belongs to somebody's document, as the upload's 403 would; nothing else of it."""
    organization_id = caller.organization_id
    names = {each.document_external_id for each in planned}
    stored = await queries.find_external_ids(connection, organization_id, names)
    ids = [document_id_for(organization_id, stored[each.document_external_id]) for each in planned]
    states = await queries.read_upload_states(connection, caller, document_ids=ids)
    return [_plan(each, document_id, states.get(document_id)) for document_id, each in zip(ids, planned, strict=True)]


def _plan(planned: PlannedUpload, document_id: UUID, state: tuple[str | None, bool, bool] | None) -> UploadPlan:
    action = _action(state, planned.fingerprint)
    known: dict[str, Any] = {}
    if state is not None and action is not PlanAction.FORBIDDEN:
        known = {"document_id": document_id, "shared": state[2]}
    return UploadPlan(document_external_id=planned.document_external_id, action=action, **known)


def _action(state: tuple[str | None, bool, bool] | None, fingerprint: str) -> PlanAction:
    if state is None:
        return PlanAction.CREATE
    stored, may_update, _ = state
    if not may_update:
        return PlanAction.FORBIDDEN
    return PlanAction.UNCHANGED if stored == fingerprint else PlanAction.UPDATE
