"""Migrations only add, or say what they take away; none holds up for long who uses the tables meanwhile."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, event

from service import migrations
from tests.harness.cases import cases

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
    """What a migration does: its statements, and from which schema on code can use the database afterwards."""

    revision: str
    usable_from: str | None
    statements: Sequence[str]

    def faults(self) -> list[str]:
        """Say what is wrong with it, a line for each statement."""
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
    """Return the tables whose writers wait for a statement: the one that it alters, and those that it references."""
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
    """And, of what takes something away, what nobody has to wait for."""
    assert (Migration("1", None, [statement]).faults() == []) == is_good
    assert (Migration("1", "0042", [statement]).faults() == []) == is_good_where_told


def test_the_rule_knows_tables_that_are_new() -> None:
    """Nobody uses them yet: they are filled and indexed as is simplest. Others are altered one at a time."""
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
    """Each since the baseline: as CONTRIBUTING.md has it, under "Change the schema"."""
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
    assert usable_from == next((each.module.usable_from for each in scripts if each.module.usable_from), "0057")
