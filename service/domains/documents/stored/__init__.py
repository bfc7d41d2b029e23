"""A stored document and the rights to it, for the catalog and the collections."""
