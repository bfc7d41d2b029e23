"""The Search page: searching the catalog or a collection, and feedback."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import Any
from uuid import UUID

import streamlit as st

from app import api
from app.chat import conversations
from app.documents.sections import show_details
from app.home import has_documents, show_home, show_nothing_to_find
from app.search import queries
from app.search.own import offer_saving, show_own_searches
from app.search.preview import preview_result
from app.search.results import Documents, Result, documents_of, matched_in, relevance_of, show_result
from app.search.signs import offer_order, show_facets, show_reading
from app.ui.errors import show_errors
from app.ui.feedback import about_search, offer_feedback, show_failure
from app.ui.notices import offer_action, show_help, show_note, show_problem, show_title, show_warning
from app.ui.preview import show_preview
from app.ui.progress import show_skeletons
from carrel.wire.collections import DocumentCollection
from carrel.wire.search import CatalogSearchResult, ResultOrder, SearchDocumentCatalogResponse, SearchMode, count_strong

_OPEN, _DETAILS = "search.open", "search.details"
_READS = (
    "In a collection, conditions in the text become filters that you can remove, such as *finance reports "
    "since March 2025* if a field has dates. If you paste a long message, Carrel searches for the questions "
    "in it."
)


def ask() -> queries.SearchQuery | None:
    """Show the form, filled from the page's address, and return the query; None without a query."""
    collections = _collections_by_id()
    places = queries.places()
    address = _address_now()
    state = st.session_state
    # A new address, by opening a page or going back, fills the form. Streamlit forgets fields that a run has not drawn,
    # such as a run that ended with an error.
    if state.get("address") != address or not {"words", "place", "mode"} <= state.keys():
        wanted = queries.SearchQuery.from_address(address)
        state["words"] = wanted.text
        state["place"] = wanted.where if wanted.where in places else queries.CATALOG
        state["mode"] = wanted.mode
        state["reads"] = wanted.draws_filters or wanted.extracts_questions
        state["reranks"] = bool(api.me().reranks_by_default) if wanted.reranks is None else wanted.reranks
        state["address"] = address
    elif state["place"] not in places:
        state["place"] = queries.CATALOG
    show_fields(places, collections)
    if (length := len(_words_now())) > queries.LONGEST:
        show_problem(f"This question has {length:,} characters.", f"Use at most {queries.LONGEST:,} characters.")
        return None
    question = queries.SearchQuery.from_address(_address_now())
    if question.where not in places:
        show_warning("The collection in the URL is not available.", "Choose where to search, and search again.")
        return None
    is_asked = bool(question.text.strip())
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="search-line"):
        queries.offer_conditions(question, collections.get(question.where), go)
        if is_asked:
            offer_order(question, go)
            offer_saving(question)
    return question if is_asked else None


def _collections_by_id() -> dict[str, DocumentCollection]:
    return {str(found.document_collection_id): found for found in show_errors(api.collections)}


def show_fields(places: Mapping[str, str], collections: Mapping[str, DocumentCollection]) -> None:
    """Show the form and the search options below, which search at once. The values are in the session."""
    again: Any = {"on_change": submit, "args": (collections,)}
    with st.form("question", border=False):
        words, do = st.columns([5, 1])
        words.text_input("Search", key="words", placeholder="What are you looking for?", label_visibility="collapsed")
        do.form_submit_button("Search", type="primary", width="stretch", on_click=submit, args=(collections,))
    _offer_options(queries.SearchQuery.from_address(_address_now()))
    fields, switches = st.container(key="search-how").columns([3, 2], vertical_alignment="bottom")
    left, right = fields.columns(2)
    left.selectbox("Search in", list(places), key="place", format_func=lambda key: places[key], **again)
    right.segmented_control(
        "Match by",
        list(queries.MODES),
        key="mode",
        format_func=lambda mode: queries.MODES[mode],
        required=True,
        **again,
    )
    if collections:
        switches.toggle("Read filters and questions from the text", key="reads", help=_READS, **again)
    if api.me().reranks_by_default is not None:
        switches.toggle("Rerank the best results", key="reranks", **again)


def _offer_options(question: queries.SearchQuery) -> None:
    """On a phone, show a button for unfolding options, filters and order, with the number set."""
    is_open, usual = bool(st.session_state.get(_OPEN)), queries.SearchQuery("")
    chosen = len(question.only) + len(question.drawn)
    chosen += sum(getattr(question, each) != getattr(usual, each) for each in ("where", "mode", "order", "reranks"))
    with st.container(key=f"search-options-{'open' if is_open else 'folded'}"):
        label = f"Filters and order ({chosen})" if chosen else "Filters and order"
        offer_action(label, st.session_state.update, {_OPEN: not is_open}, key="search-options", icon="tune")


def _address_now() -> dict[str, list[str]]:
    return {name: st.query_params.get_all(name) for name in st.query_params}


def _words_now() -> str:
    return str(st.session_state.get("words") or "").strip()


def submit(collections: Mapping[str, DocumentCollection]) -> None:
    """Search for the form's text with the applicable conditions. A text over the limit stays in the form."""
    if len(_words_now()) > queries.LONGEST:
        return
    state = st.session_state
    before = queries.SearchQuery.from_address(_address_now())
    only, words, place = before.only, _words_now(), state.get("place", before.where)
    if (collection := collections.get(place)) is not None:
        kinds = queries.kinds_of(collection)
        only = tuple(condition for condition in only if condition.field in kinds)
    # A quick Enter arrives before the browser has sent the choice.
    reads = bool(state.get("reads")) and collection is not None
    # Removed filters stay removed while the question is the same.
    is_same = (words, place) == (before.text, before.where)
    keeps_drawn = is_same and reads and before.extracts_questions
    by_default = api.me().reranks_by_default
    reranks = bool(state.get("reranks", by_default))
    go(
        queries.SearchQuery(
            words,
            place,
            state.get("mode") or before.mode,
            only,
            before.draws_filters if keeps_drawn else reads,
            reads,
            None if by_default in {None, reranks} else reranks,
            before.drawn if keeps_drawn else (),
            is_literal=is_same and before.is_literal,
            order=ResultOrder.RELEVANCE if collection else before.order,
        )
    )


def go(question: queries.SearchQuery) -> None:
    """Put a query into the page's address, and drop the cached answer: access may have changed."""
    st.query_params.from_dict(question.address())
    st.session_state["address"] = question.address()
    st.session_state.pop("answer", None)
    conversations.read_again()


def open_search(question: queries.SearchQuery) -> None:
    """Put a query into the page's address, as `go` does, and make the form show it."""
    go(question)
    del st.session_state["address"]


@dataclass(frozen=True)
class Found:
    """The answer to a query, with at most `size` results, and the documents."""

    question: queries.SearchQuery
    answer: queries.Answer
    size: int
    documents: Documents


def find(question: queries.SearchQuery) -> Found:
    """Return the results of a query, cached in the session until the next query; after Show more, a larger number."""
    kept: Found | None = st.session_state.get("answer")
    if kept is None or kept.question != question:
        kept = ask_service(question, queries.SIZES[0])
    elif st.session_state.pop("more", False):
        kept = ask_service(question, next((size for size in queries.SIZES if size > kept.size), queries.SIZES[-1]))
    st.session_state["answer"] = kept
    return kept


def ask_service(question: queries.SearchQuery, size: int) -> Found:
    """Search, with outlines until the results and their documents arrive. An error ends the page's run."""
    with show_skeletons("Searching …", count=3):
        kinds = queries.kinds_of(_collections_by_id().get(question.where))
        answer = show_errors(lambda: queries.search(question, kinds, size=size))
        return Found(question, answer, size, show_errors(lambda: documents_of(answer, question.like)))


def _show(found: Found, result: Result) -> None:
    about = about_search(found.answer.search_id, result.document_id)
    with st.container(border=True, key=about.key("result"), gap="xxsmall"):
        document = found.documents.get(result.document_id)
        show_result(found.answer, result, document=document, question=found.question)
        with st.container(horizontal=True, vertical_alignment="center"):
            offer_feedback(about)
            if st.button("Details", key=about.key("details"), type="tertiary", icon=":material/info:"):
                st.session_state[_DETAILS] = True
                show_details(result.document_id)
            if found.question.where == queries.CATALOG:
                alike = replace(found.question, like=result.document_id, order=ResultOrder.RELEVANCE)
                key = about.key("like")
                offer_action("More like this", open_search, alike, key=key, icon="manage_search", kind="tertiary")
        show_failure(about)


def _show_no_results(found: queries.Answer, question: queries.SearchQuery) -> None:
    if not show_errors(has_documents):
        show_nothing_to_find()
        return
    tries = ["other words"]
    if question.mode is SearchMode.LEXICAL:
        tries.append("a hybrid search")
    if question.only or question.drawn:
        tries.append("fewer filters")
    if question.where != queries.CATALOG:
        tries.append("the whole catalog")
    *others, last = tries
    advice = f"{', '.join(others)} or {last}" if others else last
    st.info(f"No results. Try {advice}.")
    about = about_search(found.search_id)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.html('<p class="carrel-text">Did that help?</p>', width="content")
        offer_feedback(about)
    show_failure(about)


def _offer_more(found: Found) -> None:
    results = found.answer.results
    shown = sum(1 if isinstance(result, CatalogSearchResult) else len(result.chunks) for result in results)
    if shown >= found.size and found.size < queries.SIZES[-1]:
        offer_action("Show more", lambda: st.session_state.update(more=True))


def page() -> None:
    st.session_state.pop(_DETAILS, None)
    is_home = show_errors(api.me).is_admin and not st.query_params.get("q", "").strip()
    show_title("Home" if is_home else "Search", "Search documents that you can read, by words and by meaning.")
    question = ask()
    if question is None:
        st.caption("Enter a question, name, number or phrase.")
        show_home()
        show_own_searches(queries.places(), open_search)
        if (me := api.me()).is_admin and me.reranks_by_default is None:
            show_help(queries.HOW_TO_RERANK, "running#reranking")
        conversations.choose_search_agent()
        return
    found = find(question)
    answer, results = found.answer, found.answer.results
    queries.show_applied(answer, question, queries.kinds_of(_collections_by_id().get(question.where)), go)
    show_reading(answer, question, found.documents, open_search)
    if (reranking := answer.applied.reranking) is not None:
        show_note(reranking.note or f"A reranking model ordered the best {reranking.candidate_count:,} results.")
    if not results:
        _show_no_results(answer, question)
        return
    place = "" if question.where == queries.CATALOG else queries.places().get(question.where, "")
    show_answer = _make_room_for_answer(found)
    # On a wide screen, results, facets and the preview stand side by side; on a phone, facets under the results.
    left, beside = st.columns([3, 2], gap="medium")
    with left:
        in_catalog = answer if isinstance(answer, SearchDocumentCatalogResponse) else None
        facets = [facet for facet in (in_catalog and in_catalog.facets) or () if len(facet.values) > 1]
        listed, narrowing = st.columns([3, 1], gap="medium") if facets else (st.container(), None)
        if narrowing is not None and in_catalog is not None:
            with narrowing:
                show_facets(facets, in_catalog.facets_counted or 0, question, open_search)
        with listed:
            first = _show_results(found)
    with beside, st.container(key="preview"):
        read = partial(preview_result, answer, question, found.documents, place)
        show_preview(f"preview-{answer.search_id}", read, first=first)
    show_answer()


def _make_room_for_answer(found: Found) -> Callable[[], None]:
    """Reserve space above the results for an agent's answer, unless the search is narrower than an agent's."""
    question, syntax = found.question, found.answer.applied.syntax
    if question.where != queries.CATALOG or question.only or question.like or (syntax and syntax.signs):
        return lambda: None
    return conversations.make_room(question.text, is_busy=lambda: _DETAILS in st.session_state)


def _show_results(found: Found) -> UUID | None:
    """Show the results, less relevant results folded. Return the document of the first unfolded result."""
    results, mode = found.answer.results, found.question.mode
    matched = [matched_in(result) for result in results]
    if found.question.order is ResultOrder.RELEVANCE:
        has_words = [bool(item.words) for item in matched]
        strong = count_strong([relevance_of(result) for result in results], has_words, mode)
        wants_words = bool(found.answer.applied.missing_words) and mode is SearchMode.HYBRID
        is_shown = [number < strong and (words or not wants_words) for number, words in enumerate(has_words)]
    else:
        is_shown = [bool(item.describe()) for item in matched]
    for result in compress(results, is_shown):
        _show(found, result)
    first = next((result.document_id for result in compress(results, is_shown)), None)
    folded = [result for result, is_one in zip(results, is_shown, strict=True) if not is_one]
    if not folded:
        _offer_more(found)
        return first
    # With a key, the expander stays open while its label changes with the number.
    title = "Less relevant" if any(is_shown) else "Closest in meaning"
    with st.expander(f"{title} ({len(folded)})", key="less_relevant"):
        for result in folded:
            _show(found, result)
        _offer_more(found)
    return first


page()
