"""Code pages of 768 dimensions tell by which transaction they were written last."""

from service.migrations.online import note_changes

revision, down_revision, usable_from = "0078", "0077", None


def upgrade() -> None:
    note_changes("code_pages_768")
