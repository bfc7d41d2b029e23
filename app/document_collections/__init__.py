"""Collections: their fields, their documents, and their indexes."""
