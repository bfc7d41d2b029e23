"""What is promised about the service's structure, held by reading its source."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from sqlalchemy import Table

import service

FOLDER = Path(service.__file__).parent
SQL_BUILDERS = {"select", "insert", "update", "delete", "text", "exists"}

# Parameters that carry the organization: itself or its caller, or a value that has one of them as a field
# (a document's place in a space, a search's scope, a kept response's key).
BINDING = {"organization_id", "caller", "place", "scope", "key"}

# Functions that build SQL without naming an organization, and why they may.
WITHOUT_ORGANIZATION = {
    "identity.enter_by_api_key": "a credential is looked up before its organization is known",
    "identity.lock_bootstrap": "it locks, and reads nothing",
    "identity.any_organization": "it asks whether there is any organization at all",
    "ingestion.organization_ids": "the sweeper visits every organization, one transaction each",
    "permissions.readable_by_parameters": "its parameters, the organization among them, come with the execution",
    "catalog.lock_document": "it locks an id, which the organization is part of, and reads nothing",
}


def query_functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function of every queries.py, as domain.name."""
    for path in sorted(FOLDER.rglob("queries.py")):
        domain = ".".join(path.relative_to(FOLDER).parts[:-1])
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{domain}.{node.name}", node


def names_in(node: ast.AST) -> set[str]:
    """Every name that is used."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def parameters_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names of all parameters."""
    return {one.arg for one in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]}


def test_every_query_is_bound_to_an_organization_or_a_caller() -> None:
    """A function of a queries.py that builds SQL takes one of BINDING and uses it, or is excused with a reason."""
    building = [(name, node) for name, node in query_functions() if names_in(node) & SQL_BUILDERS]
    assert len(building) > 30
    unbound = {name for name, node in building if not parameters_of(node) & names_in(node) & BINDING}
    assert unbound == WITHOUT_ORGANIZATION.keys()


def test_only_queries_touch_tables() -> None:
    """Outside of queries, tables and migrations nothing imports a table or builds a statement."""
    for path in sorted(FOLDER.rglob("*.py")):
        relative = path.relative_to(FOLDER)
        if path.name in {"queries.py", "tables.py", "sql.py", "database.py"} or relative.parts[0] == "migrations":
            continue
        imported = {
            (node.module or "", alias.name)
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        builders = {name for module, name in imported if module.startswith("sqlalchemy") and name in SQL_BUILDERS}
        tables = {name for module, name in imported if module.endswith(".tables") and is_table(module, name)}
        assert not builders | tables, relative


def is_table(module: str, name: str) -> bool:
    """Whether a module's name is a table (and not a constant beside one)."""
    return isinstance(getattr(import_module(module), name), Table)
