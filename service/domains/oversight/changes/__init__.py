"""Changes of all documents that match filters, as jobs."""
