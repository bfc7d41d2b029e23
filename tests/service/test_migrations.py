"""Migrations lead to the schema the code declares, and the service may do no more there than it must."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from procrastinate.schema import SchemaManager
from psycopg.types.json import Jsonb
from pydantic import SecretStr
from sqlalchemy import URL, create_engine, text
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
from tests.harness.databases import TestDatabases
from tests.harness.services import RunningService, settings_for_test

# Nothing of an organization: Alembic's own bookkeeping, which names a version, the deployment's one row, and files'
# contents that no organization refers to.
UNPROTECTED = {"alembic_version", "deployment", "unused_files"}
# The job queue, as the library has it: a job names its organization among its arguments, the rest names jobs.
QUEUE = {"procrastinate_events", "procrastinate_jobs", "procrastinate_periodic_defers", "procrastinate_workers"}


@pytest.fixture
def migrated(databases: TestDatabases) -> Iterator[str]:
    """A database that has just been migrated, and nothing else."""
    name = databases.empty()
    migrations.upgrade(databases.owner_url(name))
    yield name
    databases.drop(name)


def alembic_config() -> Config:
    """Return Alembic's configuration of our migrations."""
    config = Config()
    config.set_main_option("script_location", str(migrations.FOLDER))
    return config


def test_migrations_equal_the_declared_tables(databases: TestDatabases, migrated: str) -> None:
    """Nothing is left to migrate: tables, columns, types, indexes and constraints are as declared."""
    engine = create_engine(databases.owner_url(migrated))
    with engine.connect() as connection:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.check(config)
    engine.dispose()


def test_check_constraints_are_as_declared(databases: TestDatabases, migrated: str) -> None:
    """Alembic doesn't compare CHECK constraints, so their names are compared here."""
    declared = {
        str(constraint.name)
        for table in metadata.tables.values()
        for constraint in table.constraints
        if type(constraint).__name__ == "CheckConstraint"
    }
    with databases.connect(migrated) as connection:
        rows = connection.execute("SELECT conname FROM pg_constraint WHERE contype = 'c' AND conname LIKE 'ck_%'")
        assert {name for (name,) in rows} == declared


def test_the_newest_revision_is_the_one_a_start_looks_for() -> None:
    """A start compares with `HEAD` without loading Alembic."""
    assert ScriptDirectory.from_config(alembic_config()).get_heads() == [migrations.HEAD]


def test_migrating_again_changes_nothing(databases: TestDatabases, migrated: str) -> None:
    """A start on a migrated database leaves it alone."""
    migrations.upgrade(databases.owner_url(migrated))
    with databases.connect(migrated) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(migrations.HEAD,)]


@pytest.fixture
def outside(databases: TestDatabases) -> Iterator[URL]:
    """An empty database whose owner is no superuser, as on an outside PostgreSQL; the address works as the owner."""
    name = databases.empty()
    with databases.connect(name) as connection:
        connection.execute("CREATE ROLE outside_owner")
        connection.execute(f"GRANT {SERVICE_ROLE} TO outside_owner")
        connection.execute(f"ALTER DATABASE {name} OWNER TO outside_owner")
        connection.execute("CREATE EXTENSION vector")
    yield databases.owner_url(name).update_query_dict({"options": "-c role=outside_owner"})
    databases.drop(name)
    with databases.connect(DATABASE) as connection:
        connection.execute("DROP ROLE outside_owner")


def test_an_owner_who_made_the_services_role_may_become_it(
    databases: TestDatabases, outside: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Making a role is, from PostgreSQL 16 on, not yet being allowed to become it; the service becomes it."""
    monkeypatch.setattr(row_security, "SERVICE_ROLE", "made_by_owner")
    with databases.connect(DATABASE) as connection:
        connection.execute("ALTER ROLE outside_owner CREATEROLE")
    engine = create_engine(outside)
    with engine.connect() as connection, Operations.context(MigrationContext.configure(connection)):
        connection.execute(text("CREATE TABLE alembic_version ()"))
        row_security.create_role()
        assert connection.execute(text("SELECT pg_has_role(current_user, 'made_by_owner', 'SET')")).scalar_one()
        connection.rollback()
    engine.dispose()


def test_a_database_of_a_newer_version_is_left_alone(databases: TestDatabases, migrated: str) -> None:
    """A start says so in words, and changes nothing: what it would write, the newer version couldn't read."""
    with databases.connect(migrated) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999', usable_from = '9998'")
    with pytest.raises(MigrationError, match="a newer Carrel's: its schema is 9999") as refused:
        migrations.upgrade(databases.owner_url(migrated))
    assert f"this release ({VERSION}) knows schemas up to {migrations.HEAD}" in str(refused.value)
    assert "Start the newer release again, or restore a backup" in str(refused.value)
    with databases.connect(migrated) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]


def test_a_newer_version_that_only_added_something_can_be_served(databases: TestDatabases, migrated: str) -> None:
    """A start of the older release leaves its database as it is; commands, which must know all of it, don't take it."""
    with databases.connect(migrated) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999', usable_from = %s", [migrations.HEAD])
        with capture_logs() as logged:
            migrations.upgrade(databases.owner_url(migrated))
        assert [(one["event"], one["schema"]) for one in logged] == [("database_is_newer", "9999")]
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]


def test_a_migration_never_lets_older_releases_in_again(databases: TestDatabases, outside: URL) -> None:
    """What an older bound needs is less than what a later one does, such as that of a spread index."""
    migrate(outside, "0045")
    with databases.connect(str(outside.database)) as connection:
        connection.execute("UPDATE alembic_version SET usable_from = '0041'")
        migrations.upgrade(outside)
        assert connection.execute("SELECT usable_from FROM alembic_version").fetchall() == [("0041",)]


def test_a_newer_version_may_migrate_while_an_older_one_waits_for_it(
    databases: TestDatabases, outside: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that start at once, the older one finds what the newer one made, and says so in words.

    While it waits it is in no statement and no transaction, for which the newer one's indexes would wait.
    """
    migrate(outside, "0003")
    with databases.connect(str(outside.database)) as newer:
        newer.execute("SELECT pg_advisory_lock(%s)", [migrations.ADVISORY_LOCK])

        def end_meanwhile(_: float) -> None:
            states = "SELECT state FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
            assert newer.execute(states, [outside.database]).fetchall() == [("idle",)]
            newer.execute("UPDATE alembic_version SET version_num = '9999'")
            newer.execute("SELECT pg_advisory_unlock(%s)", [migrations.ADVISORY_LOCK])

        monkeypatch.setattr(migrations, "sleep", end_meanwhile)
        with pytest.raises(MigrationError, match="9999"):
            migrations.upgrade(outside)


def test_a_migration_waits_for_nobody_for_long(
    databases: TestDatabases, outside: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives way to who holds a table's lock, for whom others would wait behind it, and goes on where it was."""
    migrate(outside, "0022")
    with databases.connect(str(outside.database)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT FROM turn_passages")
        waits: list[str | None] = []

        def end_meanwhile(_: float) -> None:
            with databases.connect(str(outside.database)) as connection:
                waits.extend(name for (name,) in connection.execute("SELECT version_num FROM alembic_version"))
            reader.execute("COMMIT")

        monkeypatch.setattr(migrations, "sleep", end_meanwhile)
        monkeypatch.setattr(migrations, "LOCK_MILLISECONDS", 50)
        migrations.upgrade(outside)
        assert waits == ["0023"]
        assert reader.execute("SELECT version_num FROM alembic_version").fetchall() == [(migrations.HEAD,)]


def test_an_index_whose_migration_was_killed_is_built_anew(databases: TestDatabases, migrated: str) -> None:
    """In no transaction, beside the table's writers; what was left of it is invalid, and doesn't stay."""
    engine = create_engine(databases.owner_url(migrated))
    with databases.connect(migrated) as other, engine.connect() as connection:
        other.execute("CREATE INDEX ix_left ON documents (name)")
        other.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_left'::regclass")
        context = MigrationContext.configure(connection, opts={"transaction_per_migration": True})
        with Operations.context(context), context.begin_transaction(_per_migration=True):
            add_index("ix_left", "documents", ["organization_id", "name"])
        definition = (
            "SELECT indisvalid, pg_get_indexdef(indexrelid) FROM pg_index WHERE indexrelid = 'ix_left'::regclass"
        )
        assert other.execute(definition).fetchall() == [
            (True, "CREATE INDEX ix_left ON public.documents USING btree (organization_id, name)")
        ]
    engine.dispose()


@pytest.mark.parametrize("arguments", [["backup", "x"], ["rotate-key"]])
def test_commands_leave_a_newer_versions_database_alone(
    databases: TestDatabases, migrated: str, tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A command of an older release ends with status 1 and the sentence that its service would end with."""
    with databases.connect(migrated) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    address = databases.owner_url(migrated).set(drivername="postgresql").render_as_string(hide_password=False)
    settings = settings_for_test(tmp_path, SecretStr(address))
    path = [str(tmp_path / each) if each == "x" else each for each in arguments]
    assert run(path, settings) == 1
    assert "The database is a newer Carrel's: its schema is 9999" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
    with databases.connect(migrated) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]


def test_an_owner_who_may_not_make_the_extension_is_told(databases: TestDatabases, outside: URL) -> None:
    """Without pgvector made beforehand, its owner is told what is missing, and nothing is begun."""
    with databases.connect(str(outside.database)) as connection:
        connection.execute("DROP EXTENSION vector")
    with pytest.raises(MigrationError, match='permission denied to create extension "vector"'):
        migrations.upgrade(outside)
    with databases.connect(str(outside.database)) as connection:
        assert connection.execute("SELECT to_regclass('organizations')").fetchone() == (None,)


def migrate(url: URL, revision: str) -> None:
    """Bring a database to a revision."""
    engine = create_engine(url)
    with engine.connect() as connection:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()


def test_feedback_from_before_the_search_log_is_in_it(databases: TestDatabases, outside: URL) -> None:
    """The newest of each search, whoever owns the database; row-level security is in force again afterwards."""
    migrate(outside, "0003")
    given = [("one", 1, "THUMBS_UP"), ("one", 3, "THUMBS_DOWN"), ("one", 2, "THUMBS_UP"), ("other", 1, "THUMBS_UP")]
    ids = {name: uuid4() for name in ("organization", "one", "other", "silent")}
    with databases.connect(outside.database) as connection:
        organization = ids["organization"]
        connection.execute(
            "INSERT INTO organizations (organization_id, name, domain) VALUES (%s, 'x', 'x')", [organization]
        )
        for name in ("one", "other", "silent"):
            connection.execute(
                "INSERT INTO searches (search_id, organization_id, principal_id, mode, result_count)"
                " VALUES (%s, %s, %s, 'HYBRID', 1)",
                [ids[name], organization, organization],
            )
        for name, minute, feedback in given:
            connection.execute(
                "INSERT INTO audit_entries (audit_log_id, organization_id, at, action, target_type, target_id, details)"
                " VALUES (%s, %s, %s, 'search.feedback', 'search', %s, %s)",
                [
                    uuid4(),
                    organization,
                    datetime(2026, 1, 1, 0, minute, tzinfo=UTC),
                    str(ids[name]),
                    Jsonb({"feedback": feedback}),
                ],
            )
        migrate(outside, "head")
        rows = connection.execute("SELECT search_id, feedback FROM searches").fetchall()
        forced = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relforcerowsecurity AND relname = ANY(%s)",
            [["searches", "audit_entries"]],
        )
        assert forced.fetchone() == (2,)
    assert dict(rows) == {ids["one"]: "THUMBS_DOWN", ids["other"]: "THUMBS_UP", ids["silent"]: None}


def insert_search(connection: psycopg.Connection, ids: dict[str, UUID]) -> None:
    """Insert an organization and a search in it, with the columns that every version has."""
    connection.execute("INSERT INTO organizations (organization_id, name, domain) VALUES (%(id)s, 'x', 'x')", ids)
    connection.execute(
        "INSERT INTO searches (search_id, organization_id, principal_id, mode, result_count)"
        " VALUES (%(id)s, %(id)s, %(id)s, 'HYBRID', 1)",
        ids,
    )


def test_of_searches_from_before_it_is_not_known_what_they_found(databases: TestDatabases, outside: URL) -> None:
    """They stay, with the documents of their results unknown rather than none."""
    ids = {"id": uuid4()}
    migrate(outside, "0011")
    with databases.connect(str(outside.database)) as connection:
        insert_search(connection, ids)
        migrate(outside, "head")
        rows = connection.execute("SELECT search_id, document_ids FROM searches").fetchall()
    assert rows == [(ids["id"], None)]


def test_sources_come_to_a_database_that_has_been_in_use(databases: TestDatabases, outside: URL) -> None:
    """What is there stays; the tables are there for the service, which reports a source in its organization alone."""
    ids = {"id": uuid4(), "other": uuid4()}
    migrate(outside, "0012")
    with databases.connect(str(outside.database)) as connection:
        for one in ids.values():
            connection.execute("INSERT INTO organizations (organization_id, name, domain) VALUES (%s, 'x', 'x')", [one])
            connection.execute(
                "INSERT INTO principals (principal_id, organization_id, kind, name) VALUES (%s, %s, 'everyone', 'x')",
                [one, one],
            )
        migrate(outside, "head")
        assert connection.execute("SELECT count(*) FROM organizations").fetchone() == (2,)
        connection.execute(f"SET ROLE {SERVICE_ROLE}")
        connection.execute("SELECT set_config('carrel.organization_id', %s, false)", [str(ids["id"])])
        new = "INSERT INTO sources (source_id, organization_id, ledger, principal_id) VALUES (%s, %s, 'x', %s)"
        connection.execute(new, [uuid4(), ids["id"], ids["id"]])
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            connection.execute(new, [uuid4(), ids["other"], ids["other"]])
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute(new, [uuid4(), ids["id"], ids["id"]])


def test_entries_and_sessions_of_before_stay_as_they_are(databases: TestDatabases, outside: URL) -> None:
    """Without names, address and device; new failures are counted in their organization alone."""
    ids = {"id": uuid4(), "other": uuid4(), "entry": uuid4(), "person": uuid4(), "session": uuid4()}
    migrate(outside, "0014")
    with databases.connect(str(outside.database)) as connection:
        for one in ("id", "other"):
            values = {"id": ids[one]}
            connection.execute(
                "INSERT INTO organizations (organization_id, name, domain) VALUES (%(id)s, 'x', 'x')", values
            )
        connection.execute(
            "INSERT INTO principals (principal_id, organization_id, kind, name, email)"
            " VALUES (%(person)s, %(id)s, 'user', 'Ada', 'ada@example.test')",
            ids,
        )
        connection.execute(
            "INSERT INTO audit_entries (audit_log_id, organization_id, actor_id, action, target_type, target_id)"
            " VALUES (%(entry)s, %(id)s, %(person)s, 'user.update', 'user', %(person)s)",
            ids,
        )
        connection.execute(
            "INSERT INTO browser_sessions"
            " (session_id, organization_id, principal_id, secret_hash, created_at, expires_at)"
            " VALUES (%(session)s, %(id)s, %(person)s, 'x', now(), now() + interval '1 hour')",
            ids,
        )
        migrate(outside, "head")
        kept = connection.execute(
            "SELECT actor_id, actor_name, target_name, address, device FROM audit_entries"
        ).fetchall()
        assert kept == [(ids["person"], None, None, None, None)]
        sessions = connection.execute("SELECT principal_id, last_used_at, address FROM browser_sessions").fetchall()
        assert sessions == [(ids["person"], None, None)]
        connection.execute(f"SET ROLE {SERVICE_ROLE}")
        connection.execute("SELECT set_config('carrel.organization_id', %s, false)", [str(ids["id"])])
        new = (
            "INSERT INTO failed_sign_ins VALUES"
            " (gen_random_uuid(), %s, %s, '192.0.2.1', '2026-01-01T00:00:00Z', now(), 1)"
        )
        connection.execute(new, [ids["id"], ids["person"]])
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            connection.execute(new, [ids["other"], ids["person"]])
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute(new, [ids["id"], ids["person"]])


def test_what_waits_for_the_index_is_sorted_by_size(databases: TestDatabases, outside: URL) -> None:
    """By the text, or by the caller's chunks where those wait; what is indexed is sorted when it is requested again."""
    migrate(outside, "0013")
    ids = {"id": uuid4()}
    small, large = b"x" * 16_383, b"x" * 16_384
    # Of each: the text, the caller's chunks, and the version that is indexed.
    cases = [(small, None, None), (large, None, None), (large, small, None), (small, large, 1), (large, None, 2)]
    entries = {uuid4(): case for case in cases}
    with databases.connect(str(outside.database)) as connection:
        connection.execute("INSERT INTO organizations (organization_id, name, domain) VALUES (%(id)s, 'x', 'x')", ids)
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "INSERT INTO spaces (organization_id, model, dimensions, is_catalog) VALUES (%(id)s, 'x', 384, true)", ids
        )
        for document_id, (text_, chunks, indexed) in entries.items():
            values = {**ids, "document": document_id, "text": text_, "chunks": chunks, "indexed": indexed}
            connection.execute(
                "INSERT INTO document_contents (document_id, organization_id, version, blocks)"
                " VALUES (%(document)s, %(id)s, 2, %(text)s)",
                values,
            )
            connection.execute(
                "INSERT INTO space_documents (document_id, space_id, organization_id, version, indexed_version,"
                " caller_chunks) SELECT %(document)s, space_id, %(id)s, 2, %(indexed)s,"
                " %(chunks)s::bytea IS NOT NULL FROM spaces",
                values,
            )
            connection.execute(
                "INSERT INTO caller_chunks (document_id, space_id, organization_id, batch_id, chunks)"
                " SELECT %(document)s, space_id, %(id)s, %(id)s, %(chunks)s FROM spaces"
                " WHERE %(chunks)s::bytea IS NOT NULL",
                values,
            )
        connection.execute("SET session_replication_role = origin")
        migrate(outside, "head")
        found = dict(connection.execute("SELECT document_id, is_large FROM space_documents").fetchall())
        forced = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relforcerowsecurity AND relname = ANY(%s)",
            [["space_documents", "document_contents", "caller_chunks"]],
        )
        assert forced.fetchone() == (3,)
    assert [found[document_id] for document_id in entries] == [False, True, False, True, False]


def test_questions_from_before_the_question_log_are_in_it(databases: TestDatabases, outside: URL) -> None:
    """Each turn with its agent, who asked and what came of it; row-level security is in force again afterwards."""
    migrate(outside, "0017")
    ids = {name: uuid4() for name in ("id", "agent", "person", "conversation")}
    cases = [("RUNNING", "[]"), ("FAILED", "[]"), ("COMPLETED", "[]"), ("COMPLETED", '[{"passageNo": 0}]')]
    turns = {uuid4(): case for case in cases}
    with databases.connect(str(outside.database)) as connection:
        connection.execute("INSERT INTO organizations (organization_id, name, domain) VALUES (%(id)s, 'x', 'x')", ids)
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "INSERT INTO conversations (conversation_id, organization_id, agent_id, principal_id)"
            " VALUES (%(conversation)s, %(id)s, %(agent)s, %(person)s)",
            ids,
        )
        for number, (turn, (status, citations)) in enumerate(turns.items()):
            values = {**ids, "turn": turn, "number": number, "status": status, "citations": citations}
            connection.execute(
                "INSERT INTO turns (turn_id, organization_id, conversation_id, turn_no, credential_id, message, status,"
                " citations, feedback, created_at) VALUES (%(turn)s, %(id)s, %(conversation)s, %(number)s, %(id)s, 'x',"
                " %(status)s, %(citations)s, 'POSITIVE', '2026-01-01T00:00:00Z')",
                values,
            )
        connection.execute("INSERT INTO agents VALUES (%(agent)s, %(id)s, 'x', 'x', 'x', NULL, true, %(person)s)", ids)
        connection.execute(
            "INSERT INTO principals (principal_id, organization_id, kind, name)"
            " VALUES (%(person)s, %(id)s, 'group', 'x')",
            ids,
        )
        connection.execute("SET session_replication_role = origin")
        migrate(outside, "head")
        rows = connection.execute("SELECT turn_id, outcome, agent_id, principal_id, feedback FROM questions").fetchall()
        forced = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relforcerowsecurity AND relname = ANY(%s)",
            [["turns", "conversations", "questions"]],
        )
        assert forced.fetchone() == (3,)
    outcomes = ("RUNNING", "FAILED", "UNANSWERED", "ANSWERED")
    expected = [(turn, one, ids["agent"], ids["person"], "POSITIVE") for turn, one in zip(turns, outcomes, strict=True)]
    assert sorted(rows) == sorted(expected)


# What deletes no row needs no look-up of the rows that refer to it.
NEVER_DELETED = {
    "access_classes": "a class stays, as it is found by what it was made of",
    "agents": "a deleted agent's row stays, for its conversations",
    "organizations": "no operation removes one",
    "procrastinate_workers": "the queue's tables are its library's",
}
# PostgreSQL 18 looks into each organization's part of an index in turn (a skip scan), and there are few organizations.
UNINDEXED = """
    SELECT conrelid::regclass || '.' || string_agg(attname, ', ' ORDER BY attname)
    FROM pg_constraint c JOIN pg_attribute ON attrelid = conrelid AND attnum = ANY(conkey)
    WHERE contype = 'f' AND NOT confrelid::regclass::text = ANY(%s) AND NOT EXISTS (
        SELECT FROM pg_index CROSS JOIN LATERAL (
            SELECT count(*)::int AS first FROM pg_attribute
            WHERE attrelid = conrelid AND attname = 'organization_id' AND attnum = indkey[0] AND attnum <> conkey[1]
        ) organization
        WHERE indrelid = conrelid AND conkey <@ (indkey::int2[])[first:first + cardinality(conkey) - 1]
        AND (indpred IS NULL OR EXISTS (
            SELECT FROM pg_attribute WHERE attrelid = conrelid AND attnum = ANY(conkey)
            AND pg_get_expr(indpred, indrelid) = '(' || attname || ' IS NOT NULL)'
        ))
    )
    GROUP BY c.oid, conrelid
"""


def unindexed(connection: psycopg.Connection[Any]) -> set[str]:
    """The foreign keys that no index begins with, though what they refer to can be deleted."""
    return {name for (name,) in connection.execute(UNINDEXED, [list(NEVER_DELETED)])}


def test_a_deletion_finds_what_refers_to_it_by_an_index(databases: TestDatabases, outside: URL) -> None:
    """Each foreign key has an index, also where the tables were in use; what is in them stays."""
    migrate(outside, "0018")
    ids = {name: uuid4() for name in ("id", "set")}
    with databases.connect(str(outside.database)) as connection:
        assert {"documents.owner_id", "evaluation_sets.created_by"} <= unindexed(connection)
        connection.execute("INSERT INTO organizations (organization_id, name, domain) VALUES (%(id)s, 'x', 'x')", ids)
        connection.execute(
            "INSERT INTO principals (principal_id, organization_id, kind, name)"
            " VALUES (%(id)s, %(id)s, 'everyone', 'x')",
            ids,
        )
        connection.execute("INSERT INTO evaluation_sets VALUES (%(set)s, %(id)s, 'x', NULL, NULL, %(id)s)", ids)
        migrate(outside, "head")
        assert unindexed(connection) == set()
        assert connection.execute("SELECT created_by FROM evaluation_sets").fetchall() == [(ids["id"],)]


def test_of_searches_from_before_it_is_not_known_whether_anything_has_their_words(
    databases: TestDatabases, outside: URL
) -> None:
    """They stay, and count neither as such searches nor as others; nobody has saved a search."""
    ids = {"id": uuid4()}
    migrate(outside, "0019")
    with databases.connect(str(outside.database)) as connection:
        insert_search(connection, ids)
        migrate(outside, "head")
        rows = connection.execute("SELECT search_id, has_words FROM searches").fetchall()
        saved = connection.execute("SELECT count(*) FROM saved_searches").fetchone()
    assert (rows, saved) == ([(ids["id"], None)], (0,))


def test_every_table_is_under_row_level_security(databases: TestDatabases, migrated: str) -> None:
    """Each table names its organization, forces the policy on its owner too, and has a policy for every command."""
    tables = """
        SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity,
               EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'organization_id'),
               EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polcmd = '*'
                       AND p.polqual IS NOT NULL AND p.polwithcheck IS NOT NULL)
        FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace
    """
    with databases.connect(migrated) as connection:
        found = {name: rest for name, *rest in connection.execute(tables).fetchall()}
    assert len(found) > 20
    assert {name: rest for name, rest in found.items() if rest != [True, True, True]}.keys() == UNPROTECTED | QUEUE
    assert found["procrastinate_jobs"] == [True, False, True]


def test_only_credentials_show_before_authentication(databases: TestDatabases, migrated: str) -> None:
    """Without an organization, credentials and organizations can be read, jobs (ids only) worked, and nothing else."""
    policies = "SELECT tablename, cmd FROM pg_policies WHERE policyname NOT IN ('organization', 'backup')"
    with databases.connect(migrated) as connection:
        found = set(connection.execute(policies).fetchall())
    expected = {
        "api_keys",
        "browser_sessions",
        "invitations",
        "oauth_access_tokens",
        "oauth_clients",
        "oauth_codes",
        "oauth_refresh_tokens",
        "organizations",
        "passkeys",
        "pending_sign_ins",
        "scim_tokens",
        "service_account_tokens",
        "sign_in_domains",
    }
    assert found == {(name, "SELECT") for name in expected} | {("procrastinate_jobs", "ALL")}


# What a schema consists of, but for comments, positions of columns and access: relations, columns, indexes,
# constraints, types with their labels, functions with their bodies, and triggers.
PARTS = {
    "relations": "SELECT relname, relkind FROM pg_class WHERE relnamespace = {schema}",
    "columns": """
        SELECT relname, attname, format_type(atttypid, atttypmod), attnotnull, attidentity,
               pg_get_expr(adbin, adrelid)
        FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE relnamespace = {schema} AND relkind IN ('r', 'c') AND attnum > 0 AND NOT attisdropped
    """,
    "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname::regnamespace = {schema}",
    "constraints": "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = {schema}",
    "labels": """
        SELECT typname, enumlabel, rank() OVER (PARTITION BY typname ORDER BY enumsortorder)
        FROM pg_enum JOIN pg_type t ON t.oid = enumtypid WHERE typnamespace = {schema}
    """,
    "functions": """
        SELECT proname, pg_get_function_identity_arguments(oid), pg_get_function_result(oid), prosrc, prosecdef
        FROM pg_proc WHERE pronamespace = {schema} AND proname LIKE '%procrastinate%'
    """,
    "triggers": """
        SELECT tgname, pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
        WHERE relnamespace = {schema} AND NOT tgisinternal
    """,
}


def queue_schema(connection: psycopg.Connection[Any]) -> dict[str, set[tuple[Any, ...]]]:
    """Everything in the schema that is the job queue's."""
    found: dict[str, set[tuple[Any, ...]]] = {}
    for part, statement in PARTS.items():
        rows = connection.execute(statement.format(schema="'public'::regnamespace")).fetchall()
        found[part] = {row for row in rows if "procrastinate" in str(row)}
    return found


def test_the_job_queue_is_as_its_library_declares_it(databases: TestDatabases, migrated: str) -> None:
    """The library's migrations through the one ours name are all it has: they lead to the schema that it was made for.

    It fails when the library is upgraded without a migration.
    """
    name = databases.empty()
    with databases.connect(migrated) as ours, databases.connect(name) as declared:
        declared.execute(SchemaManager.get_schema())
        expected = queue_schema(declared)
        assert min(map(len, expected.values())) > 3
        for part, found in queue_schema(ours).items():
            assert found == expected[part], part
    databases.drop(name)


def test_backups_show_every_row_to_the_owner_alone(databases: TestDatabases, migrated: str) -> None:
    """Every protected table lets the database's owner, and nobody else, read all of it when it asks to."""
    policies = "SELECT tablename, cmd, roles::text, qual FROM pg_policies WHERE policyname = 'backup'"
    protected = "SELECT tablename FROM pg_policies WHERE policyname = 'organization'"
    with databases.connect(migrated) as connection:
        found = {table: rest for table, *rest in connection.execute(policies).fetchall()}
        assert found.keys() == {table for (table,) in connection.execute(protected)}
        member = connection.execute("SELECT pg_has_role(%s, 'pg_database_owner', 'USAGE')", [SERVICE_ROLE]).fetchone()
    assert member == (False,)
    assert {(cmd, roles) for cmd, roles, _ in found.values()} == {("SELECT", "{pg_database_owner}")}
    assert all("'carrel.backup'" in qual for _, _, qual in found.values())


def test_the_service_cannot_change_the_fingerprint_of_the_secret_key(service: RunningService) -> None:
    """It is set up once; from then on only the database's owner can change it."""
    with service.owner_connection() as connection:
        connection.execute(f"SET ROLE {SERVICE_ROLE}")
        assert connection.execute("SELECT count(*) FROM deployment").fetchone() == (1,)
        for statement in (
            "UPDATE deployment SET key_fingerprint = 'x'",
            "UPDATE deployment SET store_id = gen_random_uuid()",
            "DELETE FROM deployment",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO deployment (key_fingerprint) VALUES ('x')")
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute("INSERT INTO deployment VALUES (false, 'x')")


def test_the_service_role_is_restricted(databases: TestDatabases, migrated: str) -> None:
    """It is no superuser, bypasses no policy, creates nothing, and owns nothing."""
    role = "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = %s"
    owned = "SELECT count(*) FROM pg_class WHERE relowner = %s::regrole"
    with databases.connect(migrated) as connection:
        assert connection.execute(role, [SERVICE_ROLE]).fetchone() == (False, False, False, False)
        assert connection.execute(owned, [SERVICE_ROLE]).fetchone() == (0,)


def test_the_audit_log_can_only_grow(service: RunningService) -> None:
    """The service can't change, delete or truncate entries, whatever it is made to run."""
    with service.owner_connection() as connection:
        connection.execute(f"SET ROLE {SERVICE_ROLE}")
        for statement in (
            "UPDATE audit_entries SET action = 'x'",
            "DELETE FROM audit_entries",
            "TRUNCATE audit_entries",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)


def test_another_organizations_rows_do_not_exist(service: RunningService) -> None:
    """A transaction of another organization sees no row, not even by a query that names no organization."""
    with service.owner_connection() as connection:
        protected = "SELECT tablename FROM pg_policies WHERE policyname = 'organization'"
        names = [name for (name,) in connection.execute(protected)]
        filled = {name for name in names if connection.execute(f"SELECT FROM {name} LIMIT 1").rowcount}
        assert {"principals", "api_keys", "organizations"} <= filled
        connection.execute(f"SET ROLE {SERVICE_ROLE}")
        connection.execute("SELECT set_config('carrel.organization_id', gen_random_uuid()::text, false)")
        assert [name for name in names if connection.execute(f"SELECT FROM {name} LIMIT 1").rowcount] == []
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            connection.execute("INSERT INTO organizations VALUES (gen_random_uuid(), 'x', 'x', false)")


def test_an_outside_database_is_served_as_the_restricted_role(service: RunningService) -> None:
    """The harness connects by the owner's address, as with CARREL_DATABASE_URL: requests still run restricted."""

    async def who() -> tuple[str, str]:
        async with service.runtime.database.transaction(None) as connection:
            row = await connection.exec_driver_sql("SELECT session_user::text, current_user::text")
            return tuple(row.one())

    assert service.run(who()) == ("postgres", SERVICE_ROLE)


@pytest.mark.parametrize(
    "address",
    [
        "mysql://user:secret@host/name",
        "postgresql://user:secret",
        "postgresql://user:1@host:secret/name",
        "postgresql://[::secret/name",
        "postgresql://u:secret@::1:5432,[::2]:5433/name",
        "postgresql://u:secret@a:secret,b/name",
        "postgresql://u:secret@/name?host=[::1],[::2]",
    ],
)
def test_an_address_that_is_not_postgresql_is_refused(address: str) -> None:
    """The message names the setting and doesn't repeat the address, which may hold a password."""
    with pytest.raises(ValueError, match="CARREL_DATABASE_URL") as caught:
        driver_url(address)
    assert not re.search("secret", str(caught.value))
    assert driver_url("postgres://u@h/n").drivername == "postgresql+psycopg"


@pytest.mark.parametrize(
    ("given", "password", "hosts", "ports", "attributes"),
    [
        ("u:p%2C@a:1,b:2/n?sslmode=require", "p,", "a,b", "1,2", "read-write"),
        ("u@a,b/n", None, "a,b", ",", "read-write"),
        ("a,b/n?target_session_attrs=any", None, "a,b", ",", "any"),
        ("u:p/w@a:1,b:2/n", "p/w", "a,b", "1,2", "read-write"),
        ("u:p/w,@a:1/n", "p/w,", "a", 1, None),
        ("u@[::1]:1,[::2],b:3/n", None, "::1,::2,b", "1,,3", "read-write"),
        ("u@/n?host=/a,/b", None, "/a,/b", ",", "read-write"),
        ("u:p@a:1/n", "p", "a", 1, None),
    ],
)
def test_an_address_may_name_several_servers(
    given: str, password: str | None, hosts: str, ports: str | int, attributes: str | None
) -> None:
    """Then the one that takes writes is connected to."""
    read = Database(driver_url(f"postgresql://{given}")).driver_parameters()
    assert (read["host"], read["port"], read.get("target_session_attrs")) == (hosts, ports, attributes)
    assert (read["dbname"], read.get("password")) == ("n", password)
    assert read.get("sslmode") == ("require" if "sslmode" in given else None)


@pytest.mark.parametrize("given", ["u@a,b?sslmode=require", "u@a,b/?sslmode=require"])
def test_an_address_of_several_servers_may_leave_the_database_out(given: str) -> None:
    """What follows the servers counts all the same."""
    read = Database(driver_url(f"postgresql://{given}")).driver_parameters()
    assert (read["host"], read["sslmode"], read["target_session_attrs"]) == ("a,b", "require", "read-write")
