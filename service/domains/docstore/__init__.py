"""Syncs from document databases: their settings, and what is said of their runs."""
