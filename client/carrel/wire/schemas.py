"""Additions to a wire model's JSON Schema: descriptions, from the string under an attribute, and members always
present. Pydantic's `use_attribute_docstrings` would read the source of every class whenever the client is imported."""

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

_OF_SEVERAL: dict[str, str] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
"""Descriptions by name, or by model and name; a string under an attribute comes first."""


def complete_request(model: type[BaseModel], schema: dict[str, Any]) -> None:
    """Describe the members of a request's schema; a member with a constant, which identifies the type, is required."""
    _describe_members(model, schema)
    _require(schema, [name for name, member in schema.get("properties", {}).items() if "const" in member])


def complete_response(model: type[BaseModel], schema: dict[str, Any]) -> None:
    """Describe the members of a response's schema; members without a value are omitted, never null."""
    _describe_members(model, schema)
    members: dict[str, dict[str, Any]] = schema.get("properties", {})
    always = [name for name, member in members.items() if not _drop_null(member)]
    _require(schema, always)


def descriptions_of(model: type[BaseModel]) -> dict[str, str]:
    """Return each field's description: its string, also inherited, or else the text for its name."""
    found = {name: _OF_SEVERAL[name] for name in model.model_fields if name in _OF_SEVERAL}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            own = {name: text for name in model.model_fields if (text := _OF_SEVERAL.get(f"{base.__name__}.{name}"))}
            found |= own | _read_docstrings(base.__module__).get(base.__name__, {})
    return found


def _describe_members(model: type[BaseModel], schema: dict[str, Any]) -> None:
    members, descriptions = schema.get("properties", {}), descriptions_of(model)
    for name, field in model.model_fields.items():
        member = members.get(field.serialization_alias) or members.get(name)
        if member is not None and name in descriptions:
            member["description"] = descriptions[name]
    for member in members.values():
        # A title only repeats the name, and client generators would use it as a type's name.
        member.pop("title", None)


def _drop_null(member: dict[str, Any]) -> bool:
    """Remove null from a member's types; return whether null was present."""
    choices: list[dict[str, Any]] = member.get("anyOf", [])
    if {"type": "null"} not in choices:
        return False
    choices.remove({"type": "null"})
    member.pop("default", None)
    if len(choices) == 1:
        del member["anyOf"]
        member.update(choices[0])
    return True


def _require(schema: dict[str, Any], names: list[str]) -> None:
    for name in names:
        schema["properties"][name].pop("default", None)
    required = {*schema.get("required", ()), *names}
    if required:
        schema["required"] = [name for name in schema["properties"] if name in required]


@cache
def _read_docstrings(module: str) -> dict[str, dict[str, str]]:
    """Return the strings under the attributes of each class of a module; empty without the source."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):
        return {}
    return {node.name: dict(_attributes(node)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _attributes(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for statement, after in zip(node.body, node.body[1:], strict=False):
        match statement, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text).replace("\n", " ")
            case _:
                pass
