"""Index spaces: where the catalog or a collection is indexed with one model."""
