"""The sample organization's people, groups and collection, from directory.json, put in place through the SDK."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
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


def set_up(client: carrel.Carrel, *, password: str | None = None) -> str:
    """Bring people, groups, the collection and its agent to what the directory says; return the collection's name.

    Doing it again changes nothing. The credential must be an admin's. `password` is what all these people sign in with;
    without one they can't.
    """
    for _done in set_up_by_steps(client, password=password):
        pass
    return collection_name()


def collection_name() -> str:
    """Return the name of the sample's collection."""
    name: str = json.loads(DIRECTORY.read_text())["collection"]["name"]
    return name


STEPS = 4


def set_up_by_steps(client: carrel.Carrel, *, password: str | None = None) -> Iterator[str]:
    """Do what `set_up` does in so many STEPS, and yield what each has put in place."""
    directory: dict[str, Any] = json.loads(DIRECTORY.read_text())
    users, groups = directory["users"], directory["groups"]
    given: dict[str, Any] = {"active": True, **({"password": password} if password else {})}
    client.admin.users.upsert([{"email": user["email"], "name": user["name"], **given} for user in users])
    yield f"{len(users)} people"
    set_up_groups(client, groups)
    yield f"{len(groups)} groups"
    name = set_up_collection(client, directory["collection"])
    yield f"the collection {name}"
    set_up_agent(client, directory["agent"], collection=collection_id(client, name))
    yield f"the agent {directory['agent']['name']}"


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


def set_up_agent(client: carrel.Carrel, agent: Mapping[str, Any], *, collection: UUID) -> None:
    """Define the agent that answers from the collection, and let everybody use it."""
    known = next((item for item in client.admin.agents.list(query=agent["name"]) if item.name == agent["name"]), None)
    if known is None:
        known = client.admin.agents.create(
            agent["name"],
            description=agent["description"],
            instructions=agent["instructions"],
            starter_questions=agent["starter_questions"],
            collection_ids=[collection],
            api_access_enabled=True,
        )
    client.admin.agents.deploy(known.agent_id, organization_wide=True)
