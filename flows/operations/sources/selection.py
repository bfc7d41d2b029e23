"""Documents chosen from the catalog as `catalog://GLOB?field=value`, for a collection. GLOB matches external ids (`*`
also slashes, no GLOB all), or is a document's id. All fields must match; a repeated field matches either value."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Self
from urllib.parse import parse_qs, unquote

from carrel import AsyncCarrel
from carrel.wire.catalog import Document
from flows.errors import SourceError
from flows.operations.outages import OutagePolicy, walk_pages
from flows.operations.sources.documents import Defaults, SourceItem, document_at

SCHEME = "catalog://"
_PAGE = 1000


def is_selection(source: str) -> bool:
    return source.startswith(SCHEME)


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions on the external id, the id, and the custom metadata of documents."""

    pattern: str
    metadata: Mapping[str, list[str]]

    @classmethod
    def read(cls, source: str) -> Self:
        """Parse a source; SourceError when the part after its question mark isn't field=value."""
        pattern, _, query = source.removeprefix(SCHEME).partition("?")
        try:
            metadata = parse_qs(query, keep_blank_values=True, strict_parsing=bool(query))
        except ValueError as exc:
            msg = f"{source}: write metadata conditions as {SCHEME}reports/*?team=ferries&year=2026"
            raise SourceError(msg) from exc
        return cls(unquote(pattern) or "*", metadata)

    def takes(self, document: Document) -> bool:
        has_id = self.pattern.lower() == str(document.document_id)
        named = has_id or fnmatchcase(document.document_external_id, self.pattern)
        has = document.custom_metadata
        return named and all(has.get(field) in values for field, values in self.metadata.items())


async def select_documents(
    client: AsyncCarrel, source: str, *, defaults: Defaults, outages: OutagePolicy
) -> AsyncGenerator[list[SourceItem]]:
    """Yield the chosen documents of the catalog that the caller may read, a page at a time."""
    selection, listed = Selection.read(source), client.catalog.list_documents
    async for page in walk_pages(outages, lambda token: listed(page_size=_PAGE, page_token=token)):
        chosen = ((document, document.document_external_id) for document in page.documents if selection.takes(document))
        yield [
            replace(document_at(name, name, defaults), name=item.document_name, file_name=item.file_name)
            for item, name in chosen
        ]
