"""Bad searches: counts over time, lists, the worst queries, and repeating a search in every mode."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.formatting import ago, browser_zone, days_back, escape, moment, one_line, shorten
from app.lookup import by_id
from app.search.queries import CATALOG, LONGEST, MODES, places
from app.search.results import Result
from app.ui import notices
from app.ui.errors import problem_of, require_found, show_errors
from app.ui.progress import offer_export
from app.ui.tables import ALL_ROWS, Cell, PageAsked, pages_of, show_pages, source_of, time_cell
from carrel import Pager
from carrel.wire.oversight import AdminSearchLogQueryResponse, Bucket, LoggedSearch, SearchesInBucket
from carrel.wire.search import CatalogSearchResult, SearchFeedback, SearchMode
from flows.operations.formatting import count_text

UNSEEN = "A collection that you cannot search"

SHOWN = 5


@dataclass(frozen=True)
class Span:
    name: str
    days: int
    bucket: Bucket


SPANS: Mapping[str, Span] = {
    "week": Span("7 days", 7, Bucket.DAY),
    "month": Span("30 days", 30, Bucket.DAY),
    "quarter": Span("13 weeks", 91, Bucket.WEEK),
    "year": Span("A year", 364, Bucket.WEEK),
}
"""Periods by name in the address."""


def count_searches(span: Span) -> list[SearchesInBucket]:
    """Return the searches of a span that ends now, in buckets. The first bucket may begin earlier."""
    begin = days_back(span.days, monday=span.bucket is Bucket.WEEK)
    summarize = api.client().admin.search_log.summarize
    return summarize(from_=begin, to=datetime.now(UTC), bucket=span.bucket, time_zone=browser_zone().key).buckets


def share(part: int, whole: int) -> str:
    """Return a count with the percentage of the whole; a dash if the whole is zero."""
    if not whole:
        return "–"  # noqa: RUF001 - the dash is meant
    percent = f"{part / whole:.0%}"
    if 0 < part < whole:
        # Rounding must not turn "some" into none or all.
        percent = {"0%": "under 1%", "100%": "over 99%"}.get(percent, percent)
    return f"{part:,} ({percent})"


def names_of(documents: Iterable[str]) -> dict[str, str]:
    """Return the names of documents by id, without deleted documents and empty ids."""
    if not (asked := sorted({document for document in documents if document})):
        return {}
    listed = api.client().admin.access.list_resources(object_ids=asked, page_size=len(asked))
    return {str(resource.object_id): resource.name for resource in listed if resource.name}


@st.cache_data(ttl=300, show_spinner=False, scope="session")
def search_again(query: str, *, where: str, mode: SearchMode) -> Sequence[Result]:
    """Return the first five documents of a new search by the signed-in person. Cached: every search is logged."""
    search = api.client().search
    if where == CATALOG:
        return search.search_document_catalog(query, max_results=SHOWN, mode=mode).results
    look_in = search.search_document_collection
    return look_in(query, document_collection_id=UUID(where), max_chunks=SHOWN * 4, mode=mode).results[:SHOWN]


_THUMBS = {SearchFeedback.THUMBS_UP: "Thumbs up", SearchFeedback.THUMBS_DOWN: "Thumbs down"}
_ERASED = "(erased)"
_EXCERPT = 320
Ask = Callable[[PageAsked], Pager[LoggedSearch, AdminSearchLogQueryResponse]]
REPLIES = {"action": "agent.feedback"}
"""The audit log filter for thumbs on replies."""


def list_without_results() -> None:
    _show_list(
        "without",
        lambda at: api.client().admin.search_log.query(without_results=True, **at),
        empty=partial(notices.show_empty, "Every search found results.", "Searches without results appear here."),
        unsaid="Results",
    )


def list_thumbs_down() -> None:
    show_link_to_replies()
    hint = "Searches with thumbs down appear here, with the comments."
    _show_list(
        "down",
        lambda at: api.client().admin.search_log.query(feedback=SearchFeedback.THUMBS_DOWN, **at),
        empty=partial(notices.show_empty, "No searches have thumbs down.", hint),
        unsaid="Thumbs",
    )


def show_link_to_replies() -> None:
    text = "These are searches. For feedback on replies in Chat, see the audit log"
    notices.show_link(text, "audit_log", **REPLIES)


def _show_list(key: str, ask: Ask, *, empty: Callable[[], None], unsaid: str) -> None:
    names = places()
    show_pages(
        f"searches.{key}",
        pages_of(ask, about=key),
        row=lambda item: _row(item, names),
        empty=empty,
        columns={unsaid: None},
        go=lambda chosen: notices.look_at("search", chosen.search_id),
        hint="Select a row to see its feedback, and to repeat the search in every mode.",
    )
    heads = ("Searched for", "Search in", "Match by", "Results", "Thumbs", "Person", "When")
    pages = ((_export_row(_row(search, names)) for search in page.searches) for page in ask(ALL_ROWS).pages())
    offer_export(f"searches-{key}.csv", heads, pages, about=key)


def _export_row(row: Mapping[str, object]) -> list[str]:
    return [cell.more if isinstance(cell, Cell) else str(cell) for cell in row.values()]


def _row(search: LoggedSearch, names: dict[str, str]) -> dict[str, object]:
    return {
        "Searched for": search.query if search.query is not None else _ERASED,
        "Search in": names.get(_where(search), UNSEEN),
        "Match by": MODES[search.mode],
        "Results": search.result_count,
        "Thumbs": _thumbs_text(search),
        "Person": search.actor.name,
        "When": time_cell(search.at),
    }


def _where(search: LoggedSearch) -> str:
    return str(search.document_collection_id or CATALOG)


def _thumbs_text(search: LoggedSearch) -> str:
    up, down = search.thumbs_up or 0, search.thumbs_down or 0
    if up + down > 1:
        return ", ".join(f"{number:,} {way}" for number, way in ((up, "up"), (down, "down")) if number)
    return _THUMBS[search.feedback] if search.feedback is not None else ""


def show_replay(search_id: str) -> None:
    notices.offer_way_back("All searches", "search")
    find = partial(by_id, api.client().admin.search_log.query, search_id)
    search = require_found(find, "This search is not in the log.", "The URL is wrong.")
    names = places()
    target = _where(search)
    notices.show_heading(
        _ERASED if search.query is None else search.query,
        names.get(target, UNSEEN),
        f"by {MODES[search.mode].lower()}",
        count_text(search.result_count, "result"),
        search.actor.name,
        f"{ago(search.at)} ({moment(search.at)})",
    )
    with st.container(horizontal=True, gap="medium"):
        if search.query is not None:
            place = {} if target == CATALOG else {"in": target}
            notices.show_link("Judge its results", "quality", part="judge", q=search.query, **place)
        notices.show_link("Add a missing document", "documents")
        notices.show_link("Who can read a document?", "who_can_read")
    _show_comments(search.search_id)
    st.subheader("Current results", anchor=False)
    if search.query is None:
        notices.show_text("The query of this search was erased, so you cannot repeat the search.")
    elif target not in names:
        notices.show_empty("This collection is not available.", "It was deleted, or you cannot search it.")
    else:
        _search_again(search.query, target)


def _search_again(query: str, target: str) -> None:
    notices.show_text(
        "Results for you, which may differ from the results of the person who searched. The log lists these "
        "searches as yours, and Over time counts them."
    )
    for column, mode in zip(st.columns(len(MODES)), MODES, strict=True):
        with column:
            st.html(f'<p class="carrel-text"><strong>{escape(MODES[mode])}</strong></p>')
            _show_found(query, target, mode)
    if len(query) <= LONGEST:
        notices.show_link("Open in Search", "search", q=query, **({} if target == CATALOG else {"in": target}))


def _show_comments(search_id: UUID) -> None:
    query = partial(api.client().admin.audit_log.query, action="search.feedback", page_size=1000)
    if not (entries := show_errors(lambda: list(query(target_id=str(search_id))))):
        notices.show_text("No comments.")
        return
    about = [entry.details.get("documentId", "") for entry in entries]
    names = show_errors(lambda: names_of(about)) | {"": "Whole search"}
    rows = [
        (
            author.name if (author := entry.acting_for or entry.actor) else "",
            _THUMBS[SearchFeedback(entry.details["feedback"])],
            names.get(document, "A deleted document"),
            entry.text or "No text.",
            ago(entry.at),
        )
        for entry, document in zip(entries, about, strict=True)
    ]
    notices.show_table(rows, heads=("Person", "Thumbs", "About", "Comments", "When"))


def _show_found(query: str, target: str, mode: SearchMode) -> None:
    try:
        found = search_again(query, where=target, mode=mode)
    except carrel.CarrelError as error:
        problem_of(error).show()
        return
    if not found:
        notices.show_text("Nothing.")
    for number, hit in enumerate(found, 1):
        show_hit(hit, before=f"{number}. ", after=_link_to_readers(hit))


def show_hit(hit: Result, *, before: str = "", after: str = "") -> None:
    passages = [hit.snippet] if isinstance(hit, CatalogSearchResult) else hit.chunks
    text = passages[0].text.strip() if passages else ""
    st.html(
        f'<article class="carrel-result"><h3>{before}{escape(hit.document_name)}</h3>'
        f'<p class="carrel-passage">{escape(shorten(text, _EXCERPT))}</p>'
        f'<p class="carrel-facts">{escape(hit.document_external_id)}{after}</p></article>'
    )


def _link_to_readers(hit: Result) -> str:
    if not isinstance(hit, CatalogSearchResult):
        return ""  # other documents have no identity in the source system
    where = escape(notices.address("who_can_read", resource=f"{hit.resource.resource_type}:{hit.resource.resource_id}"))
    return f' · <a href="{where}" target="_self">Who can read it?</a>'


DAYS = 7
MOST_READ = 1000
_DOWN_WEIGHT = 3


@dataclass(frozen=True)
class BadQuery:
    """A query with the numbers of bad searches and of people, by the column's head; `search` is the newest."""

    search: LoggedSearch
    counts: Mapping[str, int]

    @property
    def badness(self) -> int:
        """Return a weight. A thumb down counts more than missing results or unknown words; each person adds a point."""
        return sum(self.counts.values()) + (_DOWN_WEIGHT - 1) * self.counts["Thumbs down"]


def worst_first(searches: Iterable[LoggedSearch]) -> list[BadQuery]:
    """Group searches, except erased searches, by words and place, ignoring case and spaces, worst first."""
    groups: dict[Hashable, dict[object, LoggedSearch]] = {}
    for search in searches:
        if search.query is not None and search.query.strip():
            key = (" ".join(search.query.lower().split()), search.document_collection_id)
            groups.setdefault(key, {})[search.search_id] = search
    found = [_bad_query(list(group.values())) for group in groups.values()]
    return sorted(found, key=lambda query: (-query.badness, -query.search.at.timestamp(), query.search.query))


def _bad_query(searches: Sequence[LoggedSearch]) -> BadQuery:
    counts = {
        "Thumbs down": sum(search.thumbs_down or search.feedback is SearchFeedback.THUMBS_DOWN for search in searches),
        "Without results": sum(item.result_count == 0 for item in searches),
        "Words not found": sum(item.has_words is False and item.result_count > 0 for item in searches),
        "People": len({item.actor.id for item in searches}),
    }
    return BadQuery(max(searches, key=lambda item: item.at), counts)


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def read_worst() -> tuple[list[BadQuery], bool]:
    """Return last week's worst queries of the newest bad searches of each kind, and whether there were more."""
    since = datetime.now(UTC) - timedelta(days=DAYS)
    query = partial(api.client().admin.search_log.query, from_=since, page_size=MOST_READ)
    asked = (query(feedback=SearchFeedback.THUMBS_DOWN), query(without_results=True), query(without_words=True))
    pages = [next(each.pages()) for each in asked]
    more = any(page.next_page_token is not None for page in pages)
    return worst_first(search for page in pages for search in page.searches), more


def list_worst() -> None:
    found, more = show_errors(read_worst)
    names = places()
    if more:
        notices.show_note(
            f"Based on the newest {MOST_READ:,} searches with thumbs down, without results, or with words not found."
        )
    show_pages(
        "worst",
        source_of(found, about=tuple((query.search.search_id, query.badness) for query in found)),
        row=lambda query: _row_of_query(query, names),
        empty=lambda: notices.show_empty(
            "No problem searches in the last seven days.",
            "Searches with thumbs down, without results, or with words not found appear here, worst first.",
        ),
        columns={"Words not found": {"help": "Results matched by meaning only: no document contains the words"}},
        go=lambda chosen: notices.look_at("search", chosen.search.search_id),
        hint="Select a query to judge its results, repeat the search, and see what is missing.",
    )
    if found:
        about = tuple(query.search.search_id for query in found)
        rows = [{**_row_of_query(query, names), "Query": query.search.query} for query in found]
        offer_export("worst-queries.csv", list(rows[0]), [map(_export_row, rows)], about=about)


def _row_of_query(query: BadQuery, names: dict[str, str]) -> dict[str, object]:
    return {
        "Query": one_line(query.search.query or ""),
        "Search in": names.get(_where(query.search), UNSEEN),
        **query.counts,
        "Last time": time_cell(query.search.at),
    }
