"""The ledger's SQL, for SQLite and PostgreSQL alike. Keys are at most a thousand a statement."""
