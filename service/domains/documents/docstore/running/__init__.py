"""A run of a sync: read the source, map and upload documents, delete removed documents."""
