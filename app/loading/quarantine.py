"""What could not be loaded, source by source: retried, ignored, and restored."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

import streamlit as st

import carrel
from app import api
from app.formatting import ago, one_line
from app.loading.labels import is_of_dropped_files, source_in_words, why_in_words
from app.loading.runs import runs_to_change
from app.loading.sources import ADDRESS, choose_source, collection_names, purpose_in_words, read_sources
from app.ui.dialogs import confirm
from app.ui.errors import FAILURES, Problem, problem_of, show_errors
from app.ui.filters import choice_filter
from app.ui.help import help_cell
from app.ui.links import leave, show_link
from app.ui.notices import show_empty, show_heading, show_table, show_text, show_warning
from app.ui.tables import PAGE_ROWS, choose_rows, forget, time_cell
from app.ui.tables import Source as Rows
from carrel.wire.sources import ListSourceItemsResponse, Source, SourceItem
from flows.operations.formatting import count_text

LIST = "quarantine.items"
SHOWN = {"": "All", "counted": "Counted", "ignored": "Ignored"}
_IGNORED = {"": None, "counted": False, "ignored": True}
_NOTHING = {
    "": ("Everything of this source was loaded.", ""),
    "counted": ("Nothing of this source counts.", "What could not be loaded of it is ignored."),
    "ignored": ("Nothing of this source is ignored.", ""),
}
_NAMED = 5
_OUTCOME = "quarantine.outcome"


@dataclass(frozen=True)
class _Outcome:
    """What came of ignoring or restoring items; `unknown` are the names that were not in quarantine any more."""

    count: int
    undo: bool
    unknown: Sequence[str]

    def show(self) -> None:
        """Show how many items count now or do not, and which were not there."""
        if self.count:
            documents = count_text(self.count, "document counts", "documents count")
            until = "it changes" if self.count == 1 else "they change"
            show_text(f"{documents} again." if self.undo else f"{documents} no more until {until}.")
        if self.unknown:
            show_warning(
                f"Not among what failed any more: {_names(self.unknown)}",
                "They have been loaded since, or the source no longer has them.",
            )


def show_quarantine() -> None:
    """Show the sources that runs have reported, and what of the chosen one could not be loaded."""
    found = show_errors(read_sources)
    if not found:
        show_empty(
            "Nothing has failed.",
            "What a run can't load is listed here at its end, each document with its reason.",
        )
        show_link("Load documents", "ingestion")
        return
    everything = not any(one.item_count or one.ignored_count for one in found)
    if everything:
        show_empty("Everything was loaded.", "A document that can't be is listed here with its reason.")
    left, right = st.columns((3, 1), vertical_alignment="bottom")
    with left:
        source = choose_source(found)
    if source is None:
        return
    _show_source(source)
    if not everything:
        with right:
            shown = choice_filter("Show", "show", SHOWN)
        _show_items(source, shown)
    _show_outcome()  # of what was the last that there was


def _show_source(source: Source) -> None:
    show_heading(
        one_line(source_in_words(source.source)),
        purpose_in_words(source, collection_names()),
        f"{count_text(source.item_count, 'document')} failed",
        f"{source.ignored_count:,} ignored" if source.ignored_count else "",
        f"reported {ago(source.reported_at)} by {one_line(source.reported_by.name)}",
    )
    dropped = is_of_dropped_files(source.source)
    if dropped and source.item_count:
        show_text("These files were dropped here, and are gone. Mend them and load them again, or ignore them.")
        show_link("Load the mended files", "ingestion")
    with st.container(horizontal=True):
        if not dropped and st.button(
            "Retry all …", key="quarantine.retry", icon=":material/replay:", disabled=not source.item_count
        ):
            _ask_for_retry(source)
        if st.button("Remove …", key="quarantine.remove", icon=":material/delete:"):
            _ask_for_removal(source)


def _ask_for_retry(source: Source) -> None:
    documents = count_text(source.item_count, "document of this source is", "documents of this source are")
    confirm(
        "Retry all?",
        f"{documents} sent again, as "
        "the last run was told to. What is ignored isn't, and nothing else is sent or deleted. The process that serves "
        "the flows does it, where the source was loaded by it"
        + (f"; this one is reported by {one_line(reporter)}." if (reporter := source.reported_by.email) else "."),
        doing="Retry them",
        action=partial(_retry, source),
    )


def _retry(source: Source, names: Sequence[str] = (), *, key: str | None = None) -> None:
    """Send again what failed of a source, or these items of it, and open the run's page."""
    run = runs_to_change().start_retry(source.ledger, source.source, names=names, person=api.me().email, key=key)
    st.query_params.from_dict({"run": str(run)})


def _retry_chosen(source: Source, names: Sequence[str], key: str) -> None:
    """Retry items; in a callback, in which a second click has the same key, and so starts no second run."""
    try:
        _retry(source, names, key=key)
    except FAILURES as error:
        st.session_state[_OUTCOME] = problem_of(error)


def _ask_for_removal(source: Source) -> None:
    confirm(
        "Remove this source?",
        "The list of what could not be loaded of it is gone. Documents that were loaded stay. This is for what is "
        "never loaded again: after the next run of it, it is here again.",
        doing="Remove it",
        action=partial(_remove, source),
    )


def _remove(source: Source) -> None:
    api.client().sources.remove_source(source.source_id)
    read_sources.clear()
    leave(ADDRESS)


def _show_items(source: Source, shown: str) -> None:
    def fetch(token: str | None) -> ListSourceItemsResponse:
        listed = api.client().sources.list_source_items(
            source.source_id, ignored=_IGNORED[shown], page_size=PAGE_ROWS, page_token=token
        )
        return next(listed.pages())

    chosen = choose_rows(
        LIST,
        Rows(fetch, lambda page: page.items, about=(source.source_id, shown)),
        row=_row,
        empty=lambda: show_empty(*_NOTHING[shown]),
        columns={"Reason": st.column_config.TextColumn(width="large")},
    )
    _offer_changes(source, chosen)
    _show_outcome()
    if chosen:
        show_table(
            [
                (_document(item), why_in_words(item.message), help_cell(item.code, about=_document(item)))
                for item in chosen
            ],
            heads=("Document", "Reason", "Help"),
        )


def _show_outcome() -> None:
    outcome: _Outcome | Problem | None = st.session_state.pop(_OUTCOME, None)
    if outcome is not None:
        outcome.show()


def _document(item: SourceItem) -> str:
    return item.document_external_id or item.place


def _row(item: SourceItem) -> dict[str, object]:
    document = _document(item)
    where = f" ({item.place})" if item.place != document else ""
    return {
        "Document": one_line(f"{document}{where}"),
        "Reason": one_line(why_in_words(item.message)),
        "Ignored": "yes" if item.ignored else "",
        "Since": time_cell(item.since),
    }


def _offer_changes(source: Source, chosen: Sequence[SourceItem]) -> None:
    counted = [item for item in chosen if not item.ignored]
    ignored = [item for item in chosen if item.ignored]
    with st.container(horizontal=True, vertical_alignment="center"):
        if not is_of_dropped_files(source.source):
            names = list(dict.fromkeys(item.name for item in counted))
            st.button(
                "Retry",
                key="quarantine.retry_chosen",
                type="primary",
                icon=":material/replay:",
                disabled=not names,
                on_click=_retry_chosen,
                args=(source, names, uuid4().hex),
            )
        for label, items, undo in (("Ignore", counted, False), ("Restore", ignored, True)):
            st.button(
                label,
                key=f"quarantine.{label.lower()}",
                disabled=not items,
                on_click=_change,
                args=(source, items),
                kwargs={"undo": undo},
            )
        if not chosen:
            st.caption(
                "Choose rows to see what to do about them, and to retry, ignore or restore them. What is ignored "
                "counts no more, and is not sent, until it changes."
            )


def _change(source: Source, items: Sequence[SourceItem], *, undo: bool) -> None:
    """Ignore items or restore them; in a callback, in which a second click does the same once more."""
    names = list(dict.fromkeys(item.name for item in items))  # one document can be at two places
    try:
        sources = api.client().sources
        change = sources.restore_source_items if undo else sources.ignore_source_items
        unknown = change(source.source_id, names).unknown_names
    except carrel.CarrelError as error:
        st.session_state[_OUTCOME] = problem_of(error)
    else:
        st.session_state[_OUTCOME] = _Outcome(len(names) - len(unknown), undo, unknown)
        forget(LIST, unchoose=True)
    read_sources.clear()


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(one_line(name) for name in names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED:,} more." if len(names) > _NAMED else f"{shown}."
