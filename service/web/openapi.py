"""The API's description in OpenAPI 3.1: as a whole, and cut into v0 and v1. `make docs` writes it to a file, compared
with the code by a test: deriving it takes two seconds, too long for a service. FastAPI describes the API's endpoints;
`openapi_patch.json` the parts that no code knows: OAuth, operators' answers, headers, texts of tags. This module adds
what follows from operations' declarations. OpenAPI 3.1 lets a bearer scheme list role names ("Security"): here the
scope that a service-account token needs, or `admin` for admins' API keys. API keys have no scopes. On v1, operations
name the scope that an access token needs."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

from fastapi import FastAPI

from carrel.wire.api import OPERATIONS
from carrel.wire.operations import SHARED, ApiOperation, Requirement
from carrel.wire.scopes import ApiScope
from service.auth.callers import ACTING_MEMBERS
from service.auth.scopes import meaning
from service.web.dependencies import V0_PREFIX, V1_PREFIX
from service.web.openapi_answers import RESPONSES, SCHEMAS, Json, describe_answers

DOCUMENT = Path(__file__).with_name("openapi.json")
PATCH = Path(__file__).with_name("openapi_patch.json")
SCHEME = "bearer"
ACCESS_SCHEME = "accessToken"
PREFIXES = {"v0": f"{V0_PREFIX}/", "v1": f"{V1_PREFIX}/"}
ADMIN_ROLE = "admin"
# What tells the names of v1 from those of v0 in the whole description; the documents of one version have neither.
V1_OPERATION = "v1_"
V1_SCHEMA = "V1"
ABOUT = """\
Load an organization's documents, search them by permission, and let agents answer from them.

- **v0** (`/api/v0/`) takes organization API keys and service-account tokens, **v1** (`/api/v1/`) people's access
  tokens. `/openapi.json` describes both; `/api/v0/openapi.json` and `/api/v1/openapi.json` describe one each.
- Bodies are JSON in UTF-8 with camelCase members; unknown members of requests are refused. Times are RFC 3339.
- Every answer has `X-Request-Id`; every error outside OAuth has one shape, `ErrorResponse`.
- A list comes in pages: pass `nextPageToken` as `pageToken` until there is none.
- Operations with the tag `extension` are additions to the original API.
- Requests in the older forms of v0 are taken too; their answers carry `Deprecation`, and a `Link` to what to use now.
"""
# The tag of each first part of a path that isn't its own tag.
TAG_OF = {"documentCollections": "collections", "copilots": "agents", "conversations": "agents"}
# Operations whose path doesn't end in a verb.
OPERATION_IDS = {
    "/api/v1/me": "v1_me_get",
    "/api/v1/agents": "v1_agents_list",
    "/api/v1/conversations": "v1_conversations_list",
    "/api/v1/conversations/{conversationId}": "v1_conversations_get",
}


def security_of(requirement: Requirement) -> list[dict[str, list[str]]]:
    """Return the `security` of an operation on v0 that asks for this."""
    role = role_of(requirement)
    return [{SCHEME: [] if role is None else [role]}]


def role_of(requirement: Requirement) -> str | None:
    """Return the role name of a requirement on v0: a scope's, or `admin`; None for what every member's key may call."""
    if requirement.scope is not None:
        return requirement.scope.value
    return ADMIN_ROLE if requirement.admin else None


def access_security_of(requirement: Requirement) -> list[dict[str, list[str]]]:
    """Return the `security` of an operation on v1 that asks for this."""
    return [{ACCESS_SCHEME: [] if requirement.api_scope is None else [requirement.api_scope.value]}]


@cache
def read_description(version: str | None = None) -> bytes:
    """Return the API's description as `make docs` has written it down, or the part of it for `v0` or `v1`."""
    content = DOCUMENT.read_bytes()
    if version is None:
        return content
    return json.dumps(part_of(json.loads(content), version), ensure_ascii=False, separators=(",", ":")).encode()


class DescribedApi(FastAPI):
    """An application whose description says what FastAPI can't read from the endpoints."""

    def openapi(self) -> Json:
        """Derive the API's description from the code; a service answers with `read_description`."""
        return complete(super().openapi())


def complete(document: Json) -> Json:
    """Add to FastAPI's description what holds for all operations of a kind, and the parts that no code knows."""
    patch: Json = json.loads(PATCH.read_bytes())
    schemas: Json = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for operation in methods.values():
            if not path.startswith("/api/"):
                continue
            _, _, version, name = path.split("/", 3)
            described = OPERATIONS[name]
            _name(operation, path, described)
            describe_answers(operation, described)
            if version == "v0":
                operation["security"] = security_of(described.requires)
            else:
                operation["security"] = access_security_of(described.requires)
                _act_as_oneself(operation, schemas)
    for path, methods in patch["paths"].items():
        for method, operation in methods.items():
            document["paths"].setdefault(path, {}).setdefault(method, {}).update(operation)
    parts: Json = patch["components"]
    schemas |= parts["schemas"]
    parts["securitySchemes"][ACCESS_SCHEME]["flows"]["authorizationCode"]["scopes"] = {
        scope.value: meaning(scope) for scope in ApiScope
    }
    document["components"] |= {**parts, "responses": RESPONSES, "schemas": schemas}
    document["info"] |= {"description": ABOUT, "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}}
    return _without_unused({**document, "servers": patch["servers"], "tags": patch["tags"]})


def part_of(document: Json, version: str) -> Json:
    """Return the description of one version alone, whose names need not tell it from the other."""
    prefix = PREFIXES[version]
    paths = {
        path: methods
        for path, methods in document["paths"].items()
        if path.startswith(prefix) or (version == "v1" and any("oauth" in one["tags"] for one in methods.values()))
    }
    title = f"{document['info']['title']} {version}"
    part = {**document, "info": {**document["info"], "title": title}, "paths": paths}
    return _without_unused(_drop_version_names(part) if version == "v1" else part)


def operation_id_of(path: str) -> str:
    """Return the id of the operation at a path: `catalog_uploadFile`, on v1 `v1_catalog_uploadFile`."""
    if path in OPERATION_IDS:
        return OPERATION_IDS[path]
    version, operation = path.removeprefix("/api/").split("/", 1)
    return (V1_OPERATION if version == "v1" else "") + operation.replace("/", "_")


def _name(operation: Json, path: str, described: ApiOperation[Any, Any]) -> None:
    operation["operationId"] = operation_id_of(path)
    parts = path.split("/")
    area = "docstore" if "docstore" in parts else TAG_OF.get(parts[3], parts[3])
    operation["tags"] = [area, *([] if described.has(SHARED) else ["extension"])]
    last = parts[-1]
    # The endpoints of admin/… and of GET have the clearer names: `admin/users/list` is list_users.
    if re.search("[a-z][A-Z]", last) and "admin" not in parts and "{" not in last:
        operation["summary"] = re.sub("([A-Z])", r" \1", last)
    operation["summary"] = operation["summary"].capitalize().replace("Oauth", "OAuth").replace("api key", "API key")


def _act_as_oneself(operation: Json, schemas: Json) -> None:
    body: Json | None = operation.get("requestBody")
    if body is None:
        return
    [(media_type, content)] = body["content"].items()
    name = content["schema"].get("$ref", "").removeprefix(SCHEMAS)
    schema = schemas[name] if name else content["schema"]
    members = {key: value for key, value in schema["properties"].items() if key not in ACTING_MEMBERS}
    if len(members) == len(schema["properties"]):
        return
    own = {**schema, "properties": members}
    if name:
        schemas[name + V1_SCHEMA] = own
        own = {"$ref": SCHEMAS + name + V1_SCHEMA}
    # The two mounts of an endpoint share what the endpoint says of its body, so that is left as it is.
    operation["requestBody"] = {**body, "content": {media_type: {"schema": own}}}


def _without_unused(document: Json) -> Json:
    used: set[str] = set()
    waiting = [*_references(document["paths"])]
    while waiting:
        reference = waiting.pop()
        if reference not in used:
            used.add(reference)
            kind, name = reference.split("/")[2:]
            waiting += _references(document["components"][kind][name])
    operations = [one for methods in document["paths"].values() for one in methods.values()]
    schemes = {name for one in operations for needed in one["security"] for name in needed}
    tags = {name for one in operations for name in one["tags"]}
    components = {
        kind: {
            name: value
            for name, value in sorted(members.items())
            if f"#/components/{kind}/{name}" in used or (kind == "securitySchemes" and name in schemes)
        }
        for kind, members in document["components"].items()
    }
    return {**document, "tags": [one for one in document["tags"] if one["name"] in tags], "components": components}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        members = cast("Json", value)
        if isinstance(reference := members.get("$ref"), str):
            yield reference
        # Names that a discriminator maps to are those of its choices.
        for member in members.values():
            yield from _references(member)
    elif isinstance(value, list):
        for member in cast("list[Any]", value):
            yield from _references(member)


def _drop_version_names(document: Json) -> Json:
    schemas: Json = document["components"]["schemas"]
    own = {name.removesuffix(V1_SCHEMA): schema for name, schema in schemas.items() if name.endswith(V1_SCHEMA)}
    components = {**document["components"], "schemas": {**schemas, **own}}
    return _map({**document, "components": components}, _version_free)


def _version_free(key: str, text: str) -> str:
    if key == "operationId":
        return text.removeprefix(V1_OPERATION)
    return text.removesuffix(V1_SCHEMA) if key == "$ref" else text


def _map(value: Any, change: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _map(member, change, name) for name, member in cast("Json", value).items()}
    if isinstance(value, list):
        return [_map(member, change) for member in cast("list[Any]", value)]
    return change(key, value) if isinstance(value, str) else value
