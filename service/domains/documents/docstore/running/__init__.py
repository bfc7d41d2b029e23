"""A run of a sync: read the source, map documents, upload them, delete what is gone."""
