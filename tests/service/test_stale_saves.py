"""Each operation on people's edits refuses a save of an older version, also for concurrent saves."""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import get_args as args_of

import pytest
from pydantic import BaseModel

from carrel.wire.api import OPERATIONS
from carrel.wire.common import VersionedRequest
from carrel.wire.operations import CONFLICT
from tests.harness.cases import cases
from tests.service.conversations import at_once
from tests.service.directory import a_user, code, done
from tests.service.examples import CLIENT, Body, Owner, Things, resolved

MEMBER = "member@example.test"
# Of each operation: what reads the edited object (`asked`), and the bodies of two saves `about` it, a member of a list
# `inside` a body with what is `around` it.
EDITS = cases("edits_of_people")


def find(edit: Body, things: Things) -> dict:
    answer = done(things.owner.call(edit["read"], resolved(edit["asked"], things)))
    return answer if "version" in answer else next(one for one in answer.values() if isinstance(one, list))[0]


def body_of(edit: Body, things: Things, save: Body, version: str) -> Body:
    one = {**edit.get("about", edit["asked"]), **save, "version": version}
    return resolved({**edit.get("around", {}), edit["inside"]: [one]} if "inside" in edit else one, things)


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
    before = find(edit, things)
    bodies = [body_of(edit, things, save, before["version"]) for save in edit["saves"]]
    answers = at_once(*(partial(things.owner.call, operation, body) for body in bodies))
    [won] = [place for place, answer in enumerate(answers) if answer.status_code == 200]
    refused = answers[1 - won]
    assert code(refused) == (409, "changed_meanwhile")
    now = find(edit, things)
    assert now["version"] != before["version"]
    meanwhile = refused.json()["error"]["meanwhile"]
    assert meanwhile["current"]["version"] == now["version"]
    assert meanwhile["changedBy"] == "admin"
    assert code(things.owner.call(operation, bodies[won])) == (409, "changed_meanwhile")
    assert find(edit, things)["version"] == now["version"]
    if operation == "admin/oauthClients/approve":
        return
    done(things.owner.call(operation, body_of(edit, things, edit["saves"][1 - won], now["version"])))
    assert find(edit, things)["version"] != now["version"]
    [entry] = done(things.owner.call("admin/auditLog/query", {"pageSize": 1}))["entries"]
    assert entry.get("changes") or {"before", "after"} <= entry["details"].keys()
