"""SQL of facets: the values by which readable documents are counted."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from sqlalchemy import ARRAY, Text, Uuid, any_, func, literal_column, select

from service.auth.callers import Caller
from service.domains.search.scoring.sql import ORGANIZATION, AnySelect
from service.domains.search.sql import array_of
from service.domains.search.syntax import queries as syntax
from service.domains.search.syntax.queries import is_readable, is_visible_collection
from service.permissions.queries import reader_parameters
from service.platform.batches import Answer, Batch
from service.platform.sql import matches
from service.schema.catalog import collections, document_versions, documents
from service.schema.identity import principals, resources
from service.schema.indexing import space_documents


@dataclass(frozen=True, slots=True)
class FacetRow:
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
    names = (
        select(func.array_agg(collections.c.name))
        .join(space_documents, space_documents.c.space_id == collections.c.space_id)
        .where(matches(space_documents, ORGANIZATION, document_id=documents.c.document_id))
        .where(is_visible_collection(is_narrowed=is_narrowed))
        .scalar_subquery()
    )
    return (
        select(
            documents.c.document_id,
            func.coalesce(syntax.ending_of_file(), func.lower(resources.c.resource_type)).label("kind"),
            func.coalesce(principals.c.email, "").label("owner"),
            principals.c.name.label("owner_name"),
            func.to_char(func.timezone("UTC", syntax.time_of_change()), "YYYY").label("year"),
            func.coalesce(names, literal_column("'{}'::text[]", ARRAY(Text()))).label("collections"),
        )
        .join(resources, resources.c.object_id == documents.c.document_id)
        .join(principals, principals.c.principal_id == documents.c.owner_id)
        .join(document_versions, syntax.is_newest_version())
        .where(
            matches(documents, ORGANIZATION, document_id=any_(array_of("ids", Uuid()))),
            matches(resources, ORGANIZATION),
            matches(principals, ORGANIZATION),
            is_readable(is_narrowed=is_narrowed),
        )
    )
