"""Search: queries, their conditions, and results."""
