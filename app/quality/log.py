"""Opinions on searches: counts over time, comments, and repeating a search in every mode."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import streamlit as st

from app import api
from app.lookup import by_id
from app.search.queries import CATALOG
from carrel.wire.common import ResourceIdentifier
from carrel.wire.oversight import AdminAuditLogQueryResponse, Bucket, LoggedSearch, SearchesInBucket
from carrel.wire.search import SearchMode

SHOWN = 5
"""How many results a search that is done again shows in each mode."""


@dataclass(frozen=True)
class Span:
    """A time that is looked back on, in steps."""

    name: str
    days: int
    bucket: Bucket


SPANS: Mapping[str, Span] = {
    "week": Span("7 days", 7, Bucket.DAY),
    "month": Span("30 days", 30, Bucket.DAY),
    "quarter": Span("13 weeks", 91, Bucket.WEEK),
    "year": Span("A year", 364, Bucket.WEEK),
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
        """Return the sum of several periods."""
        return cls(
            sum(one.searches for one in buckets),
            sum(one.without_results for one in buckets),
            sum(one.thumbs_up for one in buckets),
            sum(one.thumbs_down for one in buckets),
        )


def counts(span: Span, *, now: datetime | None = None) -> list[SearchesInBucket]:
    """Return the searches of a span that ends now, in buckets, the first of which may begin earlier."""
    until = now or datetime.now(UTC)
    midnight = until.replace(hour=0, minute=0, second=0, microsecond=0)
    begin = midnight - timedelta(days=span.days - 1)
    if span.bucket is Bucket.WEEK:
        begin -= timedelta(days=begin.weekday())
    return api.client().admin.search_log.summarize(from_=begin, to=until, bucket=span.bucket).buckets


def share(part: int, whole: int) -> str:
    """Return a count with its percentage of the whole; a dash if the whole is zero."""
    if not whole:
        return "–"  # noqa: RUF001 - the dash is meant
    percent = f"{part / whole:.0%}"
    if 0 < part < whole:
        # What is rounded never says that there are none, or nothing else.
        percent = {"0%": "under 1%", "100%": "over 99%"}.get(percent, percent)
    return f"{part:,} ({percent})"


def get_search(address: str) -> LoggedSearch | None:
    """Return the search of this id from the log; None when there is none."""
    return by_id(api.client().admin.search_log.query, address)


def comments_on(search_id: UUID) -> AdminAuditLogQueryResponse:
    """Return the newest feedback on a search; without a text it is only a thumb."""
    listed = api.client().admin.audit_log.query(action="search.feedback", target_id=str(search_id), page_size=50)
    return next(listed.pages())


@dataclass(frozen=True)
class Hit:
    """A document that a search finds, with its best passage."""

    document_id: UUID
    name: str
    external_id: str
    text: str
    resource: ResourceIdentifier | None = None
    """What identifies the document in its source; only searches in the catalog say so."""


def names_of(documents: Iterable[str]) -> dict[str, str]:
    """Return the names of documents by id; none for those that are gone."""
    asked = sorted({one for one in documents if one})
    if not asked:
        return {}
    listed = api.client().admin.access.list_resources(object_ids=asked, page_size=len(asked))
    return {str(one.object_id): one.name for one in listed if one.name}


@st.cache_data(ttl=300, show_spinner=False, scope="session")
def search_again(query: str, *, where: str, mode: SearchMode) -> list[Hit]:
    """Search now, as the signed-in person; return the first few documents, best first.

    Every search is logged; this one is cached, so that drawing the page again adds no more to the log.
    """
    search = api.client().search
    if where == CATALOG:
        found = search.search_document_catalog(query, max_results=SHOWN, mode=mode).results
        return [
            Hit(one.document_id, one.document_name, one.document_external_id, one.snippet.text.strip(), one.resource)
            for one in found
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
