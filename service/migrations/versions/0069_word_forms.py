"""A document in a space tells by which forms of words it is indexed; a write by an earlier release tells 0."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, usable_from = "0069", "0068", None


def upgrade() -> None:
    """Add the column.

    A release that knows the column writes the negative number of its forms, which the trigger turns. An earlier
    release leaves the column out, and the trigger sets 0. A request for indexing (NULL) changes no forms."""
    op.add_column("space_documents", sa.Column("forms", sa.SmallInteger, nullable=False, server_default=sa.text("0")))
    op.execute(
        "CREATE FUNCTION note_forms() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN NEW.forms := greatest(-NEW.forms, 0); RETURN NEW; END'"
    )
    op.execute(
        "CREATE TRIGGER note_forms BEFORE UPDATE OF indexed_version ON space_documents"
        " FOR EACH ROW WHEN (NEW.indexed_version IS NOT NULL) EXECUTE FUNCTION note_forms()"
    )
