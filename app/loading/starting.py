"""Starting a bulk upload: the source, the options, and the buttons."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID, uuid4

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from app import api
from app.labels import GROUP, PERSON
from app.loading import staging
from app.loading.runs import runs_to_change, start_dropped
from app.ui.errors import Problem, error_boundary, problem_of
from app.ui.notices import show_note, show_problem, show_warning
from app.ui.pickers import drop_choice, pick_principals
from carrel.wire.formats import in_words
from carrel.wire.sources import holds_credential
from flows.operations.options import UploadOptions
from flows.runs import RunsError

DROPPED, NAMED = "Files from this computer", "A place that the runs can read"
EVERYBODY = "Everybody in the organization"
CHOSEN = "People and groups I choose"
NOBODY = "Only whom they belong to"
MINE, THEIRS = "Me", "The account that loads"
CREDENTIAL = "A password or a query doesn't belong into an address: whoever looks at the run would see it."
CREDENTIAL_HINT = "Leave it out; what carries out the runs has credentials in its environment."
_BATCH, _PROBLEM, _BEGUN = "start.batch", "start.problem", "start.begun"
_READERS = "start.readers"


@dataclass(frozen=True)
class Chosen:
    """A source that a person has chosen: dropped files, or a place that the runs can read."""

    files: tuple[UploadedFile, ...] = ()
    place: str = ""


def batch() -> str:
    """Return the key of the present form, which changes when something was started, so that its fields are empty.

    It is also the key of the start, so that one sent twice starts one run.
    """
    return st.session_state.setdefault(_BATCH, uuid4().hex)


def open_run(run: UUID) -> None:
    """Clear the form and open the page of the run that was started."""
    for key in (_BATCH, _PROBLEM):
        st.session_state.pop(key, None)
    drop_choice(_READERS)
    st.session_state[_BEGUN] = run
    st.query_params.from_dict({"run": str(run)})
    st.rerun()


def was_pressed(*buttons: bool) -> bool:
    """Tell whether one of these was pressed; a second click leads to what the first has begun, instead of starting it.

    It may come before the page of that run is drawn, when the fields are empty already.
    """
    before: UUID | None = st.session_state.pop(_BEGUN, None)
    if any(buttons) and before is not None:
        open_run(before)
    return any(buttons)


def begin(start: Callable[[], UUID]) -> None:
    """Start a run and open its page; show a refusal under the button."""
    try:
        run = start()
    except RunsError as error:
        st.session_state[_PROBLEM] = problem_of(error)
    except staging.StagingError as error:
        st.session_state[_PROBLEM] = Problem(str(error))
    else:
        open_run(run)


def refuse(message: str, hint: str) -> None:
    """Show under the button why nothing was started."""
    st.session_state[_PROBLEM] = Problem(message, (hint,))


def show_refusal() -> None:
    """Show why the last start was none."""
    problem: Problem | None = st.session_state.pop(_PROBLEM, None)
    if problem is not None:
        show_problem("Nothing was started.", problem.message, *problem.notes)


def offer_upload() -> None:
    """Show the form of a bulk upload; then plan or start it."""
    chosen = choose_source()
    options = choose_options(dropped=not (chosen and chosen.place))
    with st.container(horizontal=True):
        plan = st.button("Show the plan", type="primary", key="start.plan")
        at_once = st.button("Start the upload", key="start.upload", help="Without looking at the plan first")
    if was_pressed(plan, at_once):
        _press(chosen, options, only_plan=plan)
    show_refusal()
    st.caption(
        f"{in_words()}. The plan tells what would be created, "
        "updated and deleted, and sends nothing. What is already loaded and unchanged is not sent again; a file with "
        "the name of one loaded before becomes its next version; what can't be read is listed with its reason and "
        "stops nothing."
    )


def choose_source() -> Chosen | None:
    """Show inputs for files or a place; return None until one is given."""
    kind = st.segmented_control(
        "From", [DROPPED, NAMED], key="start.from", default=DROPPED, required=True, label_visibility="collapsed"
    )
    if kind == NAMED:
        place = st.text_input(
            "Folder, glob, manifest or object store",
            key=f"place-{batch()}",
            placeholder="/srv/handbook, /srv/reports/**/*.pdf, /srv/manifest.csv, s3://reports/published",
            help="As the machine that carries out the runs sees it. A manifest is a .csv or .jsonl file.",
        ).strip()
        return Chosen(place=place) if place else None
    files = st.file_uploader("Files", accept_multiple_files=True, label_visibility="collapsed", key=f"files-{batch()}")
    return Chosen(files=tuple(files)) if files and names_are_good(files) else None


def names_are_good(files: list[UploadedFile]) -> bool:
    """Return whether the files' names differ; show problems, and under which name an odd one is stored."""
    if repeated := staging.find_repeated_names(file.name for file in files):
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


def choose_options(*, dropped: bool) -> UploadOptions | None:
    """Show inputs for collection, owner and readers; return None while they are incomplete."""
    with error_boundary():
        collections = {"": "No"} | {str(at.document_collection_id): at.collection_name for at in api.collections()}
    left, right = st.columns(2)
    collection = left.selectbox(
        "Also add them to a collection",
        list(collections),
        key=f"collection-{batch()}",
        format_func=lambda key: collections[key],
    )
    with left:
        owner = choose_owner()
    with right:
        readers = st.radio("Who may read them", [EVERYBODY, CHOSEN, NOBODY], index=2, key=f"readers-{batch()}")
        picked = pick_principals(_READERS, label="Find", kinds=(PERSON, GROUP)) if readers == CHOSEN else []
    more = UploadOptions() if dropped else choose_more()
    if readers == CHOSEN and not picked:
        return None
    return more.model_copy(
        update={
            "collection": collection or None,
            "allowed_users": [one.id for one in picked if one.kind == PERSON],
            "allowed_groups": [one.id for one in picked if one.kind == GROUP],
            "internal_public": readers == EVERYBODY,
            "upload_as_user_email": owner,
        }
    )


def choose_owner() -> str | None:
    """Show an input for the documents' owner; None: whoever the runs act as."""
    owner = st.radio("They belong to", [MINE, THEIRS], horizontal=True, key=f"owner-{batch()}")
    if owner == MINE:
        show_note(
            f"Runs act with a key of their own, and load these for you: the documents belong to {api.me().email}. "
            "What somebody else has loaded under the same names is theirs, and refused."
        )
        return api.me().email
    show_note("The documents belong to the account whose key the runs have, as those of schedules do.")
    return None


def choose_more() -> UploadOptions:
    """Show inputs for rare options: deletions, hidden files, and documents that were refused before."""
    with st.expander("More choices"):
        delete = st.toggle("Delete what the source no longer has", key=f"delete-{batch()}")
        show_note(
            "Only what was loaded from this source before, and is as it was then. Nothing is deleted when the source "
            "can't be read whole, or is empty, or when it would be more than the most you allow."
        )
        limit = st.number_input(
            "The most that may be deleted, in percent of what was there",
            0,
            100,
            20,
            key=f"limit-{batch()}",
            disabled=not delete,
        )
        hidden = st.toggle("Also files and folders whose names begin with a dot", key=f"hidden-{batch()}")
        again = st.toggle("Send again what was refused before and is still the same", key=f"refused-{batch()}")
    return UploadOptions(delete_missing=delete, delete_limit_percent=limit, hidden=hidden, retry_refused=again)


def _press(chosen: Chosen | None, options: UploadOptions | None, *, only_plan: bool) -> None:
    """Start the upload, or show what is missing (a disabled button would need a second press after a field)."""
    if chosen is None:
        refuse("There is nothing to load yet.", "Choose files, or name a place, and start again.")
    elif options is None:
        refuse("Nobody is chosen who may read them.", "Choose at least one person or group, and start again.")
    elif holds_credential(chosen.place):
        refuse(CREDENTIAL, CREDENTIAL_HINT)
    else:
        key = f"start-{batch()}-{'plan' if only_plan else 'run'}"
        begin(lambda: _start(chosen, options, only_plan=only_plan, key=key))


def _start(chosen: Chosen, options: UploadOptions, *, only_plan: bool, key: str) -> UUID:
    if chosen.files:
        return start_dropped(chosen.files, options, only_plan=only_plan, key=key)
    start = runs_to_change().start_plan if only_plan else runs_to_change().start_upload
    return start(chosen.place, options, person=api.me().email, key=key)
