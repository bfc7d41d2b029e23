"""Starting runs: uploads, additions to a collection, indexing again, and the sample organization."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from uuid import UUID, uuid4

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

import carrel
from app import api
from app.document_collections.contents import embedding_models
from app.labels import EVERYONE, GROUP, PERSON, SELECTED
from app.loading import staging
from app.loading.runs import UPLOAD, runs_to_change, server, start_dropped
from app.lookup import Principal
from app.ui.dialogs import confirm
from app.ui.errors import Problem, keep_problem, show_errors, show_kept_problem
from app.ui.notices import show_empty, show_note, show_problem, show_table, show_text, show_warning
from app.ui.passages import label
from app.ui.pickers import drop_choice, get_named, pick_principals
from app.ui.progress import show_progress
from carrel.wire.collections import DocumentCollection, find_named
from carrel.wire.formats import in_words
from carrel.wire.sources import holds_credential
from flows.errors import SourceError
from flows.operations.options import CATALOG, CollectionOptions, ReindexOptions, UploadOptions
from flows.operations.sources.reading import check_source
from flows.runs import RunsError
from sample.organization import MANIFEST, NAME, STEPS, collection_name, set_up_by_steps
from sample.removal import SampleItem, count_items, find_sample, remove_sample

READERS = "start.readers"
"""The key of the field for readers of the loaded documents."""


@dataclass(frozen=True, slots=True)
class Job:
    flow: str
    parameters: Mapping[str, Any]

    @property
    def options(self) -> Mapping[str, Any]:
        return self.parameters.get("options") or {}

    def as_plan(self) -> "Job":
        """Return the dry run of an upload, without sending and deleting."""
        return Job(self.flow, {**self.parameters, "dry_run": True})


CREDENTIAL = Problem(
    "Remove the password or query from the URL. Everyone who can see the run can see its URL.",
    ("The flow server reads credentials from its environment.",),
)


def batch() -> str:
    """Return the key of the present form. Each start changes the key, so that fields become empty."""
    return st.session_state.setdefault(_batch_key(), uuid4().hex)


def reset_fields() -> None:
    st.session_state.pop(_batch_key(), None)
    drop_choice(READERS)


def field(name: str, value: object = None) -> str:
    """Return the key of a field in the present form. `value` fills a field that has no value yet."""
    key = f"{name}-{batch()}"
    if value is not None and key not in st.session_state:
        st.session_state[key] = value
    return key


def _batch_key() -> str:
    return ".".join(["start.batch", *(st.query_params.get(name, "") for name in ("schedule", "from"))])


DROPPED, FOLDER, NAMED = "Files from this computer", "Folder from this computer", "Server folder or URL"
PRIVATE = "Only the owner"
MINE, THEIRS = "Me", "Service account"

NO_READERS_CHOSEN = Problem("No readers are selected.", ("Select at least one person or group, and start again.",))


def upload_job(place: str, options: UploadOptions | None, *, ask: str = "") -> Job | Problem:
    if not place:
        return Problem("Nothing is selected to load.", (ask or "Choose files or enter a location, and start again.",))
    if options is None:
        return NO_READERS_CHOSEN
    return CREDENTIAL if holds_credential(place) else Job(UPLOAD, {"source": place, "options": options.model_dump()})


def choose_place() -> str:
    return st.text_input(
        "Folder, glob, manifest or object store",
        key=field("place"),
        placeholder="/srv/handbook, /srv/reports/**/*.pdf, /srv/manifest.csv, s3://reports/published",
        help="A path on the machine of the flow server. A manifest is a .csv or .jsonl file.",
    ).strip()


def choose_options(*, dropped: bool, base: UploadOptions | None = None, to: str | None = None) -> UploadOptions | None:
    """Show inputs for collection, owner and readers, starting with `base` and `to`; return None while incomplete."""
    known = base or UploadOptions()
    collections = {"": "No"} | show_errors(api.collection_names)
    if (kept := _collection_key(known.collection)) not in collections:
        collections[kept] = "A deleted collection"
    left, right = st.columns(2)
    collection = left.selectbox(
        "Add to collection",
        list(collections),
        key=field("collection", to if to in collections else None),
        format_func=lambda key: collections[key],
    )
    with left:
        owner = choose_owner(also=known.upload_as_user_email)
    with right:
        readers = st.radio("Who can read the documents", [EVERYONE, SELECTED, PRIVATE], key=field("readers", PRIVATE))
        picked = list[Principal]()
        if readers == SELECTED:
            chosen = get_named(known.allowed_users, known.allowed_groups)
            picked = pick_principals(READERS, label="Find", kinds=(PERSON, GROUP), chosen=chosen)
        if readers == PRIVATE:
            unless = "" if dropped else ", unless a manifest names readers"
            show_note(f"Only the owner can find new documents{unless}. Existing documents keep their readers.")
    pictures = st.toggle("Read text in images inside files", key=field("pictures"))
    more = known if dropped else choose_advanced(known)
    if readers == SELECTED and not picked:
        return None
    # Without a choice, existing documents keep their readers.
    is_chosen = readers != PRIVATE or None
    return more.model_copy(
        update={
            "collection": collection or None,
            "allowed_users": is_chosen and [principal.id for principal in picked if principal.kind == PERSON],
            "allowed_groups": is_chosen and [principal.id for principal in picked if principal.kind == GROUP],
            "internal_public": is_chosen and readers == EVERYONE,
            "upload_as_user_email": owner,
            # None keeps a document's earlier setting.
            "read_pictures": pictures or None,
        }
    )


def choose_owner(*, also: str | None = None) -> str | None:
    """Show an input for the documents' owner, with `also` among the choices. None: the account of the runs."""
    me = api.me().email
    owners = [MINE, THEIRS, *([also] if also and also != me else [])]
    labels = {item: item if item in {MINE, THEIRS} else label(item) for item in owners}
    owner = st.radio("Owner", owners, horizontal=True, key=field("owner"), format_func=labels.__getitem__)
    if owner == THEIRS:
        show_note("The account of the flow server's API key owns the documents.")
        return None
    email = me if owner == MINE else owner
    show_note(
        f"{email} will own the documents. If someone else already owns a document with the same name, that "
        "document is refused."
    )
    return email


def choose_advanced(base: UploadOptions) -> UploadOptions:
    with st.expander("Advanced options"):
        delete = st.toggle("Delete documents that are gone from the source", key=field("delete"))
        show_note(
            "Deletes only documents that were loaded from this source and are unchanged since. If the source "
            "is empty or cannot be read completely, or more documents would go than the limit allows, "
            "nothing is deleted."
        )
        limit = st.number_input(
            "Deletion limit (percent of the source's documents)", 0, 100, key=field("limit", 20), disabled=not delete
        )
        hidden = st.toggle("Include files and folders whose names begin with a dot", key=field("hidden"))
        again = st.toggle("Send refused documents again even if they are unchanged", key=field("refused"))
    chosen = {"delete_missing": delete, "delete_limit_percent": limit, "hidden": hidden, "retry_refused": again}
    return base.model_copy(update=chosen)


def fill_upload(options: UploadOptions, place: str) -> None:
    readers = SELECTED if options.allowed_users or options.allowed_groups else PRIVATE
    owner = options.upload_as_user_email
    field("place", place)
    field("collection", _collection_key(options.collection))
    field("readers", EVERYONE if options.internal_public else readers)
    field("owner", THEIRS if owner is None else MINE if owner == api.me().email else owner)
    field("delete", options.delete_missing)
    field("pictures", bool(options.read_pictures))
    field("limit", options.delete_limit_percent)
    field("hidden", options.hidden)
    field("refused", options.retry_refused)


def _collection_key(named: str | None) -> str:
    found = find_named(show_errors(api.collections), named or "")
    return str(found[0].document_collection_id) if found else named or ""


_PROBLEM, _BEGUN = "start.problem", "start.begun"


def open_run(run: UUID) -> None:
    """Open a run's page, empty the form, and end this run of the page."""
    reset_fields()
    st.session_state.pop(_PROBLEM, None)
    st.session_state[_BEGUN] = run
    st.query_params.from_dict({"run": str(run)})
    st.rerun()


def was_pressed(*buttons: bool) -> bool:
    """Return whether a button was pressed; on a second click, open the run begun by the first instead (`open_run`)."""
    before: UUID | None = st.session_state.pop(_BEGUN, None)
    if any(buttons) and before is not None:
        open_run(before)
    return any(buttons)


def begin(start: Callable[[], UUID]) -> None:
    """Start a run and open the run's page; show a refusal under the button."""
    with keep_problem(_PROBLEM, staging.StagingError):
        open_run(start())


def begin_job(job: Job | Problem, *, key: str) -> None:
    """Start a job and open its page, only once for a form. Keep a problem for `show_refusal`."""
    job = check_place(job)
    if isinstance(job, Problem):
        st.session_state[_PROBLEM] = job
    else:
        begin(lambda: runs_to_change().start(job.flow, job.parameters, person=api.me().email, key=f"{key}-{batch()}"))


def check_place(job: Job | Problem) -> Job | Problem:
    """Return the job, or the problem with the place, if runs read files like this process."""
    place = "" if isinstance(job, Problem) else str(job.parameters.get("source") or "")
    if isinstance(job, Problem) or job.flow not in {UPLOAD, "collection-add"}:
        return job
    with suppress(RunsError):  # starting shows the problem
        if server().read_files_here(job.flow):
            try:
                check_source(place)
            except SourceError as error:
                return Problem(f"{error}.", ("Correct the location, and start again.",))
    return job


def show_refusal() -> None:
    show_kept_problem(_PROBLEM, "Nothing was started.")


def offer_upload() -> None:
    files, place = choose_source()
    options = choose_options(dropped=not place, to=st.query_params.get("collection"))
    with st.container(horizontal=True):
        plan = st.button("Show plan", type="primary", key="start.plan")
        at_once = st.button("Start upload", key="start.upload", help="Starts without showing a plan first")
    if was_pressed(plan, at_once):
        plan = plan or bool(options and options.delete_missing)  # a person confirms deletions by name
        # Report missing input at the press: a button disabled until a field is left would need a second press.
        key = "start-plan" if plan else "start-run"
        if not files:
            job = upload_job(place, options)
            begin_job(job.as_plan() if plan and isinstance(job, Job) else job, key=key)
        elif options is None:
            begin_job(NO_READERS_CHOSEN, key=key)
        else:
            begin(lambda: start_dropped(files, options, only_plan=plan, key=f"{key}-{batch()}"))
    show_refusal()
    with st.expander("File formats"):
        st.caption(f"{in_words()}.")
    st.caption(
        "A plan shows the documents to create, update and delete, and changes nothing. "
        "Unchanged documents are not sent again. A file with the name of an existing document becomes its "
        "next version. A file that cannot be read is listed with the reason, and the rest continues."
    )


def choose_source() -> tuple[list[UploadedFile], str]:
    """Show inputs for files, or for a place that the runs can read; return both, empty until chosen."""
    kind = st.segmented_control(
        "From", [DROPPED, FOLDER, NAMED], key="start.from", default=DROPPED, required=True, label_visibility="collapsed"
    )
    if kind == NAMED:
        return [], choose_place()
    several: Literal["directory", True] = "directory" if kind == FOLDER else True
    key = f"files-{several}-{batch()}"
    files = st.file_uploader("Files", accept_multiple_files=several, label_visibility="collapsed", key=key)
    return files if names_are_good(files) else [], ""


def names_are_good(files: list[UploadedFile]) -> bool:
    """Show equal names as a problem, and unusual names as they are stored; return whether all names differ."""
    if repeated := staging.find_repeated_names(file.name for file in files):
        show_problem(
            f"Several files are called {', '.join(repeated)}.",
            f"Each document is identified by its file name. {staging.REPEATED}",
        )
        return False
    names = [(file.name, staging.plain_name(file.name)) for file in files]
    if renamed := [f"{name[:200]} becomes {plain}" for name, plain in names if plain != name]:
        show_warning("Some file names contain characters that cannot be kept.", *renamed)
    return True


STALE, EVERYTHING, MODEL = "Changed documents", "Everything", "All documents, with another embedding model"


def _offer_start(what: str, ask: Callable[[], Job | Problem | None], *, key: str) -> None:
    if (job := ask()) is None:
        return
    if was_pressed(st.button(f"Start the {what}", type="primary", key=f"start.{what}")):
        begin_job(job, key=key)
    show_refusal()


def addition_job(base: CollectionOptions | None = None) -> Job | Problem | None:
    """Show the fields of an addition to a collection; return None without any collection."""
    if not (collections := show_errors(api.collections)):
        show_empty("There are no collections yet.", "Create a collection on the Collections page.")
        return None
    show_text(
        "Adds documents of the catalog to a collection: those that a manifest, a folder or a pattern names. "
        "A manifest can also set fields. No file is sent, and no document is removed from the collection."
    )
    collection = _choose_collection(collections)
    place = st.text_input(
        "Documents to add",
        key=field("addition"),
        placeholder="catalog://policies/*?team=ferries, /srv/manifest.csv",
        help="Enter catalog:// and a pattern of identifiers (* matches any text). After a question mark, add "
        "fields and the values they must have.",
    ).strip()
    if not place:
        return Problem("No documents are selected.", ("Enter a location or a pattern, and start again.",))
    if holds_credential(place):
        return CREDENTIAL
    known = {} if base is None else base.model_dump()
    options = CollectionOptions.model_validate({**known, "collection": collection})
    return Job("collection-add", {"source": place, "options": options.model_dump()})


def indexing_job(base: ReindexOptions | None = None) -> Job | Problem:
    show_text(
        "Carrel re-indexes a document when it changes. Use this for documents uploaded without re-indexing, "
        "or to change the embedding model. Search keeps working."
    )
    collection = _choose_collection(show_errors(api.collections), everything=True)
    kinds = [MODEL] if collection == CATALOG else [STALE, EVERYTHING, MODEL]
    everything = st.query_params.get("what") == "everything" and EVERYTHING in kinds
    kind = f"what-{collection == CATALOG}"
    what = st.radio("Documents", kinds, key=field(kind, EVERYTHING if everything else kinds[0]))
    model, force = None, False
    if what == MODEL:
        kept = [base.model] if base and base.model else []
        model = st.selectbox(
            "Embedding model",
            list(dict.fromkeys([*_models(), *kept])),
            key=field("model"),
            accept_new_options=True,
            placeholder="Choose a model, or enter its name",
        )
        force = st.toggle("Continue without documents that fail", key=field("force"))
        show_text("Carrel builds the new index beside the old index, and switches when the new index is complete.")
        if not model:
            todo = "Choose a model or enter its name, and start again."
            return Problem("No embedding model is selected.", (todo,))
    known = {} if base is None else base.model_dump()
    options = ReindexOptions.model_validate({**known, "everything": what == EVERYTHING, "model": model, "force": force})
    return Job("reindex", {"source": collection, "options": options.model_dump()})


def fill_addition(options: CollectionOptions, place: str) -> None:
    field("addition", place)
    _fill_collection(options.collection)


def fill_indexing(options: ReindexOptions, collection: str) -> None:
    _fill_collection(collection)
    field(f"what-{collection == CATALOG}", MODEL if options.model else EVERYTHING if options.everything else STALE)
    field("model", options.model)
    field("force", options.force)


def _fill_collection(named: str) -> None:
    if named == CATALOG:
        field("to", CATALOG)
    for collection in find_named(show_errors(api.collections), named):
        field("to", str(collection.document_collection_id))


def _choose_collection(collections: list[DocumentCollection], *, everything: bool = False) -> str:
    names = {str(collection.document_collection_id): collection.collection_name for collection in collections}
    if everything:
        names[CATALOG] = "The whole catalog"
    asked = st.query_params.get("collection", "")
    return choose_by_name("Collection", names, field("to", asked if asked in names else None))


def choose_by_name(label: str, names: Mapping[str, str], key: str) -> str:
    """Show a selectbox of `names`, and return the chosen key, at first, or after the choice is gone, the first."""
    if st.session_state.get(key) not in names:
        st.session_state.pop(key, None)
    return st.selectbox(label, list(names), key=key, format_func=lambda item: names[item])


def _models() -> list[str]:
    try:
        return embedding_models()
    except carrel.APIError:
        return []


_DOING, _OUTCOME = "sample.doing", "sample.outcome"
_NAMED = 5


def offer_sample() -> None:
    show_text(
        f"{NAME} is a sample company with documents, people, groups, a collection and an agent. Loading and "
        "removing the sample never change your own data."
    )
    doing: Callable[[], None] | None = st.session_state.pop(_DOING, None)
    if doing is not None:
        doing()
    with st.container(horizontal=True):
        if st.button("Load sample …", key="sample.load", type="primary", icon=":material/download:"):
            _ask_for_loading()
        if st.button("Remove sample …", key="sample.remove", icon=":material/delete:"):
            _ask_for_removal()
    gone, of, stays = st.session_state.pop(_OUTCOME, ([], 0, ()))
    if not of:
        return
    if len(gone) < of:
        show_warning(f"Interrupted. {of - len(gone):,} of {of:,} items were not removed.", "Remove the sample again.")
    show_text(f"Removed: {count_items(gone)}.")
    _show_left(stays)
    show_table([(item.kind.capitalize(), item.name) for item in gone if item.kind != "document"])


def _ask_for_loading() -> None:
    with st.spinner("Looking for items with the sample's names …"):
        state = show_errors(lambda: find_sample(api.client()))
    if hindrances := state.hindrances:
        told = (
            "Some of your own data has the sample's names. Loading the sample would change it."
            if state.foreign
            else "An earlier sample is here."
        )
        show_problem(told, *hindrances[:_NAMED], _count_more(hindrances))
        return
    confirm(
        "Load the sample?",
        "This creates people and groups, a collection that everyone can search, and an agent that everyone "
        "can ask. A run then loads the documents. Loading the sample again changes nothing.",
        action=partial(_begin_at_next_run, _load_sample),
    )


def _ask_for_removal() -> None:
    with st.spinner("Looking for items of the sample …"):
        state = show_errors(lambda: find_sample(api.client()))
    _show_left(state.stays)
    if not state.items:
        show_text("There are no sample items to remove.")
        return
    confirm(
        "Remove the sample?",
        f"Removes {count_items(state.items)}. People of the sample are offboarded and cannot sign in. Items "
        "that you made, or that other items need, stay; the page then lists them.",
        action=partial(_begin_at_next_run, _remove_sample),
    )


def _begin_at_next_run(doing: Callable[[], None]) -> None:
    st.session_state[_DOING] = doing


def _load_sample() -> None:
    """Set up the sample, then open the page of the loading run. After an interruption, repeat all steps."""
    steps = set_up_by_steps(api.client(), password=os.environ.get("CARREL_SAMPLE_PASSWORD"))
    show_errors(lambda: list(show_progress(steps, of=STEPS, doing="Setting up")))
    api.collections.clear()
    options = UploadOptions(collection=collection_name())
    run = show_errors(lambda: runs_to_change().start_upload(str(MANIFEST), options, person=api.me().email))
    open_run(run)


def _remove_sample() -> None:
    """Remove the sample's objects after a fresh look. Progress is stored, in case the person leaves halfway."""
    with st.spinner("Looking for items of the sample …"):
        state = show_errors(lambda: find_sample(api.client()))
    gone = list[SampleItem]()
    st.session_state[_OUTCOME] = (gone, len(state.items), state.stays)
    show_errors(lambda: gone.extend(show_progress(remove_sample(state), of=len(state.items), doing="Removing")))
    api.collections.clear()


def _show_left(stays: Sequence[str]) -> None:
    if stays:
        show_warning("These items stay:", *stays[:_NAMED], _count_more(stays))


def _count_more(sentences: Sequence[str]) -> str:
    return f"… and {len(sentences) - _NAMED:,} more." if len(sentences) > _NAMED else ""


JOBS: Mapping[str, tuple[str, Callable[[], None]]] = {
    "upload": ("Load documents", offer_upload),
    "addition": ("Add to a collection", partial(_offer_start, "addition", addition_job, key="add")),
    "indexing": ("Re-index", partial(_offer_start, "indexing", indexing_job, key="index")),
    "sample": ("Sample", offer_sample),
}
