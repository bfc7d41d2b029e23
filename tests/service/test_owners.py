"""Owners: what belongs to whom, and giving it to somebody else; every reader is asked before and after."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import event

from service.domains.owners import transferring
from service.permissions.service import Access, register_resource
from service.platform.identifiers import uuid7
from tests.harness.services import RunningService
from tests.service.directory import (
    a_group,
    a_key,
    a_user,
    another_organization,
    code,
    done,
    group,
    organization_id,
    readers,
    user,
    walk,
)
from tests.service.examples import DOCSTORE_CONFIG, DOCSTORE_URI
from tests.service.races import race_with

TRANSFER, OWNED = "admin/owners/transfer", "admin/access/listResources"
ADA, BEN, EVE = "ada@example.test", "ben@example.test", "eve@example.test"


@pytest.fixture
def people(service: RunningService) -> dict[str, str]:
    """Ada and Ben, and Eve, who is inactive; by address, the keys of the active ones."""
    for email in (ADA, BEN, EVE):
        a_user(service, email, active=email != EVE)
    return {email: a_key(service, ownerEmail=email)["apiKey"] for email in (ADA, BEN)}


def upload(service: RunningService, key: str, name: str, *, text: str = "Calm at sea.", **parts: str) -> str:
    """Upload a document and return its id."""
    data = {"documentExternalId": name, "awaitVectorStoreSync": "true", **parts}
    headers = {"Authorization": f"Bearer {key}"}
    files = {"file": ("log.txt", text.encode())}
    return str(
        done(service.http.post("/api/v0/catalog/uploadFile", data=data, files=files, headers=headers))["documentId"]
    )


def owned(service: RunningService, email: str, **filters: Any) -> set[str]:
    """The ids of what belongs to somebody, from pages of two; the counts say the same."""
    body = {"ownedBy": user(email), **filters}
    rows = walk(service, OWNED, body, page_size=2)
    assert done(service.call("admin/access/countResources", body))["total"] == len(rows)
    return {row["objectId"] for row in rows}


def sees(service: RunningService, key: str, document_id: str) -> tuple[bool, bool, bool]:
    """Whether a key's owner finds a document by search, gets it, and has it listed."""
    body = {"searchQuery": "calm sea", "searchOptions": {"maxResults": 100}}
    found = done(service.call("search/searchDocumentCatalog", body, api_key=key))["results"]
    got = service.call("catalog/getDocument", {"documentId": document_id}, api_key=key)
    rows = walk(service, "catalog/listDocuments", {}, page_size=1000, api_key=key)
    return (
        document_id in {one["documentId"] for one in found},
        got.status_code == 200,
        document_id in {one["documentId"] for one in rows},
    )


def transferred(answer: dict[str, Any]) -> dict[str, int]:
    """How many of each type a transfer has moved."""
    return {one["resourceType"]: one["count"] for one in answer["transferred"]}


def entries(service: RunningService, action: str) -> list[dict[str, Any]]:
    """The audit entries of an action, the newest first."""
    return walk(service, "admin/auditLog/query", {"action": action}, page_size=1000)


def make_resources(service: RunningService, owner: str, *, count: int) -> None:
    """Many resources of an owner (an id), each tenth with a reader of its own."""
    organization = organization_id(service)
    readers_of = [UUID(a_user(service, f"r{number}@example.test")["id"]) for number in range(10)]

    async def register() -> None:
        async with service.runtime.database.transaction(organization) as connection:
            for number in range(count):
                access = Access(UUID(owner), viewers=frozenset(readers_of[: number % 10]))
                await register_resource(
                    connection,
                    organization,
                    object_id=uuid7(),
                    resource_type="BOX_FILE",
                    resource_id=f"box-{number}",
                    access=access,
                )

    service.run(register())


@contextmanager
def counted_statements(service: RunningService) -> Iterator[list[str]]:
    """The statements that the service sends meanwhile; one that is run for many rows counts for each."""
    engine = service.runtime.database._engine.sync_engine
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        sent.extend([statement] * (len(parameters) if many else 1))

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(engine, "before_cursor_execute", note)


def test_what_somebody_owns_is_listed_and_counted(service: RunningService, people: dict[str, str]) -> None:
    """Documents and collections; also of somebody inactive, beside other filters, and never what is only shared."""
    document = upload(service, people[ADA], "log", allowedUsersEmailAddresses=BEN)
    shared = upload(service, people[BEN], "memo", allowedUsersEmailAddresses=ADA)
    made = service.call("documentCollections/createDocumentCollection", {"collectionName": "Logs"}, api_key=people[ADA])
    collection = done(made)["documentCollectionId"]
    assert owned(service, ADA) == {document, collection}
    assert owned(service, ADA, resourceTypes=["DOCUMENT_COLLECTION"]) == {collection}
    assert owned(service, ADA, query="LOG.") == {document}
    assert owned(service, ADA, readableBy=user(BEN)) == {document}
    assert owned(service, ADA, readableBy=user(ADA), notReadableBy=user(BEN)) == {collection}
    a_user(service, BEN, active=False)
    assert owned(service, BEN) == {shared}
    assert owned(service, EVE) == set()


def test_everything_of_somebody_goes_to_somebody_else(service: RunningService, people: dict[str, str]) -> None:
    """The old owner reads no more what only ownership opened, at once; other readers stay; each thing is audited."""
    document = upload(service, people[ADA], "log", allowedUsersEmailAddresses=BEN)
    private = upload(service, people[ADA], "diary")
    made = service.call("documentCollections/createDocumentCollection", {"collectionName": "Logs"}, api_key=people[ADA])
    collection = done(made)["documentCollectionId"]
    team = a_group(service, "Team", user(service.admin_email))
    grants = [{"principal": user(BEN), "role": "VIEWER"}, {"principal": group(team), "role": "EDITOR"}]
    log = {"resourceId": document, "resourceType": "UPLOADED_DOCUMENT"}
    done(service.call("admin/grants/set", {"resource": log, "grants": grants}))
    assert sees(service, people[ADA], private) == (True, True, True)
    assert sees(service, people[BEN], private) == (False, False, False)

    answer = done(service.call(TRANSFER, {"owner": user(ADA), "newOwner": user(BEN)}))

    assert transferred(answer) == {"DOCUMENT_COLLECTION": 1, "UPLOADED_DOCUMENT": 2}
    assert answer["remaining"] == []
    for one in (document, private):
        assert sees(service, people[ADA], one) == (False, False, False)
        assert sees(service, people[BEN], one) == (True, True, True)
    assert owned(service, ADA) == set()
    assert owned(service, BEN) == {document, private, collection}
    got = done(service.call("catalog/getDocument", {"documentId": document}, api_key=people[BEN]))
    assert got["owner"]["email"] == BEN
    assert set(readers(service, log)) == {BEN, "Team", service.admin_email}
    held = done(service.call("admin/grants/list", {"resource": log}))["grants"]
    assert [one["principal"]["name"] for one in held] == ["Team"]
    upload(service, people[BEN], "log", text="Storm at sea.")
    refused = service.http.post(
        "/api/v0/catalog/uploadFile",
        data={"documentExternalId": "diary"},
        files={"file": ("log.txt", b"Mine again.")},
        headers={"Authorization": f"Bearer {people[ADA]}"},
    )
    assert code(refused) == (403, "external_id_taken")

    ids = {email: done(service.call("admin/users/list", {"query": email}))["users"][0]["id"] for email in (ADA, BEN)}
    (call,) = entries(service, "owners.transfer")
    assert call["target"]["id"] == ids[BEN]
    assert call["details"] == {
        "ownerId": ids[ADA],
        "newOwnerId": ids[BEN],
        "counts": {"DOCUMENT_COLLECTION": 1, "UPLOADED_DOCUMENT": 2},
    }
    each = {entry["target"]["id"]: entry["details"] for entry in entries(service, "owner.set")}
    assert each.keys() == {document, private, collection}
    assert each[document] == {"before": {ids[ADA]: "OWNER", ids[BEN]: "VIEWER"}, "after": {ids[BEN]: "OWNER"}}
    assert each[private] == {"before": {ids[ADA]: "OWNER"}, "after": {ids[BEN]: "OWNER"}}


def test_some_types_or_named_resources_alone(service: RunningService, people: dict[str, str]) -> None:
    """What isn't named stays; a service account may own, too; what it owns already is neither counted nor audited."""
    first, second = (upload(service, people[ADA], name) for name in ("one", "two"))
    made = service.call("documentCollections/createDocumentCollection", {"collectionName": "Logs"}, api_key=people[ADA])
    collection = done(made)["documentCollectionId"]
    done(service.call("admin/organization/update", {"serviceAccountsEnabled": True}))
    account = done(service.call("admin/serviceAccounts/create", {"displayName": "Bosun"}))
    bosun = {"type": "serviceAccount", "id": account["serviceAccountId"]}
    types = {"owner": user(ADA), "newOwner": user(BEN), "resourceTypes": ["DOCUMENT_COLLECTION"]}
    answer = done(service.call(TRANSFER, types))
    assert (transferred(answer), answer["remaining"]) == ({"DOCUMENT_COLLECTION": 1}, [])
    assert owned(service, ADA) == {first, second}
    one = {"resourceId": first, "resourceType": "UPLOADED_DOCUMENT"}
    for expected in ({"UPLOADED_DOCUMENT": 1}, {}):
        answer = done(service.call(TRANSFER, {"resources": [one], "newOwner": bosun}))
        assert transferred(answer) == expected
    assert owned(service, account["email"]) == {first}
    assert owned(service, BEN) == {collection}
    assert len(entries(service, "owner.set")) == len(entries(service, "owners.transfer")) == 2
    done(service.call("admin/serviceAccounts/delete", {"serviceAccountId": account["serviceAccountId"]}))
    assert transferred(done(service.call(TRANSFER, {"owner": bosun, "newOwner": user(ADA)}))) == {
        "UPLOADED_DOCUMENT": 1
    }


def test_syncs_act_as_their_new_owner(service: RunningService, people: dict[str, str]) -> None:
    """A sync is handed over with the rest, or named; then its new owner may change it, and the old one not."""
    collection = done(
        service.call("documentCollections/createDocumentCollection", {"collectionName": "Logs"}, api_key=people[ADA])
    )["documentCollectionId"]
    body = {"documentCollectionId": collection, "docstoreURI": DOCSTORE_URI, "config": DOCSTORE_CONFIG}
    create = "documentCollections/docstore/createDocstoreSync"
    syncs = [done(service.call(create, body, api_key=people[ADA]))["docstoreCredentialId"] for _ in range(2)]
    named = {"resources": [{"resourceId": syncs[0], "resourceType": "DOCSTORE_SYNC"}], "newOwner": user(BEN)}
    assert transferred(done(service.call(TRANSFER, named))) == {"DOCSTORE_SYNC": 1}
    assert transferred(done(service.call(TRANSFER, {"owner": user(ADA), "newOwner": user(BEN)}))) == {
        "DOCSTORE_SYNC": 1,
        "DOCUMENT_COLLECTION": 1,
    }
    with service.owner_connection() as connection:
        rows = connection.execute("SELECT p.email FROM docstore_syncs s JOIN principals p USING (principal_id)")
        assert [email for (email,) in rows] == [BEN, BEN]
    delete = "documentCollections/docstore/deleteDocstoreSync"
    assert service.call(delete, {"docstoreCredentialId": syncs[0]}, api_key=people[ADA]).status_code == 404
    done(service.call(delete, {"docstoreCredentialId": syncs[0]}, api_key=people[BEN]))


def test_who_can_not_own_is_refused(service: RunningService, people: dict[str, str]) -> None:
    """Groups, inactive and unknown people, and the owner themself; nothing is changed, and nothing audited."""
    document = upload(service, people[ADA], "log")
    team = a_group(service, "Team", user(BEN))
    for new_owner, expected in (
        (group(team), "invalid_new_owner"),
        (user(EVE), "invalid_new_owner"),
        (user(ADA), "invalid_new_owner"),
        (user("nobody@example.test"), "unknown_principal"),
    ):
        refused = service.call(TRANSFER, {"owner": user(ADA), "newOwner": new_owner})
        assert code(refused) == (400, expected)
        assert refused.json()["error"]["details"][0]["field"] == "newOwner"
    refused = service.call(TRANSFER, {"owner": user("nobody@example.test"), "newOwner": user(BEN)})
    assert code(refused) == (400, "unknown_principal")
    log = {"resourceId": document, "resourceType": "UPLOADED_DOCUMENT"}
    agent = done(service.call("admin/agents/create", {"name": "Mate", "collectionIds": []}))["agentId"]
    wrong: list[tuple[list[dict[str, str]], tuple[int, str]]] = [
        ([log, {"resourceId": "none", "resourceType": "UPLOADED_DOCUMENT"}], (404, "resource_not_found")),
        ([log, {"resourceId": "none", "resourceType": "DOCSTORE_SYNC"}], (404, "resource_not_found")),
        ([log, log], (400, "duplicate_resource")),
        ([log, {"resourceId": agent, "resourceType": "AGENT"}], (400, "resource_without_owner")),
    ]
    for resources, refusal in wrong:
        assert code(service.call(TRANSFER, {"resources": resources, "newOwner": user(BEN)})) == refusal
    for body in (
        {},
        {"owner": user(ADA), "resources": [log]},
        {"resources": [log], "resourceTypes": ["BOX_FILE"]},
        {"resources": []},
    ):
        assert service.call(TRANSFER, {**body, "newOwner": user(BEN)}).status_code == 400, body
    assert owned(service, ADA) == {document}
    assert entries(service, "owner.set") == entries(service, "owners.transfer") == []


def test_it_is_for_admins_and_of_one_organization(service: RunningService, people: dict[str, str]) -> None:
    """Others are refused; another organization knows nobody and nothing here."""
    document = upload(service, people[ADA], "log")
    body = {"owner": user(ADA), "newOwner": user(BEN)}
    assert code(service.call(TRANSFER, body, api_key=people[ADA])) == (403, "admin_only")
    stranger = another_organization(service)
    own = user("admin@other.test")
    assert code(service.call(TRANSFER, {**body, "newOwner": own}, api_key=stranger)) == (400, "unknown_principal")
    log = {"resourceId": document, "resourceType": "UPLOADED_DOCUMENT"}
    refused = service.call(TRANSFER, {"resources": [log], "newOwner": own}, api_key=stranger)
    assert code(refused) == (404, "resource_not_found")
    refused = service.call(OWNED, {"ownedBy": user(ADA)}, api_key=stranger)
    assert code(refused) == (400, "unknown_principal")
    assert refused.json()["error"]["details"][0]["field"] == "ownedBy"
    assert owned(service, ADA) == {document}


@pytest.mark.usefixtures("people")
def test_five_thousand_resources_take_few_statements(service: RunningService) -> None:
    """As many for each thousand as for one, whatever the number of their access classes; all of them are audited."""
    make_resources(service, a_user(service, ADA)["id"], count=5000)
    with counted_statements(service) as sent:
        answer = done(service.call(TRANSFER, {"owner": user(ADA), "newOwner": user(BEN)}))
    assert transferred(answer) == {"BOX_FILE": 5000}
    assert answer["remaining"] == []
    assert len(sent) < 100, len(sent)
    calls = entries(service, "owners.transfer")
    assert [one["details"]["counts"] for one in calls] == [{"BOX_FILE": 1000}] * 5
    assert len({one["target"]["id"] for one in entries(service, "owner.set")}) == 5000
    left = done(service.call("admin/access/countResources", {"ownedBy": user(BEN)}))
    assert left["total"] == 5000


@pytest.mark.usefixtures("people")
def test_a_request_without_time_left_says_what_remains(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of very many resources a request transfers a part; those that follow do the rest."""
    make_resources(service, a_user(service, ADA)["id"], count=25)
    monkeypatch.setattr(transferring, "BATCH", 10)
    monkeypatch.setattr(transferring, "MOST_SECONDS", 0)
    seen: list[tuple[dict[str, int], int]] = []
    for _ in range(4):
        answer = done(service.call(TRANSFER, {"owner": user(ADA), "newOwner": user(BEN)}))
        seen.append((transferred(answer), sum(one["count"] for one in answer["remaining"])))
    assert seen == [({"BOX_FILE": 10}, 15), ({"BOX_FILE": 10}, 5), ({"BOX_FILE": 5}, 0), ({}, 0)]


@pytest.mark.usefixtures("people")
def test_two_transfers_at_once_end_with_one_owner_of_each(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To two people, and of named resources in another order beside them: none deadlocks, and each thing moves once."""
    monkeypatch.setattr(transferring, "BATCH", 50)
    make_resources(service, a_user(service, ADA)["id"], count=400)
    a_user(service, "cat@example.test")
    named = [{"resourceId": f"box-{number}", "resourceType": "BOX_FILE"} for number in reversed(range(400))]
    bodies = [
        {"owner": user(ADA), "newOwner": user(BEN)},
        {"owner": user(ADA), "newOwner": user("cat@example.test")},
        {"resources": named, "newOwner": user(service.admin_email)},
    ]
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda body: service.call(TRANSFER, body), bodies))
    counts = [sum(transferred(done(answer)).values()) for answer in answers]
    assert owned(service, ADA) == set()
    assert sum(counts[:2]) <= 400
    assert len(owned(service, service.admin_email)) == counts[2]
    everybody = [len(owned(service, email)) for email in (BEN, "cat@example.test", service.admin_email)]
    assert sum(everybody) == 400


def test_an_upload_beside_a_transfer_keeps_the_new_owner(
    service: RunningService, people: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload with another access waits for the transfer, and is judged after it: neither undoes the other."""
    document = upload(service, people[ADA], "log")
    log = {"resourceId": document, "resourceType": "UPLOADED_DOCUMENT"}
    editor = [{"principal": user(service.admin_email), "role": "EDITOR"}]
    done(service.call("admin/grants/set", {"resource": log, "grants": editor}))
    with race_with(monkeypatch) as race:
        race.stop_before(transferring, "change_owner")
        moving = race.begin(service.call, TRANSFER, {"owner": user(ADA), "newOwner": user(BEN)})
        files = {"file": ("log.txt", b"Calm at sea, and foggy.")}
        by_admin = race.begin_blocked(
            service,
            lambda: upload(
                service,
                service.api_key,
                "log",
                text="Calm at sea, and foggy.",
                allowedUsersEmailAddresses=service.admin_email,
            ),
        )
        by_owner = race.beside(
            lambda: service.http.post(
                "/api/v0/catalog/uploadFile",
                data={"documentExternalId": "log"},
                files=files,
                headers={"Authorization": f"Bearer {people[ADA]}"},
            )
        )
        race.release()
        assert transferred(done(moving.result())) == {"UPLOADED_DOCUMENT": 1}
        assert by_admin.result() == document
        assert by_owner.result().status_code in {200, 403}
    assert owned(service, BEN) == {document}
    assert set(readers(service, log)) == {BEN, service.admin_email}
    assert sees(service, people[BEN], document) == (True, True, True)
    assert sees(service, people[ADA], document) == (False, False, False)
    got = done(service.call("catalog/getDocument", {"documentId": document}, api_key=people[BEN]))
    assert got["owner"]["email"] == BEN
