"""Searches that went badly: lists, and repeating one of them in every mode next to its feedback."""

import html
from collections.abc import Iterator
from functools import partial
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.formatting import ago, moment, shorten
from app.quality.judging import judge_address
from app.quality.log import Hit, comments_on, get_search, names_of, search_again
from app.quality.places import UNSEEN, places
from app.search.queries import CATALOG, LONGEST, MODES
from app.ui.errors import problem_of, show_errors
from app.ui.exporting import Export, offer_export
from app.ui.links import address, look_at, offer_way_back, show_link
from app.ui.notices import show_empty, show_heading, show_table, show_text
from app.ui.tables import PAGE_ROWS, Source, show_pages, time_cell
from carrel.wire.oversight import AdminSearchLogQueryResponse, LoggedSearch
from carrel.wire.search import SearchFeedback, SearchMode
from flows.operations.formatting import count_text

_THUMBS = {SearchFeedback.THUMBS_UP: "Thumbs up", SearchFeedback.THUMBS_DOWN: "Thumbs down"}
_ERASED = "(erased)"
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
    names = places()
    show_pages(
        f"searches.{key}",
        Source(fetch, lambda page: page.searches, key),
        row=lambda one: _row(one, names),
        empty=empty,
        columns={unsaid: None},
        go=lambda chosen: look_at("search", chosen.search_id),
        hint="Choose a row to see what was said, and to search again in every mode.",
    )
    offer_export(Export(f"searches-{key}.csv", _HEADS, _lines(fetch, names), key))


_HEADS = ("Searched for", "Search in", "Match by", "Results", "Thumbs", "Who", "When")


def _lines(fetch: "partial[AdminSearchLogQueryResponse]", names: dict[str, str]) -> Iterator[list[list[str]]]:
    """Walk a list for its export, page by page."""
    token: str | None = None
    while True:
        page = fetch(token)
        yield [_line(one, names) for one in page.searches]
        if (token := page.next_page_token) is None:
            return


def _line(search: LoggedSearch, names: dict[str, str]) -> list[str]:
    cells = {**_row(search, names), "When": moment(search.at)}
    return [str(cells[head]) for head in _HEADS]


def _row(search: LoggedSearch, names: dict[str, str]) -> dict[str, object]:
    where = str(search.document_collection_id or CATALOG)
    return {
        "Searched for": search.query if search.query is not None else _ERASED,
        "Search in": names.get(where, UNSEEN),
        "Match by": MODES[search.mode],
        "Results": search.result_count,
        "Thumbs": _THUMBS[search.feedback] if search.feedback is not None else "",
        "Who": search.actor.name,
        "When": time_cell(search.at),
    }


def show_replay(search_id: str) -> None:
    """Show the search of this id: its feedback, and its results now in every mode."""
    offer_way_back("All of these searches", "search")
    search = show_errors(lambda: get_search(search_id))
    if search is None:
        show_empty("This search isn't in the log.", "Its address is wrong.")
        return
    names = places()
    where = str(search.document_collection_id or CATALOG)
    show_heading(
        _ERASED if search.query is None else search.query,
        names.get(where, UNSEEN),
        f"by {MODES[search.mode].lower()}",
        count_text(search.result_count, "result"),
        search.actor.name,
        f"{ago(search.at)} ({moment(search.at)})",
    )
    _offer_actions(search, where)
    _show_comments(search.search_id)
    st.subheader("What it finds now", anchor=False)
    if search.query is None:
        show_text("The query of this search has been erased, so it can't be repeated.")
    elif where not in names:
        show_empty("This collection isn't here.", "It was deleted, or you may not search it.")
    else:
        _search_again(search.query, where)


def _offer_actions(search: LoggedSearch, where: str) -> None:
    """Show links to what can be done about a search that went badly."""
    with st.container(horizontal=True, gap="medium"):
        if search.query is not None:
            show_link("Judge its results", "quality", **judge_address(search.query, where))
        show_link("Add a missing document", "documents")
        show_link("Who can read a document?", "who_can_read")


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
            ago(entry.at),
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
        f'<p class="carrel-facts">{html.escape(hit.external_id)}{_link_to_readers(hit)}</p></article>'
    )


def _link_to_readers(hit: Hit) -> str:
    if hit.resource is None:
        return ""
    where = html.escape(address("who_can_read", resource=f"{hit.resource.resource_type}:{hit.resource.resource_id}"))
    return f' · <a href="{where}" target="_self">Who can read it?</a>'
