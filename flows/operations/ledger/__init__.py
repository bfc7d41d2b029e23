"""The ledger: what each run found, planned and did, in SQLite files or in a PostgreSQL database. `ledger` is what other
operations see. `addresses` and `rows` don't import SQLAlchemy, which settings and summaries do without."""
