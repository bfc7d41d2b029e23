"""Where a search was, in words."""

from app import api
from app.search.queries import CATALOG
from app.ui.errors import show_errors

UNSEEN = "A collection that you may not search"


def places() -> dict[str, str]:
    """Return the names of the catalog and of the collections that the person may search, by their keys."""
    named = {str(one.document_collection_id): one.collection_name for one in show_errors(api.collections)}
    return {CATALOG: "The whole catalog", **named}
