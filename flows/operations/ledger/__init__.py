"""The ledger: what each run found, planned and did, in SQLite files or in one PostgreSQL database.

`ledger` is what the rest of the operations see. `store` is the one interface to where it is kept, of which `files` and
`database` are the two kinds; the statements, the same for both, are in `queries`, and what they are about in `tables`.
`addresses` and `states` need no database, so that settings and summaries can be had without SQLAlchemy.
"""
