"""What could not be loaded, source by source: tried again, set aside, and counted again."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NoReturn
from uuid import UUID

import streamlit as st

from app import api
from app.formatting import ago, moment, one_line
from app.loading.labels import (
    NOBODY_WORKS,
    START_WORK,
    is_of_dropped_files,
    reason,
    source_in_words,
    why_in_words,
)
from app.loading.runs import runs, runs_to_change
from app.ui.dialogs import confirm
from app.ui.errors import problem_of, show_errors
from app.ui.notices import show_empty, show_heading, show_table, show_text, show_warning
from app.ui.tables import choose_rows, source_of
from flows.operations.formatting import count_text
from flows.quarantined import (
    GONE,
    Item,
    Quarantine,
    QuarantinedSource,
    read_quarantine,
    start_ignoring,
    start_listing,
    start_retry,
)
from flows.runs import RunsError, RunStatus, UnknownError

REFRESH_SECONDS = 1.0
_AT_WORK = "quarantine.run"
_SAID = "quarantine.said"


def show_quarantine() -> None:
    """Show the quarantine as it was told last, and tell it anew when asked."""
    at_work: UUID | None = st.session_state.get(_AT_WORK)
    found = show_errors(lambda: read_quarantine(runs()))
    _show_age(found, busy=at_work is not None)
    if at_work is not None:
        _wait_for(at_work)
    if said := st.session_state.pop(_SAID, ""):
        show_warning(said)
    if found is None and at_work is None:
        show_empty(
            "Refresh, to see what was not loaded.",
            "Documents that could not be loaded are kept where the runs are carried out, each with its reason.",
        )
    elif found is not None and not found.sources:
        show_empty("Everything was loaded.", "A document that can't be is listed here with its reason.")
    elif found is not None:
        _show_sources(found)


def _show_age(found: Quarantine | None, *, busy: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Refresh", icon=":material/refresh:", key="quarantine.look", disabled=busy):
            _begin(lambda: start_listing(runs_to_change(), person=api.me().email))
            st.rerun()
        if found is not None:
            show_text(f"As it was {ago(found.at)} ({moment(found.at)}).")


def _begin(start: Callable[[], UUID]) -> None:
    """Have a flow change or tell the quarantine, and wait for it from now on."""
    try:
        st.session_state[_AT_WORK] = start()
    except RunsError as error:
        problem = problem_of(error)
        st.session_state[_SAID] = " ".join((problem.message, *problem.notes))


@st.fragment(run_every=REFRESH_SECONDS)
def _wait_for(run: UUID) -> None:
    try:
        status = runs().run_status(run)
        waits = runs().is_left_waiting(status)
    except UnknownError:
        _end_wait("Its run was removed from Prefect, so nobody knows whether it was done. Look again.")
    except RunsError as error:
        problem = problem_of(error)
        show_warning("Its progress can't be read now. This page keeps trying.", problem.message, *problem.notes)
        return
    if status.finished:
        _end_wait(_end_in_words(status))
    if waits:
        show_warning(NOBODY_WORKS, START_WORK)
        st.button("Wait no longer", key="quarantine.stop", on_click=_give_up, args=(run,))
    else:
        show_text("Looking, where the runs are carried out …")


def _end_wait(said: str) -> NoReturn:
    st.session_state.pop(_AT_WORK, None)
    st.session_state[_SAID] = said
    st.rerun()


def _end_in_words(run: RunStatus) -> str:
    """Say what went otherwise than asked; nothing where nothing did."""
    if run.state == "CANCELLED":
        return "It was stopped before it was done."
    if run.state != "COMPLETED":
        return f"It was not done: {reason(run.message)}"
    _, found, gone = run.message.partition(GONE)
    return f"Not in the quarantine any more: {gone}" if found else ""


def _give_up(run: UUID) -> None:
    """Stop what nobody has begun; the wait for it ends with it."""
    with contextlib.suppress(RunsError):  # it is asked about again, which tells what is wrong
        runs_to_change().cancel(run)


def _show_sources(found: Quarantine) -> None:
    names = {str(one.document_collection_id): one.collection_name for one in show_errors(api.collections)}
    known = {one.ledger: one for one in found.sources}
    asked = st.query_params.get("source", "")
    ledger = st.selectbox(
        "Source",
        list(known),
        index=list(known).index(asked) if asked in known else 0,
        key="quarantine.source",
        format_func=lambda one: _source_label(known[one], names),
    )
    st.query_params["source"] = ledger
    source = known[ledger]
    show_heading(
        one_line(source_in_words(source.source)),
        _purpose(source, names),
        f"{count_text(source.items, 'document')} not loaded",
        f"{source.ignored:,} set aside" if source.ignored else "",
    )
    if is_of_dropped_files(source.source):
        show_text("These files were dropped here, and are gone. Mend them and drop them again, or set them aside.")
    elif st.button("Try again …", key="quarantine.retry", icon=":material/replay:", disabled=not source.items):
        _ask_for_retry(source)
    _show_items(found, source)


def _source_label(source: QuarantinedSource, names: Mapping[str, str]) -> str:
    return f"{one_line(source_in_words(source.source))} · {_purpose(source, names)}"


def _purpose(source: QuarantinedSource, names: Mapping[str, str]) -> str:
    """Return what was done with a source; `names` are the collections' by id."""
    if source.collection is None:
        return "uploaded"
    return f"added to {one_line(names.get(source.collection, 'a collection'))}"


def _ask_for_retry(source: QuarantinedSource) -> None:
    def retry() -> None:
        run = start_retry(runs_to_change(), source, person=api.me().email)
        st.query_params.from_dict({"run": str(run)})

    confirm(
        "Try again?",
        f"{count_text(source.items, 'document of this source is', 'documents of this source are')} sent again, as the "
        "last run was told to. What is set aside isn't, and nothing else is sent or deleted.",
        doing="Try again",
        action=retry,
    )


def _show_items(found: Quarantine, source: QuarantinedSource) -> None:
    chosen = choose_rows(
        f"quarantine.items.{source.ledger}",
        source_of(source.shown, about=(source.ledger, found.at)),
        row=_row,
        empty=lambda: show_empty("None of its documents is listed.", "There are too many in other sources."),
        columns={"Reason": st.column_config.TextColumn(width="large")},
    )
    more = source.items + source.ignored - len(source.shown)
    if more > 0:
        st.caption(f"… and {more:,} more. Where the runs are carried out, `carrel quarantine list` names all of them.")
    counting = [item for item in chosen if not item.ignored]
    aside = [item for item in chosen if item.ignored]
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Set aside …", key="quarantine.ignore", disabled=not counting):
            _ask_to_ignore(source, counting)
        if st.button("Put back …", key="quarantine.restore", disabled=not aside):
            _ask_to_restore(source, aside)
        if not chosen:
            st.caption("Choose rows to read them whole, to set documents aside, or to put them back.")
    if chosen:
        show_table(
            [(item.document or item.place, why_in_words(item.reason)) for item in chosen], heads=("Document", "Reason")
        )


def _row(item: Item) -> dict[str, object]:
    where = f" ({item.place})" if item.document and item.place not in {"", item.document} else ""
    return {
        "Document": one_line(f"{item.document or item.place}{where}"),
        "Reason": one_line(why_in_words(item.reason)),
        "Set aside": "yes" if item.ignored else "",
        "Since": ago(item.since),
        "Quarantined at": moment(item.since),
    }


def _ask_to_ignore(source: QuarantinedSource, items: Sequence[Item]) -> None:
    confirm(
        f"Set {count_text(len(items), 'document')} aside?",
        "What is set aside counts no more, and is not sent, for as long as it stays as it is; once it changes, it "
        f"counts again. {_count_items(items)}",
        doing="Set aside",
        action=partial(_change, source, items, undo=False),
    )


def _ask_to_restore(source: QuarantinedSource, items: Sequence[Item]) -> None:
    confirm(
        f"Put {count_text(len(items), 'document')} back?",
        f"What is put back is listed as not loaded, and sent when that is tried again. {_count_items(items)}",
        doing="Put back",
        action=partial(_change, source, items, undo=True),
    )


def _change(source: QuarantinedSource, items: Sequence[Item], *, undo: bool) -> None:
    names = [item.name for item in items]
    st.session_state[_AT_WORK] = start_ignoring(
        runs_to_change(), source.ledger, names, undo=undo, person=api.me().email
    )


def _count_items(items: Sequence[Item]) -> str:
    shown = ", ".join(one_line(item.name) for item in items[:5])
    return f"{shown} and {len(items) - 5:,} more." if len(items) > 5 else f"{shown}."
