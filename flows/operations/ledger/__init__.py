"""The ledger: what each run found, planned and did. `addresses` and `rows` work without SQLAlchemy."""
