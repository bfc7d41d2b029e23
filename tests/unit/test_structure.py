"""What is promised about the service's structure, held by reading its source."""

import ast
from collections.abc import Iterator
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

# Functions that build SQL without naming an organization, and why they may.
WITHOUT_ORGANIZATION = {
    "auth._credential_of_hash": "a credential is looked up before its organization is known",
    "auth._owner_of_hash": "likewise; it asks for the credential's organization",
    "identity.lock_bootstrap": "it locks, and reads nothing",
    "operate.backup.files": "a backup is of every organization",
    "operate.backup.file_totals": "likewise",
    "operate.backup.open_snapshot": "likewise",
    "operate.backup.table_names": "likewise",
    "operate.backup.count_rows": "likewise",
    "operate.backup.read_key_fingerprint": "the secret key is the deployment's",
    "operate.backup.server_version": "it reads no table",
    "operate.backup.unreadable": "it reads the schema",
    "operate.backup.has_anything": "likewise",
    "operate.backup.prepare_empty": "it makes the service's role",
    "operate.backup.vacuum": "it reads nothing that anybody sees",
    "operate.backup.documents_of": "a check of the file store is of every organization",
    "domains.files.try_lock_store": "it locks, and reads nothing",
    "domains.files.lock_files": "likewise",
    "domains.files.find_used": "it asks in each organization, for a content that all of them share",
    "domains.files.mark_unused": "a content that nobody refers to is no organization's",
    "domains.files.delete_marks": "likewise",
    "domains.files.find_due": "likewise",
    "domains.files.begin_pass": "the store is the deployment's",
    "domains.files.read_store_id": "likewise",
    "operate.deployment.lock_key_fingerprint": "the secret key is the deployment's",
    "operate.deployment.count_services": "it reads who is connected",
    "identity.list_organizations": "an operator names one, and housekeeping visits every one, a transaction each",
    "identity.any_organization": "it asks whether there is any organization at all",
    "operate.deployment.key_fingerprint": "the secret key is the deployment's",
    "operate.deployment.insert_key_fingerprint": "likewise",
    "operate.deployment.replace_key_fingerprint": "likewise",
    "runtime.standbys.write_mark": "the database's servers are the deployment's",
    "index.rebuilds.comparison.number_transaction": "transactions are the whole server's",
    "index.rebuilds.comparison.have_ended": "likewise",
    "domains.signin.providers.any_domain": "it asks whether any organization has a provider at all",
    "domains.signin.providers.list_claims": "an operator says whose a domain is, among those who claim it",
    "domains.signin.providers._domains": "it takes the organization of the provider that it is asked with",
    "runtime.jobs.count_waiting": "the queue is everybody's, and holds ids alone",
    "operate.backup.take_new_store": "the restored database is written as a whole, by its owner",
    "operate.status._number": "it counts what it is given, which its caller narrows to the organization",
    "operate.status._oldest": "likewise",
    "domains.oauth.described.list_allowing": "it asks which organizations allow a host, for who is signed in to none",
    "domains.oauth.described.find_organization": "it asks whose a code or token is, as authentication does",
    "permissions.readable_by_parameters": "its parameters, the organization among them, come with the execution",
}


def query_functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function of every queries.py, as domain.name."""
    for path in sorted(FOLDER.rglob("queries.py")):
        domain = ".".join(path.relative_to(FOLDER).parts[:-1])
        for node in ast.walk(parse_python(path.read_text())):
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
    unbound = {
        name
        for name, node in building
        if not parameters_of(node) & names_in(node) & BINDING and not names_in(node) & BOUND_LATER
    }
    assert unbound == WITHOUT_ORGANIZATION.keys()


# Statements that are built once without an organization, and why.
BUILT_WITHOUT_ORGANIZATION = {
    "service.runtime.jobs.queries._RELEASE_ALL": "the queue is everybody's, and holds ids alone",
    "service.runtime.jobs.queries._RELEASE_STALLED": "likewise",
    "service.runtime.standbys.queries._POSITION": "the database's servers are the deployment's",
    "service.runtime.standbys.queries._PROGRESS": "likewise",
    "service.domains.oauth.queries._CLIENT_OF_ID": "a client is looked up before its organization is known",
    "service.domains.signin.queries._SESSION_OF_HASH": "a session is looked up before its organization is known",
    "service.domains.signin.queries._INVITATION_OF_HASH": "an invitation is looked up before its organization is known",
    "service.domains.scim.credentials.queries._TOKEN_OF_HASH": "a token is looked up before its organization is known",
    "service.domains.signin.factors.queries._PENDING_OF_HASH": "it is looked up before its organization is known",
    "service.domains.signin.factors.queries._PASSKEY_OF_ID": "likewise",
    "service.domains.signin.providers.queries._DOMAINS": "a domain is looked up before its organization is known",
    "service.domains.signin.providers.queries._OF_DOMAIN": "likewise",
    "service.domains.signin.providers.queries._OF_ID": "likewise, by its provider",
    "service.auth.queries._CREDENTIAL_OF_HASH": "its organization is not known yet",
    "service.auth.queries._OWNER_OF_HASH": "likewise; it asks for the credential's organization",
    "service.auth.queries._CONSENT_OF_HASH": "likewise; it asks for the token's organization",
}


# As `service.platform.sql.param` calls it, as a statement in plain text does, and as an INSERT of one row a column.
ORGANIZATION_PARAMETERS = {"param_organization_id", "organization_id"}


def parameters_in(statement: ClauseElement) -> set[str]:
    """The names of a statement's parameters."""
    return set(statement.compile(dialect=postgresql.dialect()).params)


def built_statements() -> Iterator[tuple[str, Executable]]:
    """Every statement that a queries.py keeps under a name of its own, as module.name."""
    for path in sorted(FOLDER.rglob("queries.py")):
        module = import_module(".".join(["service", *path.relative_to(FOLDER).with_suffix("").parts]))
        for name, value in vars(module).items():
            for statement in value.values() if isinstance(value, dict) else [value]:
                if isinstance(statement, Executable) and isinstance(statement, ClauseElement):
                    yield f"{module.__name__}.{name}", statement


def test_every_statement_built_once_asks_for_its_organization() -> None:
    """A statement that is kept takes the organization as a parameter, or is excused with a reason."""
    statements = list(built_statements())
    assert len(statements) > 10
    unbound = {name for name, statement in statements if not parameters_in(statement) & ORGANIZATION_PARAMETERS}
    assert unbound == BUILT_WITHOUT_ORGANIZATION.keys()


def test_only_queries_touch_tables() -> None:
    """Outside of queries, the schema and migrations nothing imports a table or builds a statement."""
    for path in sorted(FOLDER.rglob("*.py")):
        relative = path.relative_to(FOLDER)
        if path.name in {"queries.py", "sql.py", "database.py"} or relative.parts[0] in {"schema", "migrations"}:
            continue
        imported = {
            (node.module or "", alias.name)
            for node in ast.walk(parse_python(path.read_text()))
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        builders = {name for module, name in imported if module.startswith("sqlalchemy") and name in SQL_BUILDERS}
        tables = {name for module, name in imported if module.startswith("service.schema.") and is_table(module, name)}
        assert not builders | tables, relative


def is_table(module: str, name: str) -> bool:
    """Whether a module's name is a table (and not a constant beside one)."""
    return isinstance(getattr(import_module(module), name), Table)


PRODUCT = ("app", "cli", "client", "flows", "service")
MOST_LINES = 400


def test_modules_are_short() -> None:
    """No module has more than 400 lines; steps of a migration apart, which are written once and never changed."""
    paths = [path for folder in PRODUCT for path in (FOLDER.parent / folder).rglob("*.py")]
    counts = {str(path.relative_to(FOLDER.parent)): len(path.read_text().splitlines()) for path in paths}
    assert len(counts) > 400
    too_long = {
        name: count
        for name, count in counts.items()
        if count > MOST_LINES and not name.startswith("service/migrations/versions/")
    }
    assert too_long == {}


def test_rows_are_typed() -> None:
    """Nothing in the service handles rows whose fields the type checker doesn't know."""
    files = sorted(FOLDER.rglob("*.py"))
    assert len(files) > 300
    untyped = {"Row", "RowMapping", "AnyRow"}
    found = [
        f"{path.relative_to(FOLDER)}: {alias.name}"
        for path in files
        for node in ast.walk(parse_python(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("sqlalchemy", "service.platform.sql"))
        for alias in node.names
        if alias.name in untyped
    ]
    assert found == []
