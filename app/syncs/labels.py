"""Syncs on pages: lookups, states, form fields, and advice on errors."""

import re
import tomllib
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import carrel
from app import api
from app.formatting import one_line
from app.lookup import find_by_id
from app.ui.errors import Problem, problem_of, show_errors
from carrel.wire.docstore import DocstoreSync, DocstoreSyncStatus

MOST = 500


def find_sync(name: str) -> DocstoreSync | None:
    return find_by_id(api.client().document_collections.docstore.get_docstore_sync, name)


def sync_names() -> dict[str, str]:
    """Return the names of the syncs visible to the person by id, sorted by name, at most the first `MOST`."""
    found = islice(api.client().document_collections.docstore.list_docstore_syncs(), MOST)
    names = {str(sync.docstore_credential_id): sync.config.sync_name for sync in found}
    return dict(sorted(names.items(), key=lambda item: item[1].casefold()))


def is_running(sync: DocstoreSync) -> bool:
    return sync.status in {DocstoreSyncStatus.PENDING, DocstoreSyncStatus.RUNNING}


def collection_name(identifier: str) -> str:
    """Return a collection's name in a line; "a collection" for a collection that the person cannot see."""
    return one_line(show_errors(api.collection_names).get(identifier, "a collection"))


STATES: Mapping[DocstoreSyncStatus, str] = {
    DocstoreSyncStatus.PENDING: "Waiting to start",
    DocstoreSyncStatus.RUNNING: "Running",
    DocstoreSyncStatus.COMPLETED: "Done",
    DocstoreSyncStatus.FAILED: "Failed",
}
_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
LABELS: Mapping[str, str] = _TEXTS["labels"]
"""The form's labels for request members, used in errors."""
_IN_NOTICES: Mapping[str, str] = _TEXTS["in_notices"]
_MEMBERS = re.compile(
    r"\b(?:sourceName|sourceSystemUpdated|sourceUrl|sourceFields|filterExpression|deleteLimitPercent|body(?=:))"
)
_NOT_SO = "These settings are not valid."
_HINTS: Mapping[str, str] = _TEXTS["hints"]


def hint_for(code: str) -> str:
    return _HINTS.get(code, "")


def refusal_in_words(error: carrel.CarrelError) -> Problem:
    if isinstance(error, carrel.InvalidArgumentError):
        named = (line.partition(": ") for line in str(error).split("; "))
        return Problem(_NOT_SO, tuple(f"{_label(member)}: {said}" if said else member for member, _, said in named))
    if not isinstance(error, carrel.APIError):
        return problem_of(error)
    wrong = [f"{_label(detail.field)}: {detail.message}" for detail in error.details]
    request = [f"Request id: {error.request_id}"] if error.request_id else []
    hint = [hint_for(error.code)] if hint_for(error.code) else []
    return Problem(_NOT_SO if wrong else error.message, (*wrong, *hint, *request))


def in_words_of_the_form(message: str) -> str:
    """Return a message about a document, with the first member replaced by the form's label."""
    member, colon, said = message.partition(": ")
    return f"{_label(member)}: {said}" if colon else message


def notice_in_words_of_the_form(message: str) -> str:
    """Return a run's warning or error, with members replaced by the form's labels."""
    return _MEMBERS.sub(lambda found: _IN_NOTICES.get(found[0]) or LABELS[found[0]], message)


def state_in_words(sync: DocstoreSync) -> str:
    """Return a sync's state for a list: status, and documents left out or work left undone by its last run."""
    if sync.warning is None or is_running(sync):
        return STATES[sync.status]
    return "Done, some failed" if sync.warning.code == "documents_failed" else "Done, with work remaining"


def _label(member: str) -> str:
    name = member.rsplit(".", 1)[-1].replace("_", "").lower()
    return next((label for known, label in LABELS.items() if known.lower() == name), member)
