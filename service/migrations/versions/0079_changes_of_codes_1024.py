"""Code pages of 1024 dimensions tell by which transaction they were written last."""

from service.migrations.online import note_changes

revision, down_revision, usable_from = "0079", "0078", None


def upgrade() -> None:
    note_changes("code_pages_1024")
