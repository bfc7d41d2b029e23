"""The ledger: what each run found, planned and did, in SQLite files or in a PostgreSQL database. Other operations use
`ledger`. `addresses` and `rows` don't import SQLAlchemy, so settings and summaries work without SQLAlchemy."""
