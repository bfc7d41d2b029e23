"""The ledger's tables, the same in a SQLite file for one source and in a PostgreSQL database for all of them.

Losing them costs time, never a document: what is in the catalog is the service's to say, and every run asks it. The
one thing that only the ledger knows is what a source has sent, and without that nothing is ever deleted.

A `key` is a digest of 16 bytes (flows.operations.sources.fingerprint), since an external id or a path can be longer
than an index of PostgreSQL takes.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
)

FORMAT = 5
"""Goes up when the tables change, and `UPGRADES` says how older ones are brought to it. 1 was in no version."""


class Bytes(LargeBinary):
    """Bytes as both drivers take and give them, without a further wrapping of each value."""

    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> None:
        """Nothing to be done."""

    def result_processor(self, dialect: Dialect, coltype: object) -> None:
        """Nothing to be done."""


metadata = MetaData()
_Number = BigInteger().with_variant(Integer, "sqlite")


def _source() -> Column[int]:
    return Column("source_id", _Number, primary_key=True, autoincrement=False)


# One row: which format the tables have. In SQLite it is the file's user_version that counts.
formats = Table("ledger_format", metadata, Column("format", Integer, primary_key=True, autoincrement=False))

# `name` is the digest of kind, target and source; `scans` counts over all runs; `options` are those of the last run.
sources = Table(
    "ledger_sources",
    metadata,
    Column("source_id", _Number, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("options", Text, nullable=False),
    Column("scans", Integer, nullable=False),
)

# `claim` is another each time somebody begins or takes up the run: who has an older one may write no more. `lock_pid`
# is the PostgreSQL process that holds the source's lock. Times are in seconds since the epoch.
runs = Table(
    "ledger_runs",
    metadata,
    Column("run_id", _Number, primary_key=True),
    Column("source_id", _Number, nullable=False, index=True),
    Column("run_key", Text, nullable=False, unique=True),
    Column("claim", Text, nullable=False, unique=True),
    Column("scan", Integer, nullable=False),
    Column("started_at", Double, nullable=False),
    Column("finished_at", Double),
    Column("host", Text, nullable=False),
    Column("process", Integer, nullable=False),
    Column("lock_pid", Integer),
    Column("held_back", Text, nullable=False, server_default=""),
)

# Digests of files, trusted while their `marker` is the same (flows.operations.sources.hashing says how one is made).
files = Table(
    "ledger_files",
    metadata,
    _source(),
    Column("key", Bytes, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("marker", Text, nullable=False),
    Column("sha256", Bytes, nullable=False),
    Column("taken_at_ns", BigInteger, nullable=False),
)

# What the run has found, planned and done.
documents = Table(
    "ledger_documents",
    metadata,
    Column("run_id", _Number, primary_key=True, autoincrement=False),
    Column("key", Bytes, primary_key=True),
    Column("external_id", Text, nullable=False),
    Column("scan", Integer, nullable=False),
    Column("payload", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("sha256", Bytes, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("action", Text),
    Column("document_id", Text),
    Column("sent_bytes", BigInteger, nullable=False, server_default="0"),
    Column("parts_not_read", Integer, nullable=False, server_default="0"),
    Column("pages_waiting", Integer, nullable=False, server_default="0"),
    # Of an archive or mail, how far the files in it are: carrel.wire.catalog.ContainedFiles as JSON; else empty.
    Column("contained", Text, nullable=False, server_default=""),
)
Index("ledger_documents_state", documents.c.run_id, documents.c.state, documents.c.key)

# What this source has sent, over all runs. `intended` is the fingerprint of a document of which nobody knows whether it
# arrived: its run was killed, and the source had it no more when the run was taken up.
sent = Table(
    "ledger_sent",
    metadata,
    _source(),
    Column("key", Bytes, primary_key=True),
    Column("external_id", Text, nullable=False),
    Column("document_id", Text),
    Column("fingerprint", Text),
    Column("intended", Text),
)

# What did not get into the catalog, over all runs. `part` 0: what can't be a document, by its place and in the source's
# order; 1: documents, by their external id. `scan` is the one that came upon it last; `fingerprint` what it was then.
quarantine = Table(
    "ledger_quarantine",
    metadata,
    _source(),
    Column("part", SmallInteger, primary_key=True, autoincrement=False),
    Column("key", Bytes, primary_key=True),
    Column("scan", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("place", Text, nullable=False),
    Column("external_id", Text),
    Column("code", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("for_good", Boolean, nullable=False),
    Column("ignored", Boolean, nullable=False),
    Column("since", Double, nullable=False),
)

UPGRADES = {
    3: "ALTER TABLE ledger_documents ADD COLUMN parts_not_read INTEGER DEFAULT '0' NOT NULL",
    4: "ALTER TABLE ledger_documents ADD COLUMN pages_waiting INTEGER DEFAULT '0' NOT NULL",
    5: "ALTER TABLE ledger_documents ADD COLUMN contained TEXT DEFAULT '' NOT NULL",
}
"""The statement, the same in both kinds of database, that brings tables of the format before to each format."""
