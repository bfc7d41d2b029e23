"""What people thought of searches: counts over time, comments, and a search done again in every mode."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from app import api
from app.search.questions import CATALOG
from carrel.wire.admin import AuditEntry
from carrel.wire.oversight import Bucket, SearchesInBucket
from carrel.wire.search import SearchMode

MODES: Mapping[SearchMode, str] = {
    SearchMode.HYBRID: "Words and meaning",
    SearchMode.LEXICAL: "Words",
    SearchMode.SEMANTIC: "Meaning",
}
SHOWN = 5
"""How many results a search that is done again shows in each mode."""


@dataclass(frozen=True)
class Span:
    """A time that is looked back on, in steps."""

    name: str
    days: int
    bucket: Bucket


SPANS: Mapping[str, Span] = {
    "month": Span("The last 30 days, by day", 30, Bucket.DAY),
    "quarter": Span("The last 13 weeks, by week", 91, Bucket.WEEK),
    "year": Span("The last year, by week", 364, Bucket.WEEK),
}
"""What the address says, and what it means."""


@dataclass(frozen=True)
class Totals:
    """All searches of a time together."""

    searches: int
    without_results: int
    thumbs_up: int
    thumbs_down: int

    @classmethod
    def of(cls, buckets: Sequence[SearchesInBucket]) -> "Totals":
        """Add them up."""
        return cls(
            sum(one.searches for one in buckets),
            sum(one.without_results for one in buckets),
            sum(one.thumbs_up for one in buckets),
            sum(one.thumbs_down for one in buckets),
        )


def counts(span: Span, *, now: datetime | None = None) -> list[SearchesInBucket]:
    """Return the searches of a time that ends now, step by step; a first week is a whole one."""
    until = now or datetime.now(UTC)
    midnight = until.replace(hour=0, minute=0, second=0, microsecond=0)
    begin = midnight - timedelta(days=span.days - 1)
    if span.bucket is Bucket.WEEK:
        begin -= timedelta(days=begin.weekday())
    return api.client().admin.search_log.summarize(from_=begin, to=until, bucket=span.bucket).buckets


def share(part: int, whole: int) -> str:
    """Return a part in percent; a dash where there is nothing to be a part of."""
    return f"{part / whole:.0%}" if whole else "–"  # noqa: RUF001 - the dash is meant


def comments_on(search_id: str) -> list[AuditEntry]:
    """Return what was said about a search, newest first; without words, it is a thumb alone."""
    page = next(api.client().admin.audit_log.query(action="search.feedback", target_id=search_id, page_size=50).pages())
    return page.entries


@dataclass(frozen=True)
class Hit:
    """A document that a search finds, and the words of it that answer best."""

    document_id: UUID
    name: str
    external_id: str
    text: str


def search_again(query: str, *, where: str, mode: SearchMode) -> list[Hit]:
    """Search now, as the person who looks; return the first few documents, best first."""
    search = api.client().search
    if where == CATALOG:
        found = search.search_document_catalog(query, max_results=SHOWN, mode=mode).results
        return [
            Hit(one.document_id, one.document_name, one.document_external_id, one.snippet.text.strip()) for one in found
        ]
    inside = search.search_document_collection(
        query, document_collection_id=UUID(where), max_chunks=SHOWN * 4, mode=mode
    )
    return [
        Hit(
            one.document_id,
            one.document_name,
            one.document_external_id,
            one.chunks[0].text.strip() if one.chunks else "",
        )
        for one in inside.results[:SHOWN]
    ]
