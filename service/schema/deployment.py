"""What belongs to the deployment as a whole and to no organization."""

from sqlalchemy import ARRAY, Boolean, CheckConstraint, Column, DateTime, LargeBinary, Table, Text, Uuid, text

from service.platform.database import metadata

# One row. The service may add it, and change times and marks alone: the key's fingerprint moves only with `rotate-key`.
# `store_id` stands in the file store that is this deployment's: no other one removes files there. At
# `files_listed_at` a process began to look for files that nothing refers to. `replication_marks` are the last marks,
# the newest first: random values, which a standby has only if it follows this server. `replication_timeline` is the
# server's timeline when the newest was written, and the time of its start: either changes with another primary, or
# another state of its files.
deployment = Table(
    "deployment",
    metadata,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("key_fingerprint", LargeBinary, nullable=False),
    Column("store_id", Uuid, nullable=False, server_default=text("gen_random_uuid()")),
    Column("files_listed_at", DateTime(timezone=True), nullable=False, server_default=text("'-infinity'")),
    Column("replication_marks", ARRAY(Uuid), nullable=False, server_default=text("ARRAY[gen_random_uuid()]")),
    Column("replication_marked_at", DateTime(timezone=True), nullable=False, server_default=text("'-infinity'")),
    Column("replication_timeline", Text, nullable=False, server_default=""),
    CheckConstraint("only_row", name="only_row"),
)
