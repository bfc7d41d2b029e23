"""The embedded PostgreSQL: files, process, supervision."""
