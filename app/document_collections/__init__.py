"""Collections: fields, documents, and indexes."""
