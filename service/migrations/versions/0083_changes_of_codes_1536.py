"""Code pages of 1536 dimensions tell by which transaction they were written last."""

from functools import partial

from service.migrations.online import note_changes

revision, down_revision, usable_from = "0083", "0082", None
upgrade = partial(note_changes, "code_pages_1536")
