"""Owners and transfers; every reader is checked before and after."""

from functools import partial
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from service.domains.oversight.owners import transferring
from service.permissions.service import Access, register_resource
from service.platform.identifiers import uuid7
from tests.harness.documents import create_collection, ok, upload, uploaded
from tests.harness.services import RunningService
from tests.service import directory
from tests.service.conversations import an_agent, at_once
from tests.service.directory import a_group, a_key, a_user, code, document, done, entries, group, readers, user, walk
from tests.service.examples import DOCSTORE_CONFIG, DOCSTORE_URI
from tests.service.service_accounts import account, an_account, delete_account, enable_service_accounts
from tests.service.test_search_log import statements

TRANSFER, OWNED = "admin/owners/transfer", "admin/access/listResources"
CALM = "Calm at sea."
ADA, BEN, EVE = "ada@example.test", "ben@example.test", "eve@example.test"


@pytest.fixture(autouse=True)
def people(service: RunningService) -> dict[str, str]:
    for email in (ADA, BEN, EVE):
        a_user(service, email, active=email != EVE)
    return {email: a_key(service, ownerEmail=email)["apiKey"] for email in (ADA, BEN)}


def transfer(service: RunningService, **body) -> dict[str, int]:
    return counted(done(service.call(TRANSFER, body))["transferred"])


def owned(service: RunningService, email: str, **filters) -> set[str]:
    rows = walk(service, OWNED, {"ownedBy": user(email), **filters}, page_size=2)
    assert number_owned(service, email, **filters) == len(rows)
    return {row["objectId"] for row in rows}


def number_owned(service: RunningService, email: str, **filters) -> int:
    return done(service.call("admin/access/countResources", {"ownedBy": user(email), **filters}))["total"]


def sees(service: RunningService, key: str, document_id: str) -> tuple[bool, bool, bool]:
    body = {"searchQuery": "calm sea", "searchOptions": {"maxResults": 100}}
    found = done(service.call("search/searchDocumentCatalog", body, api_key=key))["results"]
    got = service.call("catalog/getDocument", {"documentId": document_id}, api_key=key)
    rows = walk(service, "catalog/listDocuments", {}, page_size=1000, api_key=key)
    return (
        document_id in {one["documentId"] for one in found},
        got.status_code == 200,
        document_id in {one["documentId"] for one in rows},
    )


def counted(rows: list[dict]) -> dict[str, int]:
    return {row["resourceType"]: row["count"] for row in rows}


def make_resources(service: RunningService, owner: str, *, count: int) -> None:
    organization = directory.organization_id(service)
    readers_of = [UUID(a_user(service, f"r{number}@example.test")["id"]) for number in range(10)]

    async def register(connection: AsyncConnection) -> None:
        for number in range(count):
            await register_resource(
                connection,
                organization,
                object_id=uuid7(),
                resource_type="BOX_FILE",
                resource_id=f"box-{number}",
                access=Access(UUID(owner), viewers=frozenset(readers_of[: number % 10])),
            )

    service.in_transaction(organization, register)


def test_what_somebody_owns_is_listed_and_counted(service: RunningService) -> None:
    document_id = uploaded(service, "log", CALM, as_user=ADA, allowedUsersEmailAddresses=BEN)["documentId"]
    shared = uploaded(service, "memo", CALM, as_user=BEN, allowedUsersEmailAddresses=ADA)["documentId"]
    collection = create_collection(service, "Logs", as_user=ADA)
    assert owned(service, ADA) == {document_id, collection}
    assert owned(service, ADA, resourceTypes=["DOCUMENT_COLLECTION"]) == {collection}
    assert owned(service, ADA, query="NOTES.") == {document_id}
    assert owned(service, ADA, readableBy=user(BEN)) == {document_id}
    assert owned(service, ADA, readableBy=user(ADA), notReadableBy=user(BEN)) == {collection}
    a_user(service, BEN, active=False)
    assert owned(service, BEN) == {shared}
    assert owned(service, EVE) == set()


def test_everything_of_somebody_goes_to_somebody_else(service: RunningService, people: dict[str, str]) -> None:
    document_id = uploaded(service, "log", CALM, as_user=ADA, allowedUsersEmailAddresses=BEN)["documentId"]
    private = uploaded(service, "diary", CALM, as_user=ADA)["documentId"]
    collection = create_collection(service, "Logs", as_user=ADA)
    team = a_group(service, "Team", user(service.admin_email))
    grants = [{"principal": user(BEN), "role": "VIEWER"}, {"principal": group(team), "role": "EDITOR"}]
    log = document(document_id)
    done(service.call("admin/grants/set", {"resource": log, "grants": grants}))
    assert sees(service, people[ADA], private) == (True, True, True)
    assert sees(service, people[BEN], private) == (False, False, False)

    answer = done(service.call(TRANSFER, {"owner": user(ADA), "newOwner": user(BEN)}))

    assert counted(answer["transferred"]) == {"DOCUMENT_COLLECTION": 1, "UPLOADED_DOCUMENT": 2}
    assert answer["remaining"] == []
    for one in (document_id, private):
        assert sees(service, people[ADA], one) == (False, False, False)
        assert sees(service, people[BEN], one) == (True, True, True)
    assert owned(service, ADA) == set()
    assert owned(service, BEN) == {document_id, private, collection}
    got = done(service.call("catalog/getDocument", {"documentId": document_id}, api_key=people[BEN]))
    assert got["owner"]["email"] == BEN
    assert set(readers(service, log)) == {BEN, "Team", service.admin_email}
    held = done(service.call("admin/grants/list", {"resource": log}))["grants"]
    assert [one["principal"]["name"] for one in held] == ["Team"]
    uploaded(service, "log", "Storm at sea.", as_user=BEN)
    assert code(upload(service, "diary", "Mine again.", as_user=ADA)) == (403, "external_id_taken")

    ids = {email: done(service.call("admin/users/list", {"query": email}))["users"][0]["id"] for email in (ADA, BEN)}
    (call,) = entries(service, action="owners.transfer")
    assert call["target"]["id"] == ids[BEN]
    assert call["details"] == {
        "ownerId": ids[ADA],
        "newOwnerId": ids[BEN],
        "counts": {"DOCUMENT_COLLECTION": 1, "UPLOADED_DOCUMENT": 2},
    }
    each = {entry["target"]["id"]: entry["details"] for entry in entries(service, action="owner.set")}
    assert each.keys() == {document_id, private, collection}
    assert each[document_id] == {"before": {ids[ADA]: "OWNER", ids[BEN]: "VIEWER"}, "after": {ids[BEN]: "OWNER"}}
    assert each[private] == {"before": {ids[ADA]: "OWNER"}, "after": {ids[BEN]: "OWNER"}}


def test_some_types_or_named_resources_alone(service: RunningService) -> None:
    first, second = (uploaded(service, name, CALM, as_user=ADA)["documentId"] for name in ("one", "two"))
    collection = create_collection(service, "Logs", as_user=ADA)
    enable_service_accounts(service)
    bosun = an_account(service)
    types = {"owner": user(ADA), "newOwner": user(BEN), "resourceTypes": ["DOCUMENT_COLLECTION"]}
    answer = done(service.call(TRANSFER, types))
    assert (counted(answer["transferred"]), answer["remaining"]) == ({"DOCUMENT_COLLECTION": 1}, [])
    assert owned(service, ADA) == {first, second}
    for expected in ({"UPLOADED_DOCUMENT": 1}, {}):
        assert transfer(service, resources=[document(first)], newOwner=account(bosun)) == expected
    assert owned(service, bosun["email"]) == {first}
    assert owned(service, BEN) == {collection}
    assert len(entries(service, action="owner.set")) == len(entries(service, action="owners.transfer")) == 2
    delete_account(service, bosun)
    assert transfer(service, owner=account(bosun), newOwner=user(ADA)) == {"UPLOADED_DOCUMENT": 1}


def test_syncs_act_as_their_new_owner(service: RunningService, people: dict[str, str]) -> None:
    collection = create_collection(service, "Logs", as_user=ADA)
    body = {"documentCollectionId": collection, "docstoreURI": DOCSTORE_URI, "config": DOCSTORE_CONFIG}
    create, delete = (f"documentCollections/docstore/{verb}DocstoreSync" for verb in ("create", "delete"))
    syncs = [done(service.call(create, body, api_key=people[ADA]))["docstoreCredentialId"] for _ in range(2)]
    named = [{"resourceId": syncs[0], "resourceType": "DOCSTORE_SYNC"}]
    assert transfer(service, resources=named, newOwner=user(BEN)) == {"DOCSTORE_SYNC": 1}
    assert transfer(service, owner=user(ADA), newOwner=user(BEN)) == {"DOCSTORE_SYNC": 1, "DOCUMENT_COLLECTION": 1}
    owner = "SELECT email FROM docstore_syncs JOIN principals USING (organization_id, principal_id)"
    assert directory.on_rows(service, owner) == [(BEN,), (BEN,)]
    assert service.call(delete, {"docstoreCredentialId": syncs[0]}, api_key=people[ADA]).status_code == 404
    done(service.call(delete, {"docstoreCredentialId": syncs[0]}, api_key=people[BEN]))


def test_who_can_not_own_is_refused(service: RunningService) -> None:
    document_id = uploaded(service, "log", CALM, as_user=ADA)["documentId"]
    team = a_group(service, "Team", user(BEN))
    invalid = [(one, "invalid_new_owner") for one in (group(team), user(EVE), user(ADA))]
    for new_owner, expected in (*invalid, (user("nobody@example.test"), "unknown_principal")):
        refused = service.call(TRANSFER, {"owner": user(ADA), "newOwner": new_owner})
        assert code(refused) == (400, expected)
        assert refused.json()["error"]["details"][0]["field"] == "newOwner"
    refused = service.call(TRANSFER, {"owner": user("nobody@example.test"), "newOwner": user(BEN)})
    assert code(refused) == (400, "unknown_principal")
    log = document(document_id)
    wrong: list[tuple[list[dict[str, str]], tuple[int, str]]] = [
        ([log, {"resourceId": "none", "resourceType": "UPLOADED_DOCUMENT"}], (404, "resource_not_found")),
        ([log, {"resourceId": "none", "resourceType": "DOCSTORE_SYNC"}], (404, "resource_not_found")),
        ([log, log], (400, "duplicate_resource")),
        ([log, {"resourceId": an_agent(service)["agentId"], "resourceType": "AGENT"}], (400, "resource_without_owner")),
    ]
    for resources, refusal in wrong:
        assert code(service.call(TRANSFER, {"resources": resources, "newOwner": user(BEN)})) == refusal
    named = {"resources": [log]}
    for body in ({}, {"owner": user(ADA), **named}, {**named, "resourceTypes": ["BOX_FILE"]}, {"resources": []}):
        assert service.call(TRANSFER, {**body, "newOwner": user(BEN)}).status_code == 400, body
    assert owned(service, ADA) == {document_id}
    assert entries(service, action="owner.set") == entries(service, action="owners.transfer") == []


def test_many_resources_take_few_statements(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number per batch equals the number for a single resource, whatever the number of access classes."""
    monkeypatch.setattr(transferring, "BATCH", 200)
    make_resources(service, a_user(service, ADA)["id"], count=1000)
    with statements(service) as sent:
        answer = done(service.call(TRANSFER, {"owner": user(ADA), "newOwner": user(BEN)}))
    assert (counted(answer["transferred"]), answer["remaining"]) == ({"BOX_FILE": 1000}, [])
    # A statement that is run for many rows counts for each.
    assert sum(len(values) if isinstance(values, list) else 1 for _, values in sent) < 100
    assert [one["details"]["counts"] for one in entries(service, action="owners.transfer")] == [{"BOX_FILE": 200}] * 5
    assert len({one["target"]["id"] for one in entries(service, action="owner.set")}) == 1000
    assert number_owned(service, BEN) == 1000


def test_a_request_without_time_left_says_what_remains(service, monkeypatch) -> None:
    make_resources(service, a_user(service, ADA)["id"], count=25)
    monkeypatch.setattr(transferring, "BATCH", 10)
    monkeypatch.setattr(transferring, "MOST_SECONDS", 0)
    seen: list[tuple[dict[str, int], int]] = []
    for _ in range(4):
        answer = done(service.call(TRANSFER, {"owner": user(ADA), "newOwner": user(BEN)}))
        seen.append((counted(answer["transferred"]), sum(one["count"] for one in answer["remaining"])))
    assert seen == [({"BOX_FILE": 10}, 15), ({"BOX_FILE": 10}, 5), ({"BOX_FILE": 5}, 0), ({}, 0)]


def test_two_transfers_at_once_end_with_one_owner_of_each(service, monkeypatch) -> None:
    monkeypatch.setattr(transferring, "BATCH", 20)
    make_resources(service, a_user(service, ADA)["id"], count=200)
    people = [BEN, a_user(service, "cat@example.test")["email"], service.admin_email]
    named = [{"resourceId": f"box-{number}", "resourceType": "BOX_FILE"} for number in reversed(range(200))]
    of = [{"owner": user(ADA)}, {"owner": user(ADA)}, {"resources": named}]
    calls = [partial(transfer, service, **one, newOwner=user(to)) for one, to in zip(of, people, strict=True)]
    counts = [sum(moved.values()) for moved in at_once(*calls)]
    everybody = [number_owned(service, email) for email in people]
    assert number_owned(service, ADA) == 0
    assert sum(counts[:2]) <= 200
    assert everybody[2] == counts[2]
    assert sum(everybody) == 200


def test_an_upload_beside_a_transfer_keeps_the_new_owner(service, people, race) -> None:
    document_id, admin = uploaded(service, "log", CALM, as_user=ADA)["documentId"], service.admin_email
    log, text = document(document_id), "Calm at sea, and foggy."
    directory.grant(service, log, user(admin), role="EDITOR")
    race.stop_before(transferring.permissions, "change_owner")
    moving = race.begin(service.call, TRANSFER, {"owner": user(ADA), "newOwner": user(BEN)})
    by_admin = race.begin_blocked(
        service, lambda: ok(upload(service, "log", text, allowedUsersEmailAddresses=admin))["documentId"]
    )
    by_owner = race.beside(lambda: upload(service, "log", text, as_user=ADA))
    race.release()
    assert counted(done(moving.result())["transferred"]) == {"UPLOADED_DOCUMENT": 1}
    assert by_admin.result() == document_id
    assert by_owner.result().status_code in {200, 403}
    assert owned(service, BEN) == {document_id}
    assert set(readers(service, log)) == {BEN, admin}
    assert sees(service, people[BEN], document_id) == (True, True, True)
    assert sees(service, people[ADA], document_id) == (False, False, False)
    got = done(service.call("catalog/getDocument", {"documentId": document_id}, api_key=people[BEN]))
    assert got["owner"]["email"] == BEN
