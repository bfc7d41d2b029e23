"""The worst queries of the last week, by how many people they failed.

They got thumbs down, found nothing, or have words that nothing has: by meaning such a search finds something all the
same, and mostly not what was meant. Only the newest searches of each kind are read, so that a busy week costs no more
than a quiet one.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import streamlit as st

from app import api
from app.formatting import moment, one_line
from app.quality.places import UNSEEN, places
from app.search.queries import CATALOG
from app.ui.errors import show_errors
from app.ui.exporting import Export, offer_export
from app.ui.links import look_at
from app.ui.notices import show_empty, show_note
from app.ui.tables import show_pages, source_of, time_cell
from carrel.wire.oversight import LoggedSearch
from carrel.wire.search import SearchFeedback

DAYS = 7
MOST_READ = 1000
_DOWN_WEIGHT = 3
_HEADS = ("Query", "Search in", "Thumbs down", "Without results", "Words not found", "People", "Last time")


@dataclass(frozen=True)
class BadQuery:
    """A query with how often it went badly; `search` is its newest such search."""

    query: str
    where: str
    down_count: int
    without_count: int
    no_words_count: int
    people_count: int
    search: LoggedSearch

    @property
    def badness(self) -> int:
        """How bad it is: a thumb down tells more than no result or no word, and each person counts once more."""
        return _DOWN_WEIGHT * self.down_count + self.without_count + self.no_words_count + self.people_count


def worst_first(searches: Iterable[LoggedSearch]) -> list[BadQuery]:
    """Group searches by their words and place, whatever the case and spaces, and return the worst first."""
    groups: dict[Hashable, dict[object, LoggedSearch]] = {}
    for one in searches:
        if one.query is not None and one.query.strip():
            key = (" ".join(one.query.lower().split()), one.document_collection_id)
            groups.setdefault(key, {})[one.search_id] = one
    found = [_bad_query(list(group.values())) for group in groups.values()]
    return sorted(found, key=lambda one: (-one.badness, -one.search.at.timestamp(), one.query))


def _bad_query(searches: Sequence[LoggedSearch]) -> BadQuery:
    newest = max(searches, key=lambda one: one.at)
    return BadQuery(
        query=newest.query or "",
        where=str(newest.document_collection_id or CATALOG),
        down_count=sum(one.feedback is SearchFeedback.THUMBS_DOWN for one in searches),
        without_count=sum(one.result_count == 0 for one in searches),
        no_words_count=sum(one.has_words is False and one.result_count > 0 for one in searches),
        people_count=len({one.actor.id for one in searches}),
        search=newest,
    )


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def read_worst() -> tuple[list[BadQuery], bool]:
    """Return the worst queries of the last week, and whether there were more bad searches than were read."""
    since = datetime.now(UTC) - timedelta(days=DAYS)
    query = api.client().admin.search_log.query
    down = next(query(from_=since, feedback=SearchFeedback.THUMBS_DOWN, page_size=MOST_READ).pages())
    without = next(query(from_=since, without_results=True, page_size=MOST_READ).pages())
    no_words = next(query(from_=since, without_words=True, page_size=MOST_READ).pages())
    pages = (down, without, no_words)
    more = any(page.next_page_token is not None for page in pages)
    return worst_first(one for page in pages for one in page.searches), more


def list_worst() -> None:
    """List the worst queries of the last week; choosing one shows it with what can be done."""
    found, more = show_errors(read_worst)
    names = places()
    if more:
        show_note(
            f"Of the newest {MOST_READ:,} searches with thumbs down, without results, and whose words nothing has."
        )
    show_pages(
        "worst",
        source_of(found, about=tuple((one.search.search_id, one.badness) for one in found)),
        row=lambda one: _row(one, names),
        empty=lambda: show_empty(
            "No search went badly in the last seven days.",
            "Those with thumbs down, without results, or of words that nothing has are listed here, the worst first.",
        ),
        columns={
            "Words not found": {"help": "Searches that found something by meaning alone: nothing has their words"}
        },
        go=lambda chosen: look_at("search", chosen.search.search_id),
        hint="Open a query to judge its results, to search again, and to see what is missing.",
    )
    if found:
        about = tuple(one.search.search_id for one in found)
        offer_export(Export("worst-queries.csv", _HEADS, _pages(found, names), about))


def _row(one: BadQuery, names: dict[str, str]) -> dict[str, object]:
    cells = (
        one_line(one.query),
        names.get(one.where, UNSEEN),
        one.down_count,
        one.without_count,
        one.no_words_count,
        one.people_count,
        time_cell(one.search.at),
    )
    return dict(zip(_HEADS, cells, strict=True))


def _pages(found: Sequence[BadQuery], names: dict[str, str]) -> Iterator[list[list[str]]]:
    yield [
        [
            one.query,
            names.get(one.where, UNSEEN),
            *map(str, (one.down_count, one.without_count, one.no_words_count, one.people_count)),
            moment(one.search.at),
        ]
        for one in found
    ]
