"""The metadata values of documents readable by a caller."""

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy import ARRAY, Integer, Text, Uuid, bindparam, case, column, func, literal, select
from sqlalchemy.dialects.postgresql import JSONB

from service.auth.callers import Caller
from service.domains.search.scoring.sql import ORGANIZATION, SPACE, AnySelect
from service.domains.search.sql import array_of
from service.permissions.queries import readable_by_parameters, reader_parameters
from service.platform.batches import Answer, Batch
from service.platform.sql import may_read_index
from service.schema.identity import resources

MOST_DOCUMENTS = 1000
"""The most documents with a value to examine. If the caller may read none of them, the value doesn't count."""

LONGEST_INDEXED = 100
"""Characters of a value for comparison. The index has no longer values, and spelling them takes time."""


class OccurringValue(NamedTuple):
    """A value of a field, and the folded text used to find it."""

    key: str
    field: str
    value: str


def ask_values(
    batch: Batch, caller: Caller, *, space_id: int, keys: Collection[str], fields: Collection[str]
) -> Answer[OccurringValue]:
    """Look up in a batch the values of these fields, in a collection's readable documents, that equal a folded text."""
    parameters = {
        "organization_id": caller.organization_id,
        "space_id": space_id,
        "keys": list(keys),
        "fields": list(fields),
        "most": MOST_DOCUMENTS,
        **reader_parameters(caller, is_narrowing=True),
    }
    return batch.ask(_values(), OccurringValue, parameters)


@lru_cache(1)
def _values() -> AnySelect:
    """Build the statement. A function reads the index past row-level security, only for the organization."""
    usable = may_read_index("documents_with_values", of="space_documents")
    keys = case((usable, array_of("keys", Text())), else_=literal([], ARRAY(Text())))
    columns = (
        column("document_id", Uuid()),
        column("organization_id", Uuid()),
        column("key", Text()),
        column("custom_metadata", JSONB()),
    )
    found = func.documents_with_values(SPACE, keys, bindparam("most", type_=Integer())).table_valued(*columns)
    found = found.alias("found")
    asked = func.unnest(array_of("fields", Text())).table_valued(column("field", Text())).render_derived(name="asked")
    value = found.c.custom_metadata.op("->>", return_type=Text())(asked.c.field)
    occurring = (
        select(found.c.key, asked.c.field, value.label("value"))
        .select_from(found)
        .join(resources, resources.c.object_id == found.c.document_id)
        .join(asked, func.length(value) <= LONGEST_INDEXED)
        .where(
            found.c.organization_id == ORGANIZATION,
            resources.c.organization_id == ORGANIZATION,
            resources.c.access_class.in_(readable_by_parameters()),
        )
        .distinct()
        .cte("occurring")
        .prefix_with("MATERIALIZED")
    )
    return select(occurring).where(func.metadata_key(occurring.c.value) == occurring.c.key)
