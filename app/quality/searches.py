"""Searches that went badly: listed, and one of them done again in every mode beside what was said about it."""

import html
from functools import partial

import streamlit as st

import carrel
from app import api
from app.quality.log import MODES, Hit, comments_on, search_again
from app.search.questions import CATALOG
from app.ui.errors import explain, problem_of
from app.ui.links import offer_way_back, show_link
from app.ui.notices import show_empty, show_heading, show_table, show_text
from app.ui.tables import PAGE_ROWS, Source, show_pages
from app.words import ago, moment
from carrel.wire.admin import AdminSearchLogQueryResponse, LoggedSearch
from carrel.wire.search import SearchFeedback, SearchMode

_THUMBS = {SearchFeedback.THUMBS_UP: "Thumbs up", SearchFeedback.THUMBS_DOWN: "Thumbs down"}
_EXCERPT = 320


def list_without_results() -> None:
    """List the searches that found nothing; one that is chosen is done again."""
    _show_list(
        "without",
        partial(_fetch, without_results=True, feedback=None),
        empty=partial(show_empty, "Every search found something.", "Those that find nothing are listed here."),
        unsaid="Results",
    )


def list_thumbs_down() -> None:
    """List the searches that were given thumbs down; one that is chosen is done again."""
    hint = "Searches that people give thumbs down are listed here, with what they said."
    _show_list(
        "down",
        partial(_fetch, without_results=False, feedback=SearchFeedback.THUMBS_DOWN),
        empty=partial(show_empty, "Nobody has given thumbs down.", hint),
        unsaid="Thumbs",
    )


def _fetch(token: str | None, *, without_results: bool, feedback: SearchFeedback | None) -> AdminSearchLogQueryResponse:
    listed = api.client().admin.search_log.query(
        without_results=without_results, feedback=feedback, page_size=PAGE_ROWS, page_token=token
    )
    return next(listed.pages())


def _show_list(key: str, fetch: "partial[AdminSearchLogQueryResponse]", *, empty: "partial[None]", unsaid: str) -> None:
    """Show one of the lists; `unsaid` is the column that would say the same in every row."""
    places = _places()
    chosen = show_pages(
        f"searches.{key}",
        Source(fetch, lambda page: page.searches, key),
        row=lambda one: _row(one, places),
        empty=empty,
        columns={
            "Searched for": st.column_config.TextColumn(width=220),
            "Exactly": st.column_config.TextColumn(width=160),
            unsaid: None,
        },
    )
    if chosen is not None and chosen.query is not None:
        st.query_params["search"] = str(chosen.search_id)
        st.query_params["q"] = chosen.query
        st.query_params["in"] = str(chosen.document_collection_id or CATALOG)
        st.rerun()
    if chosen is not None:
        show_text("The words of this search have been erased, so it can't be done again.")
    st.caption("Choose a row to see what was said, and to search again in every mode.")


def _places() -> dict[str, str]:
    named = {str(one.document_collection_id): one.collection_name for one in explain(api.collections)}
    return {CATALOG: "The whole catalog", **named}


def _row(search: LoggedSearch, places: dict[str, str]) -> dict[str, object]:
    where = str(search.document_collection_id or CATALOG)
    return {
        "Searched for": search.query if search.query is not None else "(erased)",
        "In": places.get(where, "A collection that you may not search"),
        "By": MODES[search.mode],
        "Results": search.result_count,
        "Thumbs": _THUMBS[search.feedback] if search.feedback is not None else "",
        "Who": search.actor.name,
        "When": ago(search.at),
        "Exactly": moment(search.at),
    }


def show_replay() -> None:
    """Show the search that the address names: what was said about it, and what it finds now in every mode."""
    address = st.query_params
    search_id, query, where = address.get("search", ""), address.get("q", ""), address.get("in", CATALOG)
    offer_way_back("All of these searches", "search", "q", "in")
    places = _places()
    show_heading(query, places.get(where, "A collection that you may not search"))
    _show_comments(search_id)
    st.subheader("What it finds now", anchor=False)
    show_text("As you: what you may read is found, which may be more or less than the person may read who searched.")
    if where not in places:
        show_empty("This collection isn't here.", "It was deleted, or you may not search it.")
        return
    for column, mode in zip(st.columns(len(MODES)), MODES, strict=True):
        with column:
            st.html(f'<p class="carrel-text"><strong>{html.escape(MODES[mode])}</strong></p>')
            _show_found(query, where, mode)
    show_link("Open it in Search", "search", q=query, **({} if where == CATALOG else {"in": where}))


def _show_comments(search_id: str) -> None:
    if not search_id:
        return
    entries = explain(lambda: comments_on(search_id))
    rows = [
        (
            entry.actor.name if entry.actor is not None else "",
            _THUMBS.get(SearchFeedback(entry.details["feedback"]), "") if entry.details.get("feedback") else "",
            entry.text or "No words.",
            f"{ago(entry.at)} ({moment(entry.at)})",
        )
        for entry in entries
    ]
    if rows:
        show_table(rows, heads=("Who", "Thumbs", "What they said", "When"))
    else:
        show_text("Nobody has said anything about it.")


def _show_found(query: str, where: str, mode: SearchMode) -> None:
    try:
        found = search_again(query, where=where, mode=mode)
    except carrel.CarrelError as error:
        problem_of(error).show()
        return
    if not found:
        show_text("Nothing.")
    for number, hit in enumerate(found, 1):
        _show_hit(number, hit)


def _show_hit(number: int, hit: Hit) -> None:
    text = hit.text if len(hit.text) <= _EXCERPT else f"{hit.text[:_EXCERPT].rstrip()} …"
    st.html(
        f'<article class="carrel-result"><h3>{number}. {html.escape(hit.name)}</h3>'
        f'<p class="carrel-passage">{html.escape(text)}</p>'
        f'<p class="carrel-facts">{html.escape(hit.external_id)}</p></article>'
    )
