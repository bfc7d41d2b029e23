"""Index spaces: the index of the catalog or a collection with a model."""
