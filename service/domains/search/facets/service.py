"""Counts of readable results by kind, collection, owner and year."""

from collections import Counter
from collections.abc import Iterable, Sequence
from uuid import UUID

from carrel.wire.formats import BY_SUFFIX
from carrel.wire.search import Facet, FacetValue
from service.auth.callers import Caller
from service.domains.search.facets.queries import ask_facets
from service.platform.batches import Batch
from service.platform.database import Database

MOST_COUNTED = 200
MOST_VALUES = 20
_NAMES = {
    suffix[1:]: each.name[:1].upper() + each.name[1:] + (f" ({suffix[1:]})" if suffix != each.suffixes[0] else "")
    for suffix, each in BY_SUFFIX.items()
}


async def count_facets(database: Database, caller: Caller, document_ids: Sequence[UUID]) -> tuple[list[Facet], int]:
    """Return the facets of the first `MOST_COUNTED` documents, if readable, and the number of documents counted."""
    batch = Batch()
    answer = ask_facets(batch, caller, document_ids=document_ids[:MOST_COUNTED])
    await database.read(caller.organization_id, batch)
    rows = answer.rows
    facets = [
        _facet("type", ((row.kind, _NAMES.get(row.kind, row.kind.upper())) for row in rows)),
        _facet("in", ((name, name) for row in rows for name in row.collections)),
        _facet("owner", ((row.owner, row.owner_name) for row in rows if row.owner)),
        _facet("year", ((row.year, row.year) for row in rows)),
    ]
    return facets, len(rows)


def _facet(field: str, values: Iterable[tuple[str, str]]) -> Facet:
    counted = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
    found = [FacetValue(value=value, label=label, count=count) for (value, label), count in counted[:MOST_VALUES]]
    return Facet(field=field, values=found)
