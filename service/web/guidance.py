"""Suggestions for wrong requests: the nearest endpoint, method, member or value, or the way to an id."""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from mimetypes import types_map
from typing import Any, get_args

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from carrel.wire.api import OPERATIONS
from service.platform.errors import BadRequest, NotFound, ServiceError, error_response, from_validation

LONGEST_SHOWN = 100
SHORTEST_WITHIN = 4
MOST_HINTS = 20
_PREFIXES = re.compile(r"^(/*(api|v\d+)(?=/|$))*/*")
_OTHERS = (
    *((path, f"GET /{path}") for path in ("docs", "openapi.json", "healthz", "readyz", "metrics", "scim/v2/Users")),
    *((path, f"POST /api/{path}") for path in ("oauth/token", "oauth/revoke")),
    ("oauth/authorize", "GET /api/oauth/authorize"),
    ("mcp", "POST /mcp"),
)
_MEDIA_TYPES = frozenset(
    [
        *types_map.values(),
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/x-ndjson",
        "text/json",
    ]
)
_CHARSETS = frozenset(
    f"charset={each}" for each in ("utf-8", "utf8", "utf-16", "iso-8859-1", "latin-1", "windows-1252")
)
_PAGES: Mapping[str, str] = dict.fromkeys(
    ("swagger", "swagger-ui", "redoc", "documentation", "reference", "openapi"), "docs"
)


def install(app: FastAPI) -> None:
    """Answer unknown endpoints, wrong methods and wrong members with the nearest suggestion."""
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_error)


def find_nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word nearest to `word`: equal except case and signs, or containing it, or similar; or None."""
    plain = {_plain(name): name for name in known}
    sought = _plain(word)[:LONGEST_SHOWN]
    within = [name for name in plain if len(sought) >= SHORTEST_WITHIN and sought in name]
    matching = [sought] if sought in plain else sorted(within, key=len) or get_close_matches(sought, plain, 1)
    return plain[matching[0]] if matching else None


def sent_as(request: Request) -> str:
    """Return the end of a sentence about the Content-Type; empty if unknown, because it may be a misplaced secret."""
    sent = request.headers.get("content-type", "")
    media_type, _, charset = sent.lower().partition(";")
    if not sent:
        return "; it came without a Content-Type"
    known = media_type.strip() in _MEDIA_TYPES and (not charset or charset.strip() in _CHARSETS)
    return f"; it came as {sent}" if known else ""


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9/]", "", word.lower())


async def _on_invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this class alone
    unreadable = request.scope.get("carrel.unreadable_body")
    if isinstance(unreadable, ServiceError):
        return error_response(unreadable)
    operation = getattr(request.scope.get("route"), "operation", None)
    return error_response(refuse_members(error.errors(), getattr(operation, "request", None)))


def refuse_members(errors: Sequence[Mapping[str, Any]], model: type[BaseModel] | None) -> BadRequest:
    """Convert pydantic's errors about a model to a 400; the first 20 suggest the nearest members and values."""
    hinted = [{**error, "hint": _hint(error, model)} for error in errors[:MOST_HINTS]]
    return from_validation([*hinted, *errors[MOST_HINTS:]])


def _hint(error: Mapping[str, Any], model: type[BaseModel] | None) -> str:
    location, kind = error["loc"], error["type"]
    context: Mapping[str, Any] = error.get("ctx", {})
    name = str(location[-1]) if location else ""
    if kind == "extra_forbidden":
        models = _models_at(model, location[1:-1])
        known = [field.alias or own for model in models for own, field in model.model_fields.items()]
        nearest = find_nearest(name, known)
        return f"; the nearest is {nearest}" if nearest else f"; there are {', '.join(known)}" if known else ""
    if kind in {"literal_error", "enum", "union_tag_invalid"} and isinstance(error["input"], str | dict):
        expected = re.findall(r"'([^']+)'", str(context.get("expected", context.get("expected_tags", ""))))
        nearest = find_nearest(str(context.get("tag", error["input"])), expected)
        return f"; the nearest is {nearest}" if nearest else ""
    if kind in {"union_tag_not_found", "model_attributes_type", "dict_type"}:
        types = [
            each.model_fields["type"].annotation
            for each in _models_at(model, location[1:])
            if "type" in each.model_fields
        ]
        tags = sorted({str(tag) for kind in types for tag in get_args(kind)})
        return f"; its type is {' or '.join(tags)}" if tags else ""
    if kind.startswith("uuid"):
        # The last word of a list's path tells which ids it has: listDocumentCollections, agents/list.
        stem = re.sub(r"Ids?$", "", next((str(part) for part in reversed(location) if isinstance(part, str)), ""))
        lists = re.compile(rf"/(list\w*{re.escape(stem)}s|{re.escape(stem)}s/list)$", re.IGNORECASE)
        # Several lists may match, such as listSources and listResources.
        path = min(filter(lists.search, OPERATIONS), key=_rank_list, default=None) if stem else None
        return f". A name isn't taken; {path} has the ids" if path else ". A name isn't taken"
    return ""


def _rank_list(path: str) -> tuple[bool, int]:
    """Return a sort key for list operations: lists for everyone before lists for admins, then short paths first."""
    return path.startswith("admin/"), len(path)


def _models_at(model: type[BaseModel] | None, path: Sequence[str | int]) -> list[type[BaseModel]]:
    models = [model] if model is not None else []
    for step in path:
        fields = [field for each in models for name, field in each.model_fields.items() if step in {name, field.alias}]
        # Indexes of lists and tags of unions are steps without a field.
        models = [found for field in fields for found in _models_in(field.annotation)] if fields else models
    return models


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class alone
    refusal = _refuse(request, error)
    refusal.headers.update(error.headers or {})
    return error_response(refusal)


def _refuse(request: Request, error: HTTPException) -> ServiceError:
    """Return the error for a request without a matching endpoint. The framework itself raises no further statuses."""
    sent = str(request.scope["path"])[:LONGEST_SHOWN]
    if error.status_code == 404:
        nearest = _nearest_endpoint(sent, _endpoints())
        # A path that doesn't resemble an endpoint may be a misplaced secret, so no answer repeats it.
        place, known = _plain(_place_of(sent)), _plain(_place_of(nearest or ""))
        is_near = place in known or get_close_matches(place, [known], 1, 0.75)
        endpoint = f"endpoint {request.method} {sent}" if nearest and is_near else "such endpoint"
        hint = f"The nearest is {nearest}." if nearest else "Operations are POST /api/v0/… and /api/v1/…."
        return NotFound(f"There is no {endpoint}. {hint} /docs lists all operations.")
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        how = " with a JSON body" if allowed == "POST" and sent.startswith("/api/v") and "upload" not in sent else ""
        message = f"{sent} takes {allowed}{how}, not {request.method}."
        return ServiceError(message, code="method_not_allowed", status=405)
    return BadRequest("The request is not valid. Compare it with /docs.")


@cache
def _endpoints() -> Mapping[str, tuple[str, ...]]:
    endpoints = {place.lower(): tuple(each) for place, *each in _OTHERS}
    for place, operation in OPERATIONS.items():
        versions = [operation.version] if operation.version else ["v0", "v1"]
        endpoints[place.lower()] = tuple(f"{operation.method} /api/{version}/{place}" for version in versions)
    return endpoints


def _place_of(path: str) -> str:
    return _PREFIXES.sub("", path.lower().rpartition(" ")[2]).strip("/")


def _nearest_endpoint(sent: str, endpoints: Mapping[str, tuple[str, ...]]) -> str | None:
    place = _place_of(sent)
    place = _PAGES.get(place.rpartition("/")[2].partition(".")[0], place) if place not in endpoints else place
    requests = endpoints.get(place) or endpoints.get((find_nearest(place, OPERATIONS) or "").lower())
    versions = [request for request in requests or () if "/api/v1" in sent.lower() and "/api/v1" in request]
    return (versions or requests)[0] if requests else None
