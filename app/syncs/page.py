"""The page of a sync: the last run, config, buttons, and the form. The sync's address is a secret, never shown."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import Any
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.formatting import ago, moment, one_line
from app.labels import EVERYONE, GROUP, PERSON, SELECTED
from app.lookup import Principal
from app.syncs import labels
from app.syncs.labels import LABELS, hint_for, in_words_of_the_form, refusal_in_words
from app.ui import notices
from app.ui.dialogs import confirm
from app.ui.errors import problem_of, require_found, show_errors
from app.ui.pickers import drop_choice, get_named, pick_principals
from app.ui.saving import keep_opened
from app.ui.tables import forget, pages_of, show_text_pages, source_of
from carrel.wire.docstore import DocstoreFailure, DocstoreRun, DocstoreSync, DocstoreSyncStatus
from flows.operations.formatting import count_text, waiting_text


def _read_filter(text: str) -> dict[str, Any]:
    """Return the JSON object in a text, empty for a blank text. Raises ValueError with advice."""
    if not text.strip():
        return {}
    try:
        found: object = json.loads(text)
    except ValueError as error:
        msg = f"Which documents: the filter is not valid JSON ({error})."
        raise ValueError(msg) from error
    if not isinstance(found, dict):
        msg = 'Which documents: enter a JSON object, such as {"state": "published"}.'
        raise ValueError(msg)  # noqa: TRY004 - a person wrote it, no program
    return found  # pyright: ignore[reportUnknownVariableType] - JSON's members have text for names


Save = Callable[[str, Mapping[str, Any]], object]
"""A function that saves a sync: it gets the address ("" if left empty) and the config in the API's format."""

CREATOR_ALONE = "Only the creator of the sync"
_READERS = "sync.readers"
_ADDRESS = "sync.address"
_NEEDED = ("syncName", "docstoreURI", "collectionName", "body", "sourceName")
_NEEDED_FOR_A_TEST = ("docstoreURI", "collectionName")
_FIELDS = {  # with an example of each
    "body": "content.text",
    "sourceName": "title",
    "sourceSystemUpdated": "updatedAt",
    "sourceUrl": "links.public",
}


def ask(
    config: Mapping[str, Any], *, doing: str, known: list[Principal], save: Save, into: str, saved: UUID | None = None
) -> None:
    """Show the form with a config for the collection `into`. A `saved` sync keeps its address if the field is empty."""
    address, chosen, filled = _ask_for_fields(config)
    readers = _ask_for_readers(known, everybody=bool(config.get("internalPublic")))
    # Above the button, so that the person who presses it sees the error.
    said = st.container()
    with st.container(horizontal=True):
        saving = st.button(doing, type="primary", key="sync.save")
        testing = st.button("Test connection", key="sync.test", help="Shows the fields and the first documents")
    if not (saving or testing):
        return
    needed = _NEEDED_FOR_A_TEST if testing else _NEEDED
    values = {**filled, **filled["sourceFields"], "docstoreURI": address or saved}
    with said:
        if readers is None:
            notices.show_problem("No readers are selected.", "Select at least one person or group.")
        elif missing := [name for name in needed if not values[name]]:
            # Like a test, name all missing fields at once.
            named = ", ".join(LABELS[name] for name in (needed if testing else missing))
            notices.show_problem("Some required fields are empty.", f"Fill in: {named}.")
        else:
            try:
                done = partial(_show_preview, into, saved) if testing else save
                done(address, {**filled, **readers, "filterExpression": _read_filter(chosen)})
            except carrel.CarrelError as error:
                refusal_in_words(error).show()
            except ValueError as error:
                notices.show_problem(str(error))


def _show_preview(into: str, saved: UUID | None, address: str, config: Mapping[str, Any]) -> None:
    preview = api.client().document_collections.docstore.preview_docstore_sync
    fields = config["sourceFields"]
    named = {
        **config,
        "syncName": config["syncName"] or "_",
        "sourceFields": {**fields, "body": fields["body"] or "_id", "sourceName": fields["sourceName"] or "_id"},
    }
    found = preview(into, docstore_credential_id=saved, docstore_uri=address or None, config=named)
    if found.problem is not None:
        notices.show_problem("The database cannot be read.", found.problem.message, hint_for(found.problem.code))
        return
    number, slow = found.document_count, "The database needs a long time to count the documents that match the filter."
    said = slow if number is None else f"The filter matches {count_text(number, 'document')}."
    notices.show_text(f"Connected. {said}")
    notices.show_text(f"Fields: {', '.join(map(one_line, found.fields)) or 'none'}")
    if not (fields["body"] and fields["sourceName"]):
        notices.show_text("To see the first documents, enter the fields of the text and the title, and test again.")
        return
    rows = [(item.name or json.dumps(item.source_id), item.problem or item.text or "") for item in found.documents]
    notices.show_table(
        [(one_line(name), one_line(in_words_of_the_form(text))) for name, text in rows],
        heads=("Title", "Text or problem"),
    )


def forget_form() -> None:
    st.session_state.pop(_ADDRESS, None)
    drop_choice(_READERS)


def _ask_for_fields(config: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Show the fields of a sync; return the address, the filter's text, and the other values by config name."""
    left, right = st.columns(2)
    with left:
        filled: dict[str, Any] = {"syncName": _ask_text(config, "syncName", "Articles")}
        address = st.text_input(
            LABELS["docstoreURI"],
            type="password",
            key=_ADDRESS,
            # A password field sends no event when Tab leads to its own button.
            live="250ms",
            autocomplete="off",
            placeholder="mongodb://reader:password@mongo.example.com/shop",
            help="The URL of MongoDB or a compatible database. It is stored encrypted and never shown again.",
        ).strip()
        filled["collectionName"] = _ask_text(config, "collectionName", "articles")
        kept = config.get("filterExpression")
        chosen = st.text_area(
            LABELS["filterExpression"],
            json.dumps(kept, ensure_ascii=False) if kept else "",
            key="sync.filter",
            placeholder='{"state": "published"}',
            help="A MongoDB query in JSON. Leave empty for all documents.",
        )
    with right:
        fields = config.get("sourceFields", {})
        filled["sourceFields"] = {member: _ask_text(fields, member, example) for member, example in _FIELDS.items()}
        notices.show_note(
            "Use dots for nested fields. Without a field for the time of the last change, every run reads everything."
        )
    delete = st.toggle(
        "Remove documents that are deleted in the database", config.get("deleteMissing", True), key="sync.delete"
    )
    most = int(config.get("deleteLimitPercent", 20))
    limit = st.number_input("Deletion limit (percent)", 0, 100, most, key="sync.limit", disabled=not delete)
    return address, chosen, {**filled, "deleteMissing": delete, "deleteLimitPercent": limit}


def _ask_text(values: Mapping[str, Any], member: str, example: str) -> str | None:
    value = values.get(member) or ""
    return st.text_input(LABELS[member], value, key=f"sync.{member}", placeholder=example).strip() or None


def _ask_for_readers(known: list[Principal], *, everybody: bool) -> dict[str, Any] | None:
    """Show fields for the readers, and return them as config members; None until people or groups are selected."""
    kinds = [EVERYONE, SELECTED, CREATOR_ALONE]
    now = EVERYONE if everybody else SELECTED if known else CREATOR_ALONE
    readers = st.radio("Who can read the documents", kinds, index=kinds.index(now), key="sync.kind")
    if readers != SELECTED:
        return {"internalPublic": readers == EVERYONE or None}
    picked = pick_principals(_READERS, label="Find", chosen=known, kinds=(PERSON, GROUP))
    users, groups = ([principal.id for principal in picked if principal.kind == kind] for kind in (PERSON, GROUP))
    return {"allowedUsersEmailAddresses": users, "allowedGroupIds": groups} if picked else None


REFRESH_SECONDS = 1.0
_MOST_HELD = 10_000  # the most removals in an approval
_COUNTS = (
    ("Read", "read"),
    ("Created", "created"),
    ("Updated", "updated"),
    ("Unchanged", "unchanged"),
    ("Removed", "deleted"),
    ("Failed", "failed"),
)


@st.fragment(run_every=REFRESH_SECONDS)
def watch(name: str) -> None:
    """Show a running run and refresh it. After the end, redraw the page without refreshing."""
    try:
        sync = labels.find_sync(name)
    except carrel.CarrelError as error:
        problem = problem_of(error)
        notices.show_warning("Progress is not available now. This page keeps trying.", problem.message, *problem.notes)
        return
    if sync is None or not labels.is_running(sync):
        st.rerun()
    _show_state(sync)


def _show_state(sync: DocstoreSync) -> None:
    if sync.last_error is not None and sync.status is DocstoreSyncStatus.FAILED:
        again = "Documents that were loaded stay. The next run continues from there."
        message = labels.notice_in_words_of_the_form(sync.last_error.message)
        notices.show_problem("The last run failed.", message, labels.hint_for(sync.last_error.code), again)
    elif waits := waiting_text(sync):
        notices.show_warning(f"A run will start soon. It was requested {ago(sync.wanted_at)}.", waits)
    elif labels.is_running(sync):
        is_begun = sync.status is DocstoreSyncStatus.RUNNING
        doing = f"is running, started {ago(sync.started_at)}" if is_begun else "will start soon"
        notices.show_text(f"A run {doing}. You can leave this page: the service continues the run.")
    else:
        notices.show_text(f"The last run ended {ago(sync.finished_at)} ({moment(sync.finished_at)}).")
    numbers = sync.counts.model_dump()
    for column, (label, member) in zip(st.columns(len(_COUNTS)), _COUNTS, strict=True):
        column.metric(label, f"{numbers[member]:,}")
    if sync.warning is not None:
        notices.show_warning(
            labels.notice_in_words_of_the_form(sync.warning.message), labels.hint_for(sync.warning.code)
        )
        if sync.warning.code in {"deletion_limit", "listing_empty"} and not labels.is_running(sync):
            _offer_removal(sync)


def _offer_removal(sync: DocstoreSync) -> None:
    """Show a button that deletes blocked documents once, after a dialog with all names, read only after the click."""
    docstore, sync_id = api.client().document_collections.docstore, sync.docstore_credential_id
    held = docstore.list_docstore_held_removals
    first = show_errors(lambda: next(held(sync_id, page_size=1).pages()))
    count = first.held_count or len(first.held_removals)
    these = f"these {count:,} documents" if count > 1 else "this document"
    if not count or not st.button(f"Remove {these} once …", key=f"held.{sync_id}"):
        return
    listed = show_errors(lambda: list(islice(held(sync_id, page_size=1000), _MOST_HELD)))
    approved = [removal.document_id for removal in listed]

    more = f" The list shows the first {len(listed):,}, and only they are removed." if len(listed) < count else ""
    confirm(
        f"Remove {count_text(len(listed), 'document')}?",
        f"This deletes documents that are no longer in the source from the catalog. The limit does not change.{more}",
        doing="Remove them once",
        action=partial(docstore.launch_docstore_sync, sync_id, approved_removals=approved),
        then=partial(forget, LIST),
        names=sorted(removal.document_name for removal in listed),
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
        row=_row_of_run,
    )


def _row_of_run(run: DocstoreRun) -> tuple[str, ...]:
    told = run.last_error or run.warning
    result = labels.STATES[run.status] + (f": {labels.notice_in_words_of_the_form(told.message)}" if told else "")
    numbers = run.counts.model_dump()
    return moment(run.finished_at), one_line(result), *(f"{numbers[member]:,}" for _, member in _COUNTS)


def _show_failures(sync: DocstoreSync) -> None:
    if not sync.counts.failed:
        return
    st.subheader("Failed documents", anchor=False)
    failures = api.client().document_collections.docstore.list_docstore_failures
    about = (sync.docstore_credential_id, sync.finished_at)
    show_text_pages(
        "sync.failures",
        pages_of(lambda at: failures(sync.docstore_credential_id, **at), about=about),
        heads=("Document in the database", "Reason", "Last tried"),
        row=_row_of_failure,
    )
    st.caption("Every run retries these documents.")


def _row_of_failure(item: DocstoreFailure) -> tuple[str, str, str]:
    shown = item.source_id if isinstance(item.source_id, str) else json.dumps(item.source_id, ensure_ascii=False)
    reason = one_line(labels.in_words_of_the_form(item.message))
    return one_line(shown), reason, f"{ago(item.failed_at)} ({moment(item.failed_at)})"


LIST = "syncs"


def show_sync_page(name: str) -> None:
    notices.offer_way_back("All syncs", "sync", "change")
    hint = "It was deleted, or the URL is wrong. Go to all syncs."
    sync = require_found(lambda: labels.find_sync(name), "This sync does not exist.", hint)
    notices.show_heading(
        sync.config.sync_name,
        f"into {labels.collection_name(str(sync.document_collection_id))}",
        count_text(sync.document_count, "document"),
        f"created {ago(sync.created_at)}",
    )
    into = next((one for one in api.collections() if one.document_collection_id == sync.document_collection_id), None)
    if into and (required := [field.name for field in into.custom_metadata_schema.fields if field.required]):
        message = "This sync cannot add new documents: the collection has required fields, and a sync gives no values."
        notices.show_warning(message, f"An owner of the collection can make them optional: {', '.join(required)}.")
    if "change" in st.query_params:
        notices.show_text(
            "The URL is never shown. Leave it empty to keep it. Saving stops a run in progress, and starts a "
            "run. Documents get the access that you choose here."
        )
        opened_at = keep_opened("sync.change", sync, field="sync.address")
        save: Save = partial(_save_change, opened_at)
        into, saved = str(sync.document_collection_id), sync.docstore_credential_id
        doing = "Save and start a run"
        config = sync.config.model_dump(mode="json")
        ask(config, doing=doing, known=readers_of(sync), save=save, into=into, saved=saved)
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
    docstore = api.client().document_collections.docstore
    with st.container(horizontal=True):
        if st.button("Start a run", key="sync.launch", icon=":material/play_arrow:", disabled=labels.is_running(sync)):
            show_errors(partial(docstore.launch_docstore_sync, sync.docstore_credential_id))
            forget(LIST)
            st.rerun()
        notices.offer_action("Change …", st.query_params.update, {"change": "yes"}, key="sync.change")
        if st.button("Delete …", key="sync.delete.ask"):
            confirm(
                "Delete this sync?",
                "The sync's URL and progress are deleted, and no more documents are loaded or removed. "
                "Documents that were loaded stay in the collection and the catalog.",
                action=partial(docstore.delete_docstore_sync, sync.docstore_credential_id),
                then=partial(forget, LIST),
                leaving=("sync",),
            )


def _show_config(sync: DocstoreSync) -> None:
    config, fields = sync.config, sync.config.source_fields
    others = EVERYONE if config.internal_public else CREATOR_ALONE
    deleted = f"is removed, {config.delete_limit_percent} % of all at the most" if config.delete_missing else "stays"
    st.subheader("Configuration", anchor=False)
    notices.show_table(
        [
            ("Source", config.collection_name),
            ("Which documents", json.dumps(config.filter_expression) if config.filter_expression else "All"),
            ("Text, title", f"{fields.body}, {fields.source_name}"),
            ("Time of the last change", fields.source_system_updated or "None: every run reads everything"),
            ("Link", fields.source_url or "None"),
            ("Who can read the documents", ", ".join(principal.name for principal in readers_of(sync)) or others),
            ("Deleted in the source", deleted),
            ("URL", "Encrypted, and never shown"),
        ],
        named=True,
    )
    notices.show_link("Open collection", "collections", collection=str(sync.document_collection_id))


def readers_of(sync: DocstoreSync) -> list[Principal]:
    return get_named(sync.config.allowed_users_email_addresses, sync.config.allowed_group_ids)


def _save_change(sync: DocstoreSync, address: str, config: Mapping[str, Any]) -> None:
    api.client().document_collections.docstore.update_docstore_sync(
        sync.docstore_credential_id, docstore_uri=address or None, config=config, version=sync.version
    )
    forget(LIST)
    st.query_params.pop("change", None)
    st.rerun()
