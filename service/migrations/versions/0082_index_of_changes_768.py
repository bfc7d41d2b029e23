"""An index by which a search reads the code pages of 768 dimensions that were written after a snapshot."""

from service.migrations.online import add_index_of_changes

revision, down_revision, usable_from = "0082", "0081", None


def upgrade() -> None:
    add_index_of_changes("code_pages_768")
