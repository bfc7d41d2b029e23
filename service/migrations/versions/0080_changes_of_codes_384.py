"""Code pages of 384 dimensions tell by which transaction they were written last."""

from alembic import op

from service.migrations.online import note_changes

revision, down_revision, usable_from = "0080", "0079", "0079"


def upgrade() -> None:
    op.execute(
        "CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN NEW.changed_in := txid_current(); RETURN NEW; END'"
    )
    note_changes("code_pages_384")
