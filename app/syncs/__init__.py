"""Syncs: collections kept as document databases have them."""
