"""Syncs: collections kept equal to document databases."""
