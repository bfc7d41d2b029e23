"""Syncs from document databases: their settings, their runs, and the reports about them."""
