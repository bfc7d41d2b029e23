"""The statement of a collection with everybody's roles in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select

from service.auth.callers import Caller
from service.domains.collections.queries import StoredCollection, to_collection
from service.platform.batches import Answer, Batch
from service.platform.sql import ORGANIZATION, columns_of, param, params
from service.schema.collections import collections
from service.schema.indexing import spaces
from service.schema.permissions import class_readers, resources


@dataclass(frozen=True, slots=True)
class SharedCollection:
    """A collection before it is known who asks for it, with everybody's roles: `role:principal id`."""

    collection_id: UUID
    space_id: int
    name: str
    model: str
    dimensions: int
    distance_metric: str
    schema_fields: Sequence[Mapping[str, str]]
    created_at: datetime
    grants: Sequence[str] | None

    def as_seen_by(self, caller: Caller) -> StoredCollection:
        """Return the collection with the caller's role in it."""
        granted = (grant.partition(":") for grant in self.grants or ())
        acting = {*map(str, caller.principals)}
        roles = [role for role, _, principal_id in granted if principal_id in acting]
        columns = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "grants"}
        return to_collection(roles=roles, **columns)


_GRANTS = (
    select(func.array_agg(func.concat(class_readers.c.role, ":", class_readers.c.principal_id)))
    .where(class_readers.c.organization_id == ORGANIZATION, class_readers.c.access_class == resources.c.access_class)
    .scalar_subquery()
    .label("grants")
)
_COLLECTION = (
    select(*columns_of(collections, SharedCollection, spaces.c.model, spaces.c.dimensions, _GRANTS))
    .join(spaces, spaces.c.space_id == collections.c.space_id)
    .join(resources, resources.c.object_id == collections.c.collection_id)
    .where(
        collections.c.organization_id == ORGANIZATION,
        collections.c.collection_id == param(collections.c.collection_id),
    )
)


def ask_collection(batch: Batch, organization_id: UUID, *, collection_id: UUID) -> Answer[SharedCollection]:
    """Ask for a collection, whoever asks: its roles come with it."""
    return batch.ask(_COLLECTION, SharedCollection, params(organization_id, collection_id=collection_id))
