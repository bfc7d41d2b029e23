"""The person's recent and saved searches, each a click away."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from uuid import UUID

import streamlit as st

from app.auth.current import person_client
from app.formatting import ago, one_line, shorten
from app.search.queries import CATALOG, LONGEST, MODES, Go, SearchQuery, condition_of
from app.ui.errors import keep_problem, show_errors, show_kept_problem
from app.ui.notices import offer_action, show_note
from app.ui.passages import label
from carrel import NotFoundError
from carrel.wire.own_searches import RecentSearch, SavedSearch
from carrel.wire.search import SearchMode

Saved = Mapping[SearchQuery, UUID]

_MOST_RECENT = 8
_MOST_UNFOLDED = 10
_LONGEST_SHOWN = 120
_PROBLEM = "own.problem"
_WITHOUT_READING = "Filters that you set are saved. Reading filters and questions from the text is not saved"


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def _read_saved() -> Saved:
    return {query_of(item): item.saved_search_id for item in person_client().search.list_saved_searches().searches}


def query_of(search: RecentSearch | SavedSearch) -> SearchQuery:
    """Return a past search as a new query, with the filters of a saved search: the log of recent searches has none."""
    only = tuple(map(condition_of, search.metadata_filters)) if isinstance(search, SavedSearch) else ()
    return SearchQuery(search.search_query, str(search.document_collection_id or CATALOG), search.mode, only)


def show_own_searches(places: Mapping[str, str], go: Go) -> None:
    saved = [item for item in show_errors(_read_saved) if _is_available(item, places)]
    listed = show_errors(partial(person_client().search.list_recent_searches, max_searches=_MOST_RECENT)).searches
    recent = [(query, search) for search in listed if _is_available(query := query_of(search), places)]
    left, right = st.columns(2, gap="large")
    with left:
        st.header("Saved searches", anchor=False)
        _show_saved(saved, places, go)
    with right:
        st.header("Recent searches", anchor=False)
        for number, (query, entry) in enumerate(recent):
            _offer(query, places, go, key=f"own.recent.{number}", when=ago(entry.at))
        if not recent:
            show_note("Your searches appear here. This page shows them to nobody else.")


def _is_available(query: SearchQuery, places: Mapping[str, str]) -> bool:
    return query.where in places and len(query.text) <= LONGEST


def _show_saved(saved: Sequence[SearchQuery], places: Mapping[str, str], go: Go) -> None:
    if not saved:
        show_note("Search, and select “Save this search”. Only you can see saved searches.")
    for number, query in enumerate(saved[:_MOST_UNFOLDED]):
        _offer(query, places, go, key=f"own.saved.{number}")
    if more := saved[_MOST_UNFOLDED:]:
        with st.expander(f"{len(more)} more"):
            for number, query in enumerate(more, _MOST_UNFOLDED):
                _offer(query, places, go, key=f"own.saved.{number}")


def _offer(query: SearchQuery, places: Mapping[str, str], go: Go, *, key: str, when: str = "") -> None:
    words = label(shorten(one_line(query.text), _LONGEST_SHOWN))
    facts = [] if query.where == CATALOG else [one_line(places[query.where])]
    facts += [] if query.mode is SearchMode.HYBRID else [MODES[query.mode]]
    facts += [condition.in_words({}) for condition in query.only]
    facts += [when] if when else []
    with st.container(gap=None):
        offer_action(words, go, query, key=key, icon="search", kind="tertiary")
        if facts:
            show_note(" · ".join(facts))


def offer_saving(query: SearchQuery) -> None:
    """Show a button that saves or removes the search. Reading, reranking and order are not saved."""
    reads = query.draws_filters or query.extracts_questions
    query = SearchQuery(query.text, query.where, query.mode, query.only)
    is_saved = query in show_errors(_read_saved)
    words, icon, do = ("Saved", "bookmark_added", _delete) if is_saved else ("Save this search", "bookmark_add", _save)
    hint = "Remove from saved searches" if is_saved else _WITHOUT_READING if reads else None
    offer_action(words, do, query, key="own.save", icon=icon, kind="tertiary", hint=hint)
    show_kept_problem(_PROBLEM)


def _save(query: SearchQuery) -> None:
    filters = [{"field": item.field, "operator": item.operator, "value": item.value} for item in query.only]
    collection = None if query.where == CATALOG else query.where
    with keep_problem(_PROBLEM):
        person_client().search.save_search(
            query.text, document_collection_id=collection, mode=query.mode, metadata_filters=filters
        )
    _read_saved.clear()


def _delete(query: SearchQuery) -> None:
    """Remove a saved search. Do nothing if a click in another window has already removed it."""
    with keep_problem(_PROBLEM), suppress(NotFoundError, KeyError):
        person_client().search.delete_saved_search(_read_saved()[query])
    _read_saved.clear()
