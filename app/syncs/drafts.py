"""Syncs as people think of them: where from, where to, how the last run went, and what to do about it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import carrel
from app import api
from app.ui.errors import Problem, problem_of
from carrel.wire.common import Role
from carrel.wire.docstore import DocstoreConfigInfo, DocstoreSync, DocstoreSyncStatus

STATES: Mapping[DocstoreSyncStatus, str] = {
    DocstoreSyncStatus.PENDING: "Waiting to begin",
    DocstoreSyncStatus.RUNNING: "Going on",
    DocstoreSyncStatus.COMPLETED: "Done",
    DocstoreSyncStatus.FAILED: "Failed",
}
LABELS: Mapping[str, str] = {
    "docstoreURI": "Address",
    "syncName": "Name",
    "collectionName": "Collection in the database",
    "body": "Field with the text",
    "sourceName": "Field with the title",
    "sourceSystemUpdated": "Field with the time of the last change",
    "sourceUrl": "Field with the link",
    "filterExpression": "Which documents",
    "allowedUsersEmailAddresses": "Who may read them",
    "allowedGroupIds": "Who may read them",
    "deleteLimitPercent": "The most that may be removed",
    "documentCollectionId": "Collection",
}
"""What the form calls the members of a request, for errors that name them."""

_NOT_SO = "This can't be taken as it is."
_HINTS: Mapping[str, str] = {
    "source_unreachable": "See that the database answers from where the service runs, and start it again.",
    "source_host_not_allowed": "The service connects to public addresses only. An operator allows others by "
    "CARREL_DOCSTORE_ALLOWED_HOSTS.",
    "docstore_host_not_allowed": "The service connects to public addresses only. An operator allows others by "
    "CARREL_DOCSTORE_ALLOWED_HOSTS.",
    "source_refused": "Change the sync's address to that of a user who may read the collection.",
    "source_refused_filter": "Change which documents are brought.",
    "source_too_slow": "Have the database index the fields that choose documents and tell their last change.",
    "source_unordered": "Name another field for the time of the last change.",
    "source_without_ids": "Name a collection, or a view that keeps _id.",
    "source_failed": "See what answers at this address.",
    "docstore_uri_lost": "Give its address again.",
    "sync_owner_inactive": "Whoever made the sync is no longer active: make it anew.",
    "collection_not_found": "The collection is gone: make the sync anew, into another.",
    "collection_editor_required": "Whoever made the sync may no longer change the collection.",
    "deletion_limit": "When they are meant to go, change the sync to allow more, and start it again.",
    "listing_incomplete": "Start it again when nobody changes the database.",
    "listing_empty": "See that the database is the right one, and whole.",
}


@dataclass(frozen=True)
class Draft:
    """What the form of a sync holds."""

    name: str = ""
    source: str = ""
    body: str = ""
    title: str = ""
    updated: str = ""
    url: str = ""
    filter: str = ""
    users: Sequence[str] | None = None
    groups: Sequence[str] | None = None
    everybody: bool = False
    delete_missing: bool = True
    limit: int = 20
    address: str = field(default="", repr=False)

    def missing(self) -> list[str]:
        """Return what must be filled in and isn't."""
        wanted = {
            "syncName": self.name,
            "docstoreURI": self.address,
            "collectionName": self.source,
            "body": self.body,
            "sourceName": self.title,
        }
        return [LABELS[name] for name, value in wanted.items() if not value]

    def config(self) -> dict[str, Any]:
        """Return the sync's config as requests have it. Raises ValueError for a filter that is no JSON object."""
        return {
            "sync_name": self.name,
            "collection_name": self.source,
            "source_fields": {
                "body": self.body,
                "source_name": self.title,
                "source_system_updated": self.updated or None,
                "source_url": self.url or None,
            },
            "filter_expression": filter_of(self.filter),
            "allowed_users_email_addresses": list(self.users) if self.users is not None else None,
            "allowed_group_ids": list(self.groups) if self.groups is not None else None,
            "internal_public": True if self.everybody else None,
            "delete_missing": self.delete_missing,
            "delete_limit_percent": self.limit,
        }


def filter_of(text: str) -> dict[str, Any]:
    """Return a query that somebody wrote. Raises ValueError, in words."""
    if not text.strip():
        return {}
    try:
        found: object = json.loads(text)
    except ValueError as error:
        msg = f"Which documents: this is no JSON ({error})."
        raise ValueError(msg) from error
    if not isinstance(found, dict):
        msg = 'Which documents: write an object, such as {"state": "published"}.'
        raise ValueError(msg)  # noqa: TRY004 - it is what somebody wrote, not what a program gave
    return found  # pyright: ignore[reportUnknownVariableType] - JSON's members have text for names


def draft_of(config: DocstoreConfigInfo) -> Draft:
    """Return a sync's config as the form has it; its address is nobody's to see."""
    fields = config.source_fields
    return Draft(
        name=config.sync_name,
        source=config.collection_name,
        body=fields.body,
        title=fields.source_name,
        updated=fields.source_system_updated or "",
        url=fields.source_url or "",
        filter=json.dumps(config.filter_expression, ensure_ascii=False) if config.filter_expression else "",
        users=config.allowed_users_email_addresses,
        groups=None if config.allowed_group_ids is None else [str(one) for one in config.allowed_group_ids],
        everybody=bool(config.internal_public),
        delete_missing=config.delete_missing,
        limit=config.delete_limit_percent,
    )


def targets() -> dict[str, str]:
    """Return the collections that the person may change: names by id."""
    return {
        str(one.document_collection_id): one.collection_name
        for one in api.collections()
        if one.role in {Role.OWNER, Role.EDITOR}
    }


def find_sync(name: str) -> DocstoreSync | None:
    """Return the sync of this id, if there is one for the person."""
    try:
        identifier = UUID(name)
        return api.client().document_collections.docstore.get_docstore_sync(identifier)
    except (ValueError, carrel.NotFoundError):
        return None


def goes_on(sync: DocstoreSync) -> bool:
    """Tell whether a run of the sync goes on, or is to begin."""
    return sync.status in {DocstoreSyncStatus.PENDING, DocstoreSyncStatus.RUNNING}


def hint_for(code: str) -> str:
    """Return what to do about what a run says went wrong."""
    return _HINTS.get(code, "")


def refusal_in_words(error: carrel.CarrelError) -> Problem:
    """Put an error about a sync's address or config into the words of the form."""
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
    """Return what a run says of a document, whose member comes first, with what the form calls that member."""
    member, colon, said = message.partition(": ")
    return f"{_label(member)}: {said}" if colon else message


def _label(member: str) -> str:
    """Return what the form calls a member, which requests write in one way and programs in another."""
    name = member.rsplit(".", 1)[-1].replace("_", "").lower()
    return next((label for known, label in LABELS.items() if known.lower() == name), member)
