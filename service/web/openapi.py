"""The API's description in OpenAPI 3.1, whole and as v0 and v1. `make docs` writes it: deriving takes two seconds."""

import json
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from fastapi import APIRouter
from fastapi.responses import FileResponse, HTMLResponse

from service.web.dependencies import V0_PREFIX, V1_PREFIX
from service.web.pages import IMMUTABLE

Json = dict[str, Any]

DOCUMENT = Path(__file__).with_name("openapi.json")
PREFIXES = {"v0": f"{V0_PREFIX}/", "v1": f"{V1_PREFIX}/"}
# In the description of both versions, these distinguish names of v1 from names of v0.
V1_OPERATION = "v1_"
V1_SCHEMA = "V1"


@cache
def read_description(version: str | None = None) -> bytes:
    """Return the API's description written by `make docs`, or the part for `v0` or `v1`."""
    content = DOCUMENT.read_bytes()
    if version is None:
        return content
    return json.dumps(part_of(json.loads(content), version), ensure_ascii=False, separators=(",", ":")).encode()


def part_of(document: Json, version: str) -> Json:
    """Return the description of a single version, with names without a version."""
    prefix = PREFIXES[version]
    paths = {
        path: methods
        for path, methods in document["paths"].items()
        if path.startswith(prefix) or (version == "v1" and any("oauth" in item["tags"] for item in methods.values()))
    }
    title = f"{document['info']['title']} {version}"
    part = {**document, "info": {**document["info"], "title": title}, "paths": paths}
    return without_unused(_drop_version_names(part) if version == "v1" else part)


def without_unused(document: Json) -> Json:
    """Return a description without schemas, security schemes and tags unused by the operations."""
    used: set[str] = set()
    waiting = [*_find_references(document["paths"])]
    while waiting:
        reference = waiting.pop()
        if reference not in used:
            used.add(reference)
            kind, name = reference.split("/")[2:]
            waiting += _find_references(document["components"][kind][name])
    operations = [method for methods in document["paths"].values() for method in methods.values()]
    schemes = {name for operation in operations for needed in operation["security"] for name in needed}
    tags = {name for item in operations for name in item["tags"]}
    components = {
        kind: {
            name: value
            for name, value in sorted(members.items())
            if f"#/components/{kind}/{name}" in used or (kind == "securitySchemes" and name in schemes)
        }
        for kind, members in document["components"].items()
    }
    return {**document, "tags": [item for item in document["tags"] if item["name"] in tags], "components": components}


def _find_references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        members = cast("Json", value)
        if isinstance(reference := members.get("$ref"), str):
            yield reference
        # A discriminator's mapping has references in its values too.
        for member in members.values():
            yield from _find_references(member)
    elif isinstance(value, list):
        for member in cast("list[Any]", value):
            yield from _find_references(member)


def _drop_version_names(document: Json) -> Json:
    schemas: Json = document["components"]["schemas"]
    renamed = {name.removesuffix(V1_SCHEMA): schema for name, schema in schemas.items() if name.endswith(V1_SCHEMA)}
    components = {**document["components"], "schemas": {**schemas, **renamed}}
    return _drop_marks({**document, "components": components})


def _drop_marks(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _drop_marks(member, name) for name, member in cast("Json", value).items()}
    if isinstance(value, list):
        return [_drop_marks(member) for member in cast("list[Any]", value)]
    if isinstance(value, str) and key == "operationId":
        return value.removeprefix(V1_OPERATION)
    return value.removesuffix(V1_SCHEMA) if isinstance(value, str) and key == "$ref" else value


PACKAGE = "fastapi_offline"
VERSION = version(PACKAGE)
ASSETS = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}
# Swagger UI's style sheet contains pictures as data URIs.
PROTECTION = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
PAGE = Path(__file__).with_name("reference.html").read_text("utf-8").replace("{VERSION}", VERSION)
START = Path(__file__).with_name("reference.js")

router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def show_reference() -> HTMLResponse:
    return HTMLResponse(PAGE, headers=PROTECTION)


@router.get("/docs/start.js")
async def start_reference() -> FileResponse:
    return FileResponse(START, media_type="text/javascript")


def _serve_asset(name: str, media_type: str) -> None:
    path = str(files(PACKAGE) / "static" / name)

    async def give() -> FileResponse:
        return FileResponse(path, media_type=media_type, headers=IMMUTABLE)

    router.add_api_route(f"/docs/{name}", give, methods=["GET"], name=name)


for _name, _media_type in ASSETS.items():
    _serve_asset(_name, _media_type)
