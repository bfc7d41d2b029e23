"""What belongs to the deployment as a whole and to no organization."""

from sqlalchemy import Boolean, CheckConstraint, Column, DateTime, LargeBinary, Table, Uuid, text

from service.platform.database import metadata

# One row. The service may add it, and change the time alone: the key's fingerprint moves only with `rotate-key`.
# `store_id` stands in the file store that is this deployment's: no other one removes files there. At
# `files_listed_at` a process began to look for files that nothing refers to.
deployment = Table(
    "deployment",
    metadata,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("key_fingerprint", LargeBinary, nullable=False),
    Column("store_id", Uuid, nullable=False, server_default=text("gen_random_uuid()")),
    Column("files_listed_at", DateTime(timezone=True), nullable=False, server_default=text("'-infinity'")),
    CheckConstraint("only_row", name="only_row"),
)
