"""What OpenAPI says of each operation's answers: the refusals that occur, headers, files, events, and parameters."""

from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any

from carrel.wire.conversations import FetchAgentResponseRequest, ListConversationsRequest, TextDelta
from carrel.wire.schemas import descriptions_of
from service.web.edge import SUCCESSORS
from service.web.idempotency import PARAMETER

Json = dict[str, Any]

SCHEMAS = "#/components/schemas/"
UPLOADS = frozenset({"catalog/uploadFile", "catalog/uploadDocumentFile"})
DOWNLOAD = "catalog/downloadDocument"
STREAM = "agents/streamAgentResponse"
# Operations that are done once for an Idempotency-Key beside those that are decorated for it.
ONCE = frozenset({"catalog/uploadDocumentFile", "copilots/sendMessage", "agents/sendMessage"})
# Operations that answer 409, whether or not they take an Idempotency-Key.
CONFLICTING = frozenset(
    {
        *UPLOADS,
        "admin/users/upsert",
        "admin/groups/upsert",
        "admin/agents/update",
        "documentCollections/addDocumentToCollection",
        "documentCollections/addDocumentChunksToCollection",
        "documentCollections/reindexDocumentInCollection",
        "documentCollections/startIndexRebuild",
        "documentCollections/getIndexRebuild",
        "documentCollections/listIndexRebuildFailures",
    }
)
# Operations that answer 404: what the request names must exist, and be the caller's to know about.
NAMING = frozenset(
    {
        "catalog/uploadFile",
        "catalog/getDocument",
        "catalog/downloadDocument",
        "catalog/deleteDocument",
        "documentCollections/addDocumentToCollection",
        "documentCollections/addDocumentChunksToCollection",
        "documentCollections/reindexDocumentInCollection",
        "documentCollections/removeDocumentFromCollection",
        "documentCollections/deleteDocumentCollection",
        "documentCollections/listDocumentsInCollection",
        "documentCollections/getDocumentChunks",
        "documentCollections/startIndexRebuild",
        "documentCollections/getIndexRebuild",
        "documentCollections/listIndexRebuildFailures",
        "documentCollections/cancelIndexRebuild",
        "documentCollections/docstore/createDocstoreSync",
        "documentCollections/docstore/updateDocstoreSync",
        "documentCollections/docstore/launchDocstoreSync",
        "documentCollections/docstore/getDocstoreSync",
        "documentCollections/docstore/listDocstoreSyncs",
        "documentCollections/docstore/listDocstoreFailures",
        "documentCollections/docstore/deleteDocstoreSync",
        "search/searchDocumentCollection",
        "search/submitSearchFeedback",
        "permissions/listAuthorizedPrincipalsForResource",
        "permissions/explainAuthorization",
        "copilots/sendMessage",
        "copilots/provideMessageFeedback",
        "agents/sendMessage",
        "agents/provideMessageFeedback",
        "agents/fetchAgentResponse",
        "agents/streamAgentResponse",
        "conversations/{conversationId}",
        "admin/agents/update",
        "admin/agents/delete",
        "admin/agents/deploy",
        "admin/apiKeys/revoke",
        "admin/grants/set",
        "admin/grants/setMany",
        "admin/grants/list",
        "admin/groups/upsert",
        "admin/groups/listMembers",
        "admin/groups/addMembers",
        "admin/groups/removeMembers",
        "admin/oauthClients/update",
        "admin/oauthClients/approve",
        "admin/oauthClients/rotateSecret",
        "admin/oauthClients/delete",
        "admin/serviceAccounts/delete",
        "admin/serviceAccountTokens/mint",
        "admin/serviceAccountTokens/list",
        "admin/serviceAccountTokens/revoke",
        "admin/serviceAccountTokens/previewReach",
    }
)
# Every refusal by its status: the name of its component, what it means, and the headers that come with it.
REFUSALS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "400": ("BadRequest", "The request is invalid; `details` name each member that is wrong.", ()),
    "401": ("Unauthenticated", "There is no credential, or one that doesn't work here.", ("WWW-Authenticate",)),
    "403": ("Forbidden", "The caller may not do this.", ()),
    "404": ("NotFound", "What the request names does not exist, or is not the caller's to know about.", ()),
    "408": ("RequestTimeout", "The body came too slowly.", ()),
    "409": ("Conflict", "A name is taken, something changed meanwhile, or an Idempotency-Key was used before.", ()),
    "413": ("TooLarge", "The body or the file is too large.", ()),
    "414": ("AddressTooLong", "The address is too long.", ()),
    "415": ("UnsupportedMedia", "The content type, or the type of the file, can't be read.", ()),
    "429": ("TooManyRequests", "The credential, or the caller's address, is over its rate limit.", ("Retry-After",)),
    "431": ("HeadersTooLarge", "The request's headers are too large.", ()),
    "500": ("InternalError", "The service failed; the request id finds the request in its log.", ()),
    "503": ("Unavailable", "The service is saturated, or its database is away for a moment.", ("Retry-After",)),
    "507": ("InsufficientStorage", "A disk has no room for more.", ("Retry-After",)),
}
ALWAYS = ("401", "403", "414", "429", "431", "500", "503", "507")
HEADERS: Json = {
    "X-Request-Id": {
        "description": "Id of the request, which finds it in the service's log; the caller's own if it sent one.",
        "schema": {"type": "string"},
    },
    "Retry-After": {
        "description": "Seconds after which another try is worth it.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "WWW-Authenticate": {"description": "`Bearer`.", "schema": {"type": "string"}},
    "Idempotent-Replayed": {
        "description": "`true`: this was done before, for the same Idempotency-Key.",
        "schema": {"type": "string", "enum": ["true"]},
    },
    "Deprecation": {
        "description": "Since when the operation is deprecated (RFC 9745): `@` and Unix seconds; on errors as well.",
        "schema": {"type": "string"},
        "example": "@1767225600",
    },
    "Link": {
        "description": 'The operation that takes this one\'s place (`rel="successor-version"`, RFC 5829).',
        "schema": {"type": "string"},
    },
    "Content-Disposition": {
        "description": "`attachment`, with the name of the file (RFC 6266).",
        "schema": {"type": "string"},
    },
    "Cache-Control": {"description": "Who may keep the answer.", "schema": {"type": "string"}},
    "Location": {"description": "Where the browser is sent.", "schema": {"type": "string", "format": "uri-reference"}},
}
PARAMETERS: Json = {
    "IdempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": (
            "A string of the caller's, new for each thing to be done. Sent again within 24 hours with the same body, "
            "the request is not done again and the same answer is given; with another body it is refused."
        ),
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
        "example": "3f0c8a52-upload-0001",
    },
    "LastEventId": {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "Id of the last event that was received; the stream goes on after it.",
        "schema": {"type": "string", "pattern": "^[0-9]{1,9}-[0-9]{1,9}$"},
        "example": "1-120",
    },
}
IDEMPOTENCY_KEY: Json = {"$ref": "#/components/parameters/IdempotencyKey"}


def _response(description: str, headers: tuple[str, ...]) -> Json:
    return {
        "description": description,
        "headers": _headers(*headers),
        "content": {"application/json": {"schema": {"$ref": f"{SCHEMAS}ErrorResponse"}}},
    }


def _headers(*names: str) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-Id", *names)}


COMPONENTS: Json = {
    "headers": HEADERS,
    "parameters": PARAMETERS,
    "responses": {
        "Error": _response("Any other error.", ()),
        **{name: _response(description, headers) for name, description, headers in REFUSALS.values()},
    },
}
READINESS: Json = {
    "type": "object",
    "required": ["status"],
    "properties": {
        "status": {"const": "ready", "description": "The service can serve."},
        "storage": {"enum": ["low", "full"], "description": "A disk runs short; absent: there is room."},
    },
}
HEALTH: Json = {
    "type": "object",
    "required": ["status"],
    "properties": {"status": {"const": "ok", "description": "The process is alive."}},
}
_BYTES: Json = {"schema": {"type": "string", "format": "binary", "description": "The bytes of the file."}}
# The media type is the file's own; some generators of clients know a file only by the first of these.
FILE: Json = {"application/octet-stream": _BYTES, "*/*": _BYTES}


def takes_key(path: str, endpoint: Callable[..., Any]) -> bool:
    """Whether an operation (`/catalog/deleteDocument`) is done once for an Idempotency-Key."""
    return path.lstrip("/") in ONCE or PARAMETER in signature(endpoint).parameters


def describe_answers(operation: Json, path: str) -> None:
    """Say which refusals an operation can give, which headers it takes and gives, and what its answers hold."""
    if path.startswith("/api/"):
        _describe_operation(operation, path.split("/", 3)[3])
    else:
        _describe_for_operators(operation, path)


def refusal(status: str) -> Json:
    """Return a reference to the response that describes a refusal."""
    return {"$ref": f"#/components/responses/{REFUSALS[status][0]}"}


def event_schema() -> Json:
    """Return the schema of one event of streamAgentResponse."""
    data = {
        "delta": TextDelta.model_json_schema(mode="serialization"),
        "restarted": {"type": "object", "maxProperties": 0},
        "completed": {"$ref": f"{SCHEMAS}CompletedJob"},
        "failed": {"$ref": f"{SCHEMAS}FailedJob"},
    }
    meanings = {
        "delta": "The reply has grown.",
        "restarted": "What was sent so far is void: the job began anew after a crash.",
        "completed": "The reply is there; the last event.",
        "failed": "There is no reply; the last event.",
    }
    return {
        "description": "A stream of server-sent events; this is one of them. The `data` of each is JSON.",
        "oneOf": [
            {
                "type": "object",
                "description": meanings[name],
                "required": ["event", "id", "data"],
                "properties": {
                    "event": {"const": name, "description": "Kind of the event."},
                    "id": {"type": "string", "description": "Id of the event, for Last-Event-ID."},
                    "data": {"description": meanings[name], **schema},
                },
            }
            for name, schema in data.items()
        ],
    }


def _describe_operation(operation: Json, name: str) -> None:
    parameters: list[Json] = operation.get("parameters", [])
    is_once = IDEMPOTENCY_KEY in parameters
    operation["parameters"] = [_describe_parameter(one) for one in parameters]
    statuses = {
        *ALWAYS,
        *(("400", "408", "413", "415") if "requestBody" in operation else ("400",) if parameters else ()),
        *(("404",) if name in NAMING else ()),
        *(("409",) if is_once or name in CONFLICTING else ()),
    }
    headers: list[str] = []
    if is_once:
        headers.append("Idempotent-Replayed")
    if operation.get("deprecated"):
        headers.append("Deprecation")
    if f"/{name}" in SUCCESSORS:
        headers.append("Link")
    success = {**operation["responses"]["200"], "description": "Done."}
    if name == DOWNLOAD:
        success |= {"description": "The file.", "content": FILE}
        headers.append("Content-Disposition")
    if name == STREAM:
        success |= {
            "description": "The job's events, until it is done.",
            "content": {"text/event-stream": {"schema": event_schema()}},
        }
        operation["parameters"].append({"$ref": "#/components/parameters/LastEventId"})
    if not operation["parameters"]:
        del operation["parameters"]
    operation["responses"] = {
        "200": {**success, "headers": _headers(*headers)},
        **{status: refusal(status) for status in sorted(statuses)},
        "default": {"$ref": "#/components/responses/Error"},
    }


def _describe_for_operators(operation: Json, path: str) -> None:
    content = {
        "/healthz": {"application/json": {"schema": HEALTH}},
        "/readyz": {"application/json": {"schema": READINESS}},
        "/metrics": {"text/plain": {"schema": {"type": "string", "description": "Prometheus' text format."}}},
    }[path]
    statuses = ("414", "431", "500", *(("503", "507") if path == "/readyz" else ()))
    operation["responses"] = {
        "200": {"description": "Done.", "headers": _headers(), "content": content},
        **{status: refusal(status) for status in statuses},
    }


def _describe_parameter(parameter: Json) -> Json:
    if "$ref" in parameter:
        return parameter
    schema = {key: value for key, value in parameter["schema"].items() if key != "title"}
    return {**parameter, "schema": schema, "description": _parameter_descriptions()[parameter["name"]]}


@cache
def _parameter_descriptions() -> dict[str, str]:
    """Return what the parameters of queries and paths mean; the ones of a name mean the same everywhere."""
    return {
        "conversationId": "Id of the conversation.",
        **{
            field.alias or name: descriptions_of(model)[name]
            for model in (ListConversationsRequest, FetchAgentResponseRequest)
            for name, field in model.model_fields.items()
        },
    }
