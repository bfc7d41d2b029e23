"""An index by which a search reads the code pages of 768 dimensions that were written after a snapshot."""

from functools import partial

from service.migrations.online import add_index_of_changes

revision, down_revision, usable_from = "0085", "0084", None
upgrade = partial(add_index_of_changes, "code_pages_768")
