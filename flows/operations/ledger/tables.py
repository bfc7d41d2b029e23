"""The ledger's tables. A `key` is a digest of 16 bytes: an id or path can be too long for an index of PostgreSQL."""

import sqlalchemy as sa

FORMAT = 5
"""Increased when the tables change. All versions since 0.2.0 write this format."""


class Bytes(sa.LargeBinary):
    """Bytes passed to and from both drivers unchanged, without wrapping each value."""

    cache_ok = True

    def bind_processor(self, dialect: sa.Dialect) -> None:
        """Return None: no conversion is needed."""

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> None:
        """Return None: no conversion is needed."""


metadata = sa.MetaData()
_Number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _source() -> sa.Column[int]:
    return sa.Column("source_id", _Number, primary_key=True, autoincrement=False)


# One row with the version of the tables. SQLite uses the file's user_version instead.
formats = sa.Table("ledger_format", metadata, sa.Column("format", sa.Integer, primary_key=True, autoincrement=False))

# `name` is the digest of kind, target and source; `scans` counts all runs; `options` are the last run's.
sources = sa.Table(
    "ledger_sources",
    metadata,
    sa.Column("source_id", _Number, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("options", sa.Text, nullable=False),
    sa.Column("scans", sa.Integer, nullable=False),
)

# `claim` changes each time a process begins or resumes the run, so that an older claim may write no more. `lock_pid` is
# the PostgreSQL process with the source's lock. Times are in seconds since the epoch.
runs = sa.Table(
    "ledger_runs",
    metadata,
    sa.Column("run_id", _Number, primary_key=True),
    sa.Column("source_id", _Number, nullable=False, index=True),
    sa.Column("run_key", sa.Text, nullable=False, unique=True),
    sa.Column("claim", sa.Text, nullable=False, unique=True),
    sa.Column("scan", sa.Integer, nullable=False),
    sa.Column("started_at", sa.Double, nullable=False),
    sa.Column("finished_at", sa.Double),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("process", sa.Integer, nullable=False),
    sa.Column("lock_pid", sa.Integer),
    sa.Column("held_back", sa.Text, nullable=False, server_default=""),
)

# Digests of files, trusted while their `marker` is the same (flows.operations.sources.contents makes it).
files = sa.Table(
    "ledger_files",
    metadata,
    _source(),
    sa.Column("key", Bytes, primary_key=True),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("marker", sa.Text, nullable=False),
    sa.Column("sha256", Bytes, nullable=False),
    sa.Column("taken_at_ns", sa.BigInteger, nullable=False),
)

# The documents that the run has found, planned and finished.
documents = sa.Table(
    "ledger_documents",
    metadata,
    sa.Column("run_id", _Number, primary_key=True, autoincrement=False),
    sa.Column("key", Bytes, primary_key=True),
    sa.Column("external_id", sa.Text, nullable=False),
    sa.Column("scan", sa.Integer, nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("sha256", Bytes, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("action", sa.Text),
    sa.Column("document_id", sa.Text),
    sa.Column("sent_bytes", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("parts_not_read", sa.Integer, nullable=False, server_default="0"),
    sa.Column("pages_waiting", sa.Integer, nullable=False, server_default="0"),
    # For an archive or mail, the progress of its files: carrel.wire.catalog.ContainedFiles as JSON; otherwise empty.
    sa.Column("contained", sa.Text, nullable=False, server_default=""),
)
sa.Index("ledger_documents_state", documents.c.run_id, documents.c.state, documents.c.key)

# Documents that this source sent in all runs. `intended` is the fingerprint of a document that may have arrived: its
# run was killed, and the source no longer had the document when the run was resumed.
sent = sa.Table(
    "ledger_sent",
    metadata,
    _source(),
    sa.Column("key", Bytes, primary_key=True),
    sa.Column("external_id", sa.Text, nullable=False),
    sa.Column("document_id", sa.Text),
    sa.Column("fingerprint", sa.Text),
    sa.Column("intended", sa.Text),
)

# Items that are not in the catalog, of all runs. `part` 0: items that can't be documents, by place, in the source's
# order; 1: documents, by external id. `scan` is the last scan with the item; `fingerprint` its state then.
quarantine = sa.Table(
    "ledger_quarantine",
    metadata,
    _source(),
    sa.Column("part", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("key", Bytes, primary_key=True),
    sa.Column("scan", sa.Integer, nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("place", sa.Text, nullable=False),
    sa.Column("external_id", sa.Text),
    sa.Column("code", sa.Text, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("for_good", sa.Boolean, nullable=False),
    sa.Column("ignored", sa.Boolean, nullable=False),
    sa.Column("since", sa.Double, nullable=False),
)
