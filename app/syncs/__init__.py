"""Syncs: collections kept up to date with document databases."""
