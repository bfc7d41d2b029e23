"""The ledger: what each run found, planned and did, in SQLite files or in one PostgreSQL database.

`ledger` is the part that the rest of the operations see. `store` is where it is kept; the tables, the same for both
kinds of database, are in `tables`. `addresses` and `rows` need no database, so that settings and summaries can be had
without SQLAlchemy.
"""
