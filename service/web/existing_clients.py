"""Requests in older forms of v0, converted to current operations. An older method or path is replaced before routing
(`replace_older_form`), older members when the body is read (`rename_members`), after authorization. `complete_answer`
adds members for older clients. Authorization, idempotency, logs and metrics see only the current operation.
docs/existing-clients.md lists the forms."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import parse_qsl

from starlette.responses import Response
from starlette.types import Scope

from service.platform.errors import BadRequest, FieldError

Json = dict[str, Any]

PREFIX = "/api/v0/"
# In a request's scope: the `Link` of its answer, if the request has an older form.
OLDER_FORM = "carrel.older_form"
# In a request's scope: the query that replaces the body of an older GET or DELETE.
QUERY = "carrel.query_as_body"
DESCRIPTION_LINK = '</docs>; rel="deprecation"; type="text/html"'
MOST_QUERY_MEMBERS = 100
NUMBER = re.compile(r"\d{1,9}", re.ASCII)
JSON_TYPE = (b"content-type", b"application/json")
LENGTHS_OF_NOTHING = {b"0", b"2", b"4"}  # of "", "{}" and "null"
# A client that expects a whole list gets the largest page.
WHOLE_LIST = 1000

LIST_MEMBERS = "documentCollections/listDocumentsInCollection"
WHOLE_LISTS = {LIST_MEMBERS, "documentCollections/listDocumentCollections"}
CHECK, CHECK_BULK = (f"permissions/check{kind}AuthorizationForUser" for kind in ("Resource", "BulkResources"))
CREATE_SYNC, UPDATE_SYNC = (f"documentCollections/docstore/{verb}DocstoreSync" for verb in ("create", "update"))
SEARCH_COLLECTION = "search/searchDocumentCollection"

# Operations by older methods and paths. Only lists have a GET, because GET must change nothing.
OPERATIONS: Mapping[tuple[str, str], str] = {
    ("GET", "documentCollections/listDocumentCollections"): "documentCollections/listDocumentCollections",
    ("GET", LIST_MEMBERS): LIST_MEMBERS,
    ("DELETE", "documentCollections/deleteCollection"): "documentCollections/deleteDocumentCollection",
    ("DELETE", "documentCollections/deleteDocumentCollection"): "documentCollections/deleteDocumentCollection",
    ("DELETE", "documentCollections/removeDocumentFromCollection"): "documentCollections/removeDocumentFromCollection",
    ("DELETE", "catalog/deleteDocument"): "catalog/deleteDocument",
    ("POST", "documentCollections/mongodb/createMongoSync"): CREATE_SYNC,
    ("POST", "documentCollections/mongodb/updateMongoSync"): UPDATE_SYNC,
}

COLLECTION = {"collectionId": "documentCollectionId"}
RESOURCE = {"resourceIdentifier": "resource"}
SYNC = {"mongoURI": "docstoreURI", "mongoCredentialId": "docstoreCredentialId"}
# By operation: the older names of its members; answers have both older and newer names.
NAMES: Mapping[str, Mapping[str, str]] = {
    "documentCollections/addDocumentToCollection": COLLECTION,
    "documentCollections/addDocumentChunksToCollection": COLLECTION,
    "documentCollections/reindexDocumentInCollection": COLLECTION,
    "documentCollections/removeDocumentFromCollection": COLLECTION,
    "documentCollections/deleteDocumentCollection": COLLECTION,
    LIST_MEMBERS: COLLECTION,
    "documentCollections/getDocumentChunks": COLLECTION,
    SEARCH_COLLECTION: COLLECTION,
    CREATE_SYNC: COLLECTION | SYNC,
    UPDATE_SYNC: SYNC,
    "copilots/streamMessage": {"copilotId": "agentId", "email": "userEmail"},
    "permissions/listAuthorizedPrincipalsForResource": RESOURCE,
    CHECK: RESOURCE,
    CHECK_BULK: {"resourceIdentifiers": "resources"},
}


def replace_older_form(scope: Scope) -> None:
    """Replace the method and path of a request in an older form, and mark it in the scope; leave any other request."""
    path: str = scope["path"]
    if not path.startswith(PREFIX):
        return
    name, method, headers = path.removeprefix(PREFIX), scope["method"], dict(scope["headers"])
    # Client 0.0.1 posts ids in the query, without a body or with an empty body.
    has_body = headers.get(b"content-length", b"0") not in LENGTHS_OF_NOTHING or b"transfer-encoding" in headers
    if method == "POST" and scope["query_string"] and not has_body:
        method = next((candidate for candidate in ("GET", "DELETE") if (candidate, name) in OPERATIONS), method)
    operation = OPERATIONS.get((method, name))
    if operation is None:
        return
    newer = PREFIX + operation
    scope[OLDER_FORM] = DESCRIPTION_LINK if newer == path else f'<{newer}>; rel="successor-version"'
    if method != "POST":
        scope[QUERY] = scope["query_string"]
        # FastAPI reads JSON only from a body with a type, and here the query may be the body.
        scope["headers"] = [*scope["headers"], *([] if b"content-type" in headers else [JSON_TYPE])]
    scope["method"], scope["path"] = "POST", newer


def body_of(scope: Scope, content: bytes) -> bytes:
    """Return the body, or an older GET's or DELETE's query as JSON. Raises BadRequest for both together, for a query
    that can't be read, and for a repeated member."""
    query: bytes = scope.get(QUERY, b"")
    content = b"" if query and content in {b"{}", b"null"} else content
    if QUERY not in scope or (content and not query):
        return content
    if content:
        raise BadRequest("Send the members in the body or in the query, but not in both.")
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_QUERY_MEMBERS
        )
    except ValueError as error:
        raise BadRequest("The query can't be read. Send names and values as percent-encoded UTF-8.") from error
    members: Json = {
        name: int(value) if name == "pageSize" and NUMBER.fullmatch(value) else value for name, value in pairs
    }
    if len(members) != len(pairs):
        raise BadRequest("The query has a member twice. Send each member once.")
    return json.dumps(members).encode()


def rename_members(scope: Scope, body: Any) -> Any:
    """Return a body with newer names, and the members that an older form implies; other types of bodies unchanged.
    Raises BadRequest for two values of a member, and for a resource's address."""
    operation = _operation_of(scope)
    names = NAMES.get(operation, {})
    if not isinstance(body, dict):
        return body
    members = cast("Json", body)
    if names.keys() & members.keys():
        scope.setdefault(OLDER_FORM, DESCRIPTION_LINK)
        members = _rename(members, names)
    if OLDER_FORM in scope and operation in {CHECK, CHECK_BULK}:
        # READ is the only action, and no answer is cached.
        members = {"action": "READ", **{name: value for name, value in members.items() if name != "disableCache"}}
    if QUERY in scope and operation in WHOLE_LISTS:
        members = {"pageSize": WHOLE_LIST, **members}
    return members


def complete_answer(scope: Scope, response: Response) -> Response:
    """Add the members needed by existing clients to the response to an older request; return it, else unchanged."""
    body = getattr(response, "body", b"")
    if OLDER_FORM not in scope or response.status_code != 200 or not body.startswith(b"{"):
        return response
    operation = _operation_of(scope)
    answer: Json = json.loads(body)
    answer |= {older: answer[newer] for older, newer in NAMES.get(operation, {}).items() if newer in answer}
    complete = COMPLETIONS.get(operation)
    response.body = json.dumps(complete(answer) if complete else answer, ensure_ascii=False).encode()
    response.headers["Content-Length"] = str(len(response.body))
    return response


def _operation_of(scope: Scope) -> str:
    path: str = scope["path"]
    return path.removeprefix(PREFIX) if path.startswith(PREFIX) else ""


def _rename(members: Json, names: Mapping[str, str]) -> Json:
    renamed = {name: value for name, value in members.items() if name not in names}
    for older, newer in names.items():
        value = members.get(older)
        if value is None:
            continue
        value = VALUES[older](value) if older in VALUES else value
        if renamed.setdefault(newer, value) != value:
            raise BadRequest(
                f"{older} is the older name of {newer}, but they have different values. Send only {newer}.",
                details=[FieldError(older, f"must be equal to {newer}, or left out")],
            )
    return renamed


def _newer_form(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    members = cast("Json", value)
    if members.get("type") == "url":
        message = "A resource can't be identified by its address. Send its externalResourceId and resourceType."
        raise BadRequest(message, code="resource_address_unsupported")
    kind = {"type"} if members.get("type") == "external-resource-id" else set[str]()
    return _rename({name: member for name, member in members.items() if name not in kind}, IDENTIFIER)


def _newer_forms(value: Any) -> Any:
    return [_newer_form(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


IDENTIFIER = {"externalResourceId": "resourceId"}
VALUES: Mapping[str, Callable[[Any], Any]] = {"resourceIdentifier": _newer_form, "resourceIdentifiers": _newer_forms}


def _identifier(resource: Json) -> Json:
    return {"externalResourceId": resource["resourceId"], "resourceType": resource["resourceType"]}


def _complete_members(answer: Json) -> Json:
    identifiers = [{"type": "external-resource-id", **_identifier(item["resource"])} for item in answer["documents"]]
    return {**answer, "resourceIdentifiers": identifiers}


def _complete_checks(answer: Json) -> Any:
    return [
        {"externalResourceId": _identifier(item["resource"]), "authorized": item["authorized"]}
        for item in answer["results"]
    ]


COMPLETIONS: Mapping[str, Callable[[Json], Any]] = {
    LIST_MEMBERS: _complete_members,
    SEARCH_COLLECTION: lambda answer: {**answer, "results": [{"documentUrl": "", **hit} for hit in answer["results"]]},
    CHECK_BULK: _complete_checks,
}
