"""Load documents: choose them, say who may read them, start the flow, and watch it."""

import hashlib
from collections.abc import Sequence
from pathlib import Path, PurePath
from uuid import UUID

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from app import api
from app.settings import settings
from app.ui.errors import escaped, explained
from flows.operations.options import UploadOptions
from flows.operations.summary import Summary
from flows.runs import Runs, RunsError, RunStatus

EVERYBODY = "Everybody in the organization"
CHOSEN = "People and groups I choose"
NOBODY = "Nobody but me"
REFRESH_SECONDS = 1.0


@st.cache_resource(show_spinner=False)
def runs() -> Runs:
    """Return the way to the flows, which is safe to share between sessions."""
    return Runs(settings().prefect_api_url)


def choose_source() -> str | None:
    """Let a person drop files here or name a folder; return what the flow is to read."""
    dropped, named = st.tabs(["Files from this computer", "A folder or manifest on the server"])
    files = dropped.file_uploader(
        "Files",
        accept_multiple_files=True,
        label_visibility="collapsed",
        key=f"files-{st.session_state.get('batch', 0)}",
    )
    place = named.text_input(
        "Folder, glob or manifest",
        placeholder="/srv/handbook, /srv/reports/**/*.pdf, /srv/manifest.csv",
        help="A path as the machine that runs the flows sees it.",
    )
    if files:
        return str(stage(files))
    return place.strip() or None


def stage(files: Sequence[UploadedFile]) -> Path:
    """Write dropped files where the flow can read them, once; return their folder, named by what is in it.

    The folder's name depends on the contents alone, so the same drop is the same source however often a page is drawn.
    """
    identities = sorted(f"{file.name}\0{hashlib.sha256(file.getbuffer()).hexdigest()}" for file in files)
    folder = settings().uploads_dir / hashlib.sha256("\0".join(identities).encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        target = folder / (PurePath(file.name).name or "unnamed")
        if not target.exists():
            target.write_bytes(file.getbuffer())
    return folder


def choose_options() -> UploadOptions | None:
    """Ask where the documents go and who may read them; None while the answer is incomplete."""
    with explained():
        collections = dict(api.collections())
        people, groups = dict(api.people()), dict(api.groups())
    left, right = st.columns(2)
    collection = left.selectbox(
        "Also add them to a collection", [None, *collections], format_func=lambda key: collections[key] if key else "No"
    )
    readers = right.radio("Who may read them", [EVERYBODY, CHOSEN, NOBODY], index=2)
    users: list[str] = []
    teams: list[str] = []
    if readers == CHOSEN:
        users = right.multiselect("People", list(people), format_func=lambda email: people[email])
        teams = right.multiselect("Groups", list(groups), format_func=lambda key: groups[key])
        if not users and not teams:
            right.caption("Choose at least one person or group.")
            return None
    return UploadOptions(
        collection=collection,
        allowed_users=users,
        allowed_groups=teams,
        internal_public=readers == EVERYBODY,
    )


def start(source: str, options: UploadOptions) -> None:
    """Start the flow and show this run from now on."""
    try:
        run = runs().start_upload(source, options)
    except RunsError as error:
        st.error(escaped(str(error)))
        return
    st.query_params["run"] = str(run)
    st.session_state["batch"] = st.session_state.get("batch", 0) + 1
    st.rerun()


@st.fragment(run_every=REFRESH_SECONDS)
def watch(run: UUID) -> None:
    """Show a run that goes on; when it has ended, draw the page once more without watching."""
    try:
        status = runs().run_status(run)
    except RunsError as error:
        st.warning(escaped(str(error)))
        return
    show_run(status)
    if status.finished:
        st.session_state["ended"] = str(run)
        st.rerun()


def show_run(status: RunStatus) -> None:
    """Show a run's phase, its counts, and what could not be loaded."""
    counts = status.counts
    st.progress(min(status.progress, 100.0) / 100, text=phase_in_words(status))
    for column, (label, number) in zip(st.columns(5), numbers(counts), strict=True):
        column.metric(label, number)
    if status.plan:
        with st.expander("The plan"):
            st.markdown(status.plan)
    if status.failures:
        st.subheader("Not loaded")
        st.dataframe(status.failures, hide_index=True)  # pyright: ignore[reportUnknownMemberType] - Streamlit's type


def numbers(counts: Summary) -> list[tuple[str, int]]:
    """Return a run's counts under the words people know them by."""
    return [
        ("Created", counts.created),
        ("Updated", counts.updated),
        ("Unchanged", counts.unchanged),
        ("Waiting", counts.waiting),
        ("In quarantine", counts.quarantined),
    ]


def phase_in_words(status: RunStatus) -> str:
    """Say in a line where a run is."""
    if status.state in {"SCHEDULED", "PENDING"}:
        return "Waiting for the flow to start …"
    if status.state in {"FAILED", "CRASHED", "CANCELLED"}:
        return escaped(f"Ended early: {status.message} Start it again: it goes on where it was.")
    if status.finished:
        return f"Done in {status.seconds:.0f} s"
    words = {"scanning": "Reading the source", "sending": "Uploading", "indexing": "Making them searchable"}
    return f"{words.get(status.phase, status.phase)} … {status.documents_per_second:.1f} documents a second"


def shown_run() -> UUID | None:
    """Return the run that the page's address names."""
    try:
        return UUID(st.query_params["run"]) if "run" in st.query_params else None
    except ValueError:
        return None


def page() -> None:
    """Draw the page."""
    st.title("Upload")
    run = shown_run()
    if run is not None:
        if st.session_state.get("ended") == str(run):
            show_ended(run)
        else:
            watch(run)
        st.divider()
    source = choose_source()
    options = choose_options()
    ready = source is not None and options is not None
    if st.button("Start the upload", type="primary", disabled=not ready) and source is not None and options is not None:
        start(source, options)
    if source is None:
        st.caption(
            "PDF, Word, PowerPoint, Excel, CSV, HTML, Markdown, text, JSON and mail. What is already loaded and "
            "unchanged is not sent again; a file with the name of one loaded before becomes its next version; "
            "what can't be read is listed with its reason and stops nothing."
        )


def show_ended(run: UUID) -> None:
    """Show how a run ended."""
    try:
        show_run(runs().run_status(run))
    except RunsError as error:
        st.warning(escaped(str(error)))


page()
