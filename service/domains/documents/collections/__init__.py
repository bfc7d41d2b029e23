"""Collections: documents that are chunked and searched together, with a schema for their metadata."""
