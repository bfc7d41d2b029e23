"""What belongs to the deployment as a whole and to no organization."""

from sqlalchemy import Boolean, CheckConstraint, Column, LargeBinary, Table, text

from service.platform.database import metadata

# One row. The service may add it, and never change it: the key's fingerprint moves only with `rotate-key`.
deployment = Table(
    "deployment",
    metadata,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("key_fingerprint", LargeBinary, nullable=False),
    CheckConstraint("only_row", name="only_row"),
)
