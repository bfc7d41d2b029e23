"""What is promised about the service's structure, held by reading its source."""

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from sqlalchemy import ClauseElement, Executable, Table
from sqlalchemy.dialects import postgresql

import service
from tests.harness.parsing import parse_python

FOLDER = Path(service.__file__).parent
SQL_BUILDERS = {"select", "insert", "update", "delete", "text", "exists"}

# Parameters that carry the organization: itself or its caller, or a value that has one of them as a field
# (a document's place in a space, a search's scope, a kept response's key).
BINDING = {"organization_id", "caller", "entry", "scope", "key"}

# What a statement that is built once has instead: a parameter it can't run without.
BOUND_LATER = {"ORGANIZATION"}

# Functions that build SQL without naming an organization, by why they may.
WITHOUT_ORGANIZATION = {
    "a credential, or whose it is, is looked up before its organization is known": {
        *("auth._credential_of_hash", "auth._owner_of_hash", "identity_server.oauth.find_organization")
    },
    "it locks, and reads nothing": {
        *("identity.lock_bootstrap", "domains.documents.files.try_lock_store", "domains.documents.files.lock_files")
    },
    "a backup, or a check of the file store, is of every organization": {
        *(f"operate.backup.{name}" for name in ("files", "file_totals", "open_snapshot", "table_names", "count_rows")),
        *("operate.backup.documents_of", "operate.backup.take_new_store"),
    },
    "it reads no table that anybody sees, or the schema alone": {
        *(f"operate.backup.{name}" for name in ("server_version", "unreadable", "has_anything", "vacuum")),
        "operate.backup.prepare_empty",
    },
    "a content is shared by all organizations, or no organization's": {
        *(f"domains.documents.files.{name}" for name in ("find_used", "mark_unused", "delete_marks", "find_due"))
    },
    "the secret key, the store, and the database's servers are the deployment's": {
        *(f"operate.deployment.{name}" for name in ("lock_key_fingerprint", "key_fingerprint", "count_services")),
        *(f"operate.deployment.{name}" for name in ("insert_key_fingerprint", "replace_key_fingerprint")),
        *(f"domains.documents.files.{name}" for name in ("begin_pass", "read_store_id")),
        *("operate.backup.read_key_fingerprint", "runtime.standbys.write_mark"),
    },
    "transactions are the whole server's, and the queue, which holds ids alone, is everybody's": {
        *(f"index.rebuilds.{name}" for name in ("number_transaction", "have_ended")),
        "runtime.jobs.count_waiting",
    },
    "an operator names an organization, and housekeeping visits every organization, a transaction each": {
        *("identity.list_organizations", "identity.any_organization")
    },
    "it asks which organizations have a domain, a provider or a host": {
        *(f"identity_server.signin.providers.{name}" for name in ("any_domain", "list_claims", "_domains")),
        "identity_server.oauth.list_allowing",
    },
    "the organization comes with its caller, or with the execution": {
        *("domains.oversight.status._number", "domains.oversight.status._oldest", "permissions.readable_by_parameters")
    },
}
# Statements that are built once without an organization, by why they may.
BUILT_WITHOUT_ORGANIZATION = {
    "the queue is everybody's, and holds ids alone": {
        *(f"service.runtime.jobs.queries.{name}" for name in ("_RELEASE_ALL", "_RELEASE_STALLED"))
    },
    "the database's servers are the deployment's": {
        *(f"service.runtime.standbys.queries.{name}" for name in ("_POSITION", "_PROGRESS"))
    },
    "a client, credential or domain is looked up before its organization is known": {
        *("service.identity_server.oauth.queries._CLIENT_OF_ID", "service.domains.people.scim.queries._TOKEN_OF_HASH"),
        *(f"service.identity_server.signin.queries.{name}" for name in ("_SESSION_OF_HASH", "_INVITATION_OF_HASH")),
        *(f"service.identity_server.signin.factors.queries.{name}" for name in ("_PENDING_OF_HASH", "_PASSKEY_OF_ID")),
        *(f"service.identity_server.signin.providers.queries.{name}" for name in ("_DOMAINS", "_OF_DOMAIN", "_OF_ID")),
        *(f"service.auth.queries.{name}" for name in ("_CREDENTIAL_OF_HASH", "_OWNER_OF_HASH", "_CONSENT_OF_HASH")),
    },
}
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
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def test_every_query_is_bound_to_an_organization_or_a_caller() -> None:
    building = [(name, node) for name, node in query_functions() if names_in(node) & SQL_BUILDERS]
    assert len(building) > 30
    unbound = set[str]()
    for name, node in building:
        parameters = {one.arg for one in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]}
        if not names_in(node) & (parameters & BINDING | BOUND_LATER):
            unbound.add(name)
    assert unbound == set().union(*WITHOUT_ORGANIZATION.values())


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
    assert unbound == set().union(*BUILT_WITHOUT_ORGANIZATION.values())


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
        if path.name in {"queries.py", "sql.py", "database.py"} or path.parts[0] in {"schema", "migrations"}:
            continue
        assert not (module.startswith("sqlalchemy") and name in SQL_BUILDERS), path
        if module.startswith("service.schema."):
            assert not isinstance(getattr(import_module(module), name), Table), path


def test_modules_are_short() -> None:
    paths = [path for folder in PRODUCT for path in (FOLDER.parent / folder).rglob("*.py")]
    assert len(paths) > 400
    too_long = [path for path in paths if len(path.read_text().splitlines()) > MOST_LINES]
    assert [path for path in too_long if not path.is_relative_to(FOLDER / "migrations/versions")] == []


def test_rows_are_typed() -> None:
    sources, untyped = ("sqlalchemy", "service.platform.sql"), {"Row", "RowMapping", "AnyRow"}
    assert len({path for path, _, _ in imports()}) > 300
    assert [path for path, module, name in imports() if module.startswith(sources) and name in untyped] == []
