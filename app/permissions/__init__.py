"""Permissions: who may read what, why, and changing that."""
