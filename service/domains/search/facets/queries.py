"""SQL of facets: the values by which readable documents are counted."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Text, Uuid, and_, any_, func, literal_column, select

from service.auth.callers import Caller
from service.domains.search.scoring.sql import ORGANIZATION, AnySelect
from service.domains.search.sql import array_of
from service.domains.search.syntax.queries import ending_of_file, time_of_change
from service.permissions.queries import readable_by_parameters, reader_parameters, within_parameters
from service.platform.batches import Answer, Batch
from service.schema.catalog import collections, document_versions, documents
from service.schema.identity import principals, resources
from service.schema.indexing import space_documents


@dataclass(frozen=True, slots=True)
class FacetRow:
    """The kind, owner, year and collections of a found document, counted by facets."""

    document_id: UUID
    kind: str
    owner: str
    owner_name: str
    year: str
    collections: list[str]


def ask_facets(batch: Batch, caller: Caller, *, document_ids: Collection[UUID]) -> Answer[FacetRow]:
    """Read the facet values of these documents in a batch, limited to documents the caller may read now."""
    parameters = {"organization_id": caller.organization_id, "ids": list(document_ids)}
    statement = _select_facets(is_narrowed=caller.collection_ids is not None)
    return batch.ask(statement, FacetRow, parameters | reader_parameters(caller, is_narrowing=True))


@lru_cache(2)
def _select_facets(*, is_narrowed: bool) -> AnySelect:
    version = document_versions.c
    readable = select(resources.c.object_id).where(
        resources.c.organization_id == ORGANIZATION, resources.c.access_class.in_(readable_by_parameters())
    )
    narrowed_to: Any = array_of("narrowed_to", Uuid())
    names = (
        select(func.array_agg(collections.c.name))
        .join(space_documents, space_documents.c.space_id == collections.c.space_id)
        .where(
            space_documents.c.organization_id == ORGANIZATION,
            space_documents.c.document_id == documents.c.document_id,
            collections.c.organization_id == ORGANIZATION,
            collections.c.collection_id.in_(readable),
            *((collections.c.collection_id == any_(narrowed_to),) if is_narrowed else ()),
        )
        .scalar_subquery()
    )
    return (
        select(
            documents.c.document_id,
            func.coalesce(ending_of_file(), func.lower(resources.c.resource_type)).label("kind"),
            func.coalesce(principals.c.email, "").label("owner"),
            principals.c.name.label("owner_name"),
            func.to_char(func.timezone("UTC", time_of_change()), "YYYY").label("year"),
            func.coalesce(names, literal_column("'{}'::text[]", ARRAY(Text()))).label("collections"),
        )
        .join(resources, resources.c.object_id == documents.c.document_id)
        .join(principals, principals.c.principal_id == documents.c.owner_id)
        .join(
            document_versions,
            and_(version.document_id == documents.c.document_id, version.version == documents.c.version),
        )
        .where(
            documents.c.organization_id == ORGANIZATION,
            resources.c.organization_id == ORGANIZATION,
            principals.c.organization_id == ORGANIZATION,
            version.organization_id == ORGANIZATION,
            documents.c.document_id == any_(array_of("ids", Uuid())),
            resources.c.access_class.in_(readable_by_parameters()),
            *((documents.c.document_id.in_(within_parameters()),) if is_narrowed else ()),
        )
    )
