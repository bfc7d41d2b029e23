"""Documents: state, progress of indexing, and uploads of a few files."""
