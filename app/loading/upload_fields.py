"""The fields of a bulk upload: the source, the owner, the readers, and rare options."""

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from app import api
from app.labels import GROUP, PERSON
from app.loading.form import CREDENTIAL, READERS, Job, Missing, field
from app.lookup import Principal
from app.ui.errors import error_boundary, show_errors
from app.ui.notices import show_note
from app.ui.passages import label
from app.ui.pickers import get_named_principal, pick_principals
from carrel.wire.sources import holds_credential
from flows.operations.options import UploadOptions

DROPPED, NAMED = "Files from this computer", "Server folder or URL"
EVERYBODY = "Everybody in the organization"
CHOSEN = "People and groups I choose"
NOBODY = "Only whom they belong to"
MINE, THEIRS = "Me", "Service account"
UPLOAD = "bulk-upload"


@dataclass(frozen=True)
class Chosen:
    """A source that a person has chosen: dropped files, or a place that the runs can read."""

    files: tuple[UploadedFile, ...] = ()
    place: str = ""


NOBODY_CHOSEN = Missing("Nobody is chosen who may read them.", "Choose at least one person or group, and start again.")


def upload_job(place: str, options: UploadOptions | None) -> Job | Missing:
    """Return the upload of a place, or what is missing."""
    if not place:
        return Missing("There is nothing to load yet.", "Choose files, or name a place, and start again.")
    if options is None:
        return NOBODY_CHOSEN
    return CREDENTIAL if holds_credential(place) else Job(UPLOAD, {"source": place, "options": options.model_dump()})


def choose_place() -> str:
    """Show an input for a place that the runs can read."""
    return st.text_input(
        "Folder, glob, manifest or object store",
        key=field("place"),
        placeholder="/srv/handbook, /srv/reports/**/*.pdf, /srv/manifest.csv, s3://reports/published",
        help="As the machine that carries out the runs sees it. A manifest is a .csv or .jsonl file.",
    ).strip()


def choose_options(*, dropped: bool, base: UploadOptions | None = None, to: str | None = None) -> UploadOptions | None:
    """Show inputs for collection, owner and readers; return None while they are incomplete.

    What they don't say is as `base` has it, whose owner is offered too. The collection is at first that of the id `to`.
    """
    known = base or UploadOptions()
    with error_boundary():
        collections = {"": "No"} | {str(at.document_collection_id): at.collection_name for at in api.collections()}
    if (kept := _collection_key(known.collection, collections)) not in collections:
        collections[kept] = "A collection that is gone"
    left, right = st.columns(2)
    collection = left.selectbox(
        "Also add them to a collection",
        list(collections),
        key=field("collection", to if to in collections else None),
        format_func=lambda key: collections[key],
    )
    with left:
        owner = choose_owner(also=known.upload_as_user_email)
    with right:
        readers = st.radio("Who may read them", [EVERYBODY, CHOSEN, NOBODY], key=field("readers", NOBODY))
        picked = _pick_readers(known) if readers == CHOSEN else []
        if readers == NOBODY:
            show_note(f"Nobody else will find them{'' if dropped else ', unless a manifest names readers'}.")
    pictures = st.toggle("Read text in pictures within files", key=field("pictures"))
    more = known if dropped else choose_more(known)
    if readers == CHOSEN and not picked:
        return None
    return more.model_copy(
        update={
            "collection": collection or None,
            "allowed_users": [one.id for one in picked if one.kind == PERSON],
            "allowed_groups": [one.id for one in picked if one.kind == GROUP],
            "internal_public": readers == EVERYBODY,
            "upload_as_user_email": owner,
            # What was loaded with its pictures stays so where nothing is said.
            "read_pictures": pictures or None,
        }
    )


def choose_owner(*, also: str | None = None) -> str | None:
    """Show an input for the documents' owner, among them `also`; None: whoever the runs act as."""
    me = api.me().email
    owners = [MINE, THEIRS, *([also] if also and also != me else [])]
    owner = st.radio("They belong to", owners, horizontal=True, key=field("owner"), format_func=_owner_label)
    if owner == THEIRS:
        show_note("The documents belong to the account whose key the runs have, as those of schedules do.")
        return None
    email = me if owner == MINE else owner
    show_note(
        f"Runs act with a key of their own, and load these as a person: the documents belong to {email}. "
        "What somebody else has loaded under the same names is theirs, and refused."
    )
    return email


def choose_more(base: UploadOptions) -> UploadOptions:
    """Show inputs for rare options: deletions, hidden files, and documents that were refused before."""
    with st.expander("More choices"):
        delete = st.toggle("Delete what the source no longer has", key=field("delete"))
        show_note(
            "Only what was loaded from this source before, and is as it was then. Nothing is deleted when the source "
            "can't be read whole, or is empty, or when it would be more than the most you allow."
        )
        limit = st.number_input(
            "The most that may be deleted, in percent of what was there",
            0,
            100,
            key=field("limit", 20),
            disabled=not delete,
        )
        hidden = st.toggle("Also files and folders whose names begin with a dot", key=field("hidden"))
        again = st.toggle("Send again what was refused before and is still the same", key=field("refused"))
    return base.model_copy(
        update={
            "delete_missing": delete,
            "delete_limit_percent": limit,
            "hidden": hidden,
            "retry_refused": again,
        }
    )


def fill_upload(options: UploadOptions, place: str) -> None:
    """Fill the fields with an upload that was described before."""
    collections = {str(one.document_collection_id): one.collection_name for one in show_errors(api.collections)}
    readers = CHOSEN if options.allowed_users or options.allowed_groups else NOBODY
    owner = options.upload_as_user_email
    filled: dict[str, object] = {
        "place": place,
        "collection": _collection_key(options.collection, collections),
        "readers": EVERYBODY if options.internal_public else readers,
        "owner": THEIRS if owner is None else MINE if owner == api.me().email else owner,
        "delete": options.delete_missing,
        "pictures": bool(options.read_pictures),
        "limit": options.delete_limit_percent,
        "hidden": options.hidden,
        "refused": options.retry_refused,
    }
    for name, value in filled.items():
        field(name, value)


def _pick_readers(options: UploadOptions) -> list[Principal]:
    chosen = [
        *(get_named_principal(PERSON, email) for email in options.allowed_users or ()),
        *(get_named_principal(GROUP, group) for group in options.allowed_groups or ()),
    ]
    return pick_principals(READERS, label="Find", kinds=(PERSON, GROUP), chosen=chosen)


def _collection_key(named: str | None, collections: Mapping[str, str]) -> str:
    """Return the id of a collection that options name by its id or its name; the name where there is none."""
    wanted = named or ""
    return next((key for key, name in collections.items() if wanted in {key, name}), wanted)


def _owner_label(owner: str) -> str:
    return owner if owner in {MINE, THEIRS} else label(owner)
