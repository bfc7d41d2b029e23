"""Counts of chunks by term, for each index space."""
