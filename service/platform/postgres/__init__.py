"""The embedded PostgreSQL: its files, its process, its supervision."""
