"""Sources that runs load documents from, and what of them could not be loaded, as the runs report it."""

import sqlalchemy as sa

from service.schema.tables import deleted_with, table

# Two people may load from the same path of two machines, so a ledger's name is unique for who reports it.
# `shown_no` is the report that people see; NULL until the first one has ended. `latest_no` counts all that were begun.
# The counts are of the shown report, kept with it so that a list need not count.
sources = table(
    "sources",
    sa.Column("source_id", sa.Uuid, primary_key=True),
    sa.Column("ledger", sa.Text, nullable=False),
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("latest_no", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("shown_no", sa.Integer),
    sa.Column("item_count", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("ignored_count", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("reported_at", sa.DateTime(timezone=True)),
    sa.Index("uq_sources_ledger", "organization_id", "principal_id", "ledger", unique=True),
    sa.Index("ix_sources_organization", "organization_id", "source_id"),
)

# The report that is shown, and at most one that goes on. `collection_id` is as it was reported, and refers to nothing:
# a collection may be deleted, and what was loaded into it is still told.
source_reports = table(
    "source_reports",
    sa.Column("source_id", sa.Uuid, deleted_with("sources.source_id"), primary_key=True),
    sa.Column("report_no", sa.Integer, primary_key=True),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("collection_id", sa.Uuid),
    sa.Column("fingerprint", sa.Text),
    sa.Column("sent_count", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("begun_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
)

# `item_id` is made of name and place, so that an item is the same one in every report. `sort_key` is the beginning of
# the name, since a name can be longer than an index takes.
source_items = table(
    "source_items",
    sa.Column("source_id", sa.Uuid, primary_key=True),
    sa.Column("report_no", sa.Integer, primary_key=True),
    sa.Column("item_id", sa.Uuid, primary_key=True),
    sa.Column("sort_key", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("place", sa.Text, nullable=False),
    sa.Column("external_id", sa.Text),
    sa.Column("code", sa.Text, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("since", sa.DateTime(timezone=True), nullable=False),
    sa.Column("ignored", sa.Boolean, nullable=False),
    sa.ForeignKeyConstraint(
        ["source_id", "report_no"], ["source_reports.source_id", "source_reports.report_no"], ondelete="CASCADE"
    ),
    sa.Index("ix_source_items_sorted", "source_id", "report_no", "sort_key", "item_id"),
)

__all__ = ["source_items", "source_reports", "sources"]
