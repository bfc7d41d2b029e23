"""The sample organization's people, groups and collection, from directory.json, put in place through the SDK."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import carrel

FOLDER = Path(__file__).parent
MANIFEST = FOLDER / "manifest.csv"
DIRECTORY = FOLDER / "directory.json"
NAME = "Northlight Ferries"


def is_loaded(client: carrel.Carrel) -> bool:
    """Tell whether the whole sample was loaded once: only then does the organization bear its name."""
    return client.admin.organization.get().name == NAME


def set_up(client: carrel.Carrel) -> str:
    """Bring people, groups and the collection to what the directory says; return the collection's name.

    Doing it again changes nothing. The credential must be an admin's.
    """
    directory: dict[str, Any] = json.loads(DIRECTORY.read_text())
    client.admin.users.upsert([{"email": user["email"], "name": user["name"]} for user in directory["users"]])
    set_up_groups(client, directory["groups"])
    return set_up_collection(client, directory["collection"])


def set_up_groups(client: carrel.Carrel, groups: Sequence[Mapping[str, Any]]) -> None:
    """Make the groups, then put people and groups into them: a group may name one that comes after it."""
    made = client.admin.groups.upsert([{"name": group["name"], "externalId": group["name"]} for group in groups])
    ids = {group.name: group.id for group in made.groups}
    client.admin.groups.upsert(
        [
            {
                "id": ids[group["name"]],
                "name": group["name"],
                "members": [
                    *({"type": "user", "email": email} for email in group["members"]),
                    *({"type": "group", "id": ids[name]} for name in group.get("groups", ())),
                ],
            }
            for group in groups
        ]
    )


def set_up_collection(client: carrel.Carrel, collection: Mapping[str, Any]) -> str:
    """Make the collection, which everybody may search; each document in it keeps its own readers."""
    name: str = collection["name"]
    with contextlib.suppress(carrel.ConflictError):  # made before
        client.document_collections.create_document_collection(
            name, custom_metadata_schema={"fields": collection["fields"]}
        )
    client.admin.grants.set(
        resource={"resourceId": str(collection_id(client, name)), "resourceType": "DOCUMENT_COLLECTION"},
        grants=[],
        organization_wide=True,
    )
    return name


def collection_id(client: carrel.Carrel, name: str) -> UUID:
    """Return the id of the collection of this name."""
    found = client.document_collections.list_document_collections()
    return next(item.document_collection_id for item in found if item.collection_name == name)
