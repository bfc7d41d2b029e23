"""What the JSON Schema of a wire model says beyond its types: descriptions, and which members are always there. The
string under an attribute describes it, read when a schema is made: pydantic's `use_attribute_docstrings` would read the
source of every class whenever the client is imported."""

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel

_OF_SEVERAL = {
    "agent_id": "Id of the agent.",
    "agent_name": "Name of the agent.",
    "alert_id": "Id of the alert.",
    "alert_rule_id": "Id of the rule.",
    "audit_log_id": "Id of the entry in the audit log.",
    "case_id": "Id of the case.",
    "client_id": "Id of the client.",
    "collection_name": "Name of the collection, unique in the organization.",
    "conversation_id": "Id of the conversation.",
    "created_at": "When it was created.",
    "delivery_id": "Id of the delivery.",
    "docstore_credential_id": "Id of the sync.",
    "document_collection_id": "Id of the collection.",
    "document_external_id": "The document's identifier in the caller's own system, unique in the organization.",
    "document_external_url": "Address of the document in its source system.",
    "document_id": "Id of the document.",
    "evaluation_run_id": "Id of the run.",
    "evaluation_set_id": "Id of the set.",
    "from_": "Beginning of the time range, included.",
    "group_id": "Id of the group.",
    "item_count": "Number of items in quarantine, without those that are ignored.",
    "message_id": "Id of the message and of the reply to it; feedback names it.",
    "organization_id": "Id of the organization.",
    "provider_id": "Id of the provider.",
    "referenced_sources": "Sources that the reply rests on; `[1]` in its text is the first.",
    "report_no": "Number of the report.",
    "resource_type": "Kind of the resource in its source system.",
    "saved_search_id": "Id of the saved search.",
    "search_id": "Id of the search; feedback names it.",
    "search_query": "What to search for, 1 to 8192 characters.",
    "service_account_id": "Id of the service account.",
    "source_id": "Id of the source.",
    "to": "End of the time range, not included.",
    "token_id": "Id of the token.",
    "updated_at": "When it was last changed.",
    "warnings": "What the reader of the reply should know.",
}
"""Descriptions of attributes that mean the same in many models, by name; a string under an attribute comes first."""


def complete_request(model: type[BaseModel], schema: dict[str, Any]) -> None:
    """Describe the members of a request's schema; a member with a constant, which tells types apart, is required."""
    _describe(model, schema)
    _require(schema, [name for name, member in schema.get("properties", {}).items() if "const" in member])


def complete_response(model: type[BaseModel], schema: dict[str, Any]) -> None:
    """Describe the members of a response's schema; one is left out when it has no value, and never null."""
    _describe(model, schema)
    members: dict[str, dict[str, Any]] = schema.get("properties", {})
    always = [name for name, member in members.items() if not _drop_null(member)]
    _require(schema, always)


def descriptions_of(model: type[BaseModel]) -> dict[str, str]:
    """Return the description of each field by its name in Python; a class inherits those of its bases."""
    found = {name: _OF_SEVERAL[name] for name in model.model_fields if name in _OF_SEVERAL}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            found |= _read_docstrings(base.__module__).get(base.__name__, {})
    return found


def _describe(model: type[BaseModel], schema: dict[str, Any]) -> None:
    members, descriptions = schema.get("properties", {}), descriptions_of(model)
    for name, field in model.model_fields.items():
        member = members.get(field.serialization_alias) or members.get(name)
        if member is not None and name in descriptions:
            member["description"] = descriptions[name]
    for member in members.values():
        # A title only repeats the name, and generators of clients would take it for the name of a type.
        member.pop("title", None)


def _drop_null(member: dict[str, Any]) -> bool:
    """Take null out of what a member may be; whether it was there."""
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
    """Return the strings under the attributes of each class of a module; nothing where the source is not at hand."""
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
