"""Sources that runs load documents from, and what of them could not be loaded, as the runs report it."""

from sqlalchemy import (
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    Text,
    Uuid,
    func,
    text,
)

from service.platform.database import metadata

# Two people may load from the same path of two machines, so a ledger's name is unique for who reports it.
# `shown_no` is the report that people see; NULL until the first one has ended. `latest_no` counts all that were begun.
# The counts are of the shown report, kept with it so that a list need not count.
sources = Table(
    "sources",
    metadata,
    Column("source_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("ledger", Text, nullable=False),
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("latest_no", Integer, nullable=False, server_default=text("0")),
    Column("shown_no", Integer),
    Column("item_count", Integer, nullable=False, server_default=text("0")),
    Column("ignored_count", Integer, nullable=False, server_default=text("0")),
    Column("reported_at", DateTime(timezone=True)),
    Index("uq_sources_ledger", "organization_id", "principal_id", "ledger", unique=True),
    Index("ix_sources_organization", "organization_id", "source_id"),
)

# The report that is shown, and at most one that goes on. `collection_id` is as it was reported, and refers to nothing:
# a collection may be deleted, and what was loaded into it is still told.
source_reports = Table(
    "source_reports",
    metadata,
    Column("source_id", Uuid, ForeignKey("sources.source_id", ondelete="CASCADE"), primary_key=True),
    Column("report_no", Integer, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("source", Text, nullable=False),
    Column("collection_id", Uuid),
    Column("fingerprint", Text),
    Column("sent_count", Integer, nullable=False, server_default=text("0")),
    Column("begun_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

# `item_id` is made of name and place, so that an item is the same one in every report. `sort_key` is the beginning of
# the name, since a name can be longer than an index takes.
source_items = Table(
    "source_items",
    metadata,
    Column("source_id", Uuid, primary_key=True),
    Column("report_no", Integer, primary_key=True),
    Column("item_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("sort_key", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("place", Text, nullable=False),
    Column("external_id", Text),
    Column("code", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("since", DateTime(timezone=True), nullable=False),
    Column("ignored", Boolean, nullable=False),
    ForeignKeyConstraint(
        ["source_id", "report_no"], ["source_reports.source_id", "source_reports.report_no"], ondelete="CASCADE"
    ),
    Index("ix_source_items_sorted", "source_id", "report_no", "sort_key", "item_id"),
)

__all__ = ["source_items", "source_reports", "sources"]
