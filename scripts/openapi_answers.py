"""What OpenAPI says of each operation's answers: the refusals that occur, headers, files, events, and parameters."""

from functools import cache
from typing import Any

from carrel.wire.catalog import DOWNLOAD_DOCUMENT
from carrel.wire.conversations import ListConversationsRequest
from carrel.wire.messages import STREAM_AGENT_RESPONSE, STREAM_MESSAGE, FetchAgentResponseRequest
from carrel.wire.operations import CONFLICT, KEYED, NOT_FOUND, ApiOperation
from carrel.wire.pages import DOWNLOAD_DOCUMENT_PAGE, PAGE_COUNT
from carrel.wire.replies import TextDelta
from carrel.wire.schemas import descriptions_of
from service.web.openapi import Json

SCHEMAS = "#/components/schemas/"
# Every refusal by its status: the name of its component, what it means, and the headers that come with it.
REFUSALS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "400": ("BadRequest", "The request is invalid; `details` name each member that is wrong.", ()),
    "401": ("Unauthenticated", "There is no credential, or one that doesn't work here.", ("WWW-Authenticate",)),
    "403": ("Forbidden", "The caller may not do this.", ()),
    "404": ("NotFound", "What the request names does not exist, or is not the caller's to know about.", ()),
    "408": ("RequestTimeout", "The body came too slowly.", ()),
    "409": (
        "Conflict",
        "A name is taken, something has changed since it was read, or an Idempotency-Key was used before.",
        (),
    ),
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
IDEMPOTENCY_KEY: Json = {"$ref": "#/components/parameters/IdempotencyKey"}


def _error_response(description: str, headers: tuple[str, ...]) -> Json:
    return {
        "description": description,
        "headers": _headers(*headers),
        "content": {"application/json": {"schema": {"$ref": f"{SCHEMAS}ErrorResponse"}}},
    }


def _headers(*names: str) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-Id", *names)}


RESPONSES: Json = {
    "Error": _error_response("Any other error.", ()),
    **{name: _error_response(description, headers) for name, description, headers in REFUSALS.values()},
}
_BYTES: Json = {"schema": {"type": "string", "format": "binary", "description": "The bytes of the file."}}
# The media type is the file's own; some generators of clients know a file only by the first of these.
FILE: Json = {"application/octet-stream": _BYTES, "*/*": _BYTES}


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
        "restarted": "What was sent so far is void: the job began again after a crash.",
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


def describe_answers(operation: Json, described: ApiOperation[Any, Any]) -> None:
    """Say which refusals an operation can give, which headers it takes and gives, and what its answers hold."""
    operation["parameters"] = [_describe_parameter(one) for one in operation.get("parameters", ())]
    if described.has(KEYED):
        operation["parameters"].append(IDEMPOTENCY_KEY)
    statuses = {
        *ALWAYS,
        *(("400", "408", "413", "415") if "requestBody" in operation else ("400",) if operation["parameters"] else ()),
        *(("404",) if described.has(NOT_FOUND) else ()),
        *(("409",) if described.traits & (KEYED | CONFLICT) else ()),
    }
    headers: list[str] = []
    if described.has(KEYED):
        headers.append("Idempotent-Replayed")
    if described.is_deprecated:
        headers.append("Deprecation")
    if described.successor:
        headers.append("Link")
    success = {**operation["responses"]["200"], "description": "Done."}
    if described is DOWNLOAD_DOCUMENT:
        success |= {"description": "The file.", "content": FILE}
        headers.append("Content-Disposition")
    if described is DOWNLOAD_DOCUMENT_PAGE:
        success |= {"description": "The page.", "content": {"image/jpeg": _BYTES}}
        headers += ["Content-Disposition", PAGE_COUNT]
    if described is STREAM_MESSAGE:
        success |= {
            "description": "The reply while it is made, until it is done. The `data` of each event is this.",
            "content": {"text/event-stream": {"schema": {"$ref": f"{SCHEMAS}StreamingChunk"}}},
        }
    if described is STREAM_AGENT_RESPONSE:
        success |= {
            "description": "The job's events, until it is done.",
            "content": {"text/event-stream": {"schema": event_schema()}},
        }
        operation["parameters"].append({"$ref": "#/components/parameters/LastEventId"})
    if not operation["parameters"]:
        del operation["parameters"]
    operation["responses"] = {
        "200": {**success, "headers": _headers(*headers)},
        **{status: {"$ref": f"#/components/responses/{REFUSALS[status][0]}"} for status in sorted(statuses)},
        "default": {"$ref": "#/components/responses/Error"},
    }


def _describe_parameter(parameter: Json) -> Json:
    schema = {key: value for key, value in parameter["schema"].items() if key != "title"}
    return {**parameter, "schema": schema, "description": _parameter_descriptions()[parameter["name"]]}


@cache
def _parameter_descriptions() -> dict[str, str]:
    return {
        "conversationId": "Id of the conversation.",
        **{
            field.alias or name: descriptions_of(model)[name]
            for model in (ListConversationsRequest, FetchAgentResponseRequest)
            for name, field in model.model_fields.items()
        },
    }
