"""Searches that went badly: lists, and repeating one of them in every mode next to its feedback."""

import html
from functools import partial
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.formatting import ago, moment, shorten
from app.quality.log import Hit, comments_on, get_search, names_of, search_again
from app.search.queries import CATALOG, LONGEST, MODES
from app.ui.errors import problem_of, show_errors
from app.ui.links import look_at, offer_way_back, show_link
from app.ui.notices import show_empty, show_heading, show_table, show_text
from app.ui.tables import PAGE_ROWS, Source, show_pages, time_cell
from carrel.wire.oversight import AdminSearchLogQueryResponse, LoggedSearch
from carrel.wire.search import SearchFeedback, SearchMode
from flows.operations.formatting import count_text

_THUMBS = {SearchFeedback.THUMBS_UP: "Thumbs up", SearchFeedback.THUMBS_DOWN: "Thumbs down"}
_ERASED, _UNSEEN = "(erased)", "A collection that you may not search"
_EXCERPT = 320
REPLIES = {"action": "agent.feedback"}
"""What the audit log is narrowed to for the thumbs that replies were given."""


def list_without_results() -> None:
    """List the searches without results; choosing one repeats it."""
    _show_list(
        "without",
        partial(_fetch, without_results=True, feedback=None),
        empty=partial(show_empty, "Every search found something.", "Those that find nothing are listed here."),
        unsaid="Results",
    )


def list_thumbs_down() -> None:
    """List the searches with thumbs down; choosing one repeats it."""
    show_link_to_replies()
    hint = "Searches that people give thumbs down are listed here, with what they said."
    _show_list(
        "down",
        partial(_fetch, without_results=False, feedback=SearchFeedback.THUMBS_DOWN),
        empty=partial(show_empty, "No search has been given thumbs down.", hint),
        unsaid="Thumbs",
    )


def show_link_to_replies() -> None:
    """Show a link to the thumbs for agents' replies, which the search log doesn't have."""
    show_link("This is about searches. What people thought of replies in Chat: the audit log", "audit_log", **REPLIES)


def _fetch(token: str | None, *, without_results: bool, feedback: SearchFeedback | None) -> AdminSearchLogQueryResponse:
    listed = api.client().admin.search_log.query(
        without_results=without_results, feedback=feedback, page_size=PAGE_ROWS, page_token=token
    )
    return next(listed.pages())


def _show_list(key: str, fetch: "partial[AdminSearchLogQueryResponse]", *, empty: "partial[None]", unsaid: str) -> None:
    """Show one of the lists, without the column `unsaid`, which would be equal in every row."""
    places = _places()
    show_pages(
        f"searches.{key}",
        Source(fetch, lambda page: page.searches, key),
        row=lambda one: _row(one, places),
        empty=empty,
        columns={unsaid: None},
        go=lambda chosen: look_at("search", chosen.search_id),
        hint="Choose a row to see what was said, and to search again in every mode.",
    )


def _places() -> dict[str, str]:
    named = {str(one.document_collection_id): one.collection_name for one in show_errors(api.collections)}
    return {CATALOG: "The whole catalog", **named}


def _row(search: LoggedSearch, places: dict[str, str]) -> dict[str, object]:
    where = str(search.document_collection_id or CATALOG)
    return {
        "Searched for": search.query if search.query is not None else _ERASED,
        "In": places.get(where, _UNSEEN),
        "By": MODES[search.mode],
        "Results": search.result_count,
        "Thumbs": _THUMBS[search.feedback] if search.feedback is not None else "",
        "Who": search.actor.name,
        "When": time_cell(search.at),
    }


def show_replay(address: str) -> None:
    """Show the search of this id: its feedback, and its results now in every mode."""
    offer_way_back("All of these searches", "search")
    search = show_errors(lambda: get_search(address))
    if search is None:
        show_empty("This search isn't in the log.", "Its address is wrong.")
        return
    places = _places()
    where = str(search.document_collection_id or CATALOG)
    show_heading(
        _ERASED if search.query is None else search.query,
        places.get(where, _UNSEEN),
        f"by {MODES[search.mode].lower()}",
        count_text(search.result_count, "result"),
        search.actor.name,
        f"{ago(search.at)} ({moment(search.at)})",
    )
    _show_comments(search.search_id)
    st.subheader("What it finds now", anchor=False)
    if search.query is None:
        show_text("The query of this search has been erased, so it can't be repeated.")
    elif where not in places:
        show_empty("This collection isn't here.", "It was deleted, or you may not search it.")
    else:
        _search_again(search.query, where)


def _search_again(query: str, where: str) -> None:
    show_text(
        "As you: what you may read is found, which may be more or less than the person may read who searched. These "
        "searches stand in the log as yours, and count under Over time."
    )
    for column, mode in zip(st.columns(len(MODES)), MODES, strict=True):
        with column:
            st.html(f'<p class="carrel-text"><strong>{html.escape(MODES[mode])}</strong></p>')
            _show_found(query, where, mode)
    if len(query) <= LONGEST:
        show_link("Open it in Search", "search", q=query, **({} if where == CATALOG else {"in": where}))


def _show_comments(search_id: UUID) -> None:
    page = show_errors(lambda: comments_on(search_id))
    if not page.entries:
        show_text("Nobody has said anything about it.")
        return
    about = [entry.details.get("documentId", "") for entry in page.entries]
    names = show_errors(lambda: names_of(about)) | {"": "All of it"}
    rows = [
        (
            author.name if (author := entry.acting_for or entry.actor) else "",
            _THUMBS[SearchFeedback(entry.details["feedback"])],
            names.get(document, "A document that is gone"),
            entry.text or "No text.",
            f"{ago(entry.at)} ({moment(entry.at)})",
        )
        for entry, document in zip(page.entries, about, strict=True)
    ]
    show_table(rows, heads=("Who", "Thumbs", "About", "What they said", "When"))
    if page.next_page_token is not None:
        show_text("These are the newest; the audit log has all.")


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
    st.html(
        f'<article class="carrel-result"><h3>{number}. {html.escape(hit.name)}</h3>'
        f'<p class="carrel-passage">{html.escape(shorten(hit.text, _EXCERPT))}</p>'
        f'<p class="carrel-facts">{html.escape(hit.external_id)}</p></article>'
    )
