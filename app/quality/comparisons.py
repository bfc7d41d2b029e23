"""Comparing configurations of search with judged queries: choosing them, measuring query by query, and the results."""

from collections.abc import Mapping, Sequence

import streamlit as st

import carrel
from app import api
from app.formatting import one_line
from app.quality.judging import CUTOFF, MOST_QUERIES, Comparison, JudgementsError, Scores, Setting, read
from app.search.queries import CATALOG, MODES
from app.spreadsheets import in_batches
from app.ui.errors import Problem, problem_of, show_errors
from app.ui.notices import show_table, show_text, show_warning
from carrel.wire.search import SearchMode
from flows.operations.formatting import count_text

SHOWN = 50
_RUN, _PROBLEM = "compare.run", "compare.problem"
_EXAMPLE = "query,external id,grade\nmay dogs travel free,fares,2\nmay dogs travel free,livestock,1"


def show_comparison() -> None:
    """Show inputs for judged queries and configurations, and the comparison that was begun."""
    show_text(
        f"Give queries with the documents that answer them, {MOST_QUERIES} queries at most, and compare how well "
        f"searches rank them among their first {CUTOFF} results. They search as you: what you may not read counts as "
        "not found. They stand in the log as yours, and count under Over time."
    )
    _offer()
    problem: Problem | None = st.session_state.pop(_PROBLEM, None)
    if problem is not None:
        problem.show()
    run: Comparison | None = st.session_state.get(_RUN)
    if run is None:
        return
    if run.left and not run.stopped:
        _measure(run)
    _show(run)


def _offer() -> None:
    named = {str(one.document_collection_id): one.collection_name for one in show_errors(api.collections)}
    places = {CATALOG: "The whole catalog", **named}
    with st.form("compare", border=False):
        file = st.file_uploader("A CSV file of judged queries", type=["csv", "tsv", "txt"], key="compare.file")
        pasted = st.text_area("Or paste it here", key="compare.text", placeholder=_EXAMPLE, height=120)
        left, right = st.columns(2)
        where = left.selectbox("In", list(places), key="compare.where", format_func=lambda one: places[one])
        modes = right.multiselect(
            "By",
            list(MODES),
            list(MODES),
            key="compare.modes",
            format_func=lambda mode: MODES[mode],
            placeholder="Choose at least one",
        )
        if st.form_submit_button("Compare", type="primary"):
            _begin([one for one in (file and file.getvalue(), pasted.strip()) if one], where, modes)


def _begin(given: Sequence[bytes | str], where: str, modes: Sequence[SearchMode]) -> None:
    st.session_state.pop(_RUN, None)
    if len(given) > 1:
        st.session_state[_PROBLEM] = Problem("There is a file, and pasted text too.", ("Take one of them out.",))
        return
    if not modes:
        st.session_state[_PROBLEM] = Problem("There is nothing to compare.", ("Choose at least one way to search.",))
        return
    try:
        judgements = read(given[0] if given else "")
    except JudgementsError as error:
        st.session_state[_PROBLEM] = Problem(str(error), error.problems)
        return
    st.session_state[_RUN] = Comparison(judgements, Setting(where, tuple(modes)))


def _measure(run: Comparison) -> None:
    """Measure the remaining queries; a click meanwhile draws the page again, which continues."""
    whole = len(run.judgements.queries)
    bar = st.progress(len(run.scores) / whole, text=f"{len(run.scores):,} of {count_text(whole, 'query', 'queries')}")
    stop = st.empty()
    stop.button("Stop", key="compare.stop", on_click=_stop, args=(run,))
    for query in run.left:
        try:
            run.take(query)
        except carrel.CarrelError as error:
            run.stopped = True
            problem_of(error).show()
            break
        done = len(run.scores)
        bar.progress(done / whole, text=f"{done:,} of {count_text(whole, 'query', 'queries')}")
    bar.empty()
    stop.empty()


def _stop(run: Comparison) -> None:
    run.stopped = True


def _continue(run: Comparison) -> None:
    run.stopped = False


def _show(run: Comparison) -> None:
    if run.left:
        show_warning(f"Stopped: {len(run.left):,} of {len(run.judgements.queries):,} queries are not measured.")
        st.button("Continue", key="compare.on", on_click=_continue, args=(run,))
    if run.judgements.left_out:
        left_out = count_text(len(run.judgements.left_out), "query is", "queries are")
        show_warning(f"{left_out} left out: no document with a grade above 0 answers them.")
    if not run.scores:
        return
    rows = [
        (MODES[mode], f"{means.ndcg:.3f}", f"{means.recall:.3f}", f"{means.reciprocal_rank:.3f}")
        for mode in run.setting.modes
        for means in [run.means(mode)]
    ]
    st.subheader(f"Means of {count_text(len(run.scores), 'query', 'queries')}", anchor=False)
    show_table(rows, heads=("By", f"nDCG@{CUTOFF}", f"Recall@{CUTOFF}", f"MRR@{CUTOFF}"))
    _show_differences(run)
    _offer_download(run)


def _show_differences(run: Comparison) -> None:
    st.subheader("Query by query", anchor=False)
    apart = run.by_difference()
    if len(apart) > SHOWN:
        show_text(f"The {SHOWN} queries that the ways to search differ most on; the file has all.")
    first, *others = run.setting.modes
    if others:
        show_text(f"nDCG of each query, and how far apart it is from that of {MODES[first].lower()}.")
    rows: list[dict[str, object]] = []
    for query, _ in apart[:SHOWN]:
        of_query = run.scores[query]
        row: dict[str, object] = {"Query": one_line(query)}
        row |= {MODES[mode]: round(of_query[mode].ndcg, 3) for mode in run.setting.modes}
        row |= {f"{MODES[mode]}: apart": round(of_query[mode].ndcg - of_query[first].ndcg, 3) for mode in others}
        rows.append(row)
    st.dataframe(  # pyright: ignore[reportUnknownMemberType] - pandas has no types for all it takes
        rows, hide_index=True, key="compare.rows", column_config={"Query": st.column_config.TextColumn(width=300)}
    )


def _offer_download(run: Comparison) -> None:
    heads = ["query", *(f"{mode.value.lower()}_{figure}" for mode in run.setting.modes for figure in _FIGURES)]
    rows = [[query, *_figures(by_mode, run.setting.modes)] for query, by_mode in run.scores.items()]
    data = in_batches(heads, [rows], count=lambda _: None, most=MOST_QUERIES)
    st.download_button(
        "Download as CSV",
        data,
        file_name="comparison.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
    )


_FIGURES = (f"ndcg_{CUTOFF}", f"recall_{CUTOFF}", f"reciprocal_rank_{CUTOFF}")


def _figures(by_mode: Mapping[SearchMode, Scores], modes: Sequence[SearchMode]) -> list[str]:
    of_modes = [by_mode[mode] for mode in modes]
    return [f"{figure:.6f}" for one in of_modes for figure in (one.ndcg, one.recall, one.reciprocal_rank)]
