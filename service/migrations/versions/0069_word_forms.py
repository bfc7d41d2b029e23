"""A document in a space tells by which forms of words it is indexed; a write by an earlier release tells 0."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, usable_from = "0069", "0068", None


def upgrade() -> None:
    """Add the column. Who knows it writes the number of its forms as a negative one, which the trigger turns; who does
    not know it writes none, and the trigger forgets the number."""
    op.add_column("space_documents", sa.Column("forms", sa.SmallInteger, nullable=False, server_default=sa.text("0")))
    op.execute(
        "CREATE FUNCTION note_forms() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN NEW.forms := greatest(-NEW.forms, 0); RETURN NEW; END'"
    )
    op.execute(
        "CREATE TRIGGER note_forms BEFORE UPDATE OF indexed_version ON space_documents"
        " FOR EACH ROW EXECUTE FUNCTION note_forms()"
    )
