"""Every query of readable data names the condition of visibility, or is excused with a reason. `readable_classes`
(decision 002) is the condition. A function counts with the module's helpers and statements, so a helper's condition
counts for all its users. Building on another module's statement without the condition selects protected data, too."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

import service
from tests.harness.cases import cases
from tests.harness.parsing import parse_python

FOLDER = Path(service.__file__).parent
CONDITIONS = set(cases("conditions_of_readers"))
SELECTING = {"select", "exists"}
PROTECTED = set(cases("tables_of_readers"))

# Functions that need the condition more than once: of what is listed, and of what is counted or named within it.
SEVERAL = cases("queries_with_several_conditions")

# What answers no caller: whole packages, and why.
WITHOUT_CALLERS: dict[str, str] = cases("queries_without_callers")

# Functions that select what is protected without the condition, by why they may: the modules and their functions.
EXCUSES: dict[str, dict[str, list[str]]] = cases("excused_queries")
EXCUSED = {
    *(f"{module}.queries.{name}" for by in EXCUSES.values() for module, names in by.items() for name in names),
    # They score or show what the legs have found, in the same transaction.
    *(f"domains.search.sql.found_{name}" for name in ("chunks", "documents")),
    *(f"domains.search.sql.{name}" for name in ("further_passages", "scores_near", "select_chunks")),
    "domains.search.scoring.sql.dense_score",
    # It keeps the name of what was changed on the log, which admins alone read.
    "audit.queries.add_entries",
}
# Functions of those packages that callers see the answers of all the same.
FOR_CALLERS = set(cases("queries_for_callers"))
BUILT = """
from service.domains.documents.stored import queries
from service.domains.documents.stored.queries import existing_documents
from service.schema import documents

async def list_all(connection, organization_id):
    return (await connection.execute({statement})).all()
"""


@dataclass(frozen=True)
class Module:
    """A module of queries: name without `service.`, source, and statements used by other modules."""

    name: str
    source: str
    builders: frozenset[str]

    @cached_property
    def tree(self) -> ast.Module:
        return parse(self.source)

    @cached_property
    def definitions(self) -> dict[str, ast.stmt]:
        found = dict[str, ast.stmt]()
        for node in self.tree.body:
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    found[node.name] = node
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    found[name] = node
                case ast.Assign():
                    # A condition in a statement of a tuple would count for the tuple's other statements.
                    assert not any(isinstance(one, ast.Call) for one in ast.walk(node)), ast.unparse(node)
                    names = (one for one in ast.walk(node) if isinstance(one, ast.Name))
                    found |= {one.id: node for one in names if isinstance(one.ctx, ast.Store)}
                case _:
                    pass
        return found

    @cached_property
    def protected(self) -> set[str]:
        imports = (node for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom))
        tables = (one for node in imports if (node.module or "").startswith("service.schema") for one in node.names)
        return {one.asname or one.name for one in tables if one.name in PROTECTED}

    def used_by(self, name: str) -> set[str]:
        used, open_names = set[str](), [name]
        while open_names:
            one = open_names.pop()
            if one in self.definitions and one not in used:
                used.add(one)
                open_names.extend(names_in(self.definitions[one]))
        return used

    def selections(self) -> Iterator[tuple[str, int]]:
        for name, node in self.definitions.items():
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or name.startswith("_"):
                continue
            parts = [self.definitions[one] for one in self.used_by(name)]
            names = [one for part in parts for one in names_in(part)]
            members = set[str]().union(*map(members_in, parts))
            selects = self.protected.intersection(names) and not SELECTING.isdisjoint({*names, *members})
            if selects or not self.builders.isdisjoint({*names, *members}):
                yield f"{self.name}.{name}", sum(one in CONDITIONS for one in names)


@cache
def parse(source: str) -> ast.Module:
    return parse_python(source)


@cache
def names_in(node: ast.AST) -> tuple[str, ...]:
    return tuple(one.id for one in ast.walk(node) if isinstance(one, ast.Name))


@cache
def members_in(node: ast.AST) -> frozenset[str]:
    return frozenset(one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute))


@cache
def find_builders() -> frozenset[str]:
    """Return functions for building a statement over protected data without the condition; callers add it."""
    known, is_whole = frozenset[str](), False
    while not is_whole:
        found = frozenset(
            name.rpartition(".")[2]
            for module in read_modules(builders=known)
            for name, conditions in module.selections()
            if conditions == 0 and isinstance(module.definitions[name.rpartition(".")[2]], ast.FunctionDef)
        )
        known, is_whole = found, found == known
    return known


def read_modules(builders: frozenset[str]) -> list[Module]:
    paths = sorted([*FOLDER.rglob("queries.py"), *FOLDER.rglob("sql.py")])
    names = (".".join(path.relative_to(FOLDER).with_suffix("").parts) for path in paths)
    return [Module(name, path.read_text(), builders) for name, path in zip(names, paths, strict=True)]


def modules() -> list[Module]:
    return read_modules(find_builders())


def without_condition(module: Module) -> set[str]:
    """Return functions selecting protected data with too few conditions, without an excuse."""
    missing = set[str]()
    for name, conditions in module.selections():
        is_of_nobody = name.startswith(tuple(WITHOUT_CALLERS)) and name not in FOR_CALLERS
        is_excused = conditions == 0 and (name in EXCUSED or is_of_nobody)
        if conditions < SEVERAL.get(name, 1) and not is_excused:
            missing.add(name)
    return missing


def test_every_query_names_the_condition_of_visibility() -> None:
    """An excuse must still be needed."""
    assert set().union(*[without_condition(module) for module in modules()]) == set()
    selections = {name: conditions for module in modules() for name, conditions in module.selections()}
    assert {name: selections.get(name) for name in SEVERAL} == SEVERAL
    assert {name: selections.get(name) for name in EXCUSED} == dict.fromkeys(EXCUSED, 0)
    assert {name for name in FOR_CALLERS if selections.get(name)} == FOR_CALLERS


def conditions() -> list[tuple[str, int, int]]:
    found = list[tuple[str, int, int]]()
    for module in modules():
        if module.name == "permissions.queries":
            continue
        lines = [0]
        for line in module.source.splitlines(keepends=True):
            lines.append(lines[-1] + len(line.encode()))
        found += [
            (module.name, lines[one.lineno - 1] + one.col_offset, lines[one.lineno - 1] + (one.end_col_offset or 0))
            for one in ast.walk(module.tree)
            if isinstance(one, ast.Name) and one.id in CONDITIONS
        ]
    return found


def test_a_condition_that_is_taken_out_is_missed() -> None:
    named = {module.name: module for module in modules()}
    unnoticed = list[str]()
    for name, start, end in conditions():
        source = named[name].source.encode()
        taken_out = (source[:start] + b"everything" + source[end:]).decode()
        if not without_condition(Module(name, taken_out, named[name].builders)):
            unnoticed.append(f"{name}:{start}")
    assert not unnoticed


@pytest.mark.parametrize("statement", cases("a_query_without_a_select_of_its_own_is_seen"))
def test_a_query_without_a_select_of_its_own_is_seen(statement: str) -> None:
    module = Module("domains.other.queries", BUILT.format(statement=statement), find_builders())
    assert without_condition(module) == {"domains.other.queries.list_all"}
