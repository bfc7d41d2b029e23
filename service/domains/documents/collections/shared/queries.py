"""The statement of a collection with everybody's roles in it."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import func, select

from service.auth.callers import Caller
from service.domains.documents.collections.queries import COLUMNS, StoredCollection, to_collection
from service.platform.batches import Answer, Batch
from service.platform.sql import ORGANIZATION, param, params
from service.schema.collections import collections
from service.schema.indexing import spaces
from service.schema.permissions import class_readers, resources

# Each as `role:principal id`.
_GRANTS = (
    select(func.array_agg(func.concat(class_readers.c.role, ":", class_readers.c.principal_id)))
    .where(class_readers.c.organization_id == ORGANIZATION, class_readers.c.access_class == resources.c.access_class)
    .scalar_subquery()
    .label("grants")
)
_COLLECTION = (
    select(*COLUMNS, _GRANTS)
    .join(spaces, spaces.c.space_id == collections.c.space_id)
    .join(resources, resources.c.object_id == collections.c.collection_id)
    .where(
        collections.c.organization_id == ORGANIZATION,
        collections.c.collection_id == param(collections.c.collection_id),
    )
)


def _to_shared(*, grants: Sequence[str] | None, **columns: Any) -> Callable[[Caller], StoredCollection]:
    """Return what makes the collection of its row as a caller sees it, with their role."""

    def as_seen_by(caller: Caller) -> StoredCollection:
        granted = (grant.partition(":") for grant in grants or ())
        acting = {*map(str, caller.principals)}
        roles = [role for role, _, principal_id in granted if principal_id in acting]
        narrowed_to = caller.collection_ids
        is_within = narrowed_to is None or columns["collection_id"] in narrowed_to
        return to_collection(roles=roles if is_within else (), **columns)

    return as_seen_by


def ask_collection(
    batch: Batch, organization_id: UUID, *, collection_id: UUID
) -> Answer[Callable[[Caller], StoredCollection]]:
    """Ask for a collection before it is known who asks: the row is called with the caller."""
    return batch.ask(_COLLECTION, _to_shared, params(organization_id, collection_id=collection_id))
