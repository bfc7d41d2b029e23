"""Load documents: choose them, say who may read them, start the flow, and watch it."""

from dataclasses import dataclass
from uuid import UUID

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from app import api, staging
from app.settings import settings
from app.ui.access import require_admin
from app.ui.errors import explained
from app.ui.notices import show_problem, show_warning
from app.ui.runs import show_run
from flows.operations.options import UploadOptions
from flows.runs import Runs, RunsError, RunStatus

DROPPED, NAMED = "Files from this computer", "A folder or manifest on the server"
EVERYBODY = "Everybody in the organization"
CHOSEN = "People and groups I choose"
NOBODY = "Nobody but me"
REFRESH_SECONDS = 1.0


@dataclass(frozen=True)
class Source:
    """What a person wants loaded: dropped files, or a place that the machine of the flows can read."""

    files: tuple[UploadedFile, ...] = ()
    place: str = ""


@st.cache_resource(show_spinner=False)
def runs() -> Runs:
    """Return the way to the flows, which is safe to share between sessions."""
    return Runs(settings().prefect_api_url)


def batch() -> int:
    """Return the number of uploads started in this session; fields named by it are empty again after a start."""
    return int(st.session_state.get("batch", 0))


def choose_source() -> Source | None:
    """Let a person drop files here or name a folder; None while there is nothing to start with."""
    kind = st.segmented_control(
        "From", [DROPPED, NAMED], key="source", default=DROPPED, required=True, label_visibility="collapsed"
    )
    if kind == NAMED:
        place = st.text_input(
            "Folder, glob or manifest",
            key=f"place-{batch()}",
            placeholder="/srv/handbook, /srv/reports/**/*.pdf, /srv/manifest.csv",
            help="A path as the machine that runs the flows sees it. A manifest is a .csv or .jsonl file.",
        )
        return Source(place=place.strip()) if place.strip() else None
    files = st.file_uploader("Files", accept_multiple_files=True, label_visibility="collapsed", key=f"files-{batch()}")
    return Source(files=tuple(files)) if files and names_are_good(files) else None


def names_are_good(files: list[UploadedFile]) -> bool:
    """Refuse files that would overwrite each other, and say under which name a file with an odd one is kept."""
    if repeated := staging.repeated_names(file.name for file in files):
        show_problem(
            f"Several files are called {', '.join(repeated)}.",
            "A document is known by its file's name: rename them, or leave all but one out.",
        )
        return False
    renamed = [(file.name, plain) for file in files if (plain := staging.plain_name(file.name)) != file.name]
    if renamed:
        show_warning(
            "Some names can't be kept as they are.", *(f"{name[:200]} becomes {plain}" for name, plain in renamed)
        )
    return True


def choose_options() -> UploadOptions | None:
    """Ask where the documents go and who may read them; None while the answer is incomplete."""
    with explained():
        collections = {"": "No"} | {str(at.document_collection_id): at.collection_name for at in api.collections()}
        people, groups = dict(api.people()), dict(api.groups())
    left, right = st.columns(2)
    collection = left.selectbox(
        "Also add them to a collection", list(collections), format_func=lambda key: collections[key]
    )
    readers = right.radio("Who may read them", [EVERYBODY, CHOSEN, NOBODY], index=2)
    users: list[str] = []
    teams: list[str] = []
    if readers == CHOSEN:
        users = right.multiselect("People", list(people), format_func=lambda email: people[email])
        teams = right.multiselect("Groups", list(groups), format_func=lambda key: groups[key])
        if not users and not teams:
            return None
    return UploadOptions(
        collection=collection or None,
        allowed_users=users,
        allowed_groups=teams,
        internal_public=readers == EVERYBODY,
    )


def press(source: Source | None, options: UploadOptions | None) -> None:
    """Start, or say what is missing: a button that waits for a field to be left would have to be pressed twice."""
    st.session_state.pop("problem", None)
    if source is None:
        show_problem("There is nothing to upload yet.", "Choose files, or name a folder or manifest, and start again.")
    elif options is None:
        show_problem("Nobody is chosen who may read them.", "Choose at least one person or group, and start again.")
    else:
        start(source, options)


def start(source: Source, options: UploadOptions) -> None:
    """Start the flow and show this run from now on.

    Nothing here lets a second click in between before the fields are empty, so that it has nothing to start.
    """
    try:
        run = start_dropped(source, options) if source.files else runs().start_upload(source.place, options)
    except (RunsError, staging.StagingError) as error:
        st.session_state["problem"] = str(error)
        return
    st.session_state["batch"] = batch() + 1
    st.session_state["started"] = str(run)
    st.rerun()


def start_dropped(source: Source, options: UploadOptions) -> UUID:
    """Put dropped files where the flow reads them, and start it; a name that begins with a dot was chosen as well."""
    uploads = settings().uploads_dir
    staging.sweep(uploads, has_ended)
    folder = staging.stage(source.files, uploads)
    try:
        run = runs().start_upload(str(folder), options.model_copy(update={"hidden": True}))
    except RunsError:
        staging.remove(folder)
        raise
    staging.hand_over(folder, run)
    return run


def has_ended(run: UUID) -> bool:
    """Tell whether a run has ended, as far as anybody knows."""
    try:
        return runs().run_status(run).finished
    except RunsError:
        return False


@st.fragment(run_every=REFRESH_SECONDS)
def watch(run: UUID) -> None:
    """Show a run that goes on; when it has ended, draw the page once more without watching."""
    try:
        status = runs().run_status(run)
    except RunsError as error:
        show_warning("Where this upload is can't be told now.", str(error))
        return
    if status.finished:
        st.rerun()
    show_run(status)


def show_named_run() -> None:
    """Show the run that the page's address names, if it names one."""
    if "started" in st.session_state:
        st.query_params["run"] = st.session_state.pop("started")
    if "run" in st.query_params:
        show_run_of(st.query_params["run"])
        st.divider()


def show_run_of(name: str) -> None:
    """Show how a run ended, or watch it while it goes on."""
    try:
        status = runs().run_status(UUID(name))
    except ValueError:
        unknown_run()
        return
    except RunsError as error:
        if is_unknown(error):
            unknown_run()
        else:
            watch(UUID(name))
        return
    if status.finished:
        show_ended(status)
    else:
        watch(status.flow_run_id)


def show_ended(status: RunStatus) -> None:
    """Show how a run ended, and let the files go that it has read."""
    staging.sweep(settings().uploads_dir, lambda run: run == status.flow_run_id)
    show_run(status)


def unknown_run() -> None:
    """Say that the address names nothing."""
    show_warning("The address names no upload.", "Start one here, or open the address of one again.")


def is_unknown(error: RunsError) -> bool:
    """Tell whether Prefect answered that it has no such run; flows.runs gives the status in its message only."""
    return "answered 404" in str(error)


def page() -> None:
    """Draw the page."""
    require_admin()
    st.title("Upload")
    show_named_run()
    source = choose_source()
    options = choose_options()
    if st.button("Start the upload", type="primary"):
        press(source, options)
    if problem := st.session_state.get("problem"):
        show_problem("The upload did not start.", problem)
    if source is None:
        st.caption(
            "PDF, Word, PowerPoint, Excel, CSV, HTML, Markdown, text, JSON and mail. What is already loaded and "
            "unchanged is not sent again; a file with the name of one loaded before becomes its next version; "
            "what can't be read is listed with its reason and stops nothing."
        )


page()
