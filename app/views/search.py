"""Search the catalog or a collection, as yourself or as anybody, and say whether it helped."""

from uuid import UUID

import streamlit as st

from app import api
from app.questions import CATALOG, Answer, Question, search
from app.ui.errors import escaped, explained
from app.ui.passages import STYLE, marked, marked_terms
from carrel.wire.search import (
    CatalogSearchResult,
    CollectionSearchResult,
    SearchDocumentCollectionResponse,
    SearchFeedback,
    SearchMode,
)

MODES = {"Words and meaning": SearchMode.HYBRID, "Words": SearchMode.LEXICAL, "Meaning": SearchMode.SEMANTIC}


def ask() -> Question | None:
    """Show the form, filled from the page's address, and return the question once there is one."""
    wanted = st.query_params
    with explained():
        places = {CATALOG: "The whole catalog", **dict(api.collections())}
        names = dict(api.people())
    where = wanted.get("in", CATALOG)
    with st.form("question", border=False):
        words, go = st.columns([7, 1])
        text = words.text_input(
            "Search", value=wanted.get("q", ""), placeholder="What are you looking for?", label_visibility="collapsed"
        )
        left, middle, right = st.columns([3, 4, 3])
        place = left.selectbox(
            "In",
            list(places),
            index=list(places).index(where) if where in places else 0,
            format_func=lambda key: places[key],
        )
        mode = middle.segmented_control("By", list(MODES), default=next(iter(MODES)), required=True)
        person = right.selectbox(
            "As",
            [None, *names],
            format_func=lambda email: names[email] if email else "The admin (you)",
            help="See exactly what this person would find.",
        )
        go.form_submit_button("Search", type="primary", width="stretch")
    if not text.strip():
        return None
    st.query_params.update({"q": text, "in": place})
    return Question(text=text.strip(), where=place, mode=MODES[mode], person=person)


def answer(question: Question) -> Answer:
    """Return the question's answer, kept for the session until another question is asked."""
    kept = st.session_state.get("answer")
    if kept is None or kept[0] != question:
        with st.spinner("Searching …"), explained():
            kept = (question, search(question))
        st.session_state["answer"] = kept
    return kept[1]


def show_catalog_result(result: CatalogSearchResult) -> None:
    """Show a document with the passage that answers best."""
    heading(result.document_name, result.document_external_url, result.score)
    st.html(marked(result.snippet.text, result.snippet.matches))
    st.caption(escaped(f"{result.document_external_id} · changed {result.updated_at:%d %B %Y}"))


def show_collection_result(result: CollectionSearchResult, terms: list[str]) -> None:
    """Show a document with its chunks, best first."""
    heading(result.document_name, result.document_url, result.chunks[0].score)
    for chunk in result.chunks:
        st.html(marked_terms(chunk.text, terms))
    facts = " · ".join(f"{key}: {value}" for key, value in result.document_metadata.items())
    st.caption(escaped(f"{result.document_external_id} · {facts}" if facts else result.document_external_id))


def heading(name: str, url: str | None, score: float) -> None:
    """Show a result's name, which opens its source where it has one, and how well it fits."""
    left, right = st.columns([5, 1], vertical_alignment="center")
    left.markdown(f"**[{escaped(name)}](<{url}>)**" if url and web_address(url) else f"**{escaped(name)}**")
    right.progress(min(max(score, 0.0), 1.0), text=f"{score:.0%}")


def web_address(url: str) -> bool:
    """Tell whether a link may be offered: a web address without characters that could end it early."""
    return url.lower().startswith(("https://", "http://")) and not set(url) & set('<>"` \n')


def feedback(search_id: UUID, document_id: UUID, person: str | None) -> None:
    """Offer thumbs and a comment for one result; each is sent once and kept on the audit log."""
    key = f"{search_id}-{document_id}"
    thumbs, note = st.columns([1, 6], vertical_alignment="center")
    choice = thumbs.feedback("thumbs", key=f"thumb-{key}")
    if choice is None:
        return
    kind = SearchFeedback.THUMBS_UP if choice else SearchFeedback.THUMBS_DOWN
    if st.session_state.get(f"sent-{key}") != choice:
        send(search_id, document_id, kind, person=person)
        st.session_state[f"sent-{key}"] = choice
    with note.popover("Thank you. Say why?"):
        comment = st.text_area("Comment", key=f"comment-{key}", max_chars=2000, placeholder="What was missing?")
        if st.button("Send the comment", key=f"send-{key}", disabled=not comment.strip()):
            send(search_id, document_id, kind, person=person, comments=comment.strip())
            st.toast("Your comment is on the audit log.")


def send(
    search_id: UUID, document_id: UUID, kind: SearchFeedback, *, person: str | None, comments: str | None = None
) -> None:
    """Put feedback on the audit log."""
    with explained():
        api.client().search.submit_search_feedback(
            search_id=search_id, document_id=document_id, feedback=kind, comments=comments, user_email=person
        )


def nothing_found(question: Question) -> None:
    """Say that there is nothing, and what could be tried."""
    person = "this person" if question.person else "you"
    st.info(
        f"Nothing that {person} may read answers this. Try other words, search by meaning, or search the whole catalog."
    )


def page() -> None:
    """Draw the page."""
    st.title("Search")
    st.html(STYLE)
    question = ask()
    if question is None:
        st.caption("Ask in your own words, or name a thing: *how rough may the sea be*, *refund*, *D-2219*.")
        return
    found = answer(question)
    if not found.results:
        nothing_found(question)
    for result in found.results:
        with st.container(border=True):
            if isinstance(result, CatalogSearchResult):
                show_catalog_result(result)
            elif isinstance(found, SearchDocumentCollectionResponse):
                show_collection_result(result, found.search_terms_used)
            feedback(found.search_id, result.document_id, question.person)


page()
