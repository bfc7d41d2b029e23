"""An index by which a search reads the code pages of 1024 dimensions that were written after a snapshot."""

from functools import partial

from service.migrations.online import add_index_of_changes

revision, down_revision, usable_from = "0086", "0085", None
upgrade = partial(add_index_of_changes, "code_pages_1024")
