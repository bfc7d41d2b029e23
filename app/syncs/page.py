"""The page of a sync: its last run with its failures, its config, and its buttons."""

import json
from collections.abc import Callable
from functools import partial
from itertools import islice

import streamlit as st

import carrel
from app import api
from app.formatting import ago, moment, one_line
from app.labels import GROUP, PERSON
from app.lookup import Principal
from app.syncs import form as sync_form
from app.syncs import labels
from app.syncs.form import Draft, draft_of
from app.ui.dialogs import confirm
from app.ui.errors import problem_of, require_found, show_errors
from app.ui.notices import offer_way_back, show_heading, show_link, show_problem, show_table, show_text, show_warning
from app.ui.pickers import get_named_principal
from app.ui.saving import keep_opened
from app.ui.tables import forget, pages_of, show_text_pages, source_of
from carrel.wire.docstore import DocstoreFailure, DocstoreRun, DocstoreSync, DocstoreSyncStatus
from flows.operations.formatting import count_text, waiting_text

REFRESH_SECONDS = 1.0
_MOST_HELD = 10_000  # that a run takes an approval for
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
        sync = labels.find_sync(name)
    except carrel.CarrelError as error:
        problem = problem_of(error)
        show_warning("Its progress can't be read now. This page keeps trying.", problem.message, *problem.notes)
        return
    if sync is None or not labels.is_running(sync):
        st.rerun()
    _show_state(sync)


def _show_state(sync: DocstoreSync) -> None:
    if sync.last_error is not None and sync.status is DocstoreSyncStatus.FAILED:
        again = "What it has brought stays; the next run continues from there."
        message = labels.notice_in_words_of_the_form(sync.last_error.message)
        show_problem("The last run failed.", message, labels.hint_for(sync.last_error.code), again)
    elif waits := waiting_text(sync):
        show_warning(f"A run is to begin, wanted {ago(sync.wanted_at)}.", waits)
    elif labels.is_running(sync):
        is_begun = sync.status is DocstoreSyncStatus.RUNNING
        doing = f"is running, begun {ago(sync.started_at)}" if is_begun else "is to begin"
        show_text(f"A run {doing}. It is the service's: leave the page if you like.")
    else:
        show_text(f"The last run ended {ago(sync.finished_at)} ({moment(sync.finished_at)}).")
    numbers = sync.counts.model_dump()
    for column, (label, member) in zip(st.columns(len(_COUNTS)), _COUNTS, strict=True):
        column.metric(label, f"{numbers[member]:,}")
    if sync.warning is not None:
        show_warning(labels.notice_in_words_of_the_form(sync.warning.message), labels.hint_for(sync.warning.code))
        if sync.warning.code in {"deletion_limit", "listing_empty"} and not labels.is_running(sync):
            _offer_removal(sync)


def _offer_removal(sync: DocstoreSync) -> None:
    """Show a button that removes the held documents once, after a dialog that names each; a click alone reads them."""
    docstore, sync_id = api.client().document_collections.docstore, sync.docstore_credential_id
    held = docstore.list_docstore_held_removals
    first = show_errors(lambda: next(held(sync_id, page_size=1).pages()))
    count = first.held_count or len(first.held_removals)
    these = f"these {count:,} documents" if count > 1 else "this document"
    if not count or not st.button(f"Remove {these} once …", key=f"held.{sync_id}"):
        return
    listed = show_errors(lambda: list(islice(held(sync_id, page_size=1000), _MOST_HELD)))
    approved = [one.document_id for one in listed]

    def remove() -> None:
        docstore.launch_docstore_sync(sync_id, approved_removals=approved)
        forget(LIST)

    more = f" The list has the first {len(listed):,}, and only they are removed." if len(listed) < count else ""
    confirm(
        f"Remove {count_text(len(listed), 'document')}?",
        f"They are no longer in the source, and are deleted from the catalog. The limit stays as it is.{more}",
        doing="Remove them once",
        action=remove,
        names=sorted(one.document_name for one in listed),
    )


def _show_runs(sync: DocstoreSync) -> None:
    docstore = api.client().document_collections.docstore
    if not (found := show_errors(partial(docstore.list_docstore_runs, sync.docstore_credential_id)).runs):
        return
    st.subheader("Last runs", anchor=False)
    show_text_pages(
        "sync.runs",
        source_of(found, about=(sync.docstore_credential_id, sync.finished_at)),
        heads=("Ended", "Result", *(label for label, _ in _COUNTS)),
        row=_run,
    )


def _run(run: DocstoreRun) -> tuple[str, ...]:
    told = run.last_error or run.warning
    result = labels.STATES[run.status] + (f": {labels.notice_in_words_of_the_form(told.message)}" if told else "")
    numbers = run.counts.model_dump()
    return moment(run.finished_at), one_line(result), *(f"{numbers[member]:,}" for _, member in _COUNTS)


def _show_failures(sync: DocstoreSync) -> None:
    if not sync.counts.failed:
        return
    st.subheader("Not taken", anchor=False)
    failures = api.client().document_collections.docstore.list_docstore_failures
    about = (sync.docstore_credential_id, sync.finished_at)
    show_text_pages(
        "sync.failures",
        pages_of(lambda at: failures(sync.docstore_credential_id, **at), about=about),
        heads=("Document in the database", "Reason", "Last tried"),
        row=_failure,
    )
    st.caption("Every run tries them again.")


def _failure(one: DocstoreFailure) -> tuple[str, str, str]:
    shown = one.source_id if isinstance(one.source_id, str) else json.dumps(one.source_id, ensure_ascii=False)
    reason = one_line(labels.in_words_of_the_form(one.message))
    return one_line(shown), reason, f"{ago(one.failed_at)} ({moment(one.failed_at)})"


LIST = "syncs"


def show_sync_page(name: str) -> None:
    offer_way_back("All syncs", "sync", "change")
    hint = "It was deleted, or its address is wrong. See all syncs."
    sync = require_found(lambda: labels.find_sync(name), "This sync isn't here.", hint)
    show_heading(
        sync.config.sync_name,
        f"into {labels.collection_name(str(sync.document_collection_id))}",
        count_text(sync.document_count, "document"),
        f"created {ago(sync.created_at)}",
    )
    if "change" in st.query_params:
        show_text(
            "The address is never shown: without another address, it stays as it is. Saving ends a run in progress, "
            "and begins one; who may read the documents becomes what you say here."
        )
        opened_at = keep_opened("sync.change", sync, field="sync.address")
        save: Callable[[Draft], None] = partial(_change, opened_at)
        into, saved = str(sync.document_collection_id), sync.docstore_credential_id
        doing = "Save, and start a run"
        sync_form.ask(draft_of(sync.config), doing=doing, known=readers_of(sync), save=save, into=into, saved=saved)
        return
    _offer_actions(sync)
    if labels.is_running(sync):
        watch(name)
    else:
        _show_state(sync)
    _show_failures(sync)
    _show_config(sync)
    _show_runs(sync)


def _offer_actions(sync: DocstoreSync) -> None:
    with st.container(horizontal=True):
        if st.button("Start a run", key="sync.launch", icon=":material/play_arrow:", disabled=labels.is_running(sync)):
            docstore = api.client().document_collections.docstore
            show_errors(partial(docstore.launch_docstore_sync, sync.docstore_credential_id))
            forget(LIST)
            st.rerun()
        if st.button("Change …", key="sync.change"):
            st.query_params["change"] = "yes"
            st.rerun()
        if st.button("Delete …", key="sync.delete.ask"):
            confirm(
                "Delete this sync?",
                "Its address and its place are gone, and nothing more is brought or removed. The documents that it "
                "brought stay, in the collection and the catalog.",
                doing="Delete it",
                action=partial(_delete, sync),
            )


def _delete(sync: DocstoreSync) -> None:
    api.client().document_collections.docstore.delete_docstore_sync(sync.docstore_credential_id)
    forget(LIST)
    st.query_params.clear()


def _show_config(sync: DocstoreSync) -> None:
    config, fields = sync.config, sync.config.source_fields
    others = "Everybody in the organization" if config.internal_public else "Only the creator of the sync"
    deleted = f"is removed, {config.delete_limit_percent} % of all at the most" if config.delete_missing else "stays"
    st.subheader("Configuration", anchor=False)
    show_table(
        [
            ("Source", config.collection_name),
            ("Which documents", json.dumps(config.filter_expression) if config.filter_expression else "All"),
            ("Text, title", f"{fields.body}, {fields.source_name}"),
            ("Time of the last change", fields.source_system_updated or "None: every run reads everything"),
            ("Link", fields.source_url or "None"),
            ("Who may read them", ", ".join(one.name for one in readers_of(sync)) or others),
            ("Deleted in the source", deleted),
            ("Address", "Kept encrypted, and never shown"),
        ],
        named=True,
    )
    show_link("See the collection", "collections", collection=str(sync.document_collection_id))


def readers_of(sync: DocstoreSync) -> list[Principal]:
    """Return whom a sync's config names as readers, by name where they can be found."""
    users = [(PERSON, one) for one in sync.config.allowed_users_email_addresses or ()]
    groups = [(GROUP, str(one)) for one in sync.config.allowed_group_ids or ()]
    return [get_named_principal(kind, one) for kind, one in users + groups]


def _change(sync: DocstoreSync, draft: Draft) -> None:
    api.client().document_collections.docstore.update_docstore_sync(
        sync.docstore_credential_id, docstore_uri=draft.address or None, config=draft.config(), version=sync.version
    )
    forget(LIST)
    st.query_params.pop("change", None)
    st.rerun()
