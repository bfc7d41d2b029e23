"""A sync by its address: how its last run went, or goes on, what it could not take, and what can be done with it."""

import json
from collections.abc import Callable
from functools import partial

import streamlit as st

import carrel
from app import api
from app.finding import Principal, principal_at
from app.syncs import form as sync_form
from app.syncs.drafts import Draft, draft_of, find_sync, goes_on, hint_for, in_words_of_the_form
from app.ui.dialogs import confirm
from app.ui.errors import explain, problem_of
from app.ui.links import offer_way_back, show_link
from app.ui.notices import show_empty, show_heading, show_problem, show_table, show_text, show_warning
from app.ui.tables import PAGE_ROWS, Source, forget, show_text_pages
from app.vocabulary import GROUP, PERSON
from app.words import ago, counted, moment, one_line
from carrel.wire.docstore import DocstoreFailure, DocstoreSync, DocstoreSyncStatus, ListDocstoreFailuresResponse

REFRESH_SECONDS = 1.0
LIST = "syncs"
_COUNTS = (
    ("Read", "read"),
    ("Created", "created"),
    ("Updated", "updated"),
    ("Unchanged", "unchanged"),
    ("Removed", "deleted"),
    ("Not taken", "failed"),
)


def show_sync_page(name: str) -> None:
    """Show the sync of this id, or say that there is none."""
    offer_way_back("All syncs", "sync", "change", also=sync_form.forget_secret)
    sync = explain(lambda: find_sync(name))
    if sync is None:
        show_empty("This sync isn't here.", "It was deleted, or its address is wrong. See all syncs.")
        return
    show_heading(
        sync.config.sync_name,
        f"into {collection_name(str(sync.document_collection_id))}",
        f"{counted(sync.document_count, 'document')} known",
        f"made {ago(sync.created_at)}",
    )
    if "change" in st.query_params:
        _show_change(sync)
        return
    _offer_actions(sync)
    if goes_on(sync):
        watch(name)
    else:
        show_state(sync)
    _show_failures(sync)
    _show_config(sync)


def collection_name(identifier: str) -> str:
    """Return what a collection is called, as far as the person may know."""
    names = {str(one.document_collection_id): one.collection_name for one in explain(api.collections)}
    return one_line(names.get(identifier, "a collection"))


@st.fragment(run_every=REFRESH_SECONDS)
def watch(name: str) -> None:
    """Show a run that goes on; when it has ended, draw the page once more without watching."""
    try:
        sync = find_sync(name)
    except carrel.CarrelError as error:
        show_warning("How far it is can't be told now. This goes on asking.", problem_of(error).message)
        return
    if sync is None or not goes_on(sync):
        st.rerun()
    show_state(sync)


def show_state(sync: DocstoreSync) -> None:
    """Show how the last run went, or goes on."""
    _show_outcome(sync)
    numbers = sync.counts.model_dump()
    for column, (label, member) in zip(st.columns(len(_COUNTS)), _COUNTS, strict=True):
        column.metric(label, f"{numbers[member]:,}")
    if sync.warning is not None:
        show_warning(sync.warning.message, hint_for(sync.warning.code))


def _show_outcome(sync: DocstoreSync) -> None:
    if sync.last_error is not None and sync.status is DocstoreSyncStatus.FAILED:
        again = "What it has brought stays; the next run goes on from there."
        show_problem("The last run failed.", sync.last_error.message, hint_for(sync.last_error.code), again)
    elif goes_on(sync):
        begun = (
            f", begun {ago(sync.started_at)}" if sync.started_at and sync.status is DocstoreSyncStatus.RUNNING else ""
        )
        show_text(
            f"A run {'goes on' if begun else 'is to begin'}{begun}. It is the service's: leave the page if you like."
        )
    else:
        show_text(f"The last run ended {ago(sync.finished_at)} ({moment(sync.finished_at)}).")


def _offer_actions(sync: DocstoreSync) -> None:
    with st.container(horizontal=True):
        if st.button("Start a run", key="sync.launch", icon=":material/play_arrow:", disabled=goes_on(sync)):
            explain(
                lambda: api.client().document_collections.docstore.launch_docstore_sync(sync.docstore_credential_id)
            )
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


def _show_failures(sync: DocstoreSync) -> None:
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


def _show_config(sync: DocstoreSync) -> None:
    config, fields = sync.config, sync.config.source_fields
    st.subheader("How it is made", anchor=False)
    show_table(
        [
            ("From", config.collection_name),
            ("Which documents", json.dumps(config.filter_expression) if config.filter_expression else "All"),
            ("Text, title", f"{fields.body}, {fields.source_name}"),
            ("Time of the last change", fields.source_system_updated or "Not told: every run reads everything"),
            ("Link", fields.source_url or "None"),
            ("Who may read them", ", ".join(one.name for one in readers_of(sync)) or _others(sync)),
            ("What vanishes", _vanishing(sync)),
            ("Address", "Kept encrypted, and never shown"),
        ],
        named=True,
    )
    where = str(sync.document_collection_id)
    show_link("See the collection", "collections", collection=where)


def _others(sync: DocstoreSync) -> str:
    return "Everybody in the organization" if sync.config.internal_public else "Only whoever made the sync"


def _vanishing(sync: DocstoreSync) -> str:
    if not sync.config.delete_missing:
        return "stays"
    return f"is removed, {sync.config.delete_limit_percent} % of all at the most"


def readers_of(sync: DocstoreSync) -> list[Principal]:
    """Return whom a sync's config names as readers, by name where they can be found."""
    users = [(PERSON, one) for one in sync.config.allowed_users_email_addresses or ()]
    groups = [(GROUP, str(one)) for one in sync.config.allowed_group_ids or ()]
    return [_principal(kind, one) for kind, one in users + groups]


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def _principal(kind: str, identifier: str) -> Principal:
    found = principal_at(api.client(), f"{kind}:{identifier}")
    return found or Principal(kind, identifier, identifier)


def _show_change(sync: DocstoreSync) -> None:
    show_text(
        "Give the address again: nobody gets it back. Saving ends a run that goes on, and begins one that reads "
        "everything; who may read the documents becomes what you say here."
    )
    save: Callable[[Draft], None] = partial(_change, sync)
    sync_form.ask(draft_of(sync.config), doing="Save, and start a run", known=readers_of(sync), save=save)


def _change(sync: DocstoreSync, draft: Draft) -> None:
    api.client().document_collections.docstore.update_docstore_sync(
        sync.docstore_credential_id, docstore_uri=draft.address, config=draft.config()
    )
    sync_form.forget_secret()
    forget(LIST)
    st.query_params.pop("change", None)
    st.rerun()
