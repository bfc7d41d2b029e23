"""Service accounts, scoped tokens, and the reach of a scope."""
