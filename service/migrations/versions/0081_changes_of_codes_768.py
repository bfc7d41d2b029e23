"""Code pages of 768 dimensions tell by which transaction they were written last."""

from functools import partial

from service.migrations.online import note_changes

revision, down_revision, usable_from = "0081", "0080", None
upgrade = partial(note_changes, "code_pages_768")
