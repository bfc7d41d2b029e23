"""Requests in the forms of existing API clients (docs/existing-clients.md)."""

import json
from uuid import uuid4

import httpx
import pytest

from service.domains.agents.answering.models import ModelFailure
from tests.harness.documents import add_to_collection, create_collection, ok, refused, uploaded
from tests.service.conversations import FERRY, Desk, Script, a_desk, a_reply, a_visitor, in_background, passage
from tests.service.directory import a_user, on_rows
from tests.service.examples import DOCSTORE_CONFIG, DOCSTORE_URI
from tests.service.service_accounts import a_token, an_account, enable_service_accounts
from tests.service.test_messages_v1 import answer_again

LIST = "documentCollections/listDocumentsInCollection"
SEARCH = "search/searchDocumentCollection"
CHECK = "permissions/checkResourceAuthorizationForUser"
DESCRIPTION = '</docs>; rel="deprecation"; type="text/html"'
BEN = "ben@example.test"


@pytest.fixture(scope="module")
def office(module_service) -> Desk:
    a_user(module_service, BEN)
    return a_desk(module_service)


def request(office: Desk, method: str, operation: str, **options) -> httpx.Response:
    return office.service.http.request(method, f"/api/v0/{operation}", **options)


def is_marked(answer: httpx.Response, link: str = DESCRIPTION) -> bool:
    """Return whether an answer marks the request's form as deprecated, with a link and without an end date."""
    assert "Sunset" not in answer.headers
    return answer.headers.get("Deprecation", "").startswith("@") and answer.headers.get("Link") == link


def is_unmarked(answer: httpx.Response) -> bool:
    return not {"deprecation", "link", "sunset"} & set(answer.headers)


def successor(operation: str) -> str:
    return f'</api/v0/{operation}>; rel="successor-version"'


def identifier(document_id: str) -> dict[str, str]:
    named = {"externalResourceId": document_id, "resourceType": "UPLOADED_DOCUMENT"}
    return {"type": "external-resource-id", **named}


def members_of(office: Desk, collection_id: str) -> list[str]:
    listed = ok(office.service.call(LIST, {"documentCollectionId": collection_id}))["documents"]
    return [one["documentId"] for one in listed]


def test_a_reply_holds_its_text_twice(office: Desk) -> None:
    answer = office.send()
    result = ok(answer)["sendChatResult"]
    assert result["response"]["dataChunk"] == result["response"]["message"] != ""
    assert result["policy_triggers"] == []
    assert is_unmarked(answer)
    schemas = ok(office.service.http.get("/openapi.json"))["components"]["schemas"]
    assert schemas["ReplyMessage"]["required"] == ["message", "dataChunk"]


def test_a_collection_may_be_called_by_its_older_name(office: Desk) -> None:
    answer = office.service.call(SEARCH, {"collectionId": office.collection_id, "searchQuery": "ferry"})
    [found] = ok(answer)["results"]
    assert found["documentId"] == office.document_id
    assert found["documentUrl"] == ""
    assert is_marked(answer)
    newer = office.service.call(SEARCH, {"documentCollectionId": office.collection_id, "searchQuery": "ferry"})
    assert "documentUrl" not in ok(newer)["results"][0]
    assert is_unmarked(newer)


def test_both_names_must_agree(office: Desk) -> None:
    body = {"collectionId": office.collection_id, "documentCollectionId": office.collection_id}
    assert members_of(office, office.collection_id) == [office.document_id]
    assert len(ok(office.service.call(LIST, body))["documents"]) == 1
    answer = office.service.call(LIST, {**body, "collectionId": str(uuid4())})
    error = refused(answer, 400, "invalid_request")
    told = {"field": "collectionId", "message": "must be equal to documentCollectionId, or left out"}
    assert error["details"] == [told]
    assert is_marked(answer)
    unknown = refused(office.service.call(LIST, {**body, "collection": "x"}), 400, "invalid_request")
    assert [one["field"] for one in unknown["details"]] == ["collection"]
    # An operation that has no such member refuses it as ever.
    refused(office.service.call("catalog/listDocuments", {"collectionId": str(uuid4())}), 400, "invalid_request")


def test_a_resource_may_be_named_as_existing_clients_do(office: Desk) -> None:
    """`resourceIdentifier` with an external id; the action defaults to READ."""
    body = {"resourceIdentifier": identifier(office.document_id), "disableCache": True}
    answer = office.service.call(CHECK, body)
    assert ok(answer) == {"authorized": True}
    assert is_marked(answer)
    body = {"resourceIdentifier": identifier(office.document_id), "action": "READ"}
    listed = office.service.call("permissions/listAuthorizedPrincipalsForResource", body)
    assert BEN in {one.get("email") for one in ok(listed)["principals"]}
    by_address = {"resourceIdentifier": {"type": "url", "url": "https://example.com/page"}}
    refused(office.service.call(CHECK, by_address), 400, "resource_address_unsupported")
    odd = {"resourceIdentifier": {**identifier(office.document_id), "more": 1}}
    assert refused(office.service.call(CHECK, odd), 400, "invalid_request")["details"][0]["field"] == "resource.more"
    # With the newer name, nothing of this is taken.
    newer = {"resource": {"resourceId": office.document_id, "resourceType": "UPLOADED_DOCUMENT"}}
    refused(office.service.call(CHECK, newer), 400, "invalid_request")


def test_many_resources_are_answered_as_a_list(office: Desk) -> None:
    nothing = identifier(str(uuid4()))
    body = {"resourceIdentifiers": [identifier(office.document_id), nothing], "userEmail": BEN}
    answer = office.service.call("permissions/checkBulkResourcesAuthorizationForUser", body)
    assert answer.status_code == 200, answer.text
    assert [(one["externalResourceId"]["externalResourceId"], one["authorized"]) for one in answer.json()] == [
        (office.document_id, True),
        (nothing["externalResourceId"], False),
    ]
    assert is_marked(answer)


def test_a_sync_may_be_made_under_its_older_path(office: Desk) -> None:
    collection_id = create_collection(office.service, "Synced")
    body = {"collectionId": collection_id, "mongoURI": DOCSTORE_URI, "config": DOCSTORE_CONFIG}
    answer = request(office, "POST", "documentCollections/mongodb/createMongoSync", json=body)
    made = ok(answer)
    assert made["mongoCredentialId"] == made["docstoreCredentialId"]
    assert is_marked(answer, successor("documentCollections/docstore/createDocstoreSync"))
    changed = {"mongoCredentialId": made["mongoCredentialId"], "mongoURI": DOCSTORE_URI, "config": DOCSTORE_CONFIG}
    again = request(office, "POST", "documentCollections/mongodb/updateMongoSync", json=changed)
    assert ok(again)["resourceId"] == made["resourceId"]
    counted = office.service.http.get("/metrics").text
    assert 'route="/api/v0/documentCollections/docstore/createDocstoreSync"' in counted
    assert "MongoSync" not in counted


def test_a_list_may_be_got_by_its_query(office: Desk) -> None:
    collection_id = create_collection(office.service, "Twelve")
    made = [uploaded(office.service, f"twelve-{number}", f"Note {number}")["documentId"] for number in range(12)]
    for document_id in made:
        ok(add_to_collection(office.service, document_id, collection_id))
    answer = request(office, "GET", LIST, params={"collectionId": collection_id})
    listed = ok(answer)
    assert {one["externalResourceId"] for one in listed["resourceIdentifiers"]} == set(made)
    assert listed["resourceIdentifiers"][0] == identifier(listed["documents"][0]["documentId"])
    assert "nextPageToken" not in listed
    assert is_marked(answer)
    page = ok(request(office, "GET", LIST, params={"collectionId": collection_id, "pageSize": "5"}))
    assert len(page["documents"]) == 5
    token = {"collectionId": collection_id, "pageSize": 5, "pageToken": page["nextPageToken"]}
    assert len(ok(request(office, "GET", LIST, params=token))["documents"]) == 5
    collections = ok(request(office, "GET", "documentCollections/listDocumentCollections"))
    assert collection_id in {one["documentCollectionId"] for one in collections["documentCollections"]}


def test_a_query_is_read_as_strictly_as_a_body(office: Desk) -> None:
    no_text = request(office, "GET", "documentCollections/listDocumentCollections?collectionName=%FF")
    refused(no_text, 400, "invalid_request")
    collection = f"collectionId={office.collection_id}"
    for query in (f"{collection}&{collection}", f"{collection}&more=1", "", "collectionId=%00", "collectionId=%ff"):
        refused(request(office, "GET", f"{LIST}?{query}"), 400, "invalid_request")
    both = request(office, "GET", f"{LIST}?{collection}", json={"collectionId": office.collection_id})
    assert "not in both" in refused(both, 400, "invalid_request")["message"]


def test_what_is_deleted_may_be_named_in_query_or_body(office: Desk) -> None:
    collection_id = create_collection(office.service, "Deleted")
    document_id = uploaded(office.service, "removed", "Gone soon")["documentId"]
    ok(add_to_collection(office.service, document_id, collection_id))
    remove, delete = "documentCollections/removeDocumentFromCollection", "documentCollections/deleteCollection"
    both = {"documentId": document_id, "documentCollectionId": collection_id}
    for operation in (remove, delete, "documentCollections/deleteDocumentCollection", "catalog/deleteDocument"):
        expected = (404, "not_found") if operation == delete else (405, "method_not_allowed")
        refused(request(office, "GET", operation, params=both), *expected)
    assert members_of(office, collection_id) == [document_id]

    listed = ok(request(office, "POST", LIST, params={"collectionId": collection_id}))  # as client 0.0.1
    assert [one["documentId"] for one in listed["documents"]] == [document_id]
    answer = request(office, "POST", remove, params=both, json={})
    assert ok(answer)["collectionId"] == collection_id
    assert is_marked(answer)
    ok(add_to_collection(office.service, document_id, collection_id))
    assert ok(request(office, "DELETE", remove, params=both))["collectionId"] == collection_id
    assert members_of(office, collection_id) == []
    answer = request(office, "DELETE", delete, json={"collectionId": collection_id})
    assert ok(answer) == {"documentCollectionId": collection_id, "collectionId": collection_id}
    assert is_marked(answer, successor("documentCollections/deleteDocumentCollection"))
    refused(office.service.call(LIST, {"documentCollectionId": collection_id}), 404, "collection_not_found")
    assert ok(request(office, "DELETE", "catalog/deleteDocument", params={"documentId": document_id}))
    entries = ok(office.service.call("admin/auditLog/query", {"targetId": document_id}))["entries"]
    assert entries[0]["action"] == "document.delete"


def test_an_older_form_needs_what_its_operation_needs(office: Desk) -> None:
    nobody = {"Authorization": ""}
    gone = create_collection(office.service, "Kept")
    delete, query = "documentCollections/deleteCollection", {"collectionId": gone}
    answer = request(office, "DELETE", delete, params=query, headers=nobody)
    assert answer.status_code == 401
    enable_service_accounts(office.service)
    account = an_account(office.service)
    token = a_token(office.service, account, "catalog:read")["token"]
    reader = {"Authorization": f"Bearer {token}"}
    refused(request(office, "DELETE", delete, params=query, headers=reader), 403, "missing_scope")
    sync = {"collectionId": gone, "mongoURI": DOCSTORE_URI, "config": DOCSTORE_CONFIG}
    answer = request(office, "POST", "documentCollections/mongodb/createMongoSync", json=sync, headers=reader)
    refused(answer, 403, "service_account_not_allowed")
    refused(request(office, "GET", LIST, params=query, headers=reader), 404, "collection_not_found")
    ben = {**query, "userEmail": BEN}
    refused(request(office, "DELETE", delete, params=ben), 404, "collection_not_found")
    assert office.service.http.delete(f"/api/v1/{delete}", params=query).status_code in {404, 405}
    assert members_of(office, gone) == []


def test_an_idempotency_key_holds_for_an_older_form(office: Desk) -> None:
    collection_id = create_collection(office.service, "Once")
    sent = {"params": {"collectionId": collection_id}, "headers": {"Idempotency-Key": str(uuid4())}}
    first = request(office, "DELETE", "documentCollections/deleteCollection", **sent)
    again = request(office, "DELETE", "documentCollections/deleteCollection", **sent)
    assert ok(again) == ok(first)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert is_marked(again, successor("documentCollections/deleteDocumentCollection"))


UPLOAD = "catalog/uploadDocumentContents"


def contents(**members) -> dict:
    external_id = f"text-{uuid4()}"
    text = "The tower is <b>white</b>.\n\n    Its lamp turns."
    return {"documentExternalId": external_id, "documentName": "Tower.pdf", "documentContents": text, **members}


def test_contents_are_uploaded_as_json(office: Desk) -> None:
    collection_id = create_collection(office.service, "Towers", height="INT", lit="BOOLEAN")
    body = contents(
        allowedUsersEmailAddresses=[BEN],
        uploadAsUserEmail=office.service.admin_email,
        customMetadata={"height": 40, "lit": True},
        collectionId=collection_id,
        awaitVectorStoreSync=True,
        internalPublic=None,
    )
    answer = office.service.call(UPLOAD, body)
    made = ok(answer)
    assert (made["status"], made["indexing"]) == ("CREATED", "DONE")
    assert is_marked(answer, '<uploadFile>; rel="successor-version"')
    shown = ok(office.service.call("catalog/getDocument", {"documentId": made["documentId"], "userEmail": BEN}))
    assert shown["documentName"] == "Tower.pdf"
    file = office.service.call("catalog/downloadDocument", {"documentId": made["documentId"]})
    assert file.text == body["documentContents"]
    searched = {"documentCollectionId": collection_id, "searchQuery": "white tower"}
    [found] = ok(office.service.call(SEARCH, searched))["results"]
    assert found["documentMetadata"] == {"height": "40", "lit": "true"}
    assert "<b>white</b>" in found["chunks"][0]["text"]
    assert ok(office.service.call(UPLOAD, body))["status"] == "UNCHANGED"
    assert list(office.service.settings.uploads_dir.iterdir()) == []


def test_an_upload_as_json_is_refused_as_a_file_is(office: Desk) -> None:
    refused(office.service.call(UPLOAD, contents(documentContents="")), 400, "invalid_request")
    refused(office.service.call(UPLOAD, contents(documentContents=" \n ")), 400, "file_without_text")
    refused(office.service.call(UPLOAD, contents(more=1)), 400, "invalid_request")
    body = contents()
    ok(office.service.call(UPLOAD, body))
    refused(office.service.call(UPLOAD, {**body, "uploadAsUserEmail": BEN}), 403, "external_id_taken")
    enable_service_accounts(office.service)
    token = a_token(office.service, an_account(office.service, "Reader"), "catalog:read")["token"]
    refused(office.service.call(UPLOAD, body, api_key=token), 403, "missing_scope")
    assert list(office.service.settings.uploads_dir.iterdir()) == []


def test_an_upload_as_json_has_both_bounds(make_service) -> None:
    small = make_service(max_upload_bytes=100, max_json_bytes=2000)
    ok(small.call(UPLOAD, contents()))
    refused(small.call(UPLOAD, contents(documentContents="é" * 60)), 413, "file_too_large")
    refused(small.call(UPLOAD, contents(documentContents="x" * 2000)), 413, "too_large")


def test_a_conversation_is_made_before_its_first_message(office: Desk) -> None:
    service = office.service
    made = service.call("copilots/createConversation", {"agentId": office.agent_id, "userEmail": BEN})
    conversation_id = ok(made)["conversationId"]
    assert is_unmarked(made)
    elsewhere = a_desk(service, "Other desk").agent_id
    refused(office.send(conversationId=conversation_id), 404, "conversation_not_found")
    other_agent = {"agentId": elsewhere, "message": "Hello", "conversationId": conversation_id, "userEmail": BEN}
    refused(service.call("copilots/sendMessage", other_agent), 404, "conversation_not_found")
    ben = a_visitor(office, BEN)
    assert ok(ben.get("conversations"))["conversations"] == []
    refused(ben.get(f"conversations/{conversation_id}"), 404, "conversation_not_found")
    assert office.ask(conversationId=conversation_id, userEmail=BEN)["conversationId"] == conversation_id
    assert ok(ben.get("conversations"))["conversations"] == []  # a program began it for Ben
    assert ok(ben.get(f"conversations/{conversation_id}"))["conversation"]["messageCount"] == 1
    refused(service.call("copilots/createConversation", {"agentId": str(uuid4())}), 404, "agent_not_found")
    sent = {"headers": {"Idempotency-Key": str(uuid4())}}
    keyed = [ok(service.call("copilots/createConversation", {"agentId": office.agent_id}, **sent)) for _ in range(2)]
    assert keyed[0] == keyed[1]


def test_variables_name_documents_in_a_message(office: Desk) -> None:
    hidden = uploaded(office.service, "hidden", "A secret", documentName="Secrets")["documentId"]
    variables = [{"name": "notes", "ids": [office.document_id]}, {"name": "more", "ids": [office.document_id]}]
    body = {"agentId": office.agent_id, "userEmail": BEN, "message": "What do {{ notes }} say of {{dogs}}?"}
    ok(office.service.call("copilots/sendMessage", {**body, "inputVariables": variables}))
    [(message,)] = on_rows(office.service, "SELECT message FROM turns", more="ORDER BY created_at DESC LIMIT 1")
    assert message == "What do “Ferries” say of {{dogs}}?\nmore: “Ferries”"
    for unreadable in (hidden, str(uuid4())):
        of_others = {**body, "inputVariables": [{"name": "notes", "ids": [unreadable]}]}
        refused(office.service.call("copilots/sendMessage", of_others), 404, "document_not_found")
    long = {**body, "message": "{{notes}}" * 2000, "inputVariables": [variables[0]]}
    refused(office.service.call("copilots/sendMessage", long), 400, "invalid_request")
    twice = {**body, "inputVariables": [variables[0], variables[0]]}
    refused(office.service.call("copilots/sendMessage", twice), 400, "invalid_request")


STREAM = "copilots/streamMessage"


def chunks(answer: httpx.Response) -> list[dict]:
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    return [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line.startswith("data: ")]


def asked(desk: Desk, **members) -> dict:
    return {"copilotId": desk.agent_id, "email": BEN, "message": "When does the ferry leave?", **members}


def test_a_message_is_streamed(office: Desk) -> None:
    answer = office.service.call(STREAM, asked(office))
    initial, *texts, end, final = chunks(answer)
    assert is_marked(answer)
    assert initial == {**initial, "event": "initial", "warnings": [], "webSearchResults": []}
    assert {one["event"] for one in texts} == {"data_chunk"}
    assert end == {"event": "end_of_message"}
    assert final["event"] == "final_chunk"
    assert [one["id"] for one in final["sources"]] == [office.document_id]
    more = office.ask("When does the ferry leave?", userEmail=BEN, conversationId=initial["conversationId"])
    assert more["response"]["message"] == "".join(one["chunk"] for one in texts)
    assert more["referencedSources"] == final["sources"]
    newer = {"agentId": office.agent_id, "message": "When does the ferry leave?"}
    assert is_unmarked(office.service.call(STREAM, newer))
    refused(office.service.call(STREAM, asked(office, copilotId=str(uuid4()))), 404, "agent_not_found")


def test_a_stream_grows_with_the_reply_and_ends_when_it_is_begun_anew(desk: Desk, script: Script) -> None:
    a_user(desk.service, BEN)
    url = f"/api/v0/{STREAM}"
    with desk.service.http.stream("POST", url, json=asked(desk)) as answer:
        lines = (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: "))
        script.tell("At")
        assert [next(lines)["event"], next(lines)["chunk"]] == ["initial", "At"]
        script.tell("At noon")
        assert next(lines)["chunk"] == " noon"
        again = in_background(lambda: answer_again(desk))
        script.tell("No", number=1)
        [error] = list(lines)
        assert (error["event"], error["error"]["code"]) == ("error_chunk", "reply_restarted")
        script.end(a_reply("Noon."), number=1)
        again.result()


def test_a_stream_withholds_what_an_answer_withholds(desk: Desk, script: Script) -> None:
    a_user(desk.service, BEN)
    with desk.service.http.stream("POST", f"/api/v0/{STREAM}", json=asked(desk)) as answer:
        script.scene()
        desk.share(everybody=False)
        script.end(a_reply(FERRY, passage(desk.document_id), cited=[0]))
        [blocked] = chunks(answer)
    assert blocked["event"] == "blocked"
    assert FERRY not in json.dumps(blocked)
    assert blocked["blocks"]
    with desk.service.http.stream("POST", f"/api/v0/{STREAM}", json=asked(desk)) as answer:
        script.end(ModelFailure("The model is away."), number=1)
        [failed] = chunks(answer)
    assert (failed["event"], failed["error"]["code"]) == ("error_chunk", "model_unavailable")
