"""Each operation on people's edits refuses a save of an older version, also for concurrent saves."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import get_args as args_of

import pytest
from pydantic import BaseModel

from carrel.wire.api import OPERATIONS
from carrel.wire.common import VersionedRequest
from carrel.wire.operations import CONFLICT
from tests.service.conversations import at_once
from tests.service.directory import a_user, code, done
from tests.service.examples import CLIENT, DOCSTORE_CONFIG, DOCSTORE_URI, Body, Owner, Things

MEMBER = "member@example.test"


@dataclass(frozen=True)
class Edit:
    """The operation for reading the edited object, and the bodies of two saves; `inside` is their list."""

    read: str
    asked: Callable[[Things], Body]
    saves: tuple[Body, Body]
    inside: str = ""
    about: Callable[[Things], Body] | None = None
    around: Callable[[Things], Body] = lambda _: {}

    def find(self, things: Things) -> dict:
        answer = done(things.owner.call(self.read, self.asked(things)))
        return answer if "version" in answer else next(one for one in answer.values() if isinstance(one, list))[0]

    def body(self, things: Things, save: Body, version: str) -> Body:
        one = {**(self.about or self.asked)(things), **save, "version": version}
        return {**self.around(things), self.inside: [one]} if self.inside else one


def of(name: str, attribute: str, *, ids: bool = False) -> Callable[[Things], Body]:
    return lambda things: {name: [getattr(things, attribute)] if ids else getattr(things, attribute)}


def grants(*roles: str) -> Body:
    return {"grants": [{"principal": {"type": "user", "email": MEMBER}, "role": role} for role in roles]}


def config(name: str) -> Body:
    return {"docstoreURI": DOCSTORE_URI, "config": {**DOCSTORE_CONFIG, "syncName": name}}


NAMES = {"name": "Log of the Wren"}, {"name": "Log of the Gull"}
DOCUMENT = of("documentId", "document_id")
GRANTS = of("resource", "resource")
PORTS = {"customMetadata": {"port": "Bergen"}}, {"customMetadata": {"port": "Oslo"}}
IN_COLLECTION = Edit(
    "documentCollections/listDocumentsInCollection",
    of("documentCollectionId", "collection_id"),
    PORTS,
    about=lambda things: {"documentId": things.document_id, "documentCollectionId": things.collection_id},
)
EDITS = {
    "catalog/renameDocument": Edit(
        "catalog/getDocument", DOCUMENT, ({"documentName": "Log"}, {"documentName": "Diary"})
    ),
    "documentCollections/renameDocumentCollection": Edit(
        "documentCollections/listDocumentCollections",
        lambda _: {"collectionName": "Log of the"},
        ({"collectionName": "Log of the Wren"}, {"collectionName": "Log of the Gull"}),
        about=of("documentCollectionId", "named_collection_id"),
    ),
    "documentCollections/changeFields": Edit(
        "documentCollections/planFieldChanges",
        lambda things: {"documentCollectionId": things.named_collection_id, "changes": [{"field": "port"}]},
        ({"changes": [{"field": "port", "type": "INT"}]}, {"changes": [{"field": "port", "required": True}]}),
    ),
    "documentCollections/addDocumentToCollection": IN_COLLECTION,
    "documentCollections/reindexDocumentInCollection": replace(
        IN_COLLECTION, saves=({"customMetadata": {"port": "Cork"}}, {"customMetadata": {}})
    ),
    "documentCollections/addDocumentChunksToCollection": Edit(
        IN_COLLECTION.read,
        of("documentCollectionId", "chunked_collection_id"),
        PORTS,
        about=lambda things: {
            "documentId": things.document_id,
            "documentCollectionId": things.chunked_collection_id,
            "chunks": ["What was seen."],
        },
    ),
    "documentCollections/docstore/updateDocstoreSync": Edit(
        "documentCollections/docstore/getDocstoreSync",
        of("docstoreCredentialId", "sync_id"),
        (config("Things"), config("Parts")),
    ),
    "admin/agents/update": Edit(
        "admin/agents/list",
        of("ids", "agent_id", ids=True),
        ({"instructions": "Be brief."}, {"description": "Knows the way."}),
        about=of("agentId", "agent_id"),
    ),
    "admin/agents/deploy": Edit(
        "admin/grants/list",
        lambda things: {"resource": {"resourceId": things.agent_id, "resourceType": "AGENT"}},
        ({"principals": [], "organizationWide": True}, {"principals": [{"type": "user", "email": MEMBER}]}),
        about=of("agentId", "agent_id"),
    ),
    "admin/organization/update": Edit("admin/organization/get", lambda _: {}, NAMES),
    "admin/users/upsert": Edit(
        "admin/users/list",
        lambda things: {"query": things.email},
        ({"name": "Ada"}, {"isAdmin": True}),
        "users",
        of("email", "email"),
    ),
    "admin/groups/upsert": Edit(
        "admin/groups/list", of("ids", "group_id", ids=True), NAMES, "groups", of("id", "group_id")
    ),
    "permissions/setShares": Edit(
        "permissions/getShares",
        lambda things: {"resource": {"resourceId": things.collection_id, "resourceType": "DOCUMENT_COLLECTION"}},
        (grants("VIEWER"), grants("EDITOR")),
    ),
    "admin/grants/set": Edit("admin/grants/list", GRANTS, (grants("VIEWER"), grants("EDITOR"))),
    "admin/grants/setMany": Edit(
        "admin/grants/list", GRANTS, (grants(), {"grants": [], "organizationWide": True}), "resources"
    ),
    "admin/oauthClients/update": Edit(
        "admin/oauthClients/list", of("ids", "client_id", ids=True), NAMES, about=of("clientId", "client_id")
    ),
    "admin/signInProviders/update": Edit(
        "admin/signInProviders/get", of("providerId", "provider_id"), ({"createAccounts": True}, {"signOutThere": True})
    ),
    "admin/alertRules/update": Edit(
        "admin/alertRules/list",
        lambda _: {},
        ({"enabled": False}, {"kinds": ["SYNC_BEHIND"]}),
        about=of("alertRuleId", "alert_rule_id"),
    ),
    "admin/evaluationSets/update": Edit(
        "admin/evaluationSets/list",
        of("ids", "evaluation_set_id", ids=True),
        NAMES,
        about=of("evaluationSetId", "evaluation_set_id"),
    ),
    "admin/evaluationSets/putJudgements": Edit(
        "admin/evaluationSets/listCases",
        of("evaluationSetId", "evaluation_set_id"),
        ({"note": "Hard."}, {"statements": ["a gull"]}),
        "cases",
        lambda _: {"question": "What was seen?"},
        of("evaluationSetId", "evaluation_set_id"),
    ),
    "admin/oauthClients/approve": Edit(
        "admin/oauthClients/list",
        of("ids", "spare_client_id", ids=True),
        ({}, {}),
        about=of("clientId", "spare_client_id"),
    ),
}


@pytest.fixture(scope="module")
def things(service_harness) -> Iterator[Things]:
    with service_harness.running(sweep_seconds=3600, docstore_workers=0) as service:
        owner = Owner(service, service.api_key, "harbour")
        a_user(service, MEMBER)
        things = Things(owner, MEMBER)
        schema = {"fields": [{"name": "port", "type": "STRING"}]}
        create = "documentCollections/createDocumentCollection", "documentCollectionId"
        for name in ("collection_id", "chunked_collection_id"):
            made = owner.make(*create, collectionName=owner.name(), customMetadataSchema=schema)
            setattr(things, name, made)
            owner.place(things.document_id, made)
        things.named_collection_id = owner.make(*create, collectionName="Log of the Tern", customMetadataSchema=schema)
        things.make("agent_id", "group_id", "client_id", "provider_id", "alert_rule_id")
        things.spare_client_id = owner.make("admin/oauthClients/request", "clientId", **CLIENT)
        things.evaluate()
        yield things


def takes_version(model: type[BaseModel]) -> bool:
    parts = [args_of(field.annotation) for field in model.model_fields.values()]
    return any(isinstance(one, type) and issubclass(one, VersionedRequest) for one in (model, *chain(*parts)))


def test_each_operation_that_changes_what_people_edit_takes_a_version() -> None:
    """Operations for only adding or removing, and uploads from a source, are exempt."""
    taking = {path for path, one in OPERATIONS.items() if one.request is not None and takes_version(one.request)}
    assert taking == EDITS.keys()
    assert {path for path in taking if not OPERATIONS[path].has(CONFLICT)} == set()
    editing = {path for path in OPERATIONS if path.rpartition("/")[2].startswith(("update", "upsert", "rename", "set"))}
    # One acknowledges, and edits nothing; the other changes a title that is one person's own.
    assert editing - taking == {"admin/alerts/update", "conversations/rename"}


@pytest.mark.parametrize("operation", EDITS)
def test_of_two_stale_saves_one_is_refused(things: Things, operation: str) -> None:
    edit = EDITS[operation]
    before = edit.find(things)
    bodies = [edit.body(things, save, before["version"]) for save in edit.saves]
    answers = at_once(*(partial(things.owner.call, operation, body) for body in bodies))
    [won] = [place for place, answer in enumerate(answers) if answer.status_code == 200]
    refused = answers[1 - won]
    assert code(refused) == (409, "changed_meanwhile")
    now = edit.find(things)
    assert now["version"] != before["version"]
    meanwhile = refused.json()["error"]["meanwhile"]
    assert meanwhile["current"]["version"] == now["version"]
    assert meanwhile["changedBy"] == "admin"
    assert code(things.owner.call(operation, bodies[won])) == (409, "changed_meanwhile")
    assert edit.find(things)["version"] == now["version"]
    if operation == "admin/oauthClients/approve":
        return
    done(things.owner.call(operation, edit.body(things, edit.saves[1 - won], now["version"])))
    assert edit.find(things)["version"] != now["version"]
    [entry] = done(things.owner.call("admin/auditLog/query", {"pageSize": 1}))["entries"]
    assert entry.get("changes") or {"before", "after"} <= entry["details"].keys()
