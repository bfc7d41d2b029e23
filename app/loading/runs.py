"""Runs as people start them: on whose behalf, and with which files."""

from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

import streamlit as st
from pydantic import ValidationError

from app import api
from app.auth.current import require_session
from app.loading import staging
from app.loading.labels import is_of_dropped_files
from app.settings import settings
from carrel import CarrelError
from flows.operations.options import UploadOptions
from flows.runs import Runs, RunsError, RunStatus, UnknownError


class StartError(Exception):
    """A run can't be started; the message says why and what to do."""


class NotForYouError(RunsError):
    """The person is not an admin, or not any more."""


def runs() -> Runs:
    """Return a client of the flows, for an admin whose session is valid. Raises RunsError.

    Prefect has no accounts, so this is checked at each call: buttons and fragments of an open page run without the
    page's own check.
    """
    return _for_admins(api.me)


def runs_to_change() -> Runs:
    """Return the way to the flows for a change, after a fresh check that the person is an admin."""
    return _for_admins(api.me_now)


def _for_admins(who: Callable[[], api.Me]) -> Runs:
    try:
        require_session()
        is_admin = who().is_admin
    except CarrelError as error:
        raise NotForYouError(str(error)) from error
    if not is_admin:
        msg = "Runs are for admins. Reload this page."
        raise NotForYouError(msg)
    return _runs()


@st.cache_resource(show_spinner=False, on_release=Runs.close)
def _runs() -> Runs:
    """Return the part that all sessions can share."""
    return Runs(settings().prefect_api_url)


def start_dropped(
    files: Sequence[staging.DroppedFile], options: UploadOptions, *, only_plan: bool, key: str | None
) -> UUID:
    """Copy dropped files to where the flow reads them, and start it; all are included, whatever their names.

    After a plan the files stay, for the run that may follow. Raises RunsError and StagingError, leaving nothing behind.
    """
    uploads = settings().uploads_dir
    staging.sweep(uploads, is_done)
    folder = staging.stage(files, uploads)
    chosen = options.model_copy(update={"hidden": True, "include": ["*"]})
    try:
        start = runs_to_change().start_plan if only_plan else runs_to_change().start_upload
        run = start(str(folder), chosen, person=api.me().email, key=key)
    except RunsError:
        staging.remove(folder)
        raise
    if not only_plan:
        staging.hand_over(folder, run)
    return run


def start_planned(plan: RunStatus) -> UUID:
    """Start what a run has planned, once even if called again. Raises RunsError and StartError."""
    folder = _dropped_folder(plan)
    try:
        options = UploadOptions.model_validate(plan.options)
    except ValidationError as error:  # it was started by something else, or by another version
        msg = "It was planned with options that aren't known here. Plan the upload again."
        raise StartError(msg) from error
    run = runs_to_change().start_upload(plan.source, options, person=api.me().email, key=f"planned-{plan.flow_run_id}")
    if folder is not None:
        staging.hand_over(folder, run)
    return run


def start_again(run: RunStatus, *, key: str) -> UUID:
    """Start a run again, once for each key. Raises RunsError and StartError."""
    folder = _dropped_folder(run)
    again = runs_to_change().start_again(run, person=api.me().email, key=key)
    if folder is not None and not run.only_plans:
        staging.hand_over(folder, again)
    return again


def _dropped_folder(run: RunStatus) -> Path | None:
    """Return the folder of dropped files that a run reads. Raises StartError when they are gone."""
    if not is_of_dropped_files(run.source):
        return None
    folder = Path(run.source)
    if is_gone(run):
        msg = "The files that were dropped for it are gone. Drop them again."
        raise StartError(msg)
    return folder


def is_gone(run: RunStatus) -> bool:
    """Return whether a run's files were dropped in the workbench and are gone, so that it can't be started again."""
    return is_of_dropped_files(run.source) and not Path(run.source).is_dir()


def is_done(run: UUID) -> bool:
    """Return whether a run has completed or is gone, so that nobody will start it again with its files."""
    try:
        return runs().run_status(run).state == "COMPLETED"
    except UnknownError:
        return True
    except RunsError:
        return False
