"""The API's contract, from `service/web/openapi.json` (written by `make docs`, reviewed with each change), and
examples. A path, member or type changed only in the code no longer matches."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

Schema = dict[str, Any]
DOCUMENT: Schema = json.loads((Path(__file__).parents[2] / "service" / "web" / "openapi.json").read_bytes())
KEY = {"$ref": "#/components/parameters/IdempotencyKey"}
NULL = {"type": "null"}
JSON = "application/json"
# The schemas of answers do not tell times from other texts.
TIME = re.compile(r"(^|-)(at|from|since)$|(At|Until|Updated)$")


@dataclass(frozen=True)
class Described:
    """An operation of the contract: `members` are from its JSON body, or the parameters of a GET."""

    name: str
    version: str
    method: str
    members: dict[str, Schema]
    required: frozenset[str]
    answer: Schema
    is_keyed: bool

    @property
    def path(self) -> str:
        return f"/api/{self.version}/{self.name}"

    @property
    def answer_type(self) -> str:
        """Name of the response's first model; empty for a file."""
        schema = self.answer.get("oneOf", [self.answer])[0]
        return str(schema.get("$ref", "")).rpartition("/")[2]

    def request(self) -> dict[str, Any]:
        return {name: example(schema, name) for name, schema in self.members.items()}

    def defaults(self) -> dict[str, Any]:
        resolved = {name: resolve(schema) for name, schema in self.members.items()}
        empty: dict[str, Any] = {name: [] for name, schema in resolved.items() if schema.get("type") == "array"}
        return empty | {name: schema["default"] for name, schema in resolved.items() if "default" in schema}

    def response(self) -> dict[str, Any]:
        return dict(example(self.answer, self.answer_type))


def resolve(schema: Schema) -> Schema:
    """Return a schema without references and choices: the first choice except null, which marks optional members."""
    default = {name: value for name, value in schema.items() if name == "default"}
    if "$ref" in schema:
        return resolve(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]] | default)
    choices = [one for one in schema.get("anyOf", schema.get("oneOf", [])) if one != NULL]
    return resolve(choices[0] | default) if choices else schema


def example(schema: Schema, place: str) -> Any:
    """Return an example value of a schema: unique for each place, and never the default."""
    schema = resolve(schema)
    default = schema.get("default")
    if fixed := [schema["const"]] if "const" in schema else schema.get("enum"):
        return next((value for value in fixed if value != default), fixed[0])
    value: Any
    match schema.get("type"):
        case "boolean":
            value = not default
        case "integer":
            value = int(schema.get("minimum", 0)) + 1
        case "number":
            value = 0.5
        case "array":
            choices = schema["items"].get("oneOf", [schema["items"]])
            value = [example(choice, f"{place}{number}") for number, choice in enumerate(choices)]
        case "string":
            value = _text(schema, place)
        case _:
            value = _object(schema, place)
    return value


def _text(schema: Schema, place: str) -> str:
    digest = sha256(place.encode()).hexdigest()
    kind = schema.get("format")
    if kind == "uuid":
        return str(UUID(digest[:32]))
    if kind == "date-time" or TIME.search(place):
        return f"2026-01-{int(digest[:4], 16) % 28 + 1:02}T09:30:00Z"
    if kind == "idn-email":
        return f"{place}@example.com"
    if kind in {"uri", "iri"} or place.endswith(("Url", "issuer")):
        return f"https://{place}.example.com/"
    return digest[:24] if "pattern" in schema else f"{place}.example.com".lower()


def _object(schema: Schema, place: str) -> dict[str, Any]:
    members = {name: one for name, one in schema.get("properties", {}).items() if "readOnly" not in one}
    free = schema.get("additionalProperties")
    return {name: example(member, f"{place}-{name}") for name, member in members.items()} | (
        {"key": example(free, place)} if isinstance(free, dict) else {}
    )


def _described() -> Iterator[Described]:
    for path, item in DOCUMENT["paths"].items():
        if not path.startswith("/api/v") or path.replace("/v1/", "/v0/", 1) in DOCUMENT["paths"].keys() - {path}:
            continue
        _, _, version, name = path.split("/", 3)
        for method, one in item.items():
            parameters = one.get("parameters", [])
            body = resolve(one.get("requestBody", {}).get("content", {}).get(JSON, {}).get("schema", {}))
            asked = {each["name"]: each for each in parameters if each.get("in") in {"query", "path"}}
            yield Described(
                name=name,
                version=version,
                method=method.upper(),
                members=body.get("properties", {}) | {key: each["schema"] for key, each in asked.items()},
                required=frozenset(body.get("required", [])) | {key for key, each in asked.items() if each["required"]},
                answer=one["responses"]["200"]["content"].get(JSON, {}).get("schema", {}),
                is_keyed=KEY in parameters,
            )


OPERATIONS = {one.name: one for one in _described()}
