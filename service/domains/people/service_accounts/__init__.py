"""Service accounts, their scoped tokens, and what a scope reaches."""
