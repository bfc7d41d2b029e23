"""Migrations lead to the declared schema, and the service has minimal rights in it."""

import re
import shutil
import tomllib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from procrastinate.schema import SchemaManager
from pydantic import SecretStr
from sqlalchemy import URL, Connection, create_engine, event, text
from structlog.testing import capture_logs

from service import migrations
from service.migrations import row_security
from service.migrations.online import add_index
from service.migrations.tables import metadata
from service.operate.commands import run
from service.platform.database import SERVICE_ROLE, Database, driver_url
from service.platform.deployment_errors import MigrationError
from service.platform.postgres.server import DATABASE
from service.platform.version import VERSION
from tests.harness.cases import FOLDER, cases, statement
from tests.harness.databases import TestDatabases
from tests.harness.services import RunningService, settings_for_test

# Nothing of an organization: Alembic's own bookkeeping, which names a version, the deployment's one row, and files'
# contents that no organization refers to.
UNPROTECTED = {"alembic_version", "deployment", "unused_files"}
# The job queue, as the library has it: a job names its organization among its arguments, the rest names jobs.
QUEUE = {"procrastinate_events", "procrastinate_jobs", "procrastinate_periodic_defers", "procrastinate_workers"}


def alembic_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations.FOLDER))
    return config


@dataclass(frozen=True)
class Place:
    """A database: the owner's address, and a connection without row-level security."""

    url: URL
    connection: psycopg.Connection[Any]

    def version(self) -> str:
        [[version]] = self.connection.execute("SELECT version_num FROM alembic_version").fetchall()
        return version


@pytest.fixture
def migrated(databases: TestDatabases) -> Iterator[Place]:
    name = databases.clone()
    with databases.connect(name) as connection:
        yield Place(databases.owner_url(name), connection)
    databases.drop(name)


@contextmanager
def outside_database(databases: TestDatabases) -> Generator[Place]:
    name = databases.empty()
    owner = f"owner_of_{name}"
    with databases.connect(name) as connection:
        connection.execute(f"CREATE ROLE {owner}")
        connection.execute(f"GRANT {SERVICE_ROLE} TO {owner}")
        connection.execute(f"ALTER DATABASE {name} OWNER TO {owner}")
        connection.execute("CREATE EXTENSION vector")
        yield Place(databases.owner_url(name).update_query_dict({"options": f"-c role={owner}"}), connection)
    databases.drop(name)
    with databases.connect(DATABASE) as connection:
        connection.execute(f"DROP ROLE {owner}")


@pytest.fixture
def outside(databases: TestDatabases) -> Iterator[Place]:
    with outside_database(databases) as place:
        yield place


@pytest.fixture(scope="module")
def used(databases: TestDatabases) -> Iterator[psycopg.Connection[Any]]:
    """A database migrated by an owner without superuser rights, unchanged by tests."""
    with outside_database(databases) as place:
        migrations.upgrade(place.url)
        yield place.connection


def test_migrations_lead_to_the_declared_tables(databases: TestDatabases, used: psycopg.Connection[Any]) -> None:
    """Alembic doesn't compare CHECK constraints, so names are compared here."""
    engine = create_engine(databases.owner_url(used.info.dbname))
    with engine.connect() as connection:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.check(config)
    engine.dispose()
    declared = {
        str(constraint.name)
        for table in metadata.tables.values()
        for constraint in table.constraints
        if type(constraint).__name__ == "CheckConstraint"
    }
    rows = used.execute("SELECT conname FROM pg_constraint WHERE contype = 'c' AND conname LIKE 'ck_%'")
    assert {name for (name,) in rows} == declared


def test_the_newest_revision_is_the_one_a_start_looks_for() -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_heads() == [migrations.HEAD]


def test_an_owner_who_made_the_services_role_may_become_it(outside: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """From PostgreSQL 16 on, the creator of a role is not automatically a member of it."""
    monkeypatch.setattr(row_security, "SERVICE_ROLE", "made_by_owner")
    outside.connection.execute(f"ALTER ROLE owner_of_{outside.url.database} CREATEROLE")
    engine = create_engine(outside.url)
    with engine.connect() as connection, Operations.context(MigrationContext.configure(connection)):
        connection.execute(text("CREATE TABLE alembic_version ()"))
        row_security.create_role()
        assert connection.execute(text("SELECT pg_has_role(current_user, 'made_by_owner', 'SET')")).scalar_one()
        connection.rollback()
    engine.dispose()


def test_a_newer_version_that_only_added_something_can_be_served(migrated: Place) -> None:
    migrations.upgrade(migrated.url)
    assert migrated.version() == migrations.HEAD
    migrated.connection.execute("UPDATE alembic_version SET version_num = '9999', usable_from = %s", [migrations.HEAD])
    with capture_logs() as logged:
        migrations.upgrade(migrated.url)
    assert [(one["event"], one["schema"]) for one in logged] == [("database_is_newer", "9999")]
    assert migrated.version() == "9999"


def test_a_newer_version_may_migrate_while_an_older_one_waits_for_it(outside, monkeypatch) -> None:
    """The older version waits outside any statement and transaction, which would block the newer one's indexes."""
    newer = outside.connection
    newer.execute("SELECT pg_advisory_lock(%s)", [migrations.ADVISORY_LOCK])

    def end_meanwhile(_: float) -> None:
        states = "SELECT state FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
        assert newer.execute(states, [outside.url.database]).fetchall() == [("idle",)]
        newer.execute("CREATE TABLE alembic_version AS SELECT '9999' AS version_num, NULL AS usable_from")
        newer.execute("GRANT SELECT ON alembic_version TO PUBLIC")
        newer.execute("SELECT pg_advisory_unlock(%s)", [migrations.ADVISORY_LOCK])

    monkeypatch.setattr(migrations, "sleep", end_meanwhile)
    with pytest.raises(MigrationError, match="9999"):
        migrations.upgrade(outside.url)


NEXT = """
from alembic import op
revision, down_revision, usable_from = "{next}", "{before}", None
def upgrade():
    op.execute("ALTER TABLE {table} ADD COLUMN added text")
"""


def test_a_migration_waits_for_nobody_for_long(databases, migrated, tmp_path, monkeypatch) -> None:
    folder, waits = tmp_path / "migrations", list[str]()
    shutil.copytree(migrations.FOLDER, folder)
    for before, following, table in ((migrations.HEAD, "9001", "documents"), ("9001", "9002", "turn_passages")):
        source = NEXT.format(next=following, before=before, table=table)
        (folder / "versions" / f"{following}_next.py").write_text(source)
    monkeypatch.setattr(migrations, "FOLDER", folder)
    monkeypatch.setattr(migrations, "HEAD", "9002")
    with databases.connect(str(migrated.url.database)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT FROM turn_passages")

        def end_meanwhile(_: float) -> None:
            waits.append(migrated.version())
            reader.execute("COMMIT")

        monkeypatch.setattr(migrations, "sleep", end_meanwhile)
        monkeypatch.setattr(migrations, "LOCK_MILLISECONDS", 50)
        migrations.upgrade(migrated.url)
    assert (waits, migrated.version()) == (["9001"], "9002")


def test_an_index_whose_migration_was_killed_is_built_anew(migrated: Place) -> None:
    """Built outside a transaction, alongside the table's writers; an invalid remainder is removed."""
    engine, other = create_engine(migrated.url), migrated.connection
    with engine.connect() as connection:
        other.execute("CREATE INDEX ix_left ON documents (name)")
        other.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_left'::regclass")
        context = MigrationContext.configure(connection, opts={"transaction_per_migration": True})
        with Operations.context(context), context.begin_transaction(_per_migration=True):
            add_index("ix_left", "documents", ["organization_id", "name"])
    engine.dispose()
    definition = "SELECT indisvalid, pg_get_indexdef(indexrelid) FROM pg_index WHERE indexrelid = 'ix_left'::regclass"
    expected = "CREATE INDEX ix_left ON public.documents USING btree (organization_id, name)"
    assert other.execute(definition).fetchall() == [(True, expected)]


UNKNOWN = {
    "9999": f"a newer Carrel: its schema is 9999, and this release ({VERSION}) knows schemas up to {migrations.HEAD}. "
    "Start the newer release, or restore a backup",
    "0089": "Start version 0.4.0 on it first to upgrade it, then start this release again. Nothing was changed.",
}


@pytest.mark.parametrize("arguments", [["backup", "x"], ["rotate-key"]])
@pytest.mark.parametrize("schema", UNKNOWN)
def test_an_unknown_schema_is_left_alone(migrated, tmp_path, arguments, schema, capsys) -> None:
    migrated.connection.execute("UPDATE alembic_version SET version_num = %s, usable_from = '9998'", [schema])
    with pytest.raises(MigrationError, match=re.escape(UNKNOWN[schema])):
        migrations.upgrade(migrated.url)
    address = migrated.url.set(drivername="postgresql").render_as_string(hide_password=False)
    path = [str(tmp_path / each) if each == "x" else each for each in arguments]
    assert run(path, settings_for_test(tmp_path, SecretStr(address))) == 1
    assert UNKNOWN[schema] in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
    assert migrated.version() == schema


# An owner without a right, no pgvector, an older pgvector, and any new value before PostgreSQL 17.
NEW_VALUE = "CREATE TYPE t AS ENUM (); SAVEPOINT s; ALTER TYPE t ADD VALUE 'x'; SELECT 'x'::t"
UNFIT = ["CREATE EXTENSION vector", "CREATE EXTENSION absent", "SELECT NULL::absent", NEW_VALUE]


@pytest.mark.parametrize("statements", UNFIT)
def test_a_database_that_cannot_be_migrated_is_refused(outside: Place, monkeypatch, statements: str) -> None:
    outside.connection.execute("DROP EXTENSION vector")
    if statements != UNFIT[0]:
        monkeypatch.setattr(migrations, "_run_alembic", lambda connection: connection.exec_driver_sql(statements))
    refusal = r'(permission denied to create extension|"absent"|unsafe use) .* needs PostgreSQL 17 or newer'
    with pytest.raises(MigrationError, match=refusal):
        migrations.upgrade(outside.url)
    assert outside.connection.execute("SELECT to_regclass('organizations')").fetchone() == (None,)


# What deletes no row needs no look-up of the rows that refer to it.
NEVER_DELETED = {
    "access_classes": "a class stays, as it is found by what it was made of",
    "agents": "a deleted agent's row stays, for its conversations",
    "organizations": "no operation removes one",
    "procrastinate_workers": "the queue's tables are its library's",
}
# PostgreSQL 18 looks into each organization's part of an index in turn (a skip scan), and there are few organizations.
UNINDEXED = statement("references_without_an_index")


def unindexed(connection: psycopg.Connection[Any]) -> set[str]:
    return {name for (name,) in connection.execute(UNINDEXED, [list(NEVER_DELETED)])}


def test_a_deletion_finds_what_refers_to_it_by_an_index(used: psycopg.Connection[Any]) -> None:
    assert unindexed(used) == set()
    with used.transaction(force_rollback=True):
        used.execute("DROP INDEX ix_documents_owner")
        assert unindexed(used) == {"documents.owner_id"}


def test_every_table_is_under_row_level_security(used: psycopg.Connection[Any]) -> None:
    found = {name: rest for name, *rest in used.execute(statement("tables_and_policies")).fetchall()}
    assert len(found) > 20
    assert {name: rest for name, rest in found.items() if rest != [True, True, True]}.keys() == UNPROTECTED | QUEUE
    assert found["procrastinate_jobs"] == [True, False, True]


PARTS: dict[str, str] = tomllib.loads((FOLDER / "parts-of-a-schema.toml").read_text())


def queue_schema(connection: psycopg.Connection[Any]) -> dict[str, set[tuple[Any, ...]]]:
    found: dict[str, set[tuple[Any, ...]]] = {}
    for part, select in PARTS.items():
        rows = connection.execute(select.format(schema="'public'::regnamespace")).fetchall()
        found[part] = {row for row in rows if "procrastinate" in str(row)}
    return found


def test_the_job_queue_is_as_its_library_declares_it(databases: TestDatabases, used: psycopg.Connection[Any]) -> None:
    name = databases.empty()
    with databases.connect(name) as declared:
        declared.execute(SchemaManager.get_schema())
        expected = queue_schema(declared)
    assert min(map(len, expected.values())) > 3
    for part, found in queue_schema(used).items():
        assert found == expected[part], part
    databases.drop(name)


def test_backups_show_every_row_to_the_owner_alone(used: psycopg.Connection[Any]) -> None:
    policies = "SELECT tablename, cmd, roles::text, qual FROM pg_policies WHERE policyname = 'backup'"
    protected = "SELECT tablename FROM pg_policies WHERE policyname = 'organization'"
    found = {table: rest for table, *rest in used.execute(policies).fetchall()}
    assert found.keys() == {table for (table,) in used.execute(protected)}
    assert {(cmd, roles) for cmd, roles, _ in found.values()} == {("SELECT", "{pg_database_owner}")}
    assert all("'carrel.backup'" in qual for _, _, qual in found.values())
    assert used.execute("SELECT pg_has_role(%s, 'pg_database_owner', 'USAGE')", [SERVICE_ROLE]).fetchone() == (False,)


def test_the_service_changes_nothing_that_is_for_good(module_service: RunningService) -> None:
    with module_service.owner_connection() as connection:
        connection.execute(f"SET ROLE {SERVICE_ROLE}")
        assert connection.execute("SELECT count(*) FROM deployment").fetchone() == (1,)
        for statement in (
            "UPDATE deployment SET key_fingerprint = 'x'",
            "UPDATE deployment SET store_id = gen_random_uuid()",
            "DELETE FROM deployment",
            "UPDATE audit_entries SET action = 'x'",
            "DELETE FROM audit_entries",
            "TRUNCATE audit_entries",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO deployment (key_fingerprint) VALUES ('x')")
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute("INSERT INTO deployment VALUES (false, 'x')")


def test_the_service_role_is_restricted(used: psycopg.Connection[Any]) -> None:
    role = "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = %s"
    assert used.execute(role, [SERVICE_ROLE]).fetchone() == (False, False, False, False)
    assert used.execute("SELECT count(*) FROM pg_class WHERE relowner = %s::regrole", [SERVICE_ROLE]).fetchone() == (0,)


def test_an_outside_database_is_served_as_the_restricted_role(module_service: RunningService) -> None:
    """The harness connects by the owner's address, as with CARREL_DATABASE_URL: requests still run restricted."""
    asked = "SELECT session_user::text, current_user::text"
    found = module_service.in_transaction(None, lambda connection: connection.exec_driver_sql(asked))
    assert found.one() == ("postgres", SERVICE_ROLE)


@pytest.mark.parametrize("address", cases("an_address_that_is_not_postgresql_is_refused"))
def test_an_address_that_is_not_postgresql_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="CARREL_DATABASE_URL") as caught:
        driver_url(address)
    assert not re.search("secret", str(caught.value))
    assert driver_url("postgres://u@h/n").drivername == "postgresql+psycopg"


@pytest.mark.parametrize(("given", "expected"), cases("an_address_may_name_several_servers"))
def test_an_address_may_name_several_servers(given: str, expected: dict[str, str | int | None]) -> None:
    usual = {"host": "a,b", "port": ",", "dbname": "n", "password": None, "sslmode": None}
    expected = {**usual, "target_session_attrs": "read-write", **expected}
    read = Database(driver_url(f"postgresql://{given}")).driver_parameters()
    assert {name: read.get(name) for name in expected} == expected


# It makes everything in an empty database, so that nobody waits for it.
BEFORE = migrations.BASELINE
NAME = r'(?:"?(?P<table>\w+)"?)'
CONSTANT = r"(?:'[^']*'(?:::\w+)?|\(?-?\d+\)?|true|false|now\(\)|ARRAY\[\]::\w+\[\])"
# What Alembic looks up. Any other may call a function that does whatever it likes.
READING = r"SELECT (?:\w+\.)+\w+ FROM (?:alembic_version|pg_catalog\.pg_class JOIN pg_catalog\.pg_namespace ON .+)"
# On tables in use, too: nothing is rewritten or read through, and code that knows nothing of it goes on working.
ADDING = (
    rf"ALTER TABLE {NAME} ADD COLUMN \w+ [^,]+? DEFAULT {CONSTANT} NOT NULL",
    rf"ALTER TABLE {NAME} ADD COLUMN (?!.* (?:NOT NULL|UNIQUE|REFERENCES|PRIMARY|GENERATED|DEFAULT)\b).+",
    rf"ALTER TABLE {NAME} ADD COLUMN \w+ [^,]+? DEFAULT {CONSTANT}",
    rf"ALTER TABLE {NAME} ADD CONSTRAINT .+ NOT VALID",
    r"CREATE (?:TABLE|FUNCTION|TYPE|SEQUENCE|TRIGGER) .+",
    r"GRANT .+",
    r"REVOKE EXECUTE ON FUNCTION .+",
    r"COMMENT ON .+",
    READING,
    r"SHOW .+",
    r"SET .+",
)
# What may take long: it is the only step of its migration, so that no lock of another step is held meanwhile.
ALONE = (
    rf"CREATE INDEX CONCURRENTLY (?:IF NOT EXISTS )?\w+ ON {NAME} .+",
    r"DROP INDEX CONCURRENTLY .+",
    rf"ALTER TABLE {NAME} VALIDATE CONSTRAINT .+",
)
# Whatever is said of it: it may read or write a table through under a lock.
BLOCKING = (
    rf"CREATE (?:UNIQUE )?INDEX (?!CONCURRENTLY).+? ON {NAME} .+",
    rf"ALTER TABLE {NAME} ALTER COLUMN \w+ (?:TYPE|SET NOT NULL).*",
    rf"ALTER TABLE {NAME} ADD CONSTRAINT (?!.*NOT VALID).+",
    rf"ALTER TABLE {NAME} ADD COLUMN .*DEFAULT (?!{CONSTANT}).+",
    rf"(?:UPDATE|DELETE FROM) {NAME} .+",
    rf"(?!{READING})SELECT .+",
)
FOREIGN_KEY = (rf"ALTER TABLE {NAME} ADD (?!.*REFERENCES.*REFERENCES).+ REFERENCES .+",)
ON_TABLE = re.compile(
    r"(?:ALTER TABLE|INSERT INTO|UPDATE|DELETE FROM|(?:CREATE|DROP) POLICY \w+ ON|CREATE (?:UNIQUE )?INDEX \w+ ON) "
    rf"(?:ONLY )?{NAME}"
)


@dataclass(frozen=True)
class Migration:
    """A migration's statements, and the oldest schema version whose code can use the database afterwards."""

    revision: str
    usable_from: str | None
    statements: Sequence[str]

    def faults(self) -> list[str]:
        made = {found[1] for each in self.statements if (found := re.match(r'CREATE TABLE "?(\w+)', each))}
        unused = {*made, "alembic_version"}
        used = [each for each in self.statements if not is_on(each, unused)]
        alone = [each for each in used if matches(each, ALONE)]
        steps = [each for each in used if not re.match("SET|SHOW|SELECT", each)]
        faults = [f"{each}: a step of its own, in a migration of its own" for each in alone if len(alone) < len(steps)]
        locks = {each: tables for each in self.statements if (tables := locked_by(each) - unused)}
        locked = set[str]().union(*locks.values())
        # A foreign key between tables in use needs both locks, so it is added alone.
        if len(locked) > 1 and not (len(locks) == 1 and matches(next(iter(locks)), FOREIGN_KEY)):
            faults.append(f"{', '.join(sorted(locked))}: who uses both waits in a circle with it; a migration for each")
        for each in used:
            if matches(each, BLOCKING):
                faults.append(f"{each}: who uses the table waits for it")
            elif self.usable_from is None and not matches(each, (*ADDING, *ALONE)):
                faults.append(f"{each}: it does more than add, and the migration names no usable_from")
        return faults


def locked_by(statement: str) -> set[str]:
    """Return the tables with writers waiting for a statement: the altered table, and referenced tables."""
    if not (found := re.match(rf"(?:CREATE|(?P<alter>ALTER)) TABLE {NAME}", statement)):
        return set()
    referenced = set(re.findall(r'\bREFERENCES "?(\w+)', statement))
    return referenced | {found["table"]} if found["alter"] else referenced


def is_on(statement: str, tables: set[str]) -> bool:
    found = ON_TABLE.match(statement)
    return found is not None and found["table"] in tables


def matches(statement: str, shapes: Sequence[str]) -> bool:
    return any(re.fullmatch(shape, statement, re.IGNORECASE) for shape in shapes)


@pytest.mark.parametrize(("statement", "is_good", "is_good_where_told"), cases("expanding_statements"))
def test_the_rule_knows_what_adds(statement: str, is_good: bool, is_good_where_told: bool) -> None:
    assert (Migration("1", None, [statement]).faults() == []) == is_good
    assert (Migration("1", "0042", [statement]).faults() == []) == is_good_where_told


def test_the_rule_knows_tables_that_are_new() -> None:
    new = ["CREATE TABLE things (thing_id UUID)", "CREATE INDEX ix ON things (thing_id)", "UPDATE things SET a = 1"]
    assert Migration("1", None, [*new, "ALTER TABLE things FORCE ROW LEVEL SECURITY"]).faults() == []
    added, built = "ALTER TABLE documents ADD COLUMN a TEXT", "CREATE INDEX CONCURRENTLY ix ON documents (a)"
    assert len(Migration("1", None, [added, built]).faults()) == 1
    assert Migration("1", None, [added, added.replace(" a ", " b ")]).faults() == []
    assert len(Migration("1", None, [added, added.replace("documents", "resources")]).faults()) == 1
    referring = "CREATE TABLE others (thing_id UUID REFERENCES things (thing_id), a UUID REFERENCES documents (a))"
    assert Migration("1", None, [*new, referring]).faults() == []
    assert len(Migration("1", None, [referring]).faults()) == 1
    key = "ALTER TABLE things ADD CONSTRAINT fk FOREIGN KEY (a) REFERENCES documents (a)"
    assert Migration("1", None, [*new, key]).faults() == []
    assert len(Migration("1", None, [*new, key, added.replace("documents", "resources")]).faults()) == 1


@pytest.fixture
def before(databases) -> Iterator[Connection]:
    name = databases.empty()
    engine = create_engine(databases.owner_url(name))
    with engine.connect() as connection:
        migrate(connection, BEFORE)
        yield connection
    engine.dispose()
    databases.drop(name)


def migrate(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations.FOLDER))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def test_migrations_keep_to_the_rule(before: Connection) -> None:
    """Each since the baseline; the rule is in CONTRIBUTING.md, under "Change the schema"."""
    said: list[str] = []

    def note(_connection, _cursor, statement: str, *_) -> None:
        said.append(" ".join(statement.split()))

    event.listen(before, "before_cursor_execute", note)
    scripts = [*ScriptDirectory(str(migrations.FOLDER)).iterate_revisions("head", BEFORE)]
    for script in reversed(scripts):
        said.clear()
        migrate(before, script.revision)
        assert said
        module: ModuleType = script.module
        assert Migration(script.revision, module.usable_from, said).faults() == [], script.revision
    usable_from = before.exec_driver_sql("SELECT usable_from FROM alembic_version").scalar_one()
    assert usable_from == next((each.module.usable_from for each in scripts if each.module.usable_from), "0079")
