"""Common actions of tests of the catalog: upload text as a person, list documents, look for leftovers."""

from pathlib import Path

import httpx

from tests.harness.services import RunningService


def add_users(service: RunningService, *emails: str) -> None:
    ok(service.call("admin/users/upsert", {"users": [{"email": email, "name": email} for email in emails]}))


def add_group(service: RunningService, name: str, *emails: str) -> str:
    members = [{"type": "user", "email": email} for email in emails]
    return ok(service.call("admin/groups/upsert", {"groups": [{"name": name, "members": members}]}))["groups"][0]["id"]


def upload(
    service: RunningService,
    external_id: str,
    content: bytes | str = "The ferry leaves at noon.",
    *,
    file_name: str = "notes.txt",
    as_user: str | None = None,
    api_key: str | None = None,
    **parts: str,
) -> httpx.Response:
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else None
    data = {"documentExternalId": external_id, **parts} | ({"uploadAsUserEmail": as_user} if as_user else {})
    body = content.encode() if isinstance(content, str) else content
    return service.http.post(
        "/api/v0/catalog/uploadFile", data=data, files={"file": (file_name, body)}, headers=headers
    )


def uploaded(service: RunningService, external_id: str, *args, **options) -> dict:
    answer = ok(upload(service, external_id, *args, **{"awaitVectorStoreSync": "true", **options}))
    assert answer["indexing"] == "DONE", answer
    return answer


def ok(response: httpx.Response) -> dict:
    assert response.status_code == 200, response.text
    return response.json()


def refused(response: httpx.Response, status: int, code: str) -> dict:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["code"] == code, error
    return error


def get_document(service: RunningService, document_id: str, *, as_user: str | None = None) -> dict:
    return ok(service.call("catalog/getDocument", _acting({"documentId": document_id}, as_user)))


def list_documents(service: RunningService, *, as_user: str | None = None, **filters) -> list[str]:
    found: list[str] = []
    body = _acting(filters, as_user)
    while True:
        page = ok(service.call("catalog/listDocuments", body))
        found += [document["documentExternalId"] for document in page["documents"]]
        if "nextPageToken" not in page:
            return found
        body = {**body, "pageToken": page["nextPageToken"]}


def list_chunks(service: RunningService, document_id: str, collection_id: str | None = None) -> list[dict]:
    body: dict = {"documentId": document_id, "pageSize": 1000}
    if collection_id:
        body["documentCollectionId"] = collection_id
    return ok(service.call("documentCollections/getDocumentChunks", body))["chunks"]


def chunks(service: RunningService, document_id: str, collection_id: str | None = None) -> list[str]:
    return [chunk["text"] for chunk in list_chunks(service, document_id, collection_id)]


def search(service: RunningService, query: str, *, as_user: str | None = None) -> list[str]:
    body = _acting({"searchQuery": query}, as_user)
    return [result["documentName"] for result in ok(service.call("search/searchDocumentCatalog", body))["results"]]


def create_collection(service: RunningService, name: str, *, as_user: str | None = None, **fields: str) -> str:
    schema = {"fields": [{"name": field, "type": kind} for field, kind in fields.items()]}
    body = _acting({"collectionName": name, "customMetadataSchema": schema}, as_user)
    return ok(service.call("documentCollections/createDocumentCollection", body))["documentCollectionId"]


def add_to_collection(
    service: RunningService,
    document_id: str,
    collection_id: str,
    *,
    as_user: str | None = None,
    operation: str = "addDocumentToCollection",
    **members,
) -> httpx.Response:
    body = {"documentId": document_id, "documentCollectionId": collection_id, **members}
    if operation == "addDocumentToCollection":
        body.setdefault("customMetadata", {})
    return service.call(f"documentCollections/{operation}", _acting(body, as_user))


def embedded(service: RunningService) -> int:
    return service.runtime.embedders.texts_embedded


def stored_files(service: RunningService) -> list[Path]:
    folder = service.settings.data_dir
    return [path for pattern in ("files/*/*", "uploads/**/*") for path in folder.glob(pattern) if path.is_file()]


def assert_nothing_stored(service: RunningService) -> None:
    assert list_documents(service) == []
    assert stored_files(service) == []


def _acting(body: dict, user: str | None) -> dict:
    return body if user is None else {**body, "userEmail": user}
