"""Showing the last run of a sync, in progress or ended, and its failures."""

import json

import streamlit as st

import carrel
from app import api
from app.formatting import ago, moment, one_line
from app.syncs.labels import hint_for, in_words_of_the_form, notice_in_words_of_the_form
from app.syncs.lookup import find_sync, is_running
from app.ui.errors import problem_of
from app.ui.notices import show_problem, show_text, show_warning
from app.ui.tables import PAGE_ROWS, Source, show_text_pages
from carrel.wire.docstore import DocstoreFailure, DocstoreSync, DocstoreSyncStatus, ListDocstoreFailuresResponse
from flows.operations.waiting import waiting_text

REFRESH_SECONDS = 1.0
_COUNTS = (
    ("Read", "read"),
    ("Created", "created"),
    ("Updated", "updated"),
    ("Unchanged", "unchanged"),
    ("Removed", "deleted"),
    ("Not taken", "failed"),
)


@st.fragment(run_every=REFRESH_SECONDS)
def watch(name: str) -> None:
    """Show a running run, refreshed; when it has ended, draw the page again without refreshing."""
    try:
        sync = find_sync(name)
    except carrel.CarrelError as error:
        problem = problem_of(error)
        show_warning("Its progress can't be read now. This page keeps trying.", problem.message, *problem.notes)
        return
    if sync is None or not is_running(sync):
        st.rerun()
    show_state(sync)


def show_state(sync: DocstoreSync) -> None:
    """Show the state of a sync's last run."""
    _show_outcome(sync)
    numbers = sync.counts.model_dump()
    for column, (label, member) in zip(st.columns(len(_COUNTS)), _COUNTS, strict=True):
        column.metric(label, f"{numbers[member]:,}")
    if sync.warning is not None:
        show_warning(notice_in_words_of_the_form(sync.warning.message), hint_for(sync.warning.code))


def _show_outcome(sync: DocstoreSync) -> None:
    if sync.last_error is not None and sync.status is DocstoreSyncStatus.FAILED:
        again = "What it has brought stays; the next run continues from there."
        message = notice_in_words_of_the_form(sync.last_error.message)
        show_problem("The last run failed.", message, hint_for(sync.last_error.code), again)
    elif waits := waiting_text(sync):
        show_warning(f"A run is to begin, wanted {ago(sync.wanted_at)}.", waits)
    elif is_running(sync):
        is_begun = sync.status is DocstoreSyncStatus.RUNNING
        doing = f"running, begun {ago(sync.started_at)}" if is_begun else "is to begin"
        show_text(f"A run {doing}. It is the service's: leave the page if you like.")
    else:
        show_text(f"The last run ended {ago(sync.finished_at)} ({moment(sync.finished_at)}).")


def show_failures(sync: DocstoreSync) -> None:
    """List the documents that the last run could not take, if any."""
    if not sync.counts.failed:
        return
    st.subheader("Not taken", anchor=False)

    def fetch(token: str | None) -> ListDocstoreFailuresResponse:
        listed = api.client().document_collections.docstore.list_docstore_failures(
            sync.docstore_credential_id, page_size=PAGE_ROWS, page_token=token
        )
        return next(listed.pages())

    show_text_pages(
        "sync.failures",
        Source(fetch, lambda page: page.failures, (sync.docstore_credential_id, sync.finished_at)),
        heads=("Document in the database", "Reason", "Since"),
        row=_failure,
    )
    st.caption("Every run tries them again.")


def _failure(one: DocstoreFailure) -> tuple[str, str, str]:
    shown = one.source_id if isinstance(one.source_id, str) else json.dumps(one.source_id, ensure_ascii=False)
    return (
        one_line(shown),
        one_line(in_words_of_the_form(one.message)),
        f"{ago(one.failed_at)} ({moment(one.failed_at)})",
    )
