"""Failed documents by source: retry, ignore, and restore."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from uuid import uuid4

import streamlit as st

from app import api
from app.formatting import ago, moment, one_line
from app.loading import runs
from app.lookup import tell_apart
from app.ui import notices
from app.ui.dialogs import confirm
from app.ui.errors import Problem, keep_problem, show_errors
from app.ui.filters import choice_filter, text_filter
from app.ui.tables import choose_rows, forget, pages_of, time_cell
from carrel.wire.sources import Source, SourceItem
from flows.operations.formatting import count_text
from flows.runs import RunsError

ADDRESS = "source"
MANY = 20
"""With more sources, a filter field appears."""
MOST = 200
"""The most sources in the choice."""
_PAGE = 1000


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def read_sources() -> list[Source]:
    """Return all sources: first sources with failures, then sources with ignored items."""
    found = api.client().sources.list_sources(page_size=_PAGE)
    return sorted(found, key=lambda source: (not source.item_count, not source.ignored_count, source.source.lower()))


def choose_source(found: Sequence[Source]) -> Source | None:
    """Show a choice of sources, and return the source named in the address, else the first; None if none is found."""
    known = {str(source.source_id): source for source in found}
    asked = _read_address(known)
    if asked and asked not in known:
        notices.show_warning("The source in the URL does not exist.", "Choose a source below.")
    if not (labels := _filter_labels(label_sources(found))):
        notices.show_empty("No source has this text in its name.", "Try fewer letters.")
        return None
    options = dict(islice(labels.items(), MOST))
    if asked in labels:
        options[asked] = labels[asked]
    # The choice stays when the order or a label changes.
    chosen = choice_filter("Source", ADDRESS, options, default=asked if asked in options else next(iter(options)))
    if len(labels) > len(options):
        notices.show_text(f"{len(labels):,} sources match. Type more of the name.")
    if st.query_params.get(ADDRESS) != chosen:
        st.query_params[ADDRESS] = chosen
    return known[chosen]


def label_sources(found: Sequence[Source]) -> dict[str, str]:
    """Return a label for each source by id. Sources with equal labels also show the reporter, then the ledger."""
    names = show_errors(api.collection_names) if any(source.document_collection_id for source in found) else {}
    labels = {str(source.source_id): _label(source, names) for source in found}
    labels = tell_apart(labels, {str(source.source_id): f"reported by {source.reported_by.email}" for source in found})
    return tell_apart(labels, {str(source.source_id): source.ledger for source in found})


def purpose_in_words(source: Source, names: Mapping[str, str]) -> str:
    if source.document_collection_id is None:
        return "uploaded"
    return f"added to {one_line(names.get(str(source.document_collection_id), 'a collection'))}"


def _read_address(known: Mapping[str, Source]) -> str:
    """Return the id of the source in the URL. The id of a source replaces its ledger in the URL."""
    asked = st.query_params.get(ADDRESS, "")
    found = next((key for key, source in known.items() if source.ledger == asked), None)
    if found is not None:
        st.query_params[ADDRESS] = found
    return found or asked


def _filter_labels(labels: dict[str, str]) -> dict[str, str]:
    if len(labels) <= MANY:
        return labels
    part = text_filter("Find a source", "find", placeholder="Part of its path or URL").lower()
    return {key: label for key, label in labels.items() if part in label.lower()}


def _label(source: Source, names: Mapping[str, str]) -> str:
    at = f", {moment(source.reported_at)}" if runs.is_of_dropped_files(source.source) else ""
    return f"{runs.source_in_row(source.source)}{at} · {purpose_in_words(source, names)}"


LIST = "quarantine.items"
_SHOWN = {  # by the address's value: label, whether shown items are ignored, and texts for an empty list
    "": ("All", None, "Every document of this source is loaded.", ""),
    "counted": ("Counted", False, "This source has no open failures.", "All failed documents are ignored."),
    "ignored": ("Ignored", True, "No document of this source is ignored.", ""),
}
_HINT = "When a run cannot load a document, the document is listed here with the reason."
_NAMED = 5
_OUTCOME = "quarantine.outcome"


@dataclass(frozen=True)
class _Outcome:
    count: int
    undo: bool
    unknown: Sequence[str]

    def show(self) -> None:
        if self.count:
            documents = count_text(self.count, "document")
            until = "it changes" if self.count == 1 else "they change"
            notices.show_text(f"{documents} restored." if self.undo else f"{documents} ignored until {until}.")
        if self.unknown:
            notices.show_warning(
                f"No longer among the failures: {_names(self.unknown)}",
                "They have been loaded since, or the source no longer contains them.",
            )


def show_quarantine() -> None:
    if not (found := show_errors(read_sources)):
        notices.show_empty("Nothing has failed.", _HINT)
        notices.show_link("Load documents", "ingestion")
        return
    everything = not any(item.item_count or item.ignored_count for item in found)
    if everything:
        notices.show_empty("Everything was loaded.", _HINT)
    left, right = st.columns((3, 1), vertical_alignment="bottom")
    with left:
        source = choose_source(found)
    if source is None:
        return
    _show_source(source)
    if not everything:
        with right:
            shown = choice_filter("Show", "show", {key: label for key, (label, *_) in _SHOWN.items()})
        _show_items(source, shown)
    _show_outcome()  # of a last item that has left the list


def _show_source(source: Source) -> None:
    notices.show_heading(
        one_line(runs.source_in_words(source.source)),
        purpose_in_words(source, show_errors(api.collection_names)),
        f"{count_text(source.item_count, 'document')} failed",
        f"{source.ignored_count:,} ignored" if source.ignored_count else "",
        f"reported {ago(source.reported_at)} by {one_line(source.reported_by.name)}",
    )
    if runs.is_lasting(source.source):
        notices.show_link("Open source", "ingestion", part="sources", location=source.source)
    _show_gone(source)
    dropped = runs.is_of_dropped_files(source.source)
    if dropped and source.item_count:
        notices.show_text(
            "You uploaded these files from a browser, so the server no longer has them. Correct and upload them "
            "again, or ignore them."
        )
        notices.show_link("Upload corrected files", "ingestion")
    with st.container(horizontal=True):
        if not dropped and st.button(
            "Retry all …", key="quarantine.retry", icon=":material/replay:", disabled=not source.item_count
        ):
            _ask_for_retry(source)
        if st.button("Remove …", key="quarantine.remove", icon=":material/delete:"):
            confirm(
                "Remove this source?",
                "This removes the list of failures. Loaded documents stay. The next run of this source lists it again.",
                action=lambda: api.client().sources.remove_source(source.source_id),
                then=read_sources.clear,
                leaving=(ADDRESS,),
            )


def _show_gone(source: Source) -> None:
    """Tell how many documents the last complete upload found gone and did not delete, if any."""
    if source.document_collection_id is not None:
        return
    try:
        loads = (run for run in runs.read_loading_runs() if run.source == source.source and run.flow == runs.UPLOAD)
        last = next((one for one in loads if one.state == "COMPLETED" and not (one.only_plans or one.skipped)), None)
    except RunsError:  # failures are shown even without Prefect
        return
    if last is not None and (gone := last.counts.gone + last.counts.to_delete - last.counts.deleted):
        documents = count_text(gone, "document was", "documents were")
        then = f"when it was loaded {ago(last.started_at)}"
        notices.show_text(f"{documents} gone from this source but not deleted, {then}.")
        notices.show_link("Review and delete", "ingestion", run=str(last.flow_run_id))


def _ask_for_retry(source: Source) -> None:
    documents = count_text(source.item_count, "document of this source is", "documents of this source are")
    confirm(
        "Retry all?",
        f"{documents} sent again with the options of the last run. Ignored documents are skipped, and nothing "
        "else is sent or deleted. The flow server that loaded this source does the work"
        + (f" (as {one_line(reporter)})." if (reporter := source.reported_by.email) else "."),
        doing="Retry all",
        action=partial(_retry, source),
    )


def _retry(source: Source, names: Sequence[str] = (), *, key: str | None = None) -> None:
    """Start a run that sends a source's failed items, or only these, again, and open its page; once per key."""
    run = runs.runs_to_change().start_retry(source.ledger, source.source, names=names, person=api.me().email, key=key)
    st.query_params.from_dict({"run": str(run)})


def _retry_chosen(source: Source, names: Sequence[str], key: str) -> None:
    with keep_problem(_OUTCOME):
        _retry(source, names, key=key)


def _show_items(source: Source, shown: str) -> None:
    _, ignored, *nothing = _SHOWN[shown]
    chosen = choose_rows(
        LIST,
        pages_of(
            lambda at: api.client().sources.list_source_items(source.source_id, ignored=ignored, **at),
            about=(source.source_id, shown),
        ),
        row=_row,
        empty=lambda: notices.show_empty(*nothing),
        columns={"Reason": st.column_config.TextColumn(width="large")},
    )
    _offer_changes(source, chosen)
    _show_outcome()
    if chosen:
        notices.show_table(
            [
                (_document(item), runs.why_in_words(item.message), notices.HelpLink(item.code, about=_document(item)))
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
        "Reason": one_line(runs.why_in_words(item.message)),
        "Ignored": item.ignored,
        "Since": time_cell(item.since),
    }


def _offer_changes(source: Source, chosen: Sequence[SourceItem]) -> None:
    counted = [item for item in chosen if not item.ignored]
    ignored = [item for item in chosen if item.ignored]
    with st.container(horizontal=True, vertical_alignment="center"):
        if not runs.is_of_dropped_files(source.source):
            names = list(dict.fromkeys(item.name for item in counted))
            # A second click has the same key, so it starts no second run.
            retry, key = partial(_retry_chosen, source, names, uuid4().hex), "quarantine.retry_chosen"
            notices.offer_action("Retry", retry, key=key, icon="replay", kind="primary", disabled=not names)
        for label, items, undo in (("Ignore", counted, False), ("Restore", ignored, True)):
            change = partial(_ignore_or_restore, source, items, undo=undo)
            notices.offer_action(label, change, key=f"quarantine.{label.lower()}", disabled=not items)
        if not chosen:
            st.caption(
                "Select rows to see what to do and to retry, ignore or restore them. An ignored document is "
                "not sent until it changes."
            )


def _ignore_or_restore(source: Source, items: Sequence[SourceItem], *, undo: bool) -> None:
    """Ignore or restore items. For callbacks; a second click repeats the change without harm."""
    names = list(dict.fromkeys(item.name for item in items))  # a document may be at two places
    with keep_problem(_OUTCOME):
        sources = api.client().sources
        change = sources.restore_source_items if undo else sources.ignore_source_items
        unknown = change(source.source_id, names).unknown_names
        st.session_state[_OUTCOME] = _Outcome(len(names) - len(unknown), undo, unknown)
        forget(LIST, unchoose=True)
    read_sources.clear()


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(one_line(name) for name in names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED:,} more." if len(names) > _NAMED else f"{shown}."
