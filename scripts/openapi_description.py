"""Derive the API's description in OpenAPI 3.1 from the code. FastAPI describes the API's endpoints;
`openapi_patch.json` the parts that no code knows: OAuth, operators' answers, headers, texts of tags. This module adds
what follows from operations' declarations. OpenAPI 3.1 lets a bearer scheme list role names ("Security"): here the
scope that a service-account token needs, or `admin` for admins' API keys. API keys have no scopes. On v1, operations
name the scope that an access token needs."""

import json
import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from carrel.wire.api import OPERATIONS
from carrel.wire.operations import SHARED, ApiOperation, Requirement
from carrel.wire.scopes import ApiScope
from carrel.wire.uploads import UPLOAD_DOCUMENT_FILE, UPLOAD_FILE, UploadDocumentFileForm, UploadFileForm
from scripts.openapi_answers import RESPONSES, SCHEMAS, describe_answers
from service.auth.callers import ACTING_MEMBERS
from service.auth.scopes import meaning
from service.web.openapi import V1_OPERATION, V1_SCHEMA, Json, without_unused

PATCH = Path(__file__).with_name("openapi_patch.json")
SCHEME = "bearer"
ACCESS_SCHEME = "accessToken"
ADMIN_ROLE = "admin"
# The operations that take a form, by path: the part that is the file, and the model of the other parts.
FORMS: dict[str, tuple[str, type[BaseModel]]] = {
    UPLOAD_FILE.path: ("file", UploadFileForm),
    UPLOAD_DOCUMENT_FILE.path: ("document", UploadDocumentFileForm),
}
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
            if name in FORMS:
                operation["requestBody"] = _body_of_form(*FORMS[name])
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
    return without_unused({**document, "servers": patch["servers"], "tags": patch["tags"]})


def _body_of_form(file_part: str, form: type[BaseModel]) -> Json:
    parts = form.model_json_schema(by_alias=True)
    texts = {name: {"type": "string", "description": part["description"]} for name, part in parts["properties"].items()}
    file = {"type": "string", "format": "binary", "description": "The file; its name tells its type."}
    schema = {
        "type": "object",
        "properties": {file_part: file, **texts},
        "required": [file_part, *parts.get("required", ())],
    }
    return {"required": True, "content": {"multipart/form-data": {"schema": schema}}}


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
