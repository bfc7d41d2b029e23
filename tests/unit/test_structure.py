"""The service's structural rules, checked in the source."""

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from sqlalchemy import ClauseElement, Executable, Table
from sqlalchemy.dialects import postgresql

import service
from tests.harness.cases import cases
from tests.harness.parsing import parse_python

FOLDER = Path(service.__file__).parent
SQL_BUILDERS = {"select", "insert", "update", "delete", "text", "exists", "count_rows", "insert_new", "update_rows"}
BUILDING = {"queries.py", "sql.py", "database.py"}

# Parameters that carry the organization: itself or its caller, or a value that has one of them as a field
# (a document's place in a space, a search's scope, a kept response's key).
BINDING = {"organization_id", "caller", "entry", "scope", "key"}

# What a statement that is built once has instead: a parameter it can't run without.
BOUND_LATER = {"ORGANIZATION"}

# Functions that build SQL, and statements that are built once, without naming an organization, by why they may.
UNBOUND: dict[str, dict[str, list[str]]] = cases("queries_without_organization")

# As `service.platform.sql.param` calls it, as a statement in plain text does, and as an INSERT of one row a column.
ORGANIZATION_PARAMETERS = {"param_organization_id", "organization_id"}
PRODUCT = ("app", "cli", "client", "flows", "service")
MOST_LINES = 600


def query_functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in sorted(FOLDER.rglob("queries.py")):
        domain = ".".join(path.relative_to(FOLDER).parts[:-1])
        for node in ast.walk(parse_python(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{domain}.{node.name}", node


def names_in(node: ast.AST) -> set[str]:
    """Return the names in a piece of code, also of SQLAlchemy (`sa.`) and of `service.platform.sql` (`sql.`)."""
    nodes = list(ast.walk(node))
    of_modules = {
        one.attr for one in nodes if isinstance(one, ast.Attribute) and ast.unparse(one.value) in {"sa", "sql"}
    }
    return of_modules | {one.id for one in nodes if isinstance(one, ast.Name)}


def test_every_query_is_bound_to_an_organization_or_a_caller() -> None:
    building = [(name, node) for name, node in query_functions() if names_in(node) & SQL_BUILDERS]
    assert len(building) > 30
    unbound = set[str]()
    for name, node in building:
        parameters = {one.arg for one in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]}
        if not names_in(node) & (parameters & BINDING | BOUND_LATER):
            unbound.add(name)
    assert unbound == set().union(*UNBOUND["functions"].values())


def built_statements() -> Iterator[tuple[str, Executable]]:
    for path in sorted(FOLDER.rglob("queries.py")):
        module = import_module(".".join(["service", *path.relative_to(FOLDER).with_suffix("").parts]))
        for name, value in vars(module).items():
            for statement in value.values() if isinstance(value, dict) else [value]:
                if isinstance(statement, Executable) and isinstance(statement, ClauseElement):
                    yield f"{module.__name__}.{name}", statement


def test_every_statement_built_once_asks_for_its_organization() -> None:
    statements = [(name, one.compile(dialect=postgresql.dialect())) for name, one in built_statements()]
    assert len(statements) > 10
    unbound = {name for name, compiled in statements if not compiled.params.keys() & ORGANIZATION_PARAMETERS}
    assert unbound == set().union(*UNBOUND["statements"].values())


@cache
def imports() -> list[tuple[Path, str, str]]:
    return [
        (path.relative_to(FOLDER), node.module or "", alias.name)
        for path in sorted(FOLDER.rglob("*.py"))
        for node in ast.walk(parse_python(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]


def test_only_queries_touch_tables() -> None:
    for path, module, name in imports():
        if path.name in BUILDING or path.parts[0] in {"schema", "migrations"}:
            continue
        assert not (module.startswith("sqlalchemy") and name in SQL_BUILDERS), path
        if module.startswith("service.schema."):
            assert not isinstance(getattr(import_module(module), name), Table), path


def test_only_schemas_and_queries_import_all_of_sqlalchemy() -> None:
    whole = [path for path in FOLDER.rglob("*.py") if "import sqlalchemy" in path.read_text()]
    elsewhere = {path.relative_to(FOLDER).parts[0] for path in whole if path.name not in BUILDING}
    assert elsewhere <= {"migrations", "schema"}


def test_modules_are_short() -> None:
    paths = [path for folder in PRODUCT for path in (FOLDER.parent / folder).rglob("*.py")]
    assert len(paths) > 400
    too_long = [path for path in paths if len(path.read_text().splitlines()) > MOST_LINES]
    assert [path for path in too_long if not path.is_relative_to(FOLDER / "migrations/versions")] == []


def test_rows_are_typed() -> None:
    sources, untyped = ("sqlalchemy", "service.platform.sql"), {"Row", "RowMapping", "AnyRow"}
    assert len({path for path, _, _ in imports()}) > 300
    assert [path for path, module, name in imports() if module.startswith(sources) and name in untyped] == []
